"""One POST to a service that is not trusted to answer: bounded in time and size, and never led elsewhere.

Knows HTTP, nothing of scores or of trying again. Proxy settings of the environment are not used.
"""

import http.client
import socket
import ssl
import threading
from contextlib import closing, suppress
from typing import Final, Protocol
from urllib.parse import SplitResult, urlsplit

from dartes.errors import ConfigurationError

ANSWER_LIMIT: Final = 4 * 1024 * 1024
"""Bytes of the largest answer that is read."""

HEALING: Final = (408, 425, 429)
"""Statuses below 500 that say: not now."""


class ServiceError(Exception):
    """No usable answer this time; the message says how it went."""


class RefusedByServiceError(ServiceError):
    """An answer that asking again does not change by itself: a redirect, or a fault of the request."""


class Exchange(Protocol):
    """How one request is made: `post_json`, or what a test puts in its place."""

    def __call__(self, url: str, body: bytes, seconds: float, /) -> bytes: ...


def check_url(field: str, url: str) -> str:
    """The address as it is; raises `ConfigurationError` where it is none of http:// and https://."""
    try:
        parts = urlsplit(url)
        port_is_good = parts.port is None or parts.port > 0
    except ValueError:
        parts, port_is_good = urlsplit(""), False
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_good:
        raise ConfigurationError(
            f"{field} = {url!r}: must be an address such as http://rewards.my-namespace.svc:8000/score"
        )
    if parts.username or parts.password:
        raise ConfigurationError(f"{field}: an address in a job file must not hold a user name or password")
    if not url.isascii() or any(character <= " " for character in url):
        raise ConfigurationError(f"{field} = {url!r}: percent-encode blanks and letters beyond ASCII")
    return url


def post_json(url: str, body: bytes, seconds: float) -> bytes:
    """Post JSON and return the body of an answer with status 200.

    Raises
    ------
    RefusedByServiceError
        A redirect, which is not followed, or a status from 400 to 499 that is not of `HEALING`.
    ServiceError
        It can't be reached, does not finish in time, sends too much, or answers with another status.
    """
    parts = urlsplit(url)
    over = threading.Event()
    try:
        with closing(_connection(parts.scheme, str(parts.hostname), parts.port, seconds)) as connection:
            connection.connect()
            # A time limit of a socket is one of each step; this one is of all steps, however small they are.
            watchdog = threading.Timer(seconds, _cut, (connection.sock, over))
            watchdog.daemon = True
            watchdog.start()
            try:
                answer = _exchange(connection, parts, body)
            finally:
                watchdog.cancel()
    except ServiceError as error:
        if over.is_set():
            raise _too_late(seconds) from error
        raise
    except (OSError, http.client.HTTPException) as error:
        if over.is_set() or isinstance(error, TimeoutError):
            raise _too_late(seconds) from error
        raise ServiceError(_in_words(error, str(parts.hostname))) from error
    if over.is_set():  # what was cut off may look whole
        raise _too_late(seconds)
    return answer


def _exchange(connection: http.client.HTTPConnection, parts: SplitResult, body: bytes) -> bytes:
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    headers = {"Content-Type": "application/json", "Accept": "application/json", "Connection": "close"}
    connection.request("POST", target, body, headers)
    response = connection.getresponse()
    _check_status(response.status, response.getheader("Location"))
    answer = response.read(ANSWER_LIMIT + 1)
    if len(answer) > ANSWER_LIMIT:
        raise ServiceError(f"its answer is longer than {ANSWER_LIMIT:,} bytes")
    if response.length:
        raise ServiceError(f"its answer ends {response.length:,} bytes too early")
    return answer


def _connection(scheme: str, host: str, port: int | None, seconds: float) -> http.client.HTTPConnection:
    if scheme == "https":
        return http.client.HTTPSConnection(host, port, timeout=seconds, context=ssl.create_default_context())
    return http.client.HTTPConnection(host, port, timeout=seconds)


def _too_late(seconds: float) -> ServiceError:
    return ServiceError(f"no answer within {seconds:g} s")


def _cut(connected: socket.socket, over: threading.Event) -> None:
    over.set()
    with suppress(OSError):  # it was closed just before
        connected.shutdown(socket.SHUT_RDWR)


def _check_status(status: int, location: str | None) -> None:
    if status == http.HTTPStatus.OK:
        return
    words = http.HTTPStatus(status).phrase if status in list(http.HTTPStatus) else "unknown"
    said = f"it answers {status} {words}"
    if 300 <= status < 400:
        where = str(location)[:200]  # whatever the service likes; it ends up on a terminal
        where = where if where.isprintable() else ascii(where)
        raise RefusedByServiceError(f"{said} to {where}, which is not followed")
    if 400 <= status < 500 and status not in HEALING:
        raise RefusedByServiceError(said)
    raise ServiceError(said)


def _in_words(error: Exception, host: str) -> str:
    if isinstance(error, ssl.SSLError):
        return f"TLS fails ({error.reason or error})"
    if isinstance(error, socket.gaierror):
        return f"there is no host {host} ({error.strerror})"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return f"its answer is not HTTP, or breaks off ({type(error).__name__})"
