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
    sessions: int = 0
    fingerprint: str = ""


@dataclass
class Workers:
    """All workers that are connected now."""

    _by_name: dict[str, WorkerState] = field(default_factory=dict)

    def heard(self, name: str, now: float) -> WorkerState:
        """Note a sign of life."""
        worker = self._by_name.setdefault(name, WorkerState(name, now))
        worker.last_heard = now
        return worker

    def open_session(self, name: str, now: float) -> None:
        """A presence stream has begun."""
        self.heard(name, now).sessions += 1

    def close_session(self, name: str) -> bool:
        """A presence stream has ended. True where it was the worker's last: the worker is lost."""
        worker = self._by_name.get(name)
        if worker is None:
            return False
        worker.sessions -= 1
        if worker.sessions > 0:
            return False
        del self._by_name[name]
        return True

    def silent(self, now: float) -> list[str]:
        """Workers with an open stream that have said nothing for too long; they are dropped here."""
        lost = [w.name for w in self._by_name.values() if now - w.last_heard > LOST_AFTER_SECONDS]
        for name in lost:
            del self._by_name[name]
        return lost

    def connected(self) -> list[WorkerState]:
        """Workers by name."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def fingerprints(self) -> list[str]:
        """Distinct engine fingerprints of the connected workers."""
        return sorted({w.fingerprint for w in self._by_name.values() if w.fingerprint})
