"""What a run of chaos tells at the end."""

import json

from tests.chaos.acts import Act
from tests.chaos.report import Done, Lull, Result, Tally, document, line_of, summary, table
from tests.chaos.schedule import Step


def done(number: int, act: Act = Act.SCALED, on: str = "red", *violations: str) -> Done:
    return Done(Step(number, act, "red", 1, None, 1.0), 5.0 * number, on, violations)


def result(*steps: Done, planned: int | None = None) -> Result:
    tally = Tally()
    tally.rounds["red"] = 3
    count = len(steps) if planned is None else planned
    acts = (Act.SCALED, Act.SUSPENDED)
    return Result(7, count, acts, 60.0, list(steps), [], Lull(count, 1.0), tally)


def test_a_run_without_violations_passes() -> None:
    assert result(done(1), done(2)).passed


def test_a_run_that_was_cut_short_does_not_pass() -> None:
    assert not result(done(1), planned=2).passed
    without_ends = result(done(1))
    without_ends.ends = None
    assert not without_ends.passed
    cut = result(done(1))
    cut.ended_early = "interrupted"
    assert not cut.passed


def test_a_violation_of_a_step_or_of_a_lull_fails_the_run_and_is_told_in_order() -> None:
    run = result(done(1), done(12, Act.SCALED, "red", "second"))
    run.lulls.append(Lull(10, 3.0, ("first",)))
    assert not run.passed
    assert run.violations == ["step 10: first", "step 12: second"]


def test_the_table_counts_each_act() -> None:
    run = result(done(1), done(2, Act.SCALED, ""), done(3, Act.SUSPENDED, "red", "bad"))
    lines = table(run).splitlines()
    assert lines[2] == "| scaled | 1 | 1 | 0 |"
    assert lines[3] == "| suspended, then resumed | 1 | 0 | 1 |"


def test_a_step_is_told_with_what_was_wrong() -> None:
    assert "VIOLATION bad" in line_of(done(1, Act.SCALED, "red", "bad"), 10)
    assert "nothing to hit" in line_of(done(1, Act.SCALED, ""), 10)


def test_the_summary_and_the_document_name_the_seed() -> None:
    run = result(done(1))
    assert "seed 7" in summary(run)
    assert "red 3" in summary(run)
    written = json.loads(json.dumps(document(run, {"cores": 2})))
    assert written["seed"] == 7
    assert written["passed"] is True
    assert written["steps"][0]["act"] == "scaled"
