"""A small client of the cluster's own API server, for the programs that set the cluster up.

Speaks with a client certificate over one kept connection. For one thread; the tests use a real client.
"""

import http.client
import json
import ssl
from pathlib import Path
from typing import Any, Final

from .paths import Network

TIMEOUT_SECONDS: Final = 10.0
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
Document = dict[str, Any]


class ApiError(OSError):
    """The server said no; `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Api:
    """Requests as the user of NAME.crt in a folder of certificates."""

    def __init__(self, pki: Path, network: Network, name: str = "admin") -> None:
        self._pki = pki
        self._name = name
        self._host = network.gateway
        self._connection: http.client.HTTPSConnection | None = None

    def get(self, path: str) -> Document:
        """One object or list."""
        return self.request("GET", path)

    def find(self, path: str) -> Document | None:
        """One object, or None where it doesn't exist."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def create(self, path: str, body: Document) -> None:
        """Create an object; one that exists is left as it is."""
        try:
            self.request("POST", path, body)
        except ApiError as error:
            if error.status != 409:
                raise

    def patch(self, path: str, body: Document, kind: str = MERGE) -> None:
        """Change an object."""
        self.request("PATCH", path, body, kind)

    def delete(self, path: str) -> None:
        """Delete an object that may be gone."""
        try:
            self.request("DELETE", path)
        except ApiError as error:
            if error.status != 404:
                raise

    def ready(self) -> bool:
        """Whether the server says that it is ready; OSError where none listens."""
        return self._exchange("GET", "/readyz", None, "application/json") == b"ok"

    def request(
        self, method: str, path: str, body: Document | None = None, kind: str = "application/json"
    ) -> Document:
        """The server's answer; ApiError with its words for a status from 400 on, OSError without one."""
        answer: Document = json.loads(self._exchange(method, path, body, kind))
        return answer

    def _exchange(self, method: str, path: str, body: Document | None, kind: str) -> bytes:
        connection = self._connection or self._connect()
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, path, data, {"Content-Type": kind})
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            self._connection = None
            raise ConnectionError(f"{method} {path}: {error}") from error
        self._connection = connection
        if answer.status >= 400:
            raise ApiError(answer.status, f"{method} {path}: {answer.status} {text[:300]!r}")
        return text

    def _connect(self) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=self._pki / "ca.crt")
        context.load_cert_chain(self._pki / f"{self._name}.crt", self._pki / f"{self._name}.key")
        return http.client.HTTPSConnection(self._host, 6443, context=context, timeout=TIMEOUT_SECONDS)
