"""The run's state machine: registers workers, hands out leases, takes reports, commits iterations.

Synchronous and single-threaded; the clock is passed in, gRPC is in `service` and files are behind
`Store` and `Outputs`. Every decision is a function of the job, the committed state and the results.
"""

import json
import logging
from dataclasses import dataclass, field

from dartes.difficulty import Batch, DifficultyState, advance, draw_batch, score
from dartes.errors import ConfigurationError, DartesError
from dartes.ids import Iteration
from dartes.journal import JournalRow, row_hash
from dartes.rpc import PROTOCOL_VERSION
from dartes.state import StoredEvaluation, StoredIteration, StoredSnapshot
from dartes.state.history import journal_row
from dartes.v1 import control_pb2
from dartes.v1 import population_pb2 as wire

from dartes_coordinator.collect import ReportError
from dartes_coordinator.faults import FaultPlan, FaultPoint
from dartes_coordinator.header import header_for, refusals
from dartes_coordinator.outputs import Outputs
from dartes_coordinator.plan import BACKUP_EVERY, RunPlan
from dartes_coordinator.replicas import Replicas
from dartes_coordinator.round import Round
from dartes_coordinator.status import Pace, fill_totals
from dartes_coordinator.store import Attestation, Event, Store, StoreFullError
from dartes_coordinator.workers import HEARTBEAT_SECONDS, Workers

log = logging.getLogger(__name__)

LONG_POLL_SECONDS = 10.0


class RefusedError(ConfigurationError):
    """A worker cannot take part; the message names what differs."""


class StaleError(DartesError):
    """A call of another incarnation or iteration; the worker has to ask again."""


@dataclass
class Progress:
    """Where the run stands, as loaded at start and moved by commits."""

    state: DifficultyState
    header: bytes | None
    hashes: list[bytes]
    """Hash of the header, then of each journal row."""
    evaluations: list[StoredEvaluation] = field(default_factory=list)
    snapshots: dict[int, StoredSnapshot] = field(default_factory=dict)
    pace: Pace = field(default_factory=Pace)

    @property
    def iteration(self) -> int:
        """Number of committed iterations."""
        return max(0, len(self.hashes) - 1)

    def is_evaluated(self, set_name: str) -> bool:
        """Whether the present weights were evaluated on a set."""
        return any(e.iteration == self.iteration and e.set_name == set_name for e in self.evaluations)


class Coordinator:
    """One incarnation of the coordinator of one run."""

    def __init__(
        self,
        plan: RunPlan,
        store: Store,
        outputs: Outputs,
        progress: Progress,
        faults: FaultPlan,
        now: float,
    ) -> None:
        self.plan = plan
        self.incarnation = store.incarnation
        self.workers = Workers()
        self.replicas = Replicas()
        self.paused: str | None = None
        self.done = False
        self.wire_bytes = 0
        self._store = store
        self._outputs = outputs
        self._progress = progress
        self._faults = faults
        self._lease_count = 0
        self._snapshot_holder: str | None = None
        self._attestations: list[Attestation] = []
        self._events: list[Event] = []
        self._draining: set[str] = set()
        self.round = self._open_round(now)

    # What workers call -----------------------------------------------------------------------------

    def register(self, request: wire.RegisterRequest, now: float) -> wire.RegisterResponse:
        """Admit a worker whose model, data and algorithm are those of the run.

        Raises
        ------
        RefusedError
            Names every digest that differs.
        """
        reasons = []
        if request.protocol != PROTOCOL_VERSION:
            reasons.append(f"protocol {request.protocol}, the coordinator speaks {PROTOCOL_VERSION}")
        header = header_for(self.plan, request)
        reasons += refusals(self.plan, request, self._progress.header, header)
        if reasons:
            raise RefusedError(f"worker {request.worker} cannot take part: " + "; ".join(reasons))
        if self._progress.header is None:
            self._store.put_meta({"journal_header": header, "base_digest": request.base_digest})
            self._progress.header = header
            self._progress.hashes = [self._outputs.start_journal(header)]
        self.round.leases.release(request.worker)
        worker = self.workers.heard(request.worker, now)
        worker.iteration = request.weights.iteration
        if request.fingerprint and request.fingerprint != worker.fingerprint:
            worker.fingerprint = request.fingerprint
            self._note_fingerprint(request.worker, request.fingerprint, now)
        return wire.RegisterResponse(
            incarnation=self.incarnation,
            heartbeat_seconds=HEARTBEAT_SECONDS,
            long_poll_seconds=LONG_POLL_SECONDS,
            journal_header=self._progress.header,
            snapshots=[
                wire.SnapshotInfo(iteration=s.iteration, row_hash=s.row_hash, digest=s.digest, file=s.file)
                for s in self._progress.snapshots.values()
            ],
        )

    def next_action(self, request: wire.LeaseRequest, now: float) -> wire.LeaseResponse | None:
        """What a worker should do now; None = nothing yet, ask again when something has changed."""
        self.check_incarnation(request.incarnation)
        name, held = request.worker, request.weights
        worker = self.workers.heard(name, now)
        worker.iteration = held.iteration
        if name in self._draining:
            return wire.LeaseResponse(drain=wire.DrainAction())
        iteration = self._progress.iteration
        doubt = self._doubt(name, held)
        if doubt is not None:
            return wire.LeaseResponse(rebuild=wire.RebuildAction(reason=doubt))
        if held.iteration < iteration:
            return wire.LeaseResponse(apply=wire.ApplyAction(up_to_iteration=iteration))
        if self.done:
            return wire.LeaseResponse(done=wire.DoneAction())
        if self.paused is not None:
            return None
        if self._snapshot_wanted():
            self._snapshot_holder = name
            return wire.LeaseResponse(
                snapshot=wire.SnapshotLease(lease_id=self._lease_id(), iteration=iteration)
            )
        grant = self.round.leases.take(name, now)
        if grant is None:
            return None
        known = request.known_batch == iteration + 1
        return wire.LeaseResponse(evaluate=self.round.lease(grant, self._lease_id(), known))

    def report(self, request: wire.ReportRequest, now: float) -> bool:
        """Take the outcome of a lease; False where it had been filled before.

        Raises
        ------
        StaleError
            It is of another incarnation or iteration.
        ReportError
            It does not fit its lease; the lease goes to somebody else.
        """
        self._faults.reach(FaultPoint.BEFORE_REPORT)
        self.check_incarnation(request.incarnation)
        self.workers.heard(request.worker, now)
        if request.HasField("snapshot"):
            return self._take_snapshot(request)
        if request.iteration != self._progress.iteration:
            return False  # its iteration is committed: acknowledged and dropped
        try:
            accepted = self.round.report(request.evaluate, request.timings, now)
        except ReportError as error:
            self.round.leases.release(request.worker)
            self.event("ReportRefused", f"worker {request.worker}: {error}", now)
            raise
        self._faults.reach(FaultPoint.AFTER_REPORT)
        if self.round.complete:
            self.try_commit(now)
        return accepted

    def updates(self, request: wire.UpdatesRequest) -> wire.UpdatesResponse:
        """Journal rows from an iteration on, at most `limit`."""
        self.check_incarnation(request.incarnation)
        limit = min(max(1, request.limit), 1024)
        response = wire.UpdatesResponse()
        for _, encoded, digest in self._outputs.journal_rows(request.from_iteration, limit):
            row = JournalRow.decode(encoded)
            response.rows.append(
                wire.UpdateRow(
                    iteration=row.iteration,
                    stage=row.stage,
                    seeds=row.seeds.tolist(),
                    coefficients=row.coefficients.tolist(),
                    row_hash=digest,
                )
            )
        return response

    def attest(self, request: wire.AttestRequest, now: float) -> None:
        """Take a digest; where it disagrees with others, everybody rebuilds and this round starts again."""
        self.check_incarnation(request.incarnation)
        held = request.weights
        if not self._on_chain(held):
            return
        self.workers.heard(request.worker, now).iteration = held.iteration
        attestation = Attestation(held.iteration, request.worker, request.digest, request.rebuilt)
        if self.replicas.attest(attestation):
            self.event(
                "ReplicaMismatch",
                f"worker {request.worker} holds {request.digest[:16]} after iteration {held.iteration}, others "
                "do not; all rebuild from the journal",
                now,
            )
            self.round.restart(now)
        self._attestations.append(attestation)
        self._finish_if_possible(now)

    def check_incarnation(self, incarnation: int) -> None:
        """Raise StaleError for a call that was meant for an earlier coordinator."""
        if incarnation != self.incarnation:
            raise StaleError(
                f"incarnation {incarnation} is over; this coordinator is incarnation {self.incarnation}"
            )

    def status(self) -> control_pb2.StatusResponse:
        """Where the run stands."""
        response = control_pb2.StatusResponse(
            phase=self._phase(),
            message=self.paused or "",
            incarnation=self.incarnation,
            leases_done=self.round.leases.done_count,
            leases_total=len(self.round.leases.tasks),
            workers_connected=len(self.workers.connected()),
            workers_caught_up=sum(w.iteration == self._progress.iteration for w in self.workers.connected()),
            journal_hash=self._progress.hashes[-1].hex() if self._progress.hashes else "",
            weight_digest=self.replicas.agreed or "",
            evaluations=[
                control_pb2.EvaluationScore(
                    set_name=e.set_name,
                    iteration=e.iteration,
                    passed=int(e.passed.sum()),
                    problems=len(e.passed),
                )
                for e in self._progress.evaluations
            ],
        )
        fill_totals(
            response,
            self.plan.settings,
            self._progress.state,
            self._progress.iteration,
            self._progress.pace,
        )
        return response

    def _phase(self) -> control_pb2.Phase.ValueType:
        if self.done:
            return control_pb2.PHASE_DONE
        if self.paused is not None:
            return control_pb2.PHASE_PAUSED
        if not self.workers.connected():
            return control_pb2.PHASE_WAITING_FOR_WORKERS
        return control_pb2.PHASE_FINISHING if self.round.batch is None else control_pb2.PHASE_RUNNING

    # Presence --------------------------------------------------------------------------------------

    def drain(self, worker: str) -> None:
        """Ask a worker to leave after its present lease."""
        self._draining.add(worker)

    def lost(self, worker: str, now: float) -> None:
        """A worker is gone: its leases go to others at once."""
        count = self.round.leases.release(worker)
        self.replicas.forget(worker)
        self._draining.discard(worker)
        if self._snapshot_holder == worker:
            self._snapshot_holder = None
        if count:
            self.event("WorkerLost", f"worker {worker} is gone; {count} leases are handed out again", now)

    def event(self, reason: str, text: str, now: float) -> None:
        """Tell people something: in the log now, in the store with the next transaction."""
        log.warning("%s: %s", reason, text)
        self._events.append(Event(now, reason, text))

    # Committing ------------------------------------------------------------------------------------

    def try_commit(self, now: float) -> None:
        """Commit the complete round; on a full disk stay paused with everything in memory."""
        try:
            self._commit(now)
        except StoreFullError as error:
            if self.paused is None:
                log.error("paused: %s", error)
            self.paused = str(error)
            return
        if self.paused is not None:
            self.paused = None
            self.event("Continued", "the disk takes data again", now)

    def _commit(self, now: float) -> None:
        gap = self.round.gaps()
        if gap is not None:
            raise RefusedError(f"iteration {self._progress.iteration}: {gap}")
        iteration, batch = self._progress.iteration, self.round.batch
        evaluations = self._stored_evaluations()
        if batch is None:
            self._store.commit(None, evaluations, self._attestations, self._events)
            self._committed_beside(evaluations)
            self._finish_if_possible(now)
            return
        scored = score(self.plan.settings, self._progress.state, batch, self.round.members.results())
        row = journal_row(self.plan.settings, iteration, 0, scored)
        stored = self._stored_iteration(batch, row.encode(), row_hash(self._progress.hashes[-1], row), now)
        self._store.commit(
            stored,
            evaluations,
            self._attestations,
            self._events,
            before_commit=lambda: self._faults.reach(FaultPoint.INSIDE_TRANSACTION),
        )
        self._faults.reach(FaultPoint.AFTER_COMMIT)
        self._committed_beside(evaluations)
        advance(self._progress.state, batch, scored)
        self._progress.hashes.append(stored.row_hash)
        self._progress.pace.add(
            stored.beside["seconds"], stored.beside["generated_tokens"], float(scored.pass_rates.mean())
        )
        self._outputs.append(stored, batch, scored, evaluations)
        if (iteration + 1) % BACKUP_EVERY == 0:
            self._outputs.back_up(self._store, iteration + 1, self.plan.keep)
        self.replicas.advance(iteration + 1)
        self.round = self._open_round(now)
        self._finish_if_possible(now)

    def _committed_beside(self, evaluations: list[StoredEvaluation]) -> None:
        self._attestations, self._events = [], []
        self._progress.evaluations += evaluations

    def _open_round(self, now: float) -> Round:
        iteration = self._progress.iteration
        batch = draw_batch(self.plan.settings, self._progress.state, Iteration(iteration))
        due = {
            name: size
            for name, size in self.plan.evaluations_due(iteration, final=batch is None).items()
            if not self._progress.is_evaluated(name)
        }
        self._snapshot_holder = None
        self.replicas.iteration = iteration
        return Round(
            self.plan.settings,
            iteration,
            batch,
            self.plan.slices_per_member,
            self.plan.evaluate_parent,
            due,
            now,
        )

    def _finish_if_possible(self, now: float) -> None:
        """Done = no batch is left, the final evaluation is committed and some worker attested the weights."""
        digest = self.replicas.agreed
        if self.done or self.round.batch is not None or not self.round.complete or digest is None:
            return
        if not all(self._progress.is_evaluated(name) for name in self.round.evaluations):
            return
        fingerprints = json.dumps([json.loads(f) for f in self.workers.fingerprints()])
        self.event("Completed", f"{self._progress.iteration} iterations are committed", now)
        self._store.commit(
            None,
            attestations=self._attestations,
            events=self._events,
            meta={
                "status": "done",
                "finished_at": str(self._progress.iteration),
                "weight_digest": digest,
                "fingerprints": fingerprints,
            },
        )
        self._attestations, self._events = [], []
        self._outputs.finish(self.plan.name, self.plan.settings)
        self._outputs.back_up(self._store, self._progress.iteration, self.plan.keep)
        self.done = True

    def _stored_iteration(self, batch: Batch, row: bytes, digest: bytes, now: float) -> StoredIteration:
        grid, costs, leases = self.round.members, self.round.costs, self.round.leases
        results = grid.results()
        wire_bytes, self.wire_bytes = self.wire_bytes, 0
        return StoredIteration(
            iteration=self._progress.iteration,
            stage=0,
            epoch=batch.epoch,
            problems=batch.problems,
            replayed=batch.replayed,
            passed=grid.passed,
            truncated=grid.truncated,
            scores=results.scores,
            auxiliary=results.auxiliary,
            parent_passed=self.round.parent.passed[0] if self.round.parent.rows else None,
            row=row,
            row_hash=digest,
            beside={
                "seconds": now - self.round.started,
                "seconds_by_part": dict(costs.seconds),
                "prompt_tokens": costs.prompt_tokens,
                "generated_tokens": costs.generated_tokens,
                "wire_bytes": wire_bytes,
                "workers": len(self.workers.connected()),
                "reissued": leases.reissued,
                "speculated": leases.speculated,
                "nondeterministic_reports": leases.nondeterministic,
                "incarnation": self.incarnation,
                "committed_at": self._outputs.wall_time(),
            },
        )

    def _stored_evaluations(self) -> list[StoredEvaluation]:
        return [
            StoredEvaluation(
                iteration=self._progress.iteration,
                set_name=name,
                passed=grid.passed[0],
                truncated=grid.truncated[0],
                beside={"generated_tokens": self.round.evaluation_costs[name].generated_tokens},
            )
            for name, grid in self.round.evaluations.items()
        ]

    # Small things ----------------------------------------------------------------------------------

    def _lease_id(self) -> str:
        self._lease_count += 1
        return f"{self.incarnation}-{self._lease_count}"

    def _on_chain(self, held: wire.WeightsVersion) -> bool:
        hashes = self._progress.hashes
        return held.iteration < len(hashes) and hashes[held.iteration] == held.row_hash

    def _doubt(self, worker: str, held: wire.WeightsVersion) -> str | None:
        if not self._on_chain(held):
            return (
                f"its weights (iteration {held.iteration}, row {held.row_hash.hex()[:12]}) are not on this run's "
                f"chain, which has {self._progress.iteration} iterations"
            )
        if self.replicas.must_rebuild(worker):
            return "its weight digest disagreed with another worker's"
        return None

    def _snapshot_wanted(self) -> bool:
        iteration = self._progress.iteration
        return (
            self.plan.snapshot_due(iteration)
            and iteration not in self._progress.snapshots
            and self._snapshot_holder is None
        )

    def _take_snapshot(self, request: wire.ReportRequest) -> bool:
        made = request.snapshot
        version = wire.WeightsVersion(iteration=made.iteration, row_hash=made.row_hash)
        if made.iteration in self._progress.snapshots or not self._on_chain(version):
            return False
        snapshot = StoredSnapshot(made.iteration, made.row_hash, made.digest, made.file)
        self._store.add_snapshot(snapshot)
        self._progress.snapshots[made.iteration] = snapshot
        old = sorted(self._progress.snapshots)[: -self.plan.keep]
        if old:
            self._store.drop_snapshots(old)
            self._outputs.drop_snapshots([self._progress.snapshots.pop(k) for k in old])
        return True

    def _note_fingerprint(self, worker: str, fingerprint: str, now: float) -> None:
        others = [f for f in self.workers.fingerprints() if f != fingerprint]
        if others:
            self.event(
                "MixedEngines",
                f"worker {worker} runs {fingerprint}, others {others[0]}: weights stay bit-exact, rewards may differ",
                now,
            )
