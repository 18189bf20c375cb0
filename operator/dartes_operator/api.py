"""JSON requests to the API server through the official client: one pool, time-outs, typed failures.

Knows verbs, paths and status codes; nothing of jobs. Every answer is a plain manifest.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import kopf
from kubernetes.aio import client, config
from kubernetes.aio.config.config_exception import ConfigException

import dartes
from dartes.errors import ConfigurationError, DartesError, TransientError
from dartes_operator.kinds import path
from dartes_operator.metrics import Metrics
from dartes_operator.plan.types import Manifest

FIELD_MANAGER = "dartes-operator"
CONNECTIONS = 24
WEBHOOK_FAILED = "failed calling webhook"
"""In the API server's words where an admission webhook is to judge an object and doesn't answer."""
_ANOTHER = "UID in"
"""In the API server's words where a deletion's precondition does not hold: the name is another object's."""
# Objects of a listing that are held as they come.
PAGE = 100
# A pass is many requests, and is repeated from its beginning when one fails: before a server that fails every
# third time it would never end. So a request is sent again after each of these, but not where the server
# wants more time than the last, or has let the time of one pass without an answer.
PAUSES_SECONDS = (0.2, 0.5, 2.0)
_TIMEOUT = aiohttp.ClientTimeout(total=20, sock_connect=5)
_JSON = "application/json"
_MERGE = "application/merge-patch+json"
_APPLY = "application/apply-patch+yaml"


class ApiRefusalError(DartesError):
    """The API server said no (4xx), in its own words: asking again the same way changes nothing."""

    def __init__(self, code: int, status: Mapping[str, Any]) -> None:
        self.code = code
        self.reason = str(status.get("reason") or "")
        self.message = str(status.get("message") or f"HTTP {code}")
        causes = (status.get("details") or {}).get("causes") or ()
        self.causes = tuple(str(cause.get("reason") or "") for cause in causes)
        super().__init__(self.message)


class ApiUnavailableError(TransientError):
    """No answer, a 5xx, or 429: worth another try, at the earliest after `retry_after` seconds.

    With `at_once`, in the same pass.
    """

    def __init__(self, message: str, retry_after: float = 0.0, *, at_once: bool = False) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.at_once = at_once


@dataclass(frozen=True)
class Listing:
    """All objects of a kind that a selector matches, and the resource version they were read at."""

    items: tuple[Manifest, ...]
    version: str


async def load_access() -> client.Configuration:
    """How to reach the API server: the pod's service account, else the kubeconfig (`KUBECONFIG`)."""
    found = client.Configuration()
    try:
        config.load_incluster_config(client_configuration=found)
    except ConfigException:
        try:
            await config.load_kube_config(client_configuration=found)
        except ConfigException as error:
            raise ConfigurationError(
                f"no access to an API server: this is not a pod with a service account token, and {error}"
            ) from error
    return found


async def connection_info(access: client.Configuration) -> kopf.ConnectionInfo:
    """The same access for kopf's watches, with the token as it is now."""
    header = await access.get_api_key_with_prefix("BearerToken") or ""
    return kopf.ConnectionInfo(
        server=access.host,
        ca_path=access.ssl_ca_cert,
        insecure=not access.verify_ssl,
        token=header.split(" ")[-1] or None,
        certificate_path=access.cert_file,
        private_key_path=access.key_file,
    )


class Api:
    """The verbs that the operator uses; each raises ApiRefusalError or ApiUnavailableError where it fails."""

    def __init__(
        self,
        access: client.Configuration,
        metrics: Metrics,
        pauses: Sequence[float] = PAUSES_SECONDS,
    ) -> None:
        access.connection_pool_maxsize = CONNECTIONS
        # Proxy variables in the environment are for hubs, not for the API server.
        access.client_session_kwargs = {"trust_env": False}
        self._client = client.ApiClient(access)
        self._client.user_agent = f"{FIELD_MANAGER}/{dartes.__version__}"
        self._metrics = metrics
        self._pauses = pauses

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def get(self, kind: str, namespace: str, name: str) -> Manifest | None:
        """The object, or None where there is none."""
        try:
            return await self._request("GET", path(kind, namespace, name))
        except ApiRefusalError as refusal:
            if refusal.code == 404:
                return None
            raise

    async def list_all(
        self, kind: str, namespace: str | None, selector: str, keep: Callable[[Manifest], Manifest]
    ) -> Listing:
        """All objects of a kind, in pages; `keep` says what of each object is kept.

        It is asked page by page: a thousand pods as they come are most of the memory that the process has.
        """
        items: list[Manifest] = []
        query: list[tuple[str, str]] = [("limit", str(PAGE))]
        if selector:
            query.append(("labelSelector", selector))
        following = ""
        while True:
            page = await self._request(
                "GET", path(kind, namespace), query + ([("continue", following)] if following else [])
            )
            # Items of a list carry neither kind nor version.
            items += [
                keep({"apiVersion": page["apiVersion"], "kind": kind, **item})
                for item in page.get("items") or ()
            ]
            following = page["metadata"].get("continue") or ""
            if not following:
                return Listing(tuple(items), str(page["metadata"].get("resourceVersion") or ""))

    async def create(self, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        """POST an object; in a dry run it is only judged, and nothing is stored."""
        where = path(manifest["kind"], manifest["metadata"]["namespace"])
        query = [("fieldManager", FIELD_MANAGER)] + ([("dryRun", "All")] if dry_run else [])
        return await self._request("POST", where, query, manifest)

    async def apply(self, manifest: Manifest) -> Manifest:
        """Server-side apply, taking over fields that others set."""
        meta = manifest["metadata"]
        query = [("fieldManager", FIELD_MANAGER), ("force", "true")]
        where = path(manifest["kind"], meta["namespace"], meta["name"])
        return await self._request("PATCH", where, query, manifest, _APPLY)

    async def merge(
        self, kind: str, namespace: str, name: str, patch: Manifest, subresource: str | None = None
    ) -> Manifest:
        """JSON merge patch: lists are replaced, nulls delete."""
        where = path(kind, namespace, name, subresource)
        return await self._request("PATCH", where, [("fieldManager", FIELD_MANAGER)], patch, _MERGE)

    async def delete(
        self, kind: str, namespace: str, name: str, uid: str | None = None, grace_seconds: int | None = None
    ) -> Manifest | None:
        """Delete the object of that uid; None where it is gone, or another has taken its name."""
        options: dict[str, Any] = {"propagationPolicy": "Background"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            return await self._request("DELETE", path(kind, namespace, name), body=options)
        except ApiRefusalError as refusal:
            if refusal.code == 404 or (refusal.code == 409 and _ANOTHER in refusal.message):
                return None
            if refusal.code == 409:
                # Nothing would tell of it again, so it must not count as done.
                raise ApiUnavailableError(refusal.message) from refusal
            raise

    async def _request(
        self,
        verb: str,
        where: str,
        query: list[tuple[str, str]] | None = None,
        body: Manifest | None = None,
        content_type: str = _JSON,
    ) -> Manifest:
        """Send a request, some times where it fails.

        Whoever asks must take it that an earlier try was carried out and its answer lost: what is to be made
        may be there (409), what is to go may be gone (404), what is to change may have changed (409).
        """
        for pause in self._pauses:
            try:
                return await self._send(verb, where, query, body, content_type)
            except ApiUnavailableError as error:
                if not error.at_once or error.retry_after > self._pauses[-1]:
                    raise
                await asyncio.sleep(max(pause, error.retry_after))
        return await self._send(verb, where, query, body, content_type)

    async def _send(
        self,
        verb: str,
        where: str,
        query: list[tuple[str, str]] | None,
        body: Manifest | None,
        content_type: str,
    ) -> Manifest:
        headers = {"Accept": _JSON, "Content-Type": content_type}
        code = "none"
        try:
            method, url, headers, sent, _ = await self._client.param_serialize(
                verb,
                where,
                query_params=query,
                header_params=headers,
                body=body,
                auth_settings=["BearerToken"],
            )
            answer = await self._client.call_api(method, url, headers, sent, _request_timeout=_TIMEOUT)
            code = str(answer.status)
            content = await answer.read()
            retry_after = answer.getheader("Retry-After") or ""
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise ApiUnavailableError(
                f"{verb} {where}: no answer ({type(error).__name__}: {error})",
                at_once=not isinstance(error, TimeoutError),
            ) from error
        finally:
            self._metrics.api_requests.labels(code=code, verb=verb).inc()
        status = int(code)
        parsed = _parse(content)
        if 200 <= status < 300:
            return parsed
        if verb == "POST" and WEBHOOK_FAILED in str(parsed.get("message")):
            # Not the API server's own trouble: it may last, and whoever waits is to know for what.
            raise ApiRefusalError(status, parsed)
        if status == 429 or status >= 500:
            wait = float(retry_after) if retry_after.isdigit() else 1.0
            raise ApiUnavailableError(
                f"{verb} {where}: {status} {parsed.get('message', '')}", wait, at_once=True
            )
        if status == 401:
            raise ApiUnavailableError(f"{verb} {where}: 401, the token is not accepted", 1.0)
        raise ApiRefusalError(status, parsed)


def _parse(content: bytes) -> Mapping[str, Any]:
    try:
        parsed = json.loads(content)
    except ValueError:
        return {"message": content[:500].decode("utf-8", "replace")}
    return parsed if isinstance(parsed, dict) else {"message": str(parsed)[:500]}
