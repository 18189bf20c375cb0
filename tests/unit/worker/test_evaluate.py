"""Answers to a slice are pure in batch, job and weights: slices are parts of the whole, seeds addresses."""

import threading
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dartes.noise.streams import sampling_seed
from dartes.rewards.opening import Grader
from dartes.rpc.encoding import unpack_bits, unpack_floats
from dartes.tasks.addition import AdditionTask
from dartes.tasks.base import Grade, Row
from dartes.tasks.rules import Fitness, GradingRules
from dartes.tasks.templates import Template
from dartes_worker.engines.base import Engine, Generation, GenerationLimits, Prompt
from dartes_worker.evaluate import (
    NO_ROOM,
    Evaluator,
    Outcome,
    Sampling,
    answer_keys,
    block_of,
    completions,
)
from dartes_worker.groups import generation_groups
from dartes_worker.problems import ProblemSet
from dartes_worker.setup import Equipment
from dartes_worker.timing import Stopwatch

SAMPLING = Sampling(run_seed=7, iteration=3, member=2)


class Recorder:
    """An engine that notes what it is asked."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.encoded: list[Prompt] = []
        self.groups: list[tuple[tuple[tuple[int, ...], ...], int | None]] = []

    def encode(self, prompts: Sequence[Prompt]) -> list[list[int]]:
        self.encoded += prompts
        return self._engine.encode(prompts)

    def generate(
        self, group: Sequence[Sequence[int]], limits: GenerationLimits, seed: int | None
    ) -> list[Generation]:
        self.groups.append((tuple(map(tuple, group)), seed))
        return self._engine.generate(group, limits, seed)


def answered(
    equipment: Equipment,
    rows: Sequence[int],
    k: int,
    of: int,
    problems: ProblemSet | None = None,
    context_length: int | None = None,
) -> tuple[Outcome, Recorder]:
    """Evaluate one slice."""
    recorder = Recorder(equipment.engine)
    evaluator = Evaluator(recorder, context_length)  # type: ignore[arg-type]
    answering = evaluator.answer(problems or equipment.stages[0], rows, k, of, SAMPLING, Stopwatch())
    outcome = answering.outcome()
    evaluator.close()
    return outcome, recorder


def test_the_whole_batch_is_answered_in_its_order(equipment: Equipment) -> None:
    rows = [3, 1, 4, 15, 9, 2, 6]
    outcome, _ = answered(equipment, rows, 0, 1)
    assert (outcome.positions, outcome.whole) == (tuple(range(7)), True)
    for row, generation, passed in zip(rows, outcome.generations, outcome.passed, strict=True):
        problem = equipment.stages[0].parts[0].dataset.rows[row]
        a, b = problem["a"], problem["b"]
        assert isinstance(a, int)
        assert isinstance(b, int)
        assert passed == (generation.text == str(a + b))


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.permutations(range(32)).map(lambda rows: rows[:13]), slices=st.integers(1, 9))
def test_the_slices_of_a_batch_are_together_the_whole(
    equipment: Equipment, rows: list[int], slices: int
) -> None:
    whole, _ = answered(equipment, rows, 0, 1)
    parts = [answered(equipment, rows, k, slices)[0] for k in range(slices)]
    at = {p: (o, n) for o in parts for n, p in enumerate(o.positions)}
    assert sum(len(o.positions) for o in parts) == len(at) == len(rows), "each position once"
    for position, (outcome, n) in at.items():
        assert outcome.generations[n] == whole.generations[position]
        assert outcome.passed[n] == whole.passed[position]
        assert outcome.grades[n] == whole.grades[position]
    assert sum(o.prompt_tokens for o in parts) == whole.prompt_tokens


def test_groups_are_generated_whole_and_a_slice_only_its_own(equipment: Equipment) -> None:
    rows = list(range(16))
    lengths = [len(t) for t in equipment.stages[0].encoded(equipment.engine, rows)]
    groups = generation_groups(lengths, 8, 56)
    assert len(groups) == 4
    _, whole = answered(equipment, rows, 0, 1)
    _, second = answered(equipment, rows, 1, 2)
    assert [len(group) for group, _ in whole.groups] == [len(group) for group in groups]
    assert second.groups == whole.groups[2:]


def test_a_greedy_group_has_no_seed_and_a_sampled_one_that_of_its_place_in_the_batch(
    equipment: Equipment,
) -> None:
    rows = list(range(16))
    _, greedy = answered(equipment, rows, 0, 1)
    assert {seed for _, seed in greedy.groups} == {None}
    warm = replace(equipment.stages[0], limits=replace(equipment.stages[0].limits, temperature=0.7))
    _, whole = answered(equipment, rows, 0, 1, warm)
    assert [seed for _, seed in whole.groups] == [sampling_seed(7, 0, 3, 2, group) for group in range(4)]
    _, second = answered(equipment, rows, 1, 2, warm)
    assert second.groups == whole.groups[2:]


def test_a_prompt_is_encoded_once_however_often_it_is_asked(equipment: Equipment) -> None:
    fresh = replace(equipment.stages[0], _tokens={})
    _, first = answered(equipment, [1, 2, 3], 0, 1, fresh)
    _, second = answered(equipment, [3, 2, 5], 0, 1, fresh)
    assert (len(first.encoded), len(second.encoded)) == (3, 1)


def test_an_empty_slice_is_an_empty_answer(equipment: Equipment) -> None:
    outcome, recorder = answered(equipment, [1, 2], 0, 5)
    assert (outcome.positions, outcome.whole, recorder.groups) == ((), False, [])
    result = outcome.to_wire()
    assert (result.passed, list(result.positions), result.generated_tokens) == (b"", [], 0)


def outcome(scores: list[float], auxiliary: list[float], whole: bool = True) -> Outcome:
    """Three answers, of which the first and the last passed."""
    texts = [Generation("1", 2, False), Generation("x", 8, True), Generation("3", 3, False)]
    return Outcome(
        positions=(0, 2, 5),
        whole=whole,
        generations=tuple(texts),
        grades=(Grade.of("", answer="1"), Grade.of("no"), Grade.of("", answer="1")),
        passed=np.array([True, False, True]),
        scores=np.array(scores, np.float32),
        auxiliary=np.array(auxiliary, np.float32),
        prompt_tokens=12,
    )


def test_what_says_nothing_new_does_not_travel() -> None:
    result = outcome([1, 0, 1], [0, 0, 0]).to_wire()
    assert not result.HasField("scores")
    assert not result.HasField("auxiliary")
    assert list(result.positions) == []
    assert unpack_bits(result.passed, 3).tolist() == [True, False, True]
    assert unpack_bits(result.truncated, 3).tolist() == [False, True, False]
    assert (result.generated_tokens, result.prompt_tokens) == (13, 12)


def test_what_differs_travels_exactly() -> None:
    result = outcome([1, 0.25, 1], [0, 0.1, 0], whole=False).to_wire()
    assert list(result.positions) == [0, 2, 5]
    assert unpack_floats(result.scores, 3).tolist() == [1, 0.25, 1]
    assert unpack_floats(result.auxiliary, 3) == pytest.approx([0, 0.1, 0])


def test_prompts_of_earlier_batches_are_forgotten_when_they_are_many(
    equipment: Equipment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dartes_worker.problems.REMEMBERED_TOKENS", 16)
    recorder, problems = Recorder(equipment.engine), replace(equipment.stages[0], _tokens={})
    for rows in ([0, 1, 2, 3, 4], [4, 5], [4, 5], [0, 4]):
        problems.encoded(recorder, rows)  # type: ignore[arg-type]
    # Row 4 was in the batch when the others were forgotten; row 0 was not, and is encoded again.
    expected = [problems.prompt(row) for row in (0, 1, 2, 3, 4, 5, 0)]
    assert recorder.encoded == expected


def test_scores_travel_only_where_they_decide_something(equipment: Equipment) -> None:
    plain, _ = answered(equipment, [1, 2], 0, 1)
    assert plain.scores is None
    (part,) = equipment.stages[0].parts
    scored = replace(part, rules=GradingRules(Fitness.SCORE))
    outcome, _ = answered(equipment, [1, 2], 0, 1, replace(equipment.stages[0], parts=(scored,)))
    assert outcome.scores is not None


def test_a_prompt_without_room_for_an_answer_fails_and_is_not_generated(equipment: Equipment) -> None:
    rows = list(range(16))
    lengths = [len(t) for t in equipment.stages[0].encoded(equipment.engine, rows)]
    longest = max(lengths)
    outcome, recorder = answered(equipment, rows, 0, 1, context_length=longest - 1 + 8)
    assert outcome.whole
    for length, generation, grade in zip(lengths, outcome.generations, outcome.grades, strict=True):
        assert generation.truncated >= (length == longest)
        assert (grade.reason == NO_ROOM) == (length == longest)
    assert max(len(ids) for group, _ in recorder.groups for ids in group) == longest - 1
    slices = [answered(equipment, rows, k, 3, context_length=longest - 1 + 8)[0] for k in range(3)]
    assert sorted(p for part in slices for p in part.positions) == rows, "each position once all the same"


def mixed(equipment: Equipment) -> ProblemSet:
    """The training set behind itself: problem 32 + k is problem k once more, under another task."""
    whole = equipment.stages[0]
    (part,) = whole.parts
    assert isinstance(part.task, AdditionTask)
    turned = replace(part.task, template=Template("{b}+{a}="))
    return replace(whole, parts=(part, replace(part, task=turned)))


def test_a_problem_of_a_mix_has_the_prompt_and_the_grader_of_its_part(equipment: Equipment) -> None:
    problems = mixed(equipment)
    assert problems.size == 64
    row = problems.parts[0].dataset.rows[5]
    assert problems.prompt(5) == f"{row['a']}+{row['b']}="
    assert problems.prompt(37) == f"{row['b']}+{row['a']}="
    right = problems.parts[0].task.reference(row)
    grades = problems.grade([37, 5, 6], [right, right, "?"], 0)
    assert [grade.passed for grade in grades] == [True, True, False]
    with pytest.raises(IndexError):
        problems.prompt(64)


def test_the_samples_of_a_row_stand_side_by_side(equipment: Equipment) -> None:
    assert block_of(replace(equipment.stages[0], samples=3), 4, 2) == [4, 4, 4, 5, 5, 5]


def test_samples_of_one_problem_differ_and_are_the_same_again(equipment: Equipment) -> None:
    warm = replace(
        equipment.stages[0], limits=replace(equipment.stages[0].limits, temperature=1.0), samples=6
    )
    batch = block_of(warm, 3, 1)
    first, _ = answered(equipment, batch, 0, 1, warm)
    again, _ = answered(equipment, batch, 0, 1, warm)
    assert first.generations == again.generations
    assert len({g.text for g in first.generations}) > 1


def test_streams_of_evaluation_sets_differ_by_name_and_row() -> None:
    seen = {
        (s.stage, s.iteration, s.member, s.first_group)
        for name in ("a", "b")
        for row in (0, 1, 65_536, 131_073)
        for s in [Sampling.of_block(7, 3, name, row)]
    }
    assert len(seen) == 8
    for _, _, member, first_group in seen:
        sampling_seed(7, 0, 3, member, first_group + 255)  # addresses that there are


def test_equal_answers_have_equal_keys_and_none_has_zero() -> None:
    grades = [Grade.of("", answer="7"), Grade.of("no"), Grade.of("no", answer="7"), Grade.of("", answer="8")]
    seven, none, again, eight = np.frombuffer(answer_keys(grades), "<u8").tolist()
    assert (seven, none) == (again, 0)
    assert 0 not in (seven, eight)
    assert seven != eight


def test_the_first_answers_are_kept_as_text(equipment: Equipment) -> None:
    problems = replace(equipment.stages[0], samples=2)
    batch = block_of(problems, 4, 3)
    outcome, _ = answered(equipment, batch, 0, 1, problems)
    kept = completions(problems, batch, outcome, 2)
    assert [(c.row, c.sample) for c in kept] == [(4, 0), (5, 0)]
    assert [c.prompt for c in kept] == [problems.prompt(4), problems.prompt(5)]
    assert [c.text for c in kept] == [outcome.generations[0].text, outcome.generations[2].text]
    assert completions(problems, batch, outcome, 0) == []


class Meeting:
    """A grader of the first group that does not answer before the engine is at the second one."""

    def __init__(self, grader: Grader) -> None:
        self._grader = grader
        self.second_group = threading.Event()

    def grade(self, rows: Sequence[Row], completions: Sequence[str]) -> list[Grade]:
        assert self.second_group.wait(60), "the second group is generated while the first is graded"
        return self._grader.grade(rows, completions)

    def close(self) -> None:
        raise AssertionError("the grader is the fixture's")


def test_a_group_is_graded_while_the_next_one_is_generated(equipment: Equipment) -> None:
    (part,) = equipment.stages[0].parts
    meeting = Meeting(part.grader())
    problems = replace(
        equipment.stages[0], parts=(replace(part, grader=lambda: meeting),), _grades={}, _graded_in=-1
    )
    recorder = Recorder(equipment.engine)
    inner = recorder.generate

    def generate(
        group: Sequence[Sequence[int]], limits: GenerationLimits, seed: int | None
    ) -> list[Generation]:
        if recorder.groups:
            meeting.second_group.set()
        return inner(group, limits, seed)

    recorder.generate = generate  # type: ignore[method-assign]
    evaluator = Evaluator(recorder)  # type: ignore[arg-type]
    outcome = evaluator.answer(problems, range(16), 0, 1, SAMPLING, Stopwatch()).outcome()
    evaluator.close()
    assert len(recorder.groups) == 4
    assert outcome.whole
