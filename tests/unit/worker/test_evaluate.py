"""Answers to a slice are pure in batch, job and weights: slices are parts of the whole, seeds addresses."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dartes.noise.streams import sampling_seed
from dartes.rpc.encoding import unpack_bits, unpack_floats
from dartes_worker.engines.base import Engine, Generation, GenerationLimits, Prompt
from dartes_worker.evaluate import Outcome, ProblemSet, Sampling, evaluate
from dartes_worker.groups import generation_groups
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
    equipment: Equipment, rows: Sequence[int], k: int, of: int, problems: ProblemSet | None = None
) -> tuple[Outcome, Recorder]:
    """Evaluate one slice."""
    recorder = Recorder(equipment.engine)
    outcome = evaluate(
        recorder,  # type: ignore[arg-type]
        problems or equipment.train,
        rows,
        k,
        of,
        SAMPLING,
        Stopwatch(),
    )
    return outcome, recorder


def test_the_whole_batch_is_answered_in_its_order(equipment: Equipment) -> None:
    rows = [3, 1, 4, 15, 9, 2, 6]
    outcome, _ = answered(equipment, rows, 0, 1)
    assert (outcome.positions, outcome.whole) == (tuple(range(7)), True)
    for row, generation, passed in zip(rows, outcome.generations, outcome.passed, strict=True):
        problem = equipment.train.dataset.rows[row]
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
        assert outcome.scores[n] == whole.scores[position]
    assert sum(o.prompt_tokens for o in parts) == whole.prompt_tokens


def test_groups_are_generated_whole_and_a_slice_only_its_own(equipment: Equipment) -> None:
    rows = list(range(16))
    lengths = [len(t) for t in equipment.train.encoded(equipment.engine, rows)]
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
    warm = replace(equipment.train, limits=replace(equipment.train.limits, temperature=0.7))
    _, whole = answered(equipment, rows, 0, 1, warm)
    assert [seed for _, seed in whole.groups] == [sampling_seed(7, 0, 3, 2, group) for group in range(4)]
    _, second = answered(equipment, rows, 1, 2, warm)
    assert second.groups == whole.groups[2:]


def test_a_prompt_is_encoded_once_however_often_it_is_asked(equipment: Equipment) -> None:
    fresh = replace(equipment.train, _tokens={})
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
    monkeypatch.setattr("dartes_worker.evaluate.REMEMBERED_PROMPTS", 4)
    recorder, problems = Recorder(equipment.engine), replace(equipment.train, _tokens={})
    for rows in ([0, 1, 2, 3, 4], [4, 5], [4, 5], [0, 4]):
        problems.encoded(recorder, rows)  # type: ignore[arg-type]
    # Row 4 was in the batch when the others were forgotten; row 0 was not, and is encoded again.
    expected = [problems.task.prompt(problems.dataset.rows[row]) for row in (0, 1, 2, 3, 4, 5, 0)]
    assert recorder.encoded == expected
