"""The loop of a worker: ask for a lease, do it, report; apply updates, attest; leave when told.

It keeps nothing that cannot be rebuilt from the base model and the journal.
"""

import errno
import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path

from dartes.errors import DartesError, ExitCode, TransientError
from dartes.ids import Iteration
from dartes.journal import JournalRow
from dartes.v1 import population_pb2 as wire
from dartes_worker.client import (
    CoordinatorClient,
    IncarnationOverError,
    InterruptedWaitError,
    ReportRefusedError,
)
from dartes_worker.evaluate import Answering, Sampling, answer_keys, block_of, completions
from dartes_worker.master import Version
from dartes_worker.observer import Observer
from dartes_worker.setup import Equipment
from dartes_worker.snapshots import load_newest_good, prune, snapshot_path, unrecorded
from dartes_worker.timing import Stopwatch
from dartes_worker.weights.replica import replica_of

import numpy as np  # isort: skip

log = logging.getLogger(__name__)

PAGE_ROWS = 64
"""Journal rows fetched and applied in one pass over the memory."""

PARENT_MEMBER = 2**16 - 1
"""Stands for the unperturbed model where a sampling seed needs a member index."""

REFUSALS_BEFORE_GIVING_UP = 3


class ServedWeightsError(DartesError):
    """What the engine reads is not what was written: its weights are packed, copied or scaled somewhere."""


class Agent:
    """One worker process."""

    def __init__(
        self,
        client: CoordinatorClient,
        equipment: Equipment,
        snapshots: Path,
        observer: Observer | None = None,
    ) -> None:
        self._observer = observer or Observer()
        self._client = client
        self._equipment = equipment
        self._snapshots = snapshots
        self._watch = Stopwatch()
        self._replica = replica_of(
            equipment.engine, equipment.checkpoint, equipment.served, equipment.spec.workers.threads
        )
        self._header_hash = b""
        self._known_snapshots: list[wire.SnapshotInfo] = []
        self._unknown_snapshots: dict[str, int] = {}
        self._batch: tuple[int, list[int]] | None = None
        """Iteration and its problems, numbers within the stage."""
        self._written: tuple[bytes, int, float] | None = None
        self._next: wire.LeaseResponse | None = None
        self._refusals = 0
        self._draining = False

    def drain(self) -> None:
        """Leave after the present lease; from another thread, at any time."""
        self._draining = True
        self._client.interrupt()

    def run(self) -> ExitCode:
        """Serve until the run is done or the worker is drained."""
        while not self._draining:
            try:
                self._register()
                return self._serve()
            except IncarnationOverError as error:
                log.info("%s; registering again", error)
            except InterruptedWaitError:
                break
        log.info("drained")
        return ExitCode.DRAINED

    # Joining ---------------------------------------------------------------------------------------

    def _register(self) -> None:
        self._next = None  # of another incarnation
        request = self._equipment.registration(self._client.worker)
        if self._replica.version is not None:
            request.weights.CopyFrom(self._version())
        response = self._client.register(request)
        header_hash = hashlib.sha256(response.journal_header).digest()
        self._known_snapshots = list(response.snapshots)
        self._unknown_snapshots = unrecorded(self._snapshots, self._known_snapshots)
        if self._replica.version is None or header_hash != self._header_hash:
            self._header_hash = header_hash
            self._rebuild()
        else:
            self._attest(rebuilt=False)
        log.info(
            "registered with incarnation %d, weights of iteration %d",
            self._client.incarnation,
            self._at.iteration,
        )

    def _rebuild(self) -> None:
        """Weights from the newest good snapshot or the base model; the journal brings them up to date."""
        self._replica.discard()  # first, so that two masters never exist at once
        self._written = None  # what the engine holds was made from weights that are in doubt
        if not load_newest_good(self._replica, self._snapshots, self._known_snapshots):
            self._replica.load_base(self._header_hash)
        self._check_served()
        self._attest(rebuilt=True)

    def _check_served(self) -> None:
        """Write the parent and read it back where the engine reads it."""
        self._write(0, 0.0)
        expected, found = self._replica.served_digests()
        if expected.total != found.total:
            raise ServedWeightsError(
                f"the engine reads weights with digest {found.total[:16]}, {expected.total[:16]} was written"
            )

    # Serving ---------------------------------------------------------------------------------------

    def _serve(self) -> ExitCode:
        while not self._draining:
            with self._watch.part("wire"):
                # Most of the time the answer has come with the reply to the last report.
                response, self._next = self._next, None
                if response is None:
                    response = self._client.lease(self._version(), self._known_batch())
            if response is None:
                continue
            self._watch.move("wire", "idle", response.waited_seconds)
            match response.WhichOneof("action"):
                case "evaluate":
                    self._evaluate([response.evaluate, *response.more])
                case "apply":
                    self._catch_up(response.apply.up_to_iteration)
                case "snapshot":
                    self._snapshot(response.snapshot)
                case "rebuild":
                    log.warning("rebuilding the weights: %s", response.rebuild.reason)
                    self._rebuild()
                case "done":
                    log.info("the run is done")
                    return ExitCode.DONE
                case "drain":
                    break
                case _:
                    continue
        log.info("drained")
        return ExitCode.DRAINED

    def _evaluate(self, leases: Sequence[wire.EvaluateLease]) -> None:
        self._observer.told(leases[0].iteration)
        # The answers of one member are graded while the next one generates.
        begun = [self._begin(lease) for lease in leases]
        first, *more = [
            self._result(lease, batch, answering)
            for lease, (batch, answering) in zip(leases, begun, strict=True)
        ]
        self._observer.evaluated([first, *more])
        self._report(leases[0].lease_id, leases[0].iteration, evaluate=first, more=more)

    def _begin(self, lease: wire.EvaluateLease) -> tuple[list[int], Answering]:
        """Generate what a lease asks for; its grades follow."""
        equipment, run_seed = self._equipment, self._equipment.spec.es.seed
        if lease.kind == wire.EVALUATE_KIND_HELD_OUT:
            problems = equipment.held_out[lease.evaluation_set]
            batch = block_of(problems, lease.first_row, lease.row_count)
            sampling = Sampling.of_block(run_seed, lease.iteration, lease.evaluation_set, lease.first_row)
            slice_index, slices = 0, 1
        else:
            if lease.problems:
                self._batch = (lease.iteration, list(lease.problems))
            if self._batch is None or self._batch[0] != lease.iteration:
                raise IncarnationOverError("a lease refers to a batch that this worker was not told")
            problems, batch = equipment.stages[lease.stage], self._batch[1]
            member = lease.member if lease.kind == wire.EVALUATE_KIND_MEMBER else PARENT_MEMBER
            sampling = Sampling(run_seed, lease.iteration, member, lease.stage)
            slice_index, slices = lease.slice, lease.slices
        self._write(lease.seed, lease.sigma)
        answering = equipment.evaluator.answer(problems, batch, slice_index, slices, sampling, self._watch)
        return batch, answering

    def _result(
        self, lease: wire.EvaluateLease, batch: Sequence[int], answering: Answering
    ) -> wire.EvaluateResult:
        outcome = answering.outcome(self._while_waiting)
        result = outcome.to_wire()
        result.kind = lease.kind
        result.member = lease.member
        result.slice = lease.slice
        result.evaluation_set = lease.evaluation_set
        result.first_row = lease.first_row
        result.row_count = lease.row_count
        if lease.kind == wire.EVALUATE_KIND_HELD_OUT:
            problems = self._equipment.held_out[lease.evaluation_set]
            if problems.samples > 1:
                result.answer_keys = answer_keys(outcome.grades)
            result.completions.extend(completions(problems, batch, outcome, lease.log_completions))
        return result

    def _while_waiting(self) -> None:
        """A reward service may be away for hours: meanwhile the coordinator may restart, or a drain begin."""
        self._client.require_current()
        if self._draining and self._equipment.trouble.text:
            raise InterruptedWaitError("told to leave while rewards are unavailable")

    def _catch_up(self, iteration: int) -> None:
        replica = self._replica
        self._observer.told(iteration)
        while self._at.iteration < iteration:
            with self._watch.part("wire"):
                page = self._client.updates(self._at.iteration, PAGE_ROWS)
            rows = [
                JournalRow(
                    Iteration(row.iteration),
                    row.stage,
                    np.array(row.seeds, np.uint64),
                    np.array(row.coefficients, np.float32),
                )
                for row in page.rows
            ]
            with self._watch.part("update"):
                replica.apply(rows)
            if not rows or self._at.row_hash != page.rows[-1].row_hash:
                raise ServedWeightsError(
                    f"the journal's rows up to iteration {iteration} do not hash to what the coordinator says"
                )
        self._attest(rebuilt=False)

    def _snapshot(self, lease: wire.SnapshotLease) -> None:
        try:
            path = snapshot_path(self._snapshots, lease.iteration)
            digest = self._replica.write_snapshot(path)
        except OSError as error:
            if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
                raise
            raise TransientError(
                f"{self._snapshots}: the disk is full ({error.strerror}); free some space"
            ) from error
        keep = self._equipment.spec.checkpoint.keep
        prune(self._snapshots, lease.iteration, keep, self._unknown_snapshots)
        self._report(
            lease.lease_id,
            lease.iteration,
            snapshot=wire.SnapshotResult(
                iteration=lease.iteration,
                row_hash=self._at.row_hash,
                digest=digest.total,
                file=path.name,
            ),
        )

    def _report(
        self,
        lease_id: str,
        iteration: int,
        **result: wire.EvaluateResult | wire.SnapshotResult | list[wire.EvaluateResult],
    ) -> None:
        timings = self._watch.lap()
        try:
            with self._watch.part("wire"):
                question = self._client.question(self._version(), self._known_batch())
                reply = self._client.report(lease_id, iteration, timings, next=question, **result)
            self._next = reply.next if reply.HasField("next") else None
            self._refusals = 0
        except ReportRefusedError as error:
            self._refusals += 1
            log.error("report refused: %s", error)
            if self._refusals >= REFUSALS_BEFORE_GIVING_UP:
                raise

    def _write(self, seed: int, sigma: float) -> None:
        wanted = (self._at.row_hash, seed, sigma)
        if self._written == wanted:
            return  # the next slice of the same member, or the next block of an evaluation set
        with self._watch.part("write"):
            self._replica.write(seed, sigma)
        self._written = wanted

    def _attest(self, rebuilt: bool) -> None:
        with self._watch.part("update"):
            digest = self._replica.digest().total
        with self._watch.part("wire"):
            self._client.attest(self._version(), digest, rebuilt)
        self._observer.attested(self._at.iteration)

    @property
    def _at(self) -> Version:
        version = self._replica.version
        assert version is not None, "weights are loaded when the worker registers"
        return version

    def _known_batch(self) -> int:
        return 0 if self._batch is None else self._batch[0] + 1

    def _version(self) -> wire.WeightsVersion:
        return wire.WeightsVersion(iteration=self._at.iteration, row_hash=self._at.row_hash)
