"""The API server's audit log, as far as tests and benchmarks count requests in it: whose, which, and when.

A position in the log is taken before something happens; what was finished since is read afterwards, also
where the log was begun anew meanwhile because it had grown too long.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Request:
    """One finished request."""

    verb: str
    resource: str
    """With the subresource, as `dartesjobs/status`."""
    namespace: str
    name: str
    code: int
    began: datetime
    ended: datetime

    @property
    def kind(self) -> str:
        """`create pods`, `patch dartesjobs/status`."""
        return f"{self.verb} {self.resource}"


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the log; the file's number tells it from one that was begun since."""

    file: int
    offset: int


class AuditLog:
    """The log of a cluster that keeps one we can read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def end(self) -> Position:
        """The present end."""
        stat = self._path.stat()
        return Position(stat.st_ino, stat.st_size)

    def since(self, position: Position, user: str) -> list[Request]:
        """The requests of a user that were finished since, watches only once they have ended."""
        found: list[Request] = []
        for path, offset in self._files(position):
            with path.open("rb") as lines:
                lines.seek(offset)
                # Most lines are other users', and reading JSON is most of the work.
                found += [
                    request
                    for line in lines
                    if user.encode() in line and (request := read(line, user)) is not None
                ]
        return found

    def entries(self, word: str) -> list[dict[str, Any]]:
        """All that the log has where this word stands, as the API server wrote it, oldest first."""
        found = []
        for path in self._all_files():
            with path.open() as lines:
                found += [json.loads(line) for line in lines if word in line and line.endswith("}\n")]
        return found

    def _all_files(self) -> list[Path]:
        """The present file and those before it, oldest first."""
        pattern = f"{self._path.stem}*{self._path.suffix}"
        return sorted(self._path.parent.glob(pattern), key=lambda path: path.stat().st_mtime_ns)

    def _files(self, position: Position) -> Iterable[tuple[Path, int]]:
        """The files that hold what was written since, with where to begin in each."""
        files = self._all_files()
        numbers = [path.stat().st_ino for path in files]
        first = numbers.index(position.file)
        return [
            (path, position.offset if number == position.file else 0)
            for path, number in zip(files[first:], numbers[first:], strict=True)
        ]


def read(line: bytes, user: str) -> Request | None:
    """A line of the log as a finished request of a user; None where it is none."""
    try:
        entry: dict[str, Any] = json.loads(line)
    except ValueError:
        return None  # the last line is being written
    if entry["stage"] != "ResponseComplete" or entry["user"]["username"] != user:
        return None
    what = entry.get("objectRef", {})
    return Request(
        verb=entry["verb"],
        resource="/".join(filter(None, (what.get("resource", ""), what.get("subresource", "")))),
        namespace=what.get("namespace", ""),
        name=what.get("name", ""),
        code=int(entry.get("responseStatus", {}).get("code", 0)),
        began=_time(entry["requestReceivedTimestamp"]),
        ended=_time(entry["stageTimestamp"]),
    )


def by_kind(requests: Iterable[Request]) -> Counter[str]:
    """How many of each kind."""
    return Counter(request.kind for request in requests)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
