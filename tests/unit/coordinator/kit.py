"""A run without gRPC and without a model: a tiny plan, a clock by hand, and workers whose answers are hashes.

A fake worker's weights are its row hash, so its answers follow from the chain, the member and the problem,
as a real worker's do.
"""

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dartes.difficulty import (
    AlgorithmSettings,
    DifficultyState,
    Results,
    advance,
    draw_batch,
    judge,
    member_seeds,
    member_signs,
    one_stage,
    score,
)
from dartes.ids import Iteration
from dartes.journal import JournalRow, row_hash
from dartes.noise import NOISE_VERSION
from dartes.rpc import PROTOCOL_VERSION
from dartes.rpc.encoding import pack_bits, pack_floats
from dartes.state import RunFolder
from dartes.state.history import journal_row
from dartes.v1 import population_pb2 as wire
from dartes_coordinator.admission import header_for
from dartes_coordinator.coordinator import Coordinator
from dartes_coordinator.faults import FaultPlan
from dartes_coordinator.plan import EvaluationSetPlan, RunPlan
from dartes_coordinator.start import open_plan

PROBLEMS = 24
HELD_OUT = 5
BASE = "base-digest"


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def pass_by(self, seconds: float) -> float:
        self.now += seconds
        return self.now


def settings(**changes: Any) -> AlgorithmSettings:
    """Four members, batches of 6 of one data set, five iterations; the stage's length by its own names."""
    plain: dict[str, Any] = {"population_size": 4, "batch_size": 6, "seed": 7}
    if "stages" not in changes:
        length = {name: changes.pop(name) for name in ("iterations", "epochs") if name in changes}
        plain["stages"] = one_stage(**(length or {"iterations": 5}))
    return AlgorithmSettings(**(plain | changes))


def plan(algorithm: AlgorithmSettings | None = None, **changes: Any) -> RunPlan:
    """A plan on 24 problems with a held-out set of 5, evaluated every second iteration."""
    chosen = algorithm or settings()
    plain = RunPlan(
        name="tiny",
        settings=chosen,
        algorithm_digest="algorithm-digest",
        algorithm_fields={"es.seed": chosen.seed, "es.populationSize": chosen.population_size},
        problem_counts=((PROBLEMS,),),
        data_digests={"train": "train-digest", "held-out": "held-out-digest"},
        evaluation_sets={"held-out": EvaluationSetPlan(HELD_OUT)},
        evaluate_every=2,
    )
    return replace(plain, **changes)


def registration(worker: str, run: RunPlan, /, **changes: Any) -> wire.RegisterRequest:
    """What a good worker says when it registers."""
    good: dict[str, Any] = {
        "worker": worker,
        "protocol": PROTOCOL_VERSION,
        "fingerprint": '{"engine": "fake"}',
        "base_digest": BASE,
        "data": [wire.DataDigest(name=n, digest=d) for n, d in run.data_digests.items()],
        "algorithm_digest": run.algorithm_digest,
        "noise_version": str(NOISE_VERSION),
        "tensors": [wire.TensorShape(name="w", shape=[2, 3])],
    }
    return wire.RegisterRequest(**(good | changes))


def passes(weights: bytes, seed: int, sigma: float, problem: str) -> bool:
    """Whether a model solves a problem: a coin that everybody throws alike."""
    return hashlib.sha256(f"{weights.hex()} {seed} {sigma} {problem}".encode()).digest()[0] < 128


def score_of(weights: bytes, seed: int, sigma: float, problem: str) -> float:
    """What a grader that gives numbers says of a model's answer, of eight values."""
    return hashlib.sha256(f"{weights.hex()} {seed} {sigma} {problem}".encode()).digest()[1] % 8 / 4


def problem_name(stage: int, problem: int) -> str:
    """Tells the problems of all stages apart."""
    return f"{stage}/{problem}" if stage else str(problem)


def weight_digest(weights: bytes) -> str:
    """The digest of weights that `weights`, a row hash, stands for."""
    return hashlib.sha256(b"weights" + weights).hexdigest()


@dataclass
class FakeWorker:
    """One worker process; `weights` is its (iteration, row hash)."""

    name: str
    plan: RunPlan
    incarnation: int = 0
    iteration: int = 0
    weights: bytes = b""
    corrupt: bytes = b""
    """Not empty: the weights are not what the chain says."""
    batch: tuple[int, list[int]] | None = None
    waits: int = 0
    seconds: float = 0.5
    """What a report says its members took."""
    snapshots: list[int] = field(default_factory=list)

    def register(self, coordinator: Coordinator, now: float) -> None:
        """Register; new or unknown weights are built from the base model."""
        request = registration(self.name, self.plan)
        if self.weights:
            request.weights.CopyFrom(self.version())
        response = coordinator.register(request, now)
        self.incarnation = response.incarnation
        base = hashlib.sha256(response.journal_header).digest()
        if not self.weights:
            self.rebuild(base)
            self.attest(coordinator, now, rebuilt=True)
        else:
            self.attest(coordinator, now)

    def rebuild(self, base: bytes) -> None:
        """Back to the base model."""
        self.iteration, self.weights, self.corrupt = 0, base, b""

    def version(self) -> wire.WeightsVersion:
        return wire.WeightsVersion(iteration=self.iteration, row_hash=self.weights)

    def attest(self, coordinator: Coordinator, now: float, rebuilt: bool = False) -> None:
        coordinator.attest(
            wire.AttestRequest(
                worker=self.name,
                incarnation=self.incarnation,
                weights=self.version(),
                digest=weight_digest(self.weights + self.corrupt),
                rebuilt=rebuilt,
            ),
            now,
        )

    def ask(self, coordinator: Coordinator, now: float) -> wire.LeaseResponse | None:
        """Ask for something to do."""
        request = wire.LeaseRequest(
            worker=self.name,
            incarnation=self.incarnation,
            weights=self.version(),
            known_batch=0 if self.batch is None else self.batch[0] + 1,
        )
        coordinator.asked(request, now)
        return coordinator.next_action(request, now)

    def do(self, coordinator: Coordinator, action: wire.LeaseResponse, now: float) -> bool | None:
        """Do what was said and report it; for an evaluation, whether the report was accepted."""
        if action.HasField("apply"):
            self.catch_up(coordinator)
            self.attest(coordinator, now)
        elif action.HasField("rebuild"):
            header = coordinator.run.progress.header
            assert header is not None
            self.rebuild(hashlib.sha256(header).digest())
            self.attest(coordinator, now, rebuilt=True)
        elif action.HasField("snapshot"):
            self.snapshots.append(action.snapshot.iteration)
            return coordinator.report(self.snapshot_report(action.snapshot), now)
        elif action.HasField("evaluate"):
            report = self.answer(action.evaluate)
            report.more.extend(self.answer(lease).evaluate for lease in action.more)
            return coordinator.report(report, now)
        return None

    def step(self, coordinator: Coordinator, now: float) -> str | None:
        """Ask and do; the name of the action, or None where there was none."""
        action = self.ask(coordinator, now)
        if action is None:
            return None
        self.do(coordinator, action, now)
        name: str | None = action.WhichOneof("action")
        return name

    def catch_up(self, coordinator: Coordinator) -> None:
        request = wire.UpdatesRequest(
            worker=self.name, incarnation=self.incarnation, from_iteration=self.iteration, limit=2
        )
        for row in coordinator.updates(request).rows:
            update = JournalRow(
                Iteration(row.iteration),
                row.stage,
                np.array(row.seeds, np.uint64),
                np.array(row.coefficients, np.float32),
            )
            self.weights = row_hash(self.weights, update)
            assert self.weights == row.row_hash
            self.iteration += 1

    def answer(self, lease: wire.EvaluateLease) -> wire.ReportRequest:
        """The report on a lease."""
        if lease.kind == wire.EVALUATE_KIND_HELD_OUT:
            names = [f"{lease.evaluation_set} {lease.first_row + row}" for row in range(lease.row_count)]
            positions: list[int] = []
        else:
            if lease.problems:
                self.batch = (lease.iteration, list(lease.problems))
            assert self.batch is not None
            assert self.batch[0] == lease.iteration
            size = len(self.batch[1])
            positions = list(
                range(lease.slice * size // lease.slices, (lease.slice + 1) * size // lease.slices)
            )
            names = [problem_name(lease.stage, self.batch[1][p]) for p in positions]
        bits = np.array(
            [passes(self.weights + self.corrupt, lease.seed, lease.sigma, name) for name in names], np.bool_
        )
        scores = np.array(
            [score_of(self.weights + self.corrupt, lease.seed, lease.sigma, name) for name in names],
            np.float32,
        )
        if lease.kind == wire.EVALUATE_KIND_HELD_OUT:
            needed = self.plan.evaluation_sets[lease.evaluation_set].against_base
        else:
            needed = any(one.rules.needs_scores for one in self.plan.settings.stages[lease.stage].sets)
        return wire.ReportRequest(
            worker=self.name,
            incarnation=self.incarnation,
            lease_id=lease.lease_id,
            iteration=lease.iteration,
            evaluate=wire.EvaluateResult(
                kind=lease.kind,
                member=lease.member,
                slice=lease.slice,
                evaluation_set=lease.evaluation_set,
                first_row=lease.first_row,
                row_count=lease.row_count,
                positions=positions,
                passed=pack_bits(bits),
                truncated=pack_bits(~bits),
                scores=pack_floats(scores) if needed else None,
                prompt_tokens=2 * len(names),
                generated_tokens=3 * len(names),
            ),
            timings=wire.Timings(generate=self.seconds),
        )

    def snapshot_report(self, lease: wire.SnapshotLease) -> wire.ReportRequest:
        return wire.ReportRequest(
            worker=self.name,
            incarnation=self.incarnation,
            lease_id=lease.lease_id,
            iteration=lease.iteration,
            snapshot=wire.SnapshotResult(
                iteration=lease.iteration,
                row_hash=self.weights,
                digest=weight_digest(self.weights + self.corrupt),
                file=f"iteration-{lease.iteration}.safetensors",
            ),
        )


def opened(
    folder: RunFolder, run: RunPlan, clock: Clock | None = None, faults: FaultPlan | None = None
) -> Coordinator:
    """A coordinator on a run that is not finished."""
    coordinator = open_plan(folder, run, clock or Clock(), lambda _: faults or FaultPlan())
    assert coordinator is not None
    return coordinator


def run_until(
    coordinator: Coordinator, workers: list[FakeWorker], clock: Clock, iteration: int | None = None
) -> None:
    """Let registered workers take turns until `iteration` iterations are committed, or the run is done."""
    for _ in range(10_000):
        for worker in workers:
            if coordinator.done or coordinator.run.progress.iteration == iteration:
                return
            worker.step(coordinator, clock.pass_by(0.1))
    raise AssertionError("the run does not move on")


def finished_folder(path: Path, run: RunPlan, iteration: int | None = None) -> RunFolder:
    """A folder in which one worker has done `iteration` iterations (None: all), and nobody is at it."""
    folder, clock = RunFolder(path), Clock()
    path.mkdir(exist_ok=True)
    coordinator = opened(folder, run, clock)
    worker = FakeWorker("w", run)
    worker.register(coordinator, clock())
    run_until(coordinator, [worker], clock, iteration)
    coordinator.close()
    return folder


def expected_hashes(run: RunPlan) -> tuple[list[bytes], str]:
    """Row hashes and difficulty state digest of the whole run, computed without any coordinator."""
    state = DifficultyState(run.problem_counts)
    header = header_for(run, registration("w", run))
    hashes = [hashlib.sha256(header).digest()]
    signs = member_signs(run.settings) * np.float32(run.settings.sigma)
    while True:
        iteration = Iteration(len(hashes) - 1)
        batch = draw_batch(run.settings, state, iteration)
        if batch is None:
            return hashes, state.digest()
        seeds = member_seeds(run.settings, iteration, batch.stage)
        names = [problem_name(batch.stage, p) for p in batch.problems]
        models = [(int(s), float(sigma)) for s, sigma in zip(seeds, signs, strict=True)]
        passed = np.array([[passes(hashes[-1], *model, name) for name in names] for model in models])
        scores = np.array(
            [[score_of(hashes[-1], *model, name) for name in names] for model in [*models, (0, 0.0)]],
            np.float32,
        )
        grades = Results(passed, scores[:-1])
        scored = score(run.settings, state, batch, judge(run.settings, state, batch, grades, scores[-1]))
        hashes.append(row_hash(hashes[-1], journal_row(run.settings, iteration, batch.stage, scored)))
        advance(run.settings, state, batch, scored)
