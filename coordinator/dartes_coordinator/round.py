"""One iteration under way: its batch, its members, its leases and the answers so far.

Pure: the clock is passed in. When a round is complete it can be scored; committing it is the
coordinator's business.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dartes.difficulty import AlgorithmSettings, Batch, member_seeds, member_signs
from dartes.evaluation import blocks, logged_rows
from dartes.ids import Iteration
from dartes.v1 import population_pb2 as wire
from dartes_coordinator.collect import Answers, Grid, decode
from dartes_coordinator.errors import ReportError
from dartes_coordinator.evaluating import SetAnswers
from dartes_coordinator.leases import Grant, LeaseTable, LeaseTask, TaskKind
from dartes_coordinator.plan import EvaluationSetPlan

_WIRE_KIND = {
    TaskKind.MEMBER: wire.EVALUATE_KIND_MEMBER,
    TaskKind.PARENT: wire.EVALUATE_KIND_PARENT,
    TaskKind.HELD_OUT: wire.EVALUATE_KIND_HELD_OUT,
}


SHARES = frozenset({"tail_seconds", "alone_seconds"})
"""Timings that are shares of others, and so no parts of the whole."""


@dataclass(frozen=True)
class Costs:
    """Sums over the reports of a round: tokens, and seconds of workers by part."""

    prompt_tokens: int = 0
    generated_tokens: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    tail_seconds: float = 0.0
    """Shares of `generate` with few of a batch's sequences left, and with one."""
    alone_seconds: float = 0.0

    def plus(self, result: wire.EvaluateResult, timings: wire.Timings) -> "Costs":
        """These costs and those of one more report."""
        parts = {
            f.name: float(getattr(timings, f.name)) for f in timings.DESCRIPTOR.fields if f.name not in SHARES
        }
        return Costs(
            prompt_tokens=self.prompt_tokens + result.prompt_tokens,
            generated_tokens=self.generated_tokens + result.generated_tokens,
            seconds={name: self.seconds.get(name, 0.0) + value for name, value in parts.items()},
            tail_seconds=self.tail_seconds + timings.tail_seconds,
            alone_seconds=self.alone_seconds + timings.alone_seconds,
        )


class Round:
    """The leases and answers of one iteration.

    Parameters
    ----------
    batch
        None in the last round, which only evaluates the final weights.
    evaluations
        Evaluation sets that are due on this round's weights.
    stage
        The stage that the batch is of, as leases name it.
    log_completions
        Answers to each evaluation set that are asked for as text.
    """

    def __init__(
        self,
        settings: AlgorithmSettings,
        iteration: int,
        batch: Batch | None,
        slices: int,
        evaluate_parent: bool,
        evaluations: Mapping[str, EvaluationSetPlan],
        started: float,
        *,
        stage: int = 0,
        log_completions: int = 0,
    ) -> None:
        self.iteration = iteration
        self.batch = batch
        self.started = started
        self.slices = slices
        self.restarts = 0
        self.committed = False
        """Whether the answers are in the store: a round without a batch goes on after its commit."""
        self.costs = Costs()
        self.stage = stage
        self.log_completions = log_completions
        self._evaluation_sets = dict(evaluations)
        self._told: set[str] = set()
        self._seeds = member_seeds(settings, Iteration(iteration), stage)
        self._signed_sigma: NDArray[np.float32] = member_signs(settings) * np.float32(settings.sigma)
        members = 0 if batch is None else settings.population_size
        parents = 1 if evaluate_parent and batch is not None else 0
        self._shape = (members, parents, 0 if batch is None else batch.size)
        self.leases = LeaseTable(_tasks(members, parents, slices, evaluations))
        self._open_grids()

    @property
    def complete(self) -> bool:
        """Whether all answers are in."""
        return self.leases.complete

    def lease(self, grant: Grant, worker: str, lease_id: str, knows_batch: bool) -> wire.EvaluateLease:
        """The wire's form of a granted task.

        The batch is left out only where this round has told it to the worker before: the one that a worker
        brings along may be of a history that a damaged store has lost.
        """
        task = grant.task
        message = wire.EvaluateLease(
            lease_id=lease_id,
            attempt=grant.attempt,
            kind=_WIRE_KIND[task.kind],
            iteration=self.iteration,
        )
        if task.kind is TaskKind.HELD_OUT:
            message.evaluation_set = task.set_name
            message.first_row = task.first_row
            message.row_count = task.row_count
            message.log_completions = logged_rows(self.log_completions, task.first_row, task.row_count)
            return message
        if task.kind is TaskKind.MEMBER:
            message.member = task.member
            message.seed = int(self._seeds[task.member])
            message.sigma = float(self._signed_sigma[task.member])
        message.stage = self.stage
        message.slice = task.slice_index
        message.slices = self.slices
        if self.batch is not None and not (knows_batch and worker in self._told):
            message.problems.extend(self.batch.problems.tolist())
            self._told.add(worker)
        return message

    def report(self, worker: str, result: wire.EvaluateResult, timings: wire.Timings, now: float) -> bool:
        """Take a report. Returns False where the task had been filled before.

        Raises
        ------
        ReportError
            It is for no task of this round, or does not fit it.
        """
        task = _task_of(result)
        if task not in self.leases.known:
            raise ReportError(f"no such lease in iteration {self.iteration}: {task}")
        content = hashlib.sha256(result.SerializeToString(deterministic=True)).digest()
        if task.kind is TaskKind.HELD_OUT:
            block = self.evaluations[task.set_name].read(result)
            if not self.leases.fill(task, worker, content, now):
                return False
            self.evaluations[task.set_name].put(block)
        else:
            grid, row, answers = self._place(task, result)
            if not self.leases.is_filled(task):
                grid.check(row, answers)
            if not self.leases.fill(task, worker, content, now):
                return False
            grid.put(row, answers)
        self.costs = self.costs.plus(result, timings)
        return True

    def member_seconds(self) -> float | None:
        """Seconds of a worker's time that one task took on average; None where no report told."""
        spent = sum(self.costs.seconds.get(part, 0.0) for part in ("write", "generate", "grade"))
        return spent / self.leases.done_count if spent > 0 and self.leases.done_count else None

    def gaps(self) -> str | None:
        """What a complete round misses all the same, in words, or None."""
        for what, grid in (("member", self.members), ("parent", self.parent)):
            rows = grid.uncovered()
            if rows:
                return f"{what} {rows[0]}: its {self.slices} slices do not cover the batch"
        return None

    def restart(self, started: float) -> None:
        """Forget every answer and lease: the weights that gave them were wrong."""
        self.leases.reset()
        self.restarts += 1
        self.committed = False
        self.started = started
        self.costs = Costs()
        self._open_grids()

    def _open_grids(self) -> None:
        members, parents, size = self._shape
        self.members = Grid(members, size)
        self.parent = Grid(parents, size)
        self.evaluations = {
            name: SetAnswers(plan, self.log_completions) for name, plan in self._evaluation_sets.items()
        }

    def _place(self, task: LeaseTask, result: wire.EvaluateResult) -> tuple[Grid, int, Answers]:
        if task.kind is TaskKind.MEMBER:
            return self.members, task.member, decode(result, self.members.size)
        return self.parent, 0, decode(result, self.parent.size)


def _tasks(
    members: int, parents: int, slices: int, evaluations: Mapping[str, EvaluationSetPlan]
) -> Sequence[LeaseTask]:
    # Blocks of evaluation sets are the longest pieces, so they go first and the iteration ends evenly.
    tasks = [
        LeaseTask(TaskKind.HELD_OUT, set_name=name, first_row=first, row_count=rows)
        for name, plan in evaluations.items()
        for first, rows in blocks(plan.size, plan.samples)
    ]
    tasks += [LeaseTask(TaskKind.PARENT, slice_index=k) for _ in range(parents) for k in range(slices)]
    tasks += [
        LeaseTask(TaskKind.MEMBER, member=i, slice_index=k) for i in range(members) for k in range(slices)
    ]
    return tasks


def _task_of(result: wire.EvaluateResult) -> LeaseTask:
    if result.kind == wire.EVALUATE_KIND_HELD_OUT:
        return LeaseTask(
            TaskKind.HELD_OUT,
            set_name=result.evaluation_set,
            first_row=result.first_row,
            row_count=result.row_count,
        )
    if result.kind == wire.EVALUATE_KIND_PARENT:
        return LeaseTask(TaskKind.PARENT, slice_index=result.slice)
    if result.kind == wire.EVALUATE_KIND_MEMBER:
        return LeaseTask(TaskKind.MEMBER, member=result.member, slice_index=result.slice)
    raise ReportError("a report must name its kind")
