"""A coordinator with registered fake workers, driven call by call."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dartes.state import RunFolder, RunReader
from dartes.v1 import population_pb2 as wire
from dartes_coordinator.coordinator import Coordinator
from dartes_coordinator.full_disk import StoreFullError
from dartes_coordinator.plan import RunPlan
from dartes_coordinator.store import Store

from .kit import Clock, FakeWorker, opened, plan, run_until


class Scene:
    """A coordinator, a clock and registered workers."""

    def __init__(self, path: Path, run: RunPlan, *names: str) -> None:
        self.run, self.folder, self.clock = run, RunFolder(path), Clock()
        self.coordinator: Coordinator = opened(self.folder, run, self.clock)
        self.workers = [FakeWorker(name, run) for name in names]
        for worker in self.workers:
            worker.register(self.coordinator, self.clock())

    def to(self, iteration: int | None, *workers: FakeWorker) -> None:
        run_until(self.coordinator, list(workers or self.workers), self.clock, iteration)

    def lease(self, worker: FakeWorker) -> wire.LeaseResponse:
        """The next evaluation for a worker."""
        for _ in range(3):
            action = worker.ask(self.coordinator, self.clock())
            assert action is not None
            if action.HasField("evaluate"):
                return action
            worker.do(self.coordinator, action, self.clock())
        raise AssertionError("no lease")

    @property
    def iteration(self) -> int:
        return self.coordinator.run.progress.iteration

    def events(self) -> list[str]:
        """Reasons of all events so far."""
        self.coordinator.run.ledger.flush()
        with RunReader.open(self.folder) as reader:
            return [reason for _, reason, _ in reader.events()]


def scene_of(path: Path, *names: str, **changes: Any) -> Scene:
    return Scene(path, plan(**changes), *names)


@contextmanager
def full_disk() -> Iterator[None]:
    """Every commit finds the disk full, after it has written everything."""
    commit = Store.commit

    def refuse(self: Store, *args: Any, **values: Any) -> None:
        def full() -> None:
            raise StoreFullError("the disk is full")

        commit(self, *args, **(values | {"before_commit": full}))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "commit", refuse)
        yield
