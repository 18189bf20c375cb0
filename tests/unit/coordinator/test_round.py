"""One iteration under way: leases as messages, answers put together, slices that must cover the batch."""

from typing import Any

import numpy as np
import pytest

from dartes.difficulty import DifficultyState, draw_batch, member_seeds
from dartes.evaluation import EVALUATION_BLOCK
from dartes.ids import Iteration
from dartes.rpc.encoding import pack_bits, pack_floats
from dartes.v1 import population_pb2 as wire
from dartes_coordinator.errors import ReportError
from dartes_coordinator.plan import EvaluationSetPlan
from dartes_coordinator.round import Round

from .kit import PROBLEMS, settings

SETTINGS = settings(population_size=2)
BATCH = draw_batch(SETTINGS, DifficultyState.new(PROBLEMS), Iteration(0))
assert BATCH is not None
SIZE = BATCH.size
NOTHING = wire.Timings()


def a_round(slices: int = 1, evaluations: dict[str, int] | None = None, parent: bool = False) -> Round:
    sets = {name: EvaluationSetPlan(size) for name, size in (evaluations or {}).items()}
    return Round(SETTINGS, 0, BATCH, slices, parent, sets, 0.0)


def result(member: int, positions: list[int], bits: list[bool], **more: Any) -> wire.EvaluateResult:
    packed = pack_bits(np.array(bits, np.bool_))
    plain: dict[str, Any] = {
        "kind": wire.EVALUATE_KIND_MEMBER,
        "member": member,
        "passed": packed,
        "truncated": packed,
    }
    return wire.EvaluateResult(positions=positions, **(plain | more))


def whole(member: int, **more: Any) -> wire.EvaluateResult:
    return result(member, [], [True] * SIZE, **more)


def lease(round_: Round, worker: str = "u", knows_batch: bool = False) -> wire.EvaluateLease:
    grant = round_.leases.take(worker, 0.0)
    assert grant is not None
    return round_.lease(grant, worker, "id", knows_batch)


def test_a_member_lease_names_its_seed_its_signed_sigma_and_the_whole_batch() -> None:
    round_ = Round(settings(antithetic=True), 0, BATCH, 1, False, {}, 0.0)
    leases = [lease(round_, f"w{i}") for i in range(4)]
    assert BATCH is not None
    assert [list(m.problems) for m in leases] == [BATCH.problems.tolist()] * 4
    assert [m.seed for m in leases] == member_seeds(settings(antithetic=True), Iteration(0)).tolist()
    assert [m.sigma for m in leases] == [pytest.approx(s * SETTINGS.sigma, rel=1e-6) for s in (1, -1, 1, -1)]


def test_the_batch_is_told_once_to_each_worker_that_keeps_it() -> None:
    round_ = a_round(slices=2)
    assert lease(round_, knows_batch=True).problems  # it may be another history's batch
    assert not lease(round_, knows_batch=True).problems
    assert lease(round_, knows_batch=False).problems  # a new process of the same name
    assert lease(round_, "v", knows_batch=True).problems


def test_evaluation_sets_are_cut_into_fixed_blocks_and_go_out_first() -> None:
    round_ = a_round(evaluations={"big": EVALUATION_BLOCK + 3})
    first, second, third = (lease(round_, f"w{i}") for i in range(3))
    assert [(m.evaluation_set, m.first_row, m.row_count) for m in (first, second)] == [
        ("big", 0, EVALUATION_BLOCK),
        ("big", EVALUATION_BLOCK, 3),
    ]
    assert first.sigma == 0.0
    assert third.kind == wire.EVALUATE_KIND_MEMBER


def test_several_samples_make_smaller_blocks_and_texts_are_asked_of_the_first_rows() -> None:
    sets = {"many": EvaluationSetPlan(5, samples=EVALUATION_BLOCK // 2)}
    round_ = Round(SETTINGS, 0, BATCH, 1, False, sets, 0.0, stage=2, log_completions=3)
    leases = [lease(round_, f"w{i}") for i in range(4)]
    assert [(m.first_row, m.row_count, m.log_completions) for m in leases[:3]] == [
        (0, 2, 2),
        (2, 2, 1),
        (4, 1, 0),
    ]
    assert (leases[3].kind, leases[3].stage) == (wire.EVALUATE_KIND_MEMBER, 2)


def test_a_report_on_a_filled_block_changes_nothing() -> None:
    round_ = a_round(evaluations={"held-out": 2})
    kind = {"kind": wire.EVALUATE_KIND_HELD_OUT, "evaluation_set": "held-out", "row_count": 2}
    assert round_.report("u", result(0, [], [True, True], **kind), NOTHING, 0.0)
    assert not round_.report("v", result(0, [], [False, False], **kind), NOTHING, 0.0)
    assert round_.evaluations["held-out"].grid.passed.all()
    assert round_.leases.nondeterministic == 1
    round_.restart(1.0)
    assert not round_.evaluations["held-out"].grid.covered.any()


def test_slices_of_a_member_are_put_together() -> None:
    round_ = a_round(slices=2)
    for member in range(2):
        round_.report("u", result(member, [4, 0, 2], [True, False, True], slice=1), NOTHING, 0.0)
        round_.report("u", result(member, [1, 3, 5], [False, True, True], slice=0), NOTHING, 0.0)
    assert round_.complete
    assert round_.gaps() is None
    expected = [False, False, True, True, True, True]
    assert round_.members.results().passed.tolist() == [expected] * 2


def test_a_position_may_not_be_answered_by_two_slices() -> None:
    round_ = a_round(slices=2)
    round_.report("u", result(0, [0, 1], [True, True], slice=0), NOTHING, 0.0)
    with pytest.raises(ReportError, match=r"\[1\] of row 0"):
        round_.report("v", result(0, [1, 2], [True, True], slice=1), NOTHING, 0.0)
    assert round_.leases.done_count == 1


def test_slices_that_leave_a_gap_are_found_when_all_are_in() -> None:
    round_ = a_round(slices=2)
    round_.report("u", whole(0, slice=0), NOTHING, 0.0)
    round_.report("u", result(0, [], [], slice=1), NOTHING, 0.0)
    round_.report("u", result(1, [0, 1], [True, True], slice=0), NOTHING, 0.0)
    round_.report("u", result(1, [2, 3, 4], [True, True, True], slice=1), NOTHING, 0.0)
    assert round_.complete
    gap = round_.gaps()
    assert gap is not None
    assert "member 1" in gap


def test_a_second_report_is_dropped_and_changes_nothing() -> None:
    round_ = a_round()
    assert round_.report("u", whole(0, generated_tokens=5), NOTHING, 0.0)
    assert not round_.report("v", result(0, [], [False] * SIZE), NOTHING, 0.0)
    assert round_.members.passed[0].all()
    assert (round_.costs.generated_tokens, round_.leases.nondeterministic) == (5, 1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": wire.EVALUATE_KIND_UNSPECIFIED}, "name its kind"),
        ({"member": 9}, "no such lease"),
        ({"slice": 1}, "no such lease"),
        ({"kind": wire.EVALUATE_KIND_PARENT}, "no such lease"),
        ({"positions": [*range(SIZE), 9, 10, 11]}, "below"),
        ({"positions": [0] * SIZE}, "distinct"),
        ({"positions": [1, 2, 3, 4, 5, SIZE]}, "below"),
        ({"passed": b"\x00\x00"}, "2 bytes of bits for 6 positions"),
        ({"truncated": b""}, "bytes of bits"),
        ({"scores": b"\x00"}, "float32"),
        ({"auxiliary": pack_floats(np.array([np.nan] * SIZE, np.float32))}, "not a finite number"),
    ],
)
def test_a_report_that_does_not_fit_is_refused_whole(changes: dict[str, Any], words: str) -> None:
    round_ = a_round()
    good = whole(0)
    for name, value in changes.items():
        if name == "positions":
            good.positions.extend(value)
        else:
            setattr(good, name, value)
    with pytest.raises(ReportError, match=words):
        round_.report("u", good, NOTHING, 0.0)
    assert round_.leases.done_count == 0
    assert not round_.members.covered.any()


def test_a_block_of_an_evaluation_set_must_be_whole() -> None:
    round_ = a_round(evaluations={"held-out": 5})
    report = result(0, [0, 1], [True, True], kind=wire.EVALUATE_KIND_HELD_OUT, evaluation_set="held-out")
    report.row_count = 5
    with pytest.raises(ReportError, match="2 answers for a block of 5"):
        round_.report("u", report, NOTHING, 0.0)


def test_blocks_of_an_evaluation_set_are_put_at_their_rows() -> None:
    round_ = a_round(evaluations={"held-out": EVALUATION_BLOCK + 2})
    kind = {"kind": wire.EVALUATE_KIND_HELD_OUT, "evaluation_set": "held-out"}
    second = result(0, [], [True, False], first_row=EVALUATION_BLOCK, row_count=2, **kind)
    assert round_.report("u", second, NOTHING, 0.0)
    assert np.flatnonzero(round_.evaluations["held-out"].grid.passed).tolist() == [EVALUATION_BLOCK]


def test_scores_are_kept_only_where_one_of_them_is_not_the_pass() -> None:
    round_ = a_round()
    round_.report("u", whole(0), NOTHING, 0.0)
    assert round_.members.results().scores is None
    scores = np.linspace(0, 1, SIZE, dtype=np.float32)
    round_.report("u", whole(1, scores=pack_floats(scores)), NOTHING, 0.0)
    kept = round_.members.results().scores
    assert kept is not None
    assert kept.tolist() == [[1.0] * SIZE, scores.tolist()]
    assert round_.members.results().auxiliary is None


def test_a_restart_forgets_answers_costs_and_leases() -> None:
    round_ = a_round(evaluations={"held-out": 5}, parent=True)
    round_.report("u", whole(0, generated_tokens=5), wire.Timings(generate=2.0), 0.0)
    lease(round_)
    round_.committed = True
    round_.restart(9.0)
    assert round_.leases.done_count == 0
    assert (round_.costs.generated_tokens, dict(round_.costs.seconds)) == (0, {})
    assert not round_.members.covered.any()
    assert (round_.started, round_.committed, round_.restarts) == (9.0, False, 1)


def test_costs_are_summed_over_accepted_reports_by_part() -> None:
    round_ = a_round()
    round_.report("u", whole(0, prompt_tokens=2, generated_tokens=3), wire.Timings(write=1.0), 0.0)
    round_.report("u", whole(1, prompt_tokens=2, generated_tokens=3), wire.Timings(write=2.0, idle=4.0), 0.0)
    assert (round_.costs.prompt_tokens, round_.costs.generated_tokens) == (4, 6)
    assert (round_.costs.seconds["write"], round_.costs.seconds["idle"]) == (3.0, 4.0)


def test_a_round_without_a_batch_only_evaluates() -> None:
    round_ = Round(SETTINGS, 3, None, 2, True, {"held-out": EvaluationSetPlan(5)}, 0.0)
    assert lease(round_).kind == wire.EVALUATE_KIND_HELD_OUT
    assert len(round_.leases.tasks) == 1


def test_a_round_with_nothing_to_do_is_complete() -> None:
    assert Round(SETTINGS, 3, None, 2, True, {}, 0.0).complete
