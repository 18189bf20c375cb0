"""Plain HTTP for probes and metrics, in threads of its own: /healthz, /readyz, /metrics.

It carries no data of the job and takes none. What healthy and ready mean is passed in.
"""

import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from dartes.errors import ConfigurationError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

Check = Callable[[], str | None]
"""None where all is well, else why not, in a few words."""

REQUEST_SECONDS = 10.0
"""How long a connection may take to say what it wants."""

CONNECTIONS = 32
"""Connections answered at once; what comes beyond them is closed."""


class HttpServer:
    """A running server; `close` ends it.

    Parameters
    ----------
    address
        `HOST:PORT`; port 0 takes a free one.
    health, ready
        Asked at each probe, in a thread of the server.
    registry
        What /metrics shows.
    """

    def __init__(self, address: str, health: Check, ready: Check, registry: "CollectorRegistry") -> None:
        host, port = parse_address(address)
        answers: dict[str, Callable[[], tuple[HTTPStatus, str, bytes]]] = {
            "/healthz": lambda: _of_check(health),
            "/readyz": lambda: _of_check(ready),
            "/metrics": lambda: _of_registry(registry),
        }

        class Handler(BaseHTTPRequestHandler):
            server_version = "dartes"
            sys_version = ""
            timeout = REQUEST_SECONDS

            def do_GET(self) -> None:
                answer = answers.get(self.path.partition("?")[0])
                status, kind, body = _not_found() if answer is None else answer()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Say nothing: a probe every few seconds would fill the log."""

        try:
            self._server = _Server((host, port), Handler)
        except OSError as error:
            raise ConfigurationError(f"--http {address}: can't listen there ({error.strerror})") from error
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, name="http", daemon=True).start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = CONNECTIONS

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._free = threading.BoundedSemaphore(CONNECTIONS)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own while there are any; else hang up, since callers may be many."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread can be started
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one connection, then make room for another."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a prober that hangs up early is no event."""


def parse_address(address: str) -> tuple[str, int]:
    """Split `HOST:PORT`. Raises ConfigurationError."""
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65535:
        raise ConfigurationError(f"--http {address}: must be HOST:PORT, such as 0.0.0.0:8080")
    return host, int(port)


def _of_check(check: Check) -> tuple[HTTPStatus, str, bytes]:
    why = check()
    status = HTTPStatus.OK if why is None else HTTPStatus.SERVICE_UNAVAILABLE
    return status, "text/plain; charset=utf-8", ((why or "ok") + "\n").encode()


def _of_registry(registry: "CollectorRegistry") -> tuple[HTTPStatus, str, bytes]:
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

    return HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(registry)


def _not_found() -> tuple[HTTPStatus, str, bytes]:
    return HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", b"there are /healthz, /readyz and /metrics\n"
