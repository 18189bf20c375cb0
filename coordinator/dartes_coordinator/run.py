"""A run in memory between two commits: its round, who takes part, and when what is complete is committed.

It knows no call and no wire; `coordinator` feeds it. A full disk pauses it with everything kept in memory.
"""

import logging
from collections.abc import Callable

from dartes.difficulty import draw_batch
from dartes.ids import Iteration
from dartes.v1 import population_pb2 as wire
from dartes_coordinator.errors import CoverageError
from dartes_coordinator.full_disk import UnwritableError
from dartes_coordinator.leases import Grant, TaskKind, members_per_lease
from dartes_coordinator.ledger import Ledger
from dartes_coordinator.plan import RunPlan
from dartes_coordinator.progress import Progress
from dartes_coordinator.replicas import Replicas
from dartes_coordinator.round import Round
from dartes_coordinator.snapshots import SnapshotDuty
from dartes_coordinator.workers import Workers

log = logging.getLogger(__name__)


class Run:
    """The run as one incarnation of its coordinator moves it."""

    def __init__(self, plan: RunPlan, progress: Progress, ledger: Ledger, now: float) -> None:
        self.plan = plan
        self.progress = progress
        self.ledger = ledger
        self.workers = Workers()
        self.replicas = Replicas(progress.iteration)
        self.snapshot = SnapshotDuty()
        self.paused: str | None = None
        """Why nothing is committed at present, in words."""
        self.done = False
        self.wire_bytes = 0
        """Payload bytes of calls since the last commit."""
        self._member_seconds: float | None = None
        self.round = self._open_round(now)

    def joined(self, now: float) -> None:
        """A worker registers: time before the first one, spent on loading the model, is no iteration's."""
        if not self.workers.connected() and not self.round.leases.done_count:
            self.round.started = now

    def more_for(self, worker: str, grant: Grant, now: float) -> list[Grant]:
        """Further members for a worker that was granted one, where members are short."""
        if grant.task.kind is not TaskKind.MEMBER:
            return []
        leases = self.round.leases
        waiting, workers = leases.waiting_count + 1, len(self.workers.connected())
        count = members_per_lease(waiting, workers, self._member_seconds)
        return leases.take_more(worker, now, count - 1)

    def take_results(self, request: wire.ReportRequest, now: float) -> bool:
        """Take all results of a report; False where all are dropped. Raises as `Round.report` does."""
        timings, accepted = request.timings, False
        for result in (request.evaluate, *request.more):
            accepted |= self.round.report(request.worker, result, timings, now)
            timings = wire.Timings()  # they are of the whole report, and count once
        return accepted

    def lost(self, worker: str) -> None:
        """A worker is gone: what it held goes to others at once."""
        count = self.round.leases.release(worker)
        self.snapshot.release(worker)
        if count:
            self.ledger.event("WorkerLost", f"worker {worker} is gone; {count} leases are handed out again")

    def try_commit(self, now: float) -> None:
        """Commit what is complete and finish what is finished; on a full disk pause with all in memory."""
        try:
            if self.round.complete and not self.round.committed:
                self._commit(now)
            if self._is_finished():
                self.ledger.finish(self.replicas.agreed or "")
                self.done = True
        except UnwritableError as error:
            self._pause(error)

    def retry(self, now: float) -> None:
        """While paused: write what waits; where that works, the run goes on."""
        if self.paused is None:
            return
        try:
            self.ledger.flush()
        except UnwritableError as error:
            self._pause(error)
            return
        self.paused = None
        self.try_commit(now)
        if self.paused is None:
            self.ledger.event("Continued", "the disk takes data again")

    def writing(self, write: Callable[[], None]) -> None:
        """Write something whose caller has to come again where the run is paused by it."""
        try:
            write()
        except UnwritableError as error:
            self._pause(error)
            raise

    def _commit(self, now: float) -> None:
        gap = self.round.gaps()
        if gap is not None:
            raise CoverageError(
                f"iteration {self.progress.iteration}: {gap}; do all workers have the same tokenizer files?"
            )
        beside = {
            "seconds": now - self.round.started,
            "wire_bytes": self.wire_bytes,
            "workers": len(self.workers.connected()),
        }
        self.ledger.commit(self.round, beside)
        if self.round.batch is None:
            return
        self.wire_bytes = 0
        self._member_seconds = self.round.member_seconds()
        self.replicas.advance(self.progress.iteration)
        self.snapshot = SnapshotDuty()
        self.round = self._open_round(now)

    def _open_round(self, now: float) -> Round:
        iteration = self.progress.iteration
        batch = draw_batch(self.plan.settings, self.progress.state, Iteration(iteration))
        due = {
            name: one
            for name, one in self.plan.evaluations_due(iteration, final=batch is None).items()
            if not self.progress.is_evaluated(name)
        }
        stage = self.progress.state.stage
        return Round(
            self.plan.settings,
            iteration,
            batch,
            self.plan.slices_per_member,
            self.plan.evaluates_parent(stage),
            due,
            now,
            stage=stage,
            log_completions=self.plan.log_completions,
        )

    def _is_finished(self) -> bool:
        """No batch is left, all that is due on the last weights is in, and some worker attested them."""
        return (
            not self.done
            and self.round.batch is None
            and self.round.complete
            and self.replicas.agreed is not None
            and not self.snapshot.is_open(self.plan, self.progress)
        )

    def _pause(self, error: UnwritableError) -> None:
        if self.paused is None:
            log.error("paused: %s", error)
        self.paused = str(error)
