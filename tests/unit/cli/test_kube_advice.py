"""Whatever reason the operator gives for a condition that is not as it should be, there is advice for it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from dartes.cli.kube.advice import AT_REST, next_steps, problems

PLAN: Final = Path(__file__).parents[3] / "operator" / "dartes_operator" / "plan"

REASON_AT: Final = {"set": 2, "Wait": 1, "fail": 1, "refuse": 1}
"""Which argument of these calls is a reason."""

COMPUTED: Final = {
    *("CoordinatorRestartsExceeded", "WorkerFailuresExceeded", "DisruptionsExceeded"),
    "InvalidConfiguration",
}
"""Reasons that these calls get by a name."""

TERMINAL: Final = (
    *("InvalidConfiguration", "StartupDeadlineExceeded", "DeadlineExceeded", "CoordinatorRestartsExceeded"),
    *("WorkerFailuresExceeded", "DisruptionsExceeded", "ExportFailed"),
)


def reasons() -> set[str]:
    """The reasons that the operator's plans can give for what is not as it should be, from their source."""
    found = set(COMPUTED)
    for path in PLAN.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                found.update(_of_call(node))
    return found - AT_REST


def _of_call(call: ast.Call) -> Iterator[str]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    place = REASON_AT.get(name)
    if place is None or len(call.args) <= place:
        return
    if name == "set":
        kind, status = ast.unparse(call.args[0]), ast.unparse(call.args[1])
        if status == "True" or kind == "Condition.SUSPENDED":
            return
    for part in ast.walk(call.args[place]):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield from re.findall(r"^[A-Z][A-Za-z]+$", part.value)


def advice(kind: str, status: str, reason: str) -> list[str]:
    condition = {"type": kind, "status": status, "reason": reason, "message": "m"}
    phase = "Failed" if kind == "Failed" else "Running"
    return next_steps("tiny", list(problems([condition], phase == "Running")), phase, [], None)


def test_the_reasons_are_found_in_the_operators_source() -> None:
    assert len(reasons()) >= 20
    assert reasons() >= {"Unschedulable", "VolumeExists", "PodTemplateInvalid", "Stalled", "ExportFailed"}
    assert set(TERMINAL) <= reasons()


@pytest.mark.parametrize("reason", sorted(reasons() - set(TERMINAL)))
def test_every_reason_for_waiting_has_its_advice(reason: str) -> None:
    (step,) = advice("CoordinatorReady", "False", reason)
    assert step.startswith(f"{reason}: ")
    assert "{" not in step


@pytest.mark.parametrize("reason", TERMINAL)
def test_every_reason_for_failing_has_its_advice(reason: str) -> None:
    (step,) = advice("Failed", "True", reason)
    assert step.startswith(f"{reason}: ")
    assert "{" not in step


@pytest.mark.parametrize("reason", [r for r in TERMINAL if r.endswith("Exceeded")])
def test_a_failed_job_goes_on_only_as_a_new_one_from_its_volume(reason: str) -> None:
    (step,) = advice("Failed", "True", reason)
    assert "a failed job stays failed: delete it, then apply it again with checkpoint.resumeFrom" in step


def test_a_failed_export_names_the_command_that_writes_the_model_out() -> None:
    (step,) = advice("Failed", "True", "ExportFailed")
    assert "safe on its volume: kubectl dartes export tiny --output MODEL_DIR" in step
