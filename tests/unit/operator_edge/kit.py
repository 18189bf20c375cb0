"""A small API server in this process, and manifests for it: it stores, refuses and counts like the real one.

It knows no schema and no defaults; what it gets right are names, uids, versions, preconditions and codes.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio import client

from dartes_operator.api import Api
from dartes_operator.metrics import Metrics

NAMESPACE = "team"
JOB_UID = "uid-job"


@dataclass(frozen=True)
class Call:
    """One request as it came in."""

    method: str
    path: str
    query: Mapping[str, str]
    content_type: str
    body: Any

    @property
    def name(self) -> str:
        """The last part of the path, or the name of the object that was posted."""
        if self.method == "POST":
            return str(self.body["metadata"]["name"])
        return self.path.rsplit("/", 1)[-1]


@dataclass
class FakeServer:
    """Objects by path, and refusals by method and pattern of path, of which the first that fits is given."""

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    version: int = 100
    _refusals: list[tuple[str, str, int, dict[str, Any], dict[str, str], list[int]]] = field(
        default_factory=list
    )

    def refuse(
        self,
        method: str,
        pattern: str,
        code: int,
        message: str = "no",
        *,
        reason: str = "",
        causes: tuple[str, ...] = (),
        headers: Mapping[str, str] | None = None,
        times: int = 1_000,
    ) -> None:
        """Answer requests of this method whose path and name match with this code, so many times."""
        status = {
            "message": message,
            "reason": reason,
            "details": {"causes": [{"reason": c} for c in causes]},
        }
        self._refusals.append((method, pattern, code, status, dict(headers or {}), [times]))

    def put(self, plural: str, manifest: dict[str, Any], prefix: str = "/api/v1") -> dict[str, Any]:
        """Store an object as if somebody had made it; returns it with uid and version."""
        meta = manifest["metadata"]
        self.version += 1
        meta.setdefault("uid", f"uid-{meta['name']}")
        meta["resourceVersion"] = str(self.version)
        self.objects[f"{prefix}/namespaces/{meta['namespace']}/{plural}/{meta['name']}"] = manifest
        return manifest

    def named(self, method: str) -> list[str]:
        """The names in the requests of this method, in order."""
        return [call.name for call in self.calls if call.method == method]

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one request."""
        text = await request.text()
        call = Call(
            request.method,
            request.path,
            dict(request.query),
            request.headers.get("Content-Type", ""),
            json.loads(text) if text else None,
        )
        self.calls.append(call)
        await asyncio.sleep(0)  # let other requests in, as a network does
        for method, pattern, code, status, headers, times in self._refusals:
            if method == call.method and times[0] > 0 and re.search(pattern, f"{call.path} {call.name}"):
                times[0] -= 1
                return web.json_response(status, status=code, headers=headers)
        return getattr(self, f"_{call.method.lower()}")(call)  # type: ignore[no-any-return]

    def _get(self, call: Call) -> web.Response:
        if call.path in self.objects:
            return web.json_response(self.objects[call.path])
        items = [o for path, o in self.objects.items() if path.rsplit("/", 1)[0] == call.path]
        if call.path.endswith("s") and call.name in (
            "pods",
            "services",
            "dartesjobs",
            "configmaps",
            "persistentvolumeclaims",
        ):
            listing = {"apiVersion": "v1", "metadata": {"resourceVersion": str(self.version)}, "items": items}
            return web.json_response(listing)
        return _status(404, "NotFound", f"{call.name} not found")

    def _post(self, call: Call) -> web.Response:
        path = f"{call.path}/{call.name}"
        if path in self.objects:
            return _status(409, "AlreadyExists", f"{call.name} already exists")
        if call.query.get("dryRun") == "All":
            return web.json_response(call.body, status=201)
        prefix, _, rest = call.path.partition("/namespaces/")
        return web.json_response(self.put(rest.split("/")[1], call.body, prefix), status=201)

    def _patch(self, call: Call) -> web.Response:
        path = call.path.removesuffix("/status")
        found = self.objects.get(path)
        if found is None:
            return _status(404, "NotFound", f"{call.name} not found")
        meta = (call.body or {}).get("metadata") or {}
        for name in ("uid", "resourceVersion"):
            if name in meta and meta[name] != found["metadata"][name]:
                return _status(409, "Conflict", f"the {name} is another")
        self.version += 1
        merged = merge(found, call.body)
        merged["metadata"]["resourceVersion"] = str(self.version)
        self.objects[path] = merged
        return web.json_response(merged)

    def _delete(self, call: Call) -> web.Response:
        found = self.objects.get(call.path)
        if found is None:
            return _status(404, "NotFound", f"{call.name} not found")
        wanted = ((call.body or {}).get("preconditions") or {}).get("uid")
        if wanted not in (None, found["metadata"]["uid"]):
            return _status(
                409, "Conflict", "the UID in the precondition (a) does not match the UID in record (b)"
            )
        del self.objects[call.path]
        return web.json_response(found)


def with_server(
    server: FakeServer, scenario: Callable[[Api], Awaitable[None]], pauses: Sequence[float] = ()
) -> Metrics:
    """Run a scenario against the server; returns the metrics that the requests left.

    What fails is sent again after each of the `pauses`.
    """
    metrics = Metrics()

    async def main() -> None:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", server.handle)
        async with TestServer(application) as running:
            access = client.Configuration(host=str(running.make_url("")).rstrip("/"))
            api = Api(access, metrics, pauses)
            try:
                await scenario(api)
            finally:
                await api.close()

    asyncio.run(main())
    return metrics


def owned(kind: str, name: str, *, uid: str = JOB_UID, job: str = "sums", **more: Any) -> dict[str, Any]:
    """A manifest that the job of this uid controls."""
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {"dartes.dev/job-name": job, "dartes.dev/job-uid": uid, **more.pop("labels", {})},
            "ownerReferences": [{"kind": "DartESJob", "name": job, "uid": uid, "controller": True}],
            **more,
        },
    }


def job(name: str = "sums", *, uid: str = JOB_UID, version: int = 1, **more: Any) -> dict[str, Any]:
    """A job as the API server gives it."""
    return {
        "apiVersion": "dartes.dev/v1alpha1",
        "kind": "DartESJob",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": uid, "resourceVersion": str(version)},
        "spec": {},
        **more,
    }


def merge(old: Any, patch: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(patch, dict):
        return patch
    merged = dict(old)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name, {}), value)
    return merged


def _status(code: int, reason: str, message: str) -> web.Response:
    return web.json_response({"kind": "Status", "reason": reason, "message": message}, status=code)
