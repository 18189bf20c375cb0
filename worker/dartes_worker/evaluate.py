"""Answer and grade a list of problems with whatever weights the engine holds.

Groups, sampling seeds and grades are pure functions of the batch and the job, so every worker gets the
same answers for the same lease. Grading runs beside generation, in one thread of its own.
"""

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dartes.noise.streams import MEMBER_LIMIT, sampling_seed
from dartes.rpc.encoding import pack_bits, pack_floats
from dartes.tasks.base import Grade, Prompt
from dartes.v1 import population_pb2 as wire
from dartes_worker.engines.base import ContinuousEngine, Engine, Generation, generate_all
from dartes_worker.groups import generation_groups, slice_of
from dartes_worker.problems import ProblemSet
from dartes_worker.timing import Stopwatch

PROMPT_CHARACTERS = 4_000
"""Characters of a prompt that are sent along with an answer for people to read."""

ANSWER_CHARACTERS = 8_000

LOOK_SECONDS = 1.0
"""How often one looks up while grades are waited for."""

NO_ROOM = "the prompt leaves the model no room for an answer"

_EVALUATION_STAGE = 1 << 23
"""Sampling streams of evaluation sets start here; those of training stages lie below."""

_GROUPS_OF_A_BLOCK = 1024
"""No block has more: it is of so many answers at most (`evaluation.sets[].samples` ends there)."""


@dataclass(frozen=True)
class Sampling:
    """What the seed of a sampled group is made from; greedy decoding ignores it."""

    run_seed: int
    iteration: int
    member: int
    stage: int = 0
    first_group: int = 0

    @classmethod
    def of_block(cls, run_seed: int, iteration: int, set_name: str, first_row: int) -> "Sampling":
        """Of a block of an evaluation set: a stream for each name, so that sets may come and go."""
        name = int.from_bytes(hashlib.sha256(set_name.encode()).digest()[:3], "big") % _EVALUATION_STAGE
        overflow, member = divmod(first_row, MEMBER_LIMIT)
        stage = _EVALUATION_STAGE + name
        return cls(run_seed, iteration, member, stage, overflow * _GROUPS_OF_A_BLOCK)

    def seeds(self, first: int, count: int) -> list[int]:
        """Seeds of the groups `first` and following."""
        return [
            sampling_seed(
                self.run_seed, self.stage, self.iteration, self.member, self.first_group + first + number
            )
            for number in range(count)
        ]


@dataclass(frozen=True)
class Outcome:
    """Answers to a slice: positions in the batch, and per position what was generated and earned.

    `scores` is None where scores decide nothing.
    """

    positions: tuple[int, ...]
    whole: bool
    generations: tuple[Generation, ...]
    grades: tuple[Grade, ...]
    passed: NDArray[np.bool_]
    scores: NDArray[np.float32] | None
    auxiliary: NDArray[np.float32]
    prompt_tokens: int

    def to_wire(self) -> wire.EvaluateResult:
        """As it travels; positions are left out where the whole batch was answered."""
        truncated = np.fromiter((g.truncated for g in self.generations), np.bool_, len(self.generations))
        result = wire.EvaluateResult(
            positions=() if self.whole else self.positions,
            passed=pack_bits(self.passed),
            truncated=pack_bits(truncated),
            prompt_tokens=self.prompt_tokens,
            generated_tokens=sum(g.token_count for g in self.generations),
        )
        if self.scores is not None and not np.array_equal(self.scores, self.passed.astype(np.float32)):
            result.scores = pack_floats(self.scores)
        if self.auxiliary.any():
            result.auxiliary = pack_floats(self.auxiliary)
        return result


class Answering:
    """Answers that are generated, and whose grades may still be under way."""

    def __init__(
        self,
        problems: ProblemSet,
        size: int,
        generations: dict[int, Generation],
        grades: Sequence[tuple[tuple[int, ...], Future[list[Grade]]]],
        unfit: Sequence[int],
        prompt_tokens: int,
        watch: Stopwatch,
    ) -> None:
        self._unfit = unfit
        self._problems = problems
        self._size = size
        self._generations = generations
        self._grades = grades
        self._prompt_tokens = prompt_tokens
        self._watch = watch

    def outcome(self, meanwhile: Callable[[], None] = lambda: None) -> Outcome:
        """Wait for the grades; raises what the grader raised.

        Grading may take as long as a reward service is away. `meanwhile` is called about once a second, and
        what it raises ends the waiting.
        """
        by_position: dict[int, Grade] = {}
        with self._watch.part("grade"):
            for positions, future in self._grades:
                by_position.update(zip(positions, _wait_for(future, meanwhile), strict=True))
        for position in self._unfit:
            by_position[position] = replace(by_position[position], passed=False, reason=NO_ROOM)
        positions = tuple(sorted(by_position))
        grades = tuple(by_position[p] for p in positions)
        scores = np.array([g.score for g in grades], np.float32)
        return Outcome(
            positions=positions,
            whole=len(positions) == self._size,
            generations=tuple(self._generations[p] for p in positions),
            grades=grades,
            passed=np.array([g.passed for g in grades], np.bool_),
            scores=scores if self._problems.needs_scores else None,
            auxiliary=np.array([g.auxiliary for g in grades], np.float32),
            prompt_tokens=self._prompt_tokens,
        )


def _wait_for(future: Future[list[Grade]], meanwhile: Callable[[], None]) -> list[Grade]:
    while True:
        try:
            return future.result(LOOK_SECONDS)
        except TimeoutError:
            if future.done():
                raise  # the grader's own
            meanwhile()


class Evaluator:
    """Answers problems with an engine and has them graded beside.

    Parameters
    ----------
    context_length
        Tokens that the model takes, prompt and answer together; None where it has no limit. A prompt that
        leaves no room for `generation.maxNewTokens` is not answered: it fails, and counts as cut off.
    """

    def __init__(self, engine: Engine, context_length: int | None = None) -> None:
        self.engine = engine
        self._context_length = context_length
        # One thread: graders are not to be called by two at once, and grades come in order.
        self._grading = ThreadPoolExecutor(1, "grading")

    def close(self) -> None:
        """Wait for what is being graded."""
        self._grading.shutdown(cancel_futures=True)

    def answer(
        self,
        problems: ProblemSet,
        batch: Sequence[int],
        slice_index: int,
        slices: int,
        sampling: Sampling,
        watch: Stopwatch,
    ) -> Answering:
        """Generate slice `slice_index` of `slices` of the batch; grades follow.

        `batch` holds problem numbers in batch order; a problem may stand there several times, as samples.
        """
        tokens = problems.encoded(self.engine, batch)
        fitting = [p for p, ids in enumerate(tokens) if self.fits(len(ids), problems)]
        groups = [
            tuple(fitting[at] for at in group)
            for group in generation_groups(
                [len(tokens[p]) for p in fitting], problems.limits.max_new_tokens, problems.token_budget
            )
        ]
        # Those that can't be answered go with the first slice, graded as no answer at all.
        unfit = tuple(sorted(set(range(len(batch))) - set(fitting))) if slice_index == 0 else ()
        first = slice_index * len(groups) // slices
        generations: dict[int, Generation] = {}
        graded: list[tuple[tuple[int, ...], Future[list[Grade]]]] = []

        def answered(positions: tuple[int, ...], made: Sequence[Generation]) -> None:
            generations.update(zip(positions, made, strict=True))
            asked, texts = [batch[p] for p in positions], [g.text for g in made]
            graded.append((positions, self._grading.submit(problems.grade, asked, texts, sampling.iteration)))

        if unfit:
            answered(unfit, [Generation("", 0, truncated=True)] * len(unfit))
        own = slice_of(groups, slice_index, slices)
        seeds = sampling.seeds(first, len(own)) if problems.limits.temperature > 0 else None
        prompts = [[tokens[p] for p in group] for group in own]
        answers = generate_all(self.engine, prompts, problems.limits, seeds)
        while True:
            with watch.part("generate"):
                made = next(answers, None)
            if made is None:
                break
            answered(own[made[0]], made[1])
        if isinstance(self.engine, ContinuousEngine):
            watch.tail(*self.engine.long_tail())
        prompt_tokens = sum(len(tokens[p]) for p in generations)
        return Answering(problems, len(batch), generations, graded, unfit, prompt_tokens, watch)

    def fits(self, prompt_tokens: int, problems: ProblemSet) -> bool:
        """Whether a prompt leaves the model room for an answer."""
        most = self._context_length
        return most is None or prompt_tokens + problems.limits.max_new_tokens <= most


def block_of(problems: ProblemSet, first_row: int, row_count: int) -> list[int]:
    """The batch that a block of an evaluation set is: each row once per sample, side by side."""
    return [row for row in range(first_row, first_row + row_count) for _ in range(problems.samples)]


def answer_keys(grades: Sequence[Grade]) -> bytes:
    """Little-endian uint64 per answer: equal answers have equal keys, 0 is no answer."""
    keys = np.array([_key(grade.answer) for grade in grades], dtype="<u8")
    return keys.tobytes()


def completions(
    problems: ProblemSet, batch: Sequence[int], outcome: Outcome, count: int
) -> list[wire.Completion]:
    """The first sample of each of the first `count` rows of a whole block, as text for people."""
    rows = dict.fromkeys(batch)
    return [
        wire.Completion(
            row=row,
            sample=0,
            prompt=_readable(prompt_text(problems.prompt(row)), PROMPT_CHARACTERS),
            text=_readable(outcome.generations[at].text, ANSWER_CHARACTERS),
            passed=outcome.grades[at].passed,
            score=outcome.grades[at].score,
            reason=_readable(outcome.grades[at].reason, PROMPT_CHARACTERS),
        )
        for at, row in ((number * problems.samples, row) for number, row in enumerate(rows))
        if at < count * problems.samples
    ]


def prompt_text(prompt: Prompt) -> str:
    """A prompt as one text: a chat's turns below one another, each behind its role."""
    if isinstance(prompt, str):
        return prompt
    return "\n".join(f"{message.role}: {message.content}" for message in prompt)


def _key(answer: str) -> int:
    if not answer:
        return 0
    digest = hashlib.sha256(answer.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") or 1


def _readable(text: str, limit: int) -> str:
    """Cut to a length, and free of what the wire's UTF-8 can't hold."""
    return text[:limit].encode("utf-8", "replace").decode("utf-8")
