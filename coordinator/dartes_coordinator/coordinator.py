"""What workers call: registers them, hands out leases, takes reports and digests.

Synchronous and single-threaded; the clock is passed in, gRPC is in `service`, committing in `run`. Every
decision is a function of the job, the committed state and the results.
"""

from dartes.v1 import control_pb2
from dartes.v1 import population_pb2 as wire
from dartes_coordinator.admission import admit, engine_difference, engine_of, reward_of
from dartes_coordinator.errors import ReportError, StaleError
from dartes_coordinator.faults import FaultPlan, FaultPoint
from dartes_coordinator.ledger import Ledger
from dartes_coordinator.outputs import Outputs
from dartes_coordinator.plan import RunPlan
from dartes_coordinator.progress import Progress
from dartes_coordinator.run import Run
from dartes_coordinator.snapshots import believed
from dartes_coordinator.status import status_response
from dartes_coordinator.store import Attestation, Store
from dartes_coordinator.updates import updates_page
from dartes_coordinator.workers import HEARTBEAT_SECONDS, Workers

LONG_POLL_SECONDS = 10.0

MOST_WARNINGS = 16
WARNING_CHARACTERS = 2_000
"""What is taken of a worker's warnings about the job's data; all workers say the same."""


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
        self.incarnation = store.incarnation
        self.run = Run(plan, progress, Ledger(plan, store, outputs, progress, faults), now)
        self._faults = faults
        self._reward: str | None = None
        """Digest of the reward source that this incarnation's first worker has; all others must have it."""
        self._lease_count = 0
        self._draining: set[str] = set()
        self._warned: set[str] = set()
        self._placements: dict[str, None] = {}

    @property
    def workers(self) -> Workers:
        """Who is connected."""
        return self.run.workers

    @property
    def done(self) -> bool:
        """Whether everything is committed and nothing is left to do."""
        return self.run.done

    # What workers call -----------------------------------------------------------------------------

    def register(self, request: wire.RegisterRequest, now: float) -> wire.RegisterResponse:
        """Admit a worker whose model, data and algorithm are those of the run.

        Raises
        ------
        RefusedError
            Names every digest that differs.
        UnwritableError
            The run is paused: nothing can be written.
        """
        header = admit(self.run.plan, request, self.run.progress.header, self._reward)
        self._note_worker(request, header)
        self.run.joined(now)
        self.run.round.leases.release(request.worker)
        self.run.snapshot.release(request.worker)
        self.run.workers.heard(request.worker, now).iteration = request.weights.iteration
        return wire.RegisterResponse(
            incarnation=self.incarnation,
            heartbeat_seconds=HEARTBEAT_SECONDS,
            long_poll_seconds=LONG_POLL_SECONDS,
            journal_header=header,
            snapshots=[
                wire.SnapshotInfo(iteration=s.iteration, row_hash=s.row_hash, digest=s.digest, file=s.file)
                for s in self.run.progress.snapshots.values()
            ],
        )

    def asked(self, request: wire.LeaseRequest, now: float) -> None:
        """A worker begins to ask for something to do: a sign of life, and it is at nothing else any more."""
        self.check_incarnation(request.incarnation)
        self.run.workers.heard(request.worker, now).iteration = request.weights.iteration

    def next_action(self, request: wire.LeaseRequest, now: float) -> wire.LeaseResponse | None:
        """What a worker that has `asked` should do now; None = nothing yet, look again after a change.

        Looking again is no sign of life: the one who asked may be gone by now.
        """
        self.check_incarnation(request.incarnation)
        name, held = request.worker, request.weights
        if name not in self.run.workers:
            return None
        if name in self._draining:
            return wire.LeaseResponse(drain=wire.DrainAction())
        doubt = self._doubt(name, held)
        if doubt is not None:
            return wire.LeaseResponse(rebuild=wire.RebuildAction(reason=doubt))
        iteration = self.run.progress.iteration
        if held.iteration < iteration:
            return wire.LeaseResponse(apply=wire.ApplyAction(up_to_iteration=iteration))
        if self.run.done:
            return wire.LeaseResponse(done=wire.DoneAction())
        if self.run.paused is not None:
            return None
        if self.run.snapshot.take(name, self.run.plan, self.run.progress):
            return wire.LeaseResponse(
                snapshot=wire.SnapshotLease(lease_id=self._lease_id(), iteration=iteration)
            )
        grant = self.run.round.leases.take(name, now)
        if grant is None:
            return None
        knows_batch = request.known_batch == iteration + 1
        first = self.run.round.lease(grant, name, self._lease_id(), knows_batch)
        more = [
            self.run.round.lease(further, name, self._lease_id(), knows_batch=True)
            for further in self.run.more_for(name, grant, now)
        ]
        return wire.LeaseResponse(evaluate=first, more=more)

    def next_speculation(self, worker: str, now: float) -> float | None:
        """Seconds until a slow lease of somebody else may be offered to `worker`; None = no such thing."""
        if self.run.paused is not None or worker not in self.run.workers:
            return None
        return self.run.round.leases.next_speculation(worker, now)

    def report(self, request: wire.ReportRequest, now: float) -> bool:
        """Take the outcome of a lease; False where it is dropped.

        Dropped are reports of a committed iteration, of a lease that was filled before, and of weights that
        turned out to be in doubt.

        Raises
        ------
        StaleError
            It is of another incarnation.
        ReportError
            It does not fit its lease; the lease goes to somebody else.
        CoverageError
            The slices of a member do not cover its batch.
        """
        self._faults.reach(FaultPoint.BEFORE_REPORT)
        self.check_incarnation(request.incarnation)
        self.run.workers.heard(request.worker, now)
        if self.run.replicas.must_rebuild(request.worker):
            self.run.round.leases.release(request.worker)
            self.run.snapshot.release(request.worker)
            return False
        try:
            if request.HasField("snapshot"):
                return self._take_snapshot(request, now)
            if not request.lease_id.startswith(self._lease_prefix()):
                return False
            accepted = self.run.take_results(request, now)
        except ReportError as error:
            self.run.round.leases.release(request.worker)
            self.run.ledger.event("ReportRefused", f"worker {request.worker}: {error}")
            raise
        self._faults.reach(FaultPoint.AFTER_REPORT)
        if accepted:
            self.run.try_commit(now)
        return accepted

    def updates(self, request: wire.UpdatesRequest) -> wire.UpdatesResponse:
        """Journal rows from an iteration on, at most `limit` and at most a few megabytes."""
        self.check_incarnation(request.incarnation)
        return updates_page(request, self.run.progress.iteration, self.run.ledger.journal_rows)

    def attest(self, request: wire.AttestRequest, now: float) -> None:
        """Take a digest; where it disagrees with others, everybody rebuilds and this round starts again."""
        self.check_incarnation(request.incarnation)
        held = request.weights
        if not self.run.progress.on_chain(held.iteration, held.row_hash):
            return
        self.run.workers.heard(request.worker, now).iteration = held.iteration
        attestation = Attestation(held.iteration, request.worker, request.digest, request.rebuilt)
        self.run.ledger.attested(attestation)
        if self.run.replicas.attest(attestation, [w.name for w in self.run.workers.connected()]):
            self.run.ledger.event(
                "ReplicaMismatch",
                f"worker {request.worker} holds {request.digest[:16]} after iteration {held.iteration}, "
                "others do not; all rebuild from the journal",
            )
            self.run.round.restart(now)
        self.run.try_commit(now)

    def check_incarnation(self, incarnation: int) -> None:
        """Raise StaleError for a call that was meant for an earlier coordinator."""
        if incarnation != self.incarnation:
            raise StaleError(
                f"incarnation {incarnation} is over; this coordinator is incarnation {self.incarnation}"
            )

    def status(self) -> control_pb2.StatusResponse:
        """Where the run stands."""
        return status_response(self.incarnation, self.run, self._placements)

    # Presence --------------------------------------------------------------------------------------

    def drain(self, worker: str) -> None:
        """Ask a worker to leave after its present lease."""
        self._draining.add(worker)

    def close(self) -> None:
        """Close the store; what was not committed is lost, as when the process ends."""
        self.run.ledger.close()

    def lost(self, worker: str) -> None:
        """A worker is gone: its leases go to others at once."""
        self._draining.discard(worker)
        self.run.lost(worker)

    # Committing ------------------------------------------------------------------------------------

    def retry(self, now: float) -> None:
        """While paused: write what waits; where that works, the run goes on."""
        self.run.retry(now)

    # Small things ----------------------------------------------------------------------------------

    def _lease_prefix(self) -> str:
        """Names the weights and the attempt at an iteration that a lease is for."""
        return f"{self.incarnation}-{self.run.progress.iteration}-{self.run.round.restarts}-"

    def _lease_id(self) -> str:
        self._lease_count += 1
        return f"{self._lease_prefix()}{self._lease_count}"

    def _doubt(self, worker: str, held: wire.WeightsVersion) -> str | None:
        if not self.run.progress.on_chain(held.iteration, held.row_hash):
            return (
                f"its weights (iteration {held.iteration}, row {held.row_hash.hex()[:12]}) are not on this "
                f"run's chain, which has {self.run.progress.iteration} iterations"
            )
        if self.run.replicas.must_rebuild(worker):
            return "its weight digest disagreed with another worker's"
        return None

    def _take_snapshot(self, request: wire.ReportRequest, now: float) -> bool:
        self.run.snapshot.release(request.worker)
        snapshot = believed(request.snapshot, self.run.progress, self.run.replicas)
        if snapshot is None:
            return False
        self.run.writing(lambda: self.run.ledger.keep_snapshot(snapshot))
        self.run.try_commit(now)
        return True

    def _note_worker(self, request: wire.RegisterRequest, header: bytes) -> None:
        progress, reward = self.run.progress, reward_of(request)
        known, mine = progress.fingerprints, engine_of(request)
        is_new = bool(mine) and mine not in known
        before = progress.reward_digest
        changed = before not in (None, reward)
        if progress.header is None or is_new or changed:
            fingerprints = [*known, mine] if is_new else known
            self.run.writing(
                lambda: self.run.ledger.establish(header, request.base_digest, reward, fingerprints)
            )
        self._reward = reward
        for warning in request.warnings[:MOST_WARNINGS]:
            if warning not in self._warned:
                self._warned.add(warning)
                self.run.ledger.event("DataWarning", warning[:WARNING_CHARACTERS])
        known_places = self._placements
        if request.placement and request.placement not in known_places and len(known_places) < MOST_WARNINGS:
            # One line for all workers that chose alike.
            self._placements[request.placement] = None
            self.run.ledger.event("MasterPlacement", request.placement[:WARNING_CHARACTERS])
        if changed:
            # A function that was mended must not cost the run; what it scored before is kept as it is.
            self.run.ledger.event(
                "RewardChanged",
                f"from iteration {progress.iteration + 1} on answers are scored by another reward source: "
                f"{reward[:16] or 'none'}, before {(before or 'none')[:16]}",
            )
        if is_new and known:
            self.run.ledger.event(
                "MixedEngines",
                f"worker {request.worker} has another engine than the first worker "
                f"({engine_difference(mine, known[0])}): weights stay bit-exact, "
                "rewards may differ between workers",
            )
