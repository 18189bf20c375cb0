"""A coordinator that follows a script, for the loop of a worker; its journal has four rows."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from dartes.ids import Iteration
from dartes.journal import JournalRow, chain
from dartes.noise import ServedDtype
from dartes.v1 import population_pb2 as wire
from dartes_worker.agent import Agent
from dartes_worker.client import CoordinatorClient
from dartes_worker.master import MasterWeights
from dartes_worker.setup import Equipment

HEADER = b"the journal's header"
START = hashlib.sha256(HEADER).digest()
ROWS = [
    JournalRow(Iteration(k), 0, np.array([k, k + 10], np.uint64), np.array([1e-3, -2e-3], np.float32))
    for k in range(4)
]
HASHES = chain(START, ROWS)
DONE = wire.LeaseResponse(done=wire.DoneAction())
BATCH = [3, 1, 4, 15, 9, 2, 6, 5, 30, 29, 28, 27]


class ScriptedClient:
    """A client whose coordinator has a list of actions, and remembers what it was told."""

    incarnation = 1

    worker = "worker-0"

    def __init__(self, *script: wire.LeaseResponse | Exception | None) -> None:
        self.script = list(script)
        self.snapshots: list[wire.SnapshotInfo] = []
        self.registered: list[wire.RegisterRequest] = []
        self.asked: list[tuple[int, int]] = []
        self.attested: list[tuple[int, str, bool]] = []
        self.reports: list[tuple[str, int, wire.EvaluateResult | wire.SnapshotResult]] = []
        self.refusals: list[Exception | None] = []
        self.questions: list[tuple[int, int]] = []
        self.more: list[list[wire.EvaluateResult]] = []
        self.carried: list[wire.LeaseResponse | None] = []
        self.page = 2
        self.interrupted = False
        self.before_lease: Callable[[], None] = lambda: None
        self.while_waiting: Callable[[], None] = lambda: None

    def register(self, request: wire.RegisterRequest) -> wire.RegisterResponse:
        self.registered.append(request)
        return wire.RegisterResponse(incarnation=1, journal_header=HEADER, snapshots=self.snapshots)

    def lease(self, weights: wire.WeightsVersion, known_batch: int) -> wire.LeaseResponse | None:
        self.before_lease()
        self.asked.append((weights.iteration, known_batch))
        action = self.script.pop(0)
        if isinstance(action, Exception):
            raise action
        return action

    def updates(self, start: int, limit: int) -> wire.UpdatesResponse:
        rows = [
            wire.UpdateRow(
                iteration=row.iteration,
                seeds=row.seeds.tolist(),
                coefficients=row.coefficients.tolist(),
                row_hash=HASHES[row.iteration],
            )
            for row in ROWS[start : start + min(self.page, limit)]
        ]
        return wire.UpdatesResponse(rows=rows)

    def question(self, weights: wire.WeightsVersion, known_batch: int) -> wire.LeaseRequest:
        return wire.LeaseRequest(worker=self.worker, weights=weights, known_batch=known_batch)

    def report(
        self, lease_id: str, iteration: int, _timings: wire.Timings, **result: Any
    ) -> wire.ReportResponse:
        refusal = self.refusals.pop(0) if self.refusals else None
        if refusal is not None:
            raise refusal
        question = result.pop("next")
        self.more.append(result.pop("more", []))
        ((_, content),) = result.items()
        self.reports.append((lease_id, iteration, content))
        self.questions.append((question.weights.iteration, question.known_batch))
        carried = self.carried.pop(0) if self.carried else None
        return wire.ReportResponse(accepted=True, next=carried)

    def attest(self, weights: wire.WeightsVersion, digest: str, rebuilt: bool) -> None:
        self.attested.append((weights.iteration, digest, rebuilt))

    def interrupt(self) -> None:
        self.interrupted = True

    def require_current(self) -> None:
        self.while_waiting()


def agent_of(client: ScriptedClient, equipment: Equipment, snapshots: Path) -> Agent:
    """An agent of a scripted coordinator."""
    return Agent(cast("CoordinatorClient", client), equipment, snapshots)


def member(
    lease_id: str, *, seed: int = 5, sigma: float = 0.003, problems: Sequence[int] = (), **fields: Any
) -> wire.LeaseResponse:
    """A lease of a member; with `problems` where the worker does not know the batch yet."""
    lease = wire.EvaluateLease(
        lease_id=lease_id,
        kind=wire.EVALUATE_KIND_MEMBER,
        seed=seed,
        sigma=sigma,
        problems=problems,
        **{"slices": 1, "member": 2, **fields},
    )
    return wire.LeaseResponse(evaluate=lease)


def apply(iteration: int) -> wire.LeaseResponse:
    """The order to catch up."""
    return wire.LeaseResponse(apply=wire.ApplyAction(up_to_iteration=iteration))


def rebuild() -> wire.LeaseResponse:
    """The order to build the weights anew."""
    return wire.LeaseResponse(rebuild=wire.RebuildAction(reason="doubt"))


def snapshot(lease_id: str, iteration: int) -> wire.LeaseResponse:
    """The order to write the weights down."""
    return wire.LeaseResponse(snapshot=wire.SnapshotLease(lease_id=lease_id, iteration=iteration))


def weights_after(equipment: Equipment, iterations: int) -> MasterWeights:
    """The base model's weights with so many rows of the journal applied."""
    master = MasterWeights.load(equipment.checkpoint, ServedDtype.FLOAT32, START)
    master.apply(ROWS[:iterations])
    return master


def digest_after(equipment: Equipment, iterations: int) -> str:
    """Their digest."""
    return weights_after(equipment, iterations).digest().total


def snapshot_of(equipment: Equipment, folder: Path, iteration: int) -> wire.SnapshotInfo:
    """Write the snapshot that an earlier worker would have written."""
    path = folder / f"iteration-{iteration:08d}.safetensors"
    master = weights_after(equipment, iteration)
    digest = master.write_snapshot(path).total
    return wire.SnapshotInfo(
        iteration=iteration, row_hash=master.version.row_hash, digest=digest, file=path.name
    )
