"""Who is connected, since when a worker was last heard of, and what weights it holds. Pure bookkeeping."""

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


@dataclass
class Workers:
    """All workers that are connected now."""

    _by_name: dict[str, WorkerState] = field(default_factory=dict)
    _session_count: int = 0

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

    def beat(self, name: str, session: int, now: float) -> None:
        """A beat on a presence stream; it also brings back a worker that was taken for lost."""
        self.heard(name, now).sessions.add(session)

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
