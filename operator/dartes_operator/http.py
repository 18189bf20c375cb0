"""The operator's HTTP pages: `/healthz`, `/readyz` and `/metrics`; they carry no data of any job.

`/healthz` fails where the process no longer does its work, not only where it no longer answers.
"""

from collections.abc import Callable

from aiohttp import web

from dartes_operator.metrics import Metrics


class Pages:
    """Serves the pages; `trouble` and `ready` say what they answer."""

    def __init__(
        self, metrics: Metrics, trouble: Callable[[], str | None], ready: Callable[[], bool]
    ) -> None:
        self._metrics = metrics
        self._trouble = trouble
        self._ready = ready
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port, which was free to choose where 0 was asked for."""
        application = web.Application()
        application.router.add_get("/healthz", self._healthz)
        application.router.add_get("/readyz", self._readyz)
        application.router.add_get("/metrics", self._metrics_page)
        self._runner = web.AppRunner(application, access_log=None, handle_signals=False)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        trouble = self._trouble()
        return web.Response(text=f"{trouble or 'ok'}\n", status=503 if trouble else 200)

    async def _readyz(self, _: web.Request) -> web.Response:
        ready = self._ready()
        return web.Response(
            text="ok\n" if ready else "the first listing is not in\n", status=200 if ready else 503
        )

    async def _metrics_page(self, _: web.Request) -> web.Response:
        return web.Response(body=self._metrics.text(), headers={"Content-Type": "text/plain; version=0.0.4"})
