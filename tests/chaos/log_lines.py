"""Which lines of the logs are errors, and which of those may be there while something is wrong outside.

Pure. An error is expected only for a reason that is written here, and only while, or shortly after, the act
that explains it was under way.
"""

import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from .acts import Act

GRACE_SECONDS = 30.0
"""So long after an act its consequences may still be spoken of."""
WATCH_SECONDS = 120.0
"""The same of watches: that one is silent is noticed after a minute and a half."""

BAD_LEVELS = ("ERROR", "CRITICAL")
_BAD_TEXT = re.compile(
    r"Traceback \(most recent call last\)|^(ERROR|CRITICAL|FATAL)\b|panic:|Segmentation fault"
)

API_TROUBLE = frozenset({Act.API_FAULT, Act.API_SERVER_RESTARTED})


@dataclass(frozen=True)
class Line:
    """One line of a container's log."""

    role: str
    pod: str
    time: datetime
    level: str
    logger: str
    message: str
    exception: str = ""

    @property
    def is_error(self) -> bool:
        """Whether somebody should have to look at it."""
        return self.level in BAD_LEVELS


@dataclass(frozen=True)
class Expected:
    """An error that is right while one of these acts is under way; `during` None means always."""

    role: str
    pattern: str
    during: frozenset[Act] | None
    because: str
    grace_seconds: float = GRACE_SECONDS

    def fits(self, line: Line) -> bool:
        """Whether it speaks of this line."""
        return (
            line.role == self.role and re.search(self.pattern, f"{line.logger}: {line.message}") is not None
        )


EXPECTED: Sequence[Expected] = (
    Expected(
        "operator",
        r"listing fails, nothing is done until it works",
        API_TROUBLE,
        "the API server does not answer",
    ),
    Expected(
        "operator",
        r"the API server refuses, tried again",
        API_TROUBLE,
        "an injected 401 or 409, or a start-up",
    ),
    Expected(
        "operator",
        r"starting over in",
        API_TROUBLE,
        "the library has given up its watches and begins anew",
        WATCH_SECONDS,
    ),
    Expected("operator", r"^kopf", API_TROUBLE, "the library says that a request failed", WATCH_SECONDS),
    Expected("coordinator", r"paused: ", frozenset({Act.VOLUME_FILLED}), "the volume is full, as promised"),
    Expected(
        "coordinator",
        r"the disk is full",
        frozenset({Act.VOLUME_FILLED}),
        "a coordinator started on a full volume",
    ),
    Expected(
        "coordinator",
        r"has taken over the run",
        None,
        "a coordinator that is fenced leaves with that as its last words",
    ),
)


@dataclass
class Windows:
    """When each act was under way, in the wall time of logs."""

    spans: list[tuple[Act, datetime, datetime | None]] = field(default_factory=list)

    def begin(self, act: Act, time: datetime) -> int:
        """An act begins; gives the number by which it is ended."""
        self.spans.append((act, time, None))
        return len(self.spans) - 1

    def end(self, number: int, time: datetime) -> None:
        """It is over."""
        act, began, _ = self.spans[number]
        self.spans[number] = (act, began, time)

    def covers(self, acts: Collection[Act], time: datetime, grace_seconds: float = GRACE_SECONDS) -> bool:
        """Whether one of these acts was under way at a time, or had just been."""
        return any(
            act in acts
            and began <= time
            and (ended is None or (time - ended).total_seconds() <= grace_seconds)
            for act, began, ended in self.spans
        )


def read_line(role: str, pod: str, text: str) -> Line | None:
    """A line as a kubelet keeps it (time, stream, F or P, text); None where it is no such line."""
    parts = text.rstrip("\n").split(" ", 3)
    if len(parts) < 4 or parts[1] not in ("stdout", "stderr"):
        return None
    time, said = datetime.fromisoformat(parts[0]), parts[3]
    try:
        document = json.loads(said)
    except ValueError:
        document = None
    if isinstance(document, dict) and "level" in document:
        return Line(
            role,
            pod,
            time,
            str(document["level"]),
            str(document.get("logger", "")),
            str(document.get("message", "")),
            str(document.get("exception", "")),
        )
    return Line(role, pod, time, "ERROR" if _BAD_TEXT.search(said) else "INFO", "", said)


def unexpected(lines: Iterable[Line], windows: Windows, expected: Sequence[Expected] = EXPECTED) -> list[str]:
    """The errors that nothing explains."""
    return [
        f"error in the log of {line.role} {line.pod} at {line.time:%H:%M:%S}: "
        f"{line.logger}: {line.message[:600]}" + (f"\n{line.exception[-1500:]}" if line.exception else "")
        for line in lines
        if line.is_error and explanation(line, windows, expected) is None
    ]


def explanation(line: Line, windows: Windows, expected: Sequence[Expected] = EXPECTED) -> str | None:
    """Why an error is right, if it is."""
    return next(
        (
            each.because
            for each in expected
            if each.fits(line)
            and (each.during is None or windows.covers(each.during, line.time, each.grace_seconds))
        ),
        None,
    )
