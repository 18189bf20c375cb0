"""Faults of an API server as tests order them: which requests they strike, how often, and what is answered.

Pure: it knows requests and answers as values, no socket and no cluster. `fault_proxy.py` carries out what is
decided here.
"""

import json
import math
import random
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

WRITES: Final = ("create", "update", "patch", "delete")
_REMEMBERED_LISTS: Final = 32


class Kind(StrEnum):
    """What goes wrong."""

    SLOW = "Slow"
    """The request waits `seconds` and is then carried out."""
    TOO_MANY = "TooManyRequests"
    """429 with a Retry-After of `seconds`; not carried out."""
    CONFLICT = "Conflict"
    """409 to a write; not carried out."""
    BROKEN = "Broken"
    """503 with a page in HTML, as a load balancer without a server answers; not carried out."""
    UNAUTHORIZED = "Unauthorized"
    """401; not carried out."""
    GONE = "Gone"
    """410 to a watch that starts."""
    EXPIRED = "Expired"
    """410 as an event of a watch, which then ends: of those that are open, and of those that start."""
    STREAM_ERROR = "StreamError"
    """500 as an event of a watch, likewise."""
    SILENT = "Silent"
    """Nothing comes: a watch stays open and mute, a request is neither carried out nor answered."""
    UNANSWERED = "Unanswered"
    """The request is carried out, and nothing comes."""
    DROPPED = "Dropped"
    """The connection is cut: an open watch at once, a request before it is carried out."""
    LOST = "Lost"
    """The request is carried out, and the connection cut instead of an answer."""
    HALF = "Half"
    """The request is carried out, and the connection cut in the middle of the answer."""
    STALE = "Stale"
    """A list is answered from memory: as it was at least `seconds` ago, else as it was first seen."""


STREAMING: Final = frozenset({Kind.EXPIRED, Kind.STREAM_ERROR, Kind.SILENT, Kind.DROPPED})
"""What strikes watches that are open already, too."""
_OF_WATCHES: Final = frozenset({Kind.GONE, Kind.EXPIRED, Kind.STREAM_ERROR})
_NOT_OF_WATCHES: Final = frozenset({Kind.LOST, Kind.HALF, Kind.UNANSWERED})


@dataclass(frozen=True)
class Request:
    """A request to the API server."""

    method: str
    target: str
    """Path and query, as they came."""
    body: bytes = b""

    @cached_property
    def query(self) -> Mapping[str, str]:
        """The query; of a repeated name the last value."""
        return {name: values[-1] for name, values in parse_qs(urlsplit(self.target).query).items()}

    @cached_property
    def _parts(self) -> tuple[str, str, str]:
        """Resource with subresource, namespace, name; each empty where there is none."""
        words = urlsplit(self.target).path.strip("/").split("/")
        words = words[2:] if words[0] == "api" else words[3:] if words[0] == "apis" else []
        namespace = ""
        if len(words) > 2 and words[0] == "namespaces":
            namespace, words = words[1], words[2:]
        resource, name, subresource = [*words, "", "", ""][:3]
        return f"{resource}/{subresource}" if subresource else resource, namespace, name

    @property
    def resource(self) -> str:
        """The plural with its subresource (`dartesjobs/status`); empty for what is no resource."""
        return self._parts[0]

    @property
    def namespace(self) -> str:
        """The namespace, empty for one of the whole cluster."""
        return self._parts[1]

    @property
    def name(self) -> str:
        """The name of the object: from the path, or from the manifest that is posted."""
        if self.method == "POST" and not self._parts[2]:
            return str((self.document.get("metadata") or {}).get("name", ""))
        return self._parts[2]

    @cached_property
    def verb(self) -> str:
        """get, list, watch, create, update, patch, delete or deletecollection."""
        if self.method == "GET":
            if self.query.get("watch") in ("1", "true"):
                return "watch"
            return "get" if self._parts[2] else "list"
        if self.method == "DELETE" and not self._parts[2]:
            return "deletecollection"
        verbs = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
        return verbs.get(self.method, self.method.lower())

    @cached_property
    def document(self) -> Mapping[str, Any]:
        """The body, empty where it is no JSON object."""
        try:
            found = json.loads(self.body or b"{}")
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True)
class Fault:
    """What goes wrong, with which requests. Nothing named means all."""

    kind: Kind
    share: float = 1.0
    """Of the requests that fit, so many are struck, by chance."""
    verbs: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    """Plurals, with their subresource where it is one: `dartesjobs/status`."""
    seconds: float | None = None
    count: int | None = None
    """Strikes so often and no more."""
    match: Callable[[Request], bool] | None = None
    """Narrows it further; asked for what fits otherwise."""
    then: Callable[[], None] | None = None
    """Called by the proxy's thread when a silent or unanswered request has got so far."""

    def fits(self, request: Request) -> bool:
        """Whether a request is one of those that may be struck."""
        verb = request.verb
        if (self.kind in _OF_WATCHES and verb != "watch") or (self.kind is Kind.STALE and verb != "list"):
            return False
        if (self.kind is Kind.CONFLICT and verb not in WRITES) or (
            self.kind in _NOT_OF_WATCHES and verb == "watch"
        ):
            return False
        if self.verbs and verb not in self.verbs:
            return False
        if self.resources and request.resource not in self.resources:
            return False
        return self.match is None or self.match(request)


@dataclass(frozen=True)
class Record:
    """A request and what became of it: `code` is 0 where no answer was given or none is known yet."""

    time: float
    request: Request
    code: int
    fault: Kind | None


@dataclass
class FaultPlan:
    """The faults in force, and how often each kind has struck. Used by two threads."""

    chance: random.Random
    struck: Counter[Kind] = field(default_factory=Counter)
    _left: list[tuple[Fault, list[int]]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def inject(self, fault: Fault) -> None:
        """Put a fault into force, beside those that are."""
        with self._lock:
            self._left.append((fault, [-1 if fault.count is None else fault.count]))

    def heal(self) -> None:
        """Nothing goes wrong any more."""
        with self._lock:
            self._left.clear()

    def strike(self, request: Request, *, is_open: bool = False) -> Fault | None:
        """The fault that strikes a request, or None; the first that fits, by its share and count.

        With `is_open`, the request is a watch that is answered already.
        """
        with self._lock:
            for fault, left in self._left:
                if is_open and fault.kind not in STREAMING:
                    continue
                if left[0] and fault.fits(request) and self.chance.random() < fault.share:
                    left[0] -= 1
                    self.struck[fault.kind] += 1
                    return fault
        return None


@dataclass(frozen=True)
class Answer:
    """An answer in place of the API server's."""

    code: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"


def status(code: int, reason: str, message: str) -> dict[str, Any]:
    """The object in which the API server says no."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


def answer_to(fault: Fault, request: Request) -> Answer | None:
    """What a fault answers at once; None for one that does something else to the request."""
    what = f"{request.resource} {request.name!r}"
    match fault.kind:
        case Kind.TOO_MANY:
            seconds = max(1, math.ceil(fault.seconds or 1.0))
            said = status(429, "TooManyRequests", "too many requests, please try again later")
            return Answer(429, _json(said), {"Retry-After": str(seconds)})
        case Kind.CONFLICT:
            said = status(409, "Conflict", f"Operation cannot be fulfilled on {what}: it has been modified")
            return Answer(409, _json(said))
        case Kind.UNAUTHORIZED:
            return Answer(401, _json(status(401, "Unauthorized", "Unauthorized")))
        case Kind.GONE:
            return Answer(410, _json(_expired()))
        case Kind.BROKEN:
            page = b"<html><body><h1>503 Service Unavailable</h1></body></html>\n"
            return Answer(503, page, content_type="text/html")
        case _:
            return None


def last_event(kind: Kind) -> bytes:
    """The event with which a watch ends."""
    said = _expired() if kind is Kind.EXPIRED else status(500, "InternalError", "etcdserver: leader changed")
    return _json({"type": "ERROR", "object": said}) + b"\n"


class ListMemory:
    """Lists as they were answered, by path and selectors, for answers that are out of date."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], deque[tuple[float, bytes]]] = {}

    def keep(self, request: Request, moment: float, body: bytes) -> None:
        """Remember a whole list, or the first page of one."""
        if "continue" not in request.query:
            self._known.setdefault(_of(request), deque(maxlen=_REMEMBERED_LISTS)).append((moment, body))

    def recall(self, request: Request, moment: float, seconds: float | None) -> bytes | None:
        """The newest that is so old, else the oldest; the oldest where no age is asked for."""
        known = self._known.get(_of(request))
        if not known or "continue" in request.query:
            return None
        old = [body for when, body in known if seconds is not None and moment - when >= seconds]
        return old[-1] if old else known[0][1]


def _of(request: Request) -> tuple[str, ...]:
    query = request.query
    return urlsplit(request.target).path, query.get("labelSelector", ""), query.get("fieldSelector", "")


def _expired() -> dict[str, Any]:
    return status(410, "Expired", "too old resource version: 1 (2)")


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document).encode()
