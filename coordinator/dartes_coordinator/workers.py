"""Who is connected, since when a worker was last heard of, what weights it holds and what holds it up.

Pure bookkeeping.
"""

from dataclasses import dataclass, field

HEARTBEAT_SECONDS = 2.0
LOST_AFTER_SECONDS = 8.0
"""A worker that has been silent for this long is taken for lost; a broken connection is noticed at once."""


@dataclass
class WorkerState:
    """One worker name; a restarted process under the same name is the same worker."""

    name: str
    last_heard: float
    iteration: int = 0
    sessions: set[int] = field(default_factory=set)
    """Presence streams that are open: for a moment two, where a process was replaced."""
    trouble: str = ""
    """Why it can't go on for now, in its own words."""
    filled_before_trouble: int = 0
    """Leases that all workers together had filled when its trouble began."""


@dataclass
class Workers:
    """All workers that are connected now."""

    _by_name: dict[str, WorkerState] = field(default_factory=dict)
    _session_count: int = 0
    _filled: int = 0
    _told: bool = False

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def heard(self, name: str, now: float) -> WorkerState:
        """Note a sign of life."""
        worker = self._by_name.setdefault(name, WorkerState(name, now))
        worker.last_heard = now
        return worker

    def open_session(self) -> int:
        """A number for a presence stream that has begun."""
        self._session_count += 1
        return self._session_count

    def beat(self, name: str, session: int, now: float, trouble: str = "") -> None:
        """A beat on a presence stream; it also brings back a worker that was taken for lost."""
        worker = self.heard(name, now)
        worker.sessions.add(session)
        if trouble and not worker.trouble:
            worker.filled_before_trouble = self._filled
        worker.trouble = trouble

    def filled(self) -> None:
        """Some worker has filled a lease: whatever troubles others, the run moves."""
        self._filled += 1

    def hindrance(self) -> str | None:
        """What holds the run up: a worker's trouble since whose beginning no lease was filled by anybody."""
        stuck = [w for w in self.connected() if w.trouble and w.filled_before_trouble == self._filled]
        if not stuck:
            return None
        others = len(stuck) - 1
        also = f" (and {others} other worker{'s' if others > 1 else ''})" if others else ""
        return f"worker {stuck[0].name}{also}: {stuck[0].trouble}"

    def turn(self) -> str | None:
        """News since the last call, once: the hindrance that has begun, or "" where it is over; else None."""
        hindrance = self.hindrance()
        if (hindrance is not None) == self._told:
            return None
        self._told = hindrance is not None
        return hindrance or ""

    def close_session(self, name: str, session: int) -> bool:
        """A presence stream has ended. True where it was the worker's last: the worker is lost."""
        worker = self._by_name.get(name)
        if worker is None or session not in worker.sessions:
            return False
        worker.sessions.discard(session)
        if worker.sessions:
            return False
        del self._by_name[name]
        return True

    def silent(self, now: float) -> list[str]:
        """Workers that have said nothing for too long, with or without an open stream; dropped here."""
        lost = [w.name for w in self._by_name.values() if now - w.last_heard > LOST_AFTER_SECONDS]
        for name in lost:
            del self._by_name[name]
        return lost

    def connected(self) -> list[WorkerState]:
        """Workers by name."""
        return [self._by_name[name] for name in sorted(self._by_name)]
