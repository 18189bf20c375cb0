"""Grades a batch of answers in grader processes. An answer that hangs or kills its grader costs itself only.

The rule for a lost grader: everything it did not grade is tried once more in a fresh process, answer by
answer; the answer that a grader is lost in *there* fails. A process killed from outside, or a machine that
stalled, then costs nothing, while an answer that really hangs or kills does so twice. Grading is pure, so
trying again is harmless.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import TracebackType
from typing import Self

from dartes.rewards.opening import GraderContext
from dartes.rewards.process import GraderLostError, GraderProcess, GraderStartError
from dartes.rewards.protocol import PAIR_LIMIT, GradeRequest, encoded
from dartes.tasks.base import Grade, Row, TaskDescription, TaskSettings
from dartes.tasks.registry import task_address

ANSWER_LIMIT = 65_536
"""Characters of an answer that are graded; what follows is cut off before the answer is sent."""

CHUNK_BYTES = 4 * 1024 * 1024
"""Answers are sent with their rows in requests of this size, so that neither side holds a huge one.

A row that is larger by itself has a request of its own.
"""

START_ATTEMPTS = 3


def open_pool(task: TaskDescription, context: GraderContext) -> "GradingPool":
    """The grader `parser`: a task's own `grade`, in grader processes. See `dartes.rewards.opening`."""
    return GradingPool(task, context.seconds_per_answer, context.processes)


class GradingPool:
    """Persistent grader processes for one task. Not to be used by two threads at once.

    Parameters
    ----------
    task_spec
        The job's `task` section.
    seconds_per_answer
        Wall time that one answer may take; a grader that takes longer is killed.
    processes
        Number of grader processes; a batch is divided among them.
    address
        `module:class` of the task; found by `task_spec.kind` if not given.
    clock
        Seconds that only grow, for the time limits.
    """

    def __init__(
        self,
        task_spec: TaskDescription,
        seconds_per_answer: float,
        processes: int = 1,
        *,
        address: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if processes < 1 or seconds_per_answer <= 0:
            raise ValueError("a pool needs at least one process and a positive time limit")
        self._address = address or task_address(task_spec.kind)
        self._settings = TaskSettings.of(task_spec)
        self._seconds = seconds_per_answer
        self._clock = clock
        self._graders: list[GraderProcess] = []
        self._threads = ThreadPoolExecutor(processes, "grading") if processes > 1 else None
        self._graders.extend(self._start() for _ in range(processes))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all grader processes."""
        if self._threads is not None:
            self._threads.shutdown()
        for grader in self._graders:
            grader.close()

    @property
    def process_ids(self) -> tuple[int, ...]:
        """Process ids of the graders, which a restart changes."""
        return tuple(grader.process_id for grader in self._graders)

    def grade(self, rows: Sequence[Row], completions: Sequence[str]) -> list[Grade]:
        """Grade `completions[i]`, an answer to `rows[i]`; one grade each, in order.

        An answer that could not be graded fails, with the reason "timed out", "grader died (how)" or that its
        problem is too large. Raises `GraderStartError` where no grader process can be started at all.
        """
        if len(rows) != len(completions):
            raise ValueError(f"{len(rows)} rows for {len(completions)} answers")
        if self._threads is None:
            return self._grade_part(0, rows, completions)
        count = len(self._graders)
        bounds = pairwise(len(rows) * part // count for part in range(count + 1))
        parts = [(part, rows[low:high], completions[low:high]) for part, (low, high) in enumerate(bounds)]
        graded = self._threads.map(lambda part: self._grade_part(*part), parts)
        return [grade for part in graded for grade in part]

    def _grade_part(self, which: int, rows: Sequence[Row], completions: Sequence[str]) -> list[Grade]:
        grades: list[Grade] = []
        careful = False
        while len(grades) < len(rows):
            request = next_request(rows, completions, len(grades), self._seconds, careful)
            if not request.rows:
                grades.append(Grade.of(f"its problem has more than the {PAIR_LIMIT:,} bytes that are graded"))
                continue
            grader = self._ready_grader(which)
            try:
                grader.grade(request, grades.append)
            except GraderLostError as lost:
                if careful:
                    grades.append(Grade.of(str(lost)))
                careful = True
                self._restart(which)
        return grades

    def _ready_grader(self, which: int) -> GraderProcess:
        for attempt in range(1, START_ATTEMPTS + 1):
            try:
                self._graders[which].wait_until_ready()
                break
            except GraderLostError as lost:
                self._restart(which)
                if attempt == START_ATTEMPTS:
                    raise GraderStartError(
                        f"the grader of task '{self._settings.kind}' does not start: {lost}"
                    ) from lost
        return self._graders[which]

    def _start(self) -> GraderProcess:
        return GraderProcess(self._address, self._settings, self._clock)

    def _restart(self, which: int) -> None:
        self._graders[which].close()
        self._graders[which] = self._start()


def next_request(
    rows: Sequence[Row], completions: Sequence[str], start: int, seconds: float, careful: bool
) -> GradeRequest:
    """The answers from `start` on, with their rows; none where the first is too large for any request."""
    asked: list[str] = []
    answers: list[str] = []
    size = 0
    for position in range(start, len(rows)):
        row, answer = encoded(rows[position]), encoded(completions[position][:ANSWER_LIMIT])
        size += len(row) + len(answer) + 2  # the commas
        if size > (CHUNK_BYTES if asked else PAIR_LIMIT):
            break
        asked.append(row)
        answers.append(answer)
    return GradeRequest(asked, answers, seconds, careful)
