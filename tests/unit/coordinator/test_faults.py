"""The test hook that kills a coordinator at a named point."""

import pytest

from dartes_coordinator.faults import VARIABLE, FaultPlan, FaultPoint


def test_it_strikes_at_the_counted_passing_of_its_point_only() -> None:
    struck: list[FaultPoint] = []
    plan = FaultPlan.parse("after-commit:2@1", 1, lambda: struck.append(FaultPoint.AFTER_COMMIT))
    for point in (FaultPoint.AFTER_COMMIT, FaultPoint.BEFORE_REPORT, FaultPoint.BEFORE_REPORT):
        plan.reach(point)
    assert struck == []
    plan.reach(FaultPoint.AFTER_COMMIT)
    plan.reach(FaultPoint.AFTER_COMMIT)
    assert struck == [FaultPoint.AFTER_COMMIT]


def test_a_plan_holds_only_for_its_incarnation() -> None:
    text = "before-report:1@1,after-report:3@2,after-report:4@2"
    assert dict(FaultPlan.parse(text, 1).strikes) == {FaultPoint.BEFORE_REPORT: frozenset({1})}
    assert dict(FaultPlan.parse(text, 2).strikes) == {FaultPoint.AFTER_REPORT: frozenset({3, 4})}


def test_without_the_variable_nothing_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert not FaultPlan.from_environment(1).strikes
    monkeypatch.setenv(VARIABLE, "inside-transaction:1@5")
    assert FaultPlan.from_environment(5).strikes


@pytest.mark.parametrize("text", ["nowhere:1@1", "after-commit:x@1", "after-commit:1", "after-commit"])
def test_a_malformed_plan_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        FaultPlan.parse(text, 1)
