"""The operator killed at every step of a job's life, before and after the step is carried out: the same end.

The steps are those of an undisturbed life (`lives.py`); that every kind of action of the plan is among them,
and every kind of object, is asserted.
"""

from typing import get_args

import pytest

from dartes_operator.kinds import RESOURCES
from dartes_operator.plan.types import Action
from dartes_operator.plan.types import Kind as ObjectKind

from .fault_proxy import Fault, Kind, Request
from .host_operator import HostOperator
from .lives import (
    JOBS,
    Lives,
    action_of,
    assert_same,
    is_of_event,
    is_of_status,
    of_any_attempt,
    step_of,
)

pytestmark = pytest.mark.usefixtures("alone", "definition")
FEWEST_DEATHS = {False: 15, True: 40}
"""In a short life and in a full one, lest the steps are no longer found."""


class Assassin:
    """Kills the operator at each step once, and starts it anew."""

    def __init__(self, operator: HostOperator) -> None:
        self.operator = operator
        self.struck: list[str] = []
        self.beside: set[str] = set()
        """Steps that were under way as it died of another."""
        self._busy = False

    def fault(self, kind: Kind) -> Fault:
        """What does it."""
        return Fault(kind, match=self._chooses, then=self._strikes)

    def _chooses(self, request: Request) -> bool:
        step = step_of(request)
        if step is None or step in self.struck:
            return False
        if self._busy:
            self.beside.add(step)
            return False
        self.struck.append(step)
        self._busy = True
        return True

    def _strikes(self) -> None:
        self.operator.restart()
        self._busy = False


def assert_the_same_end(lives: Lives, kind: Kind, *, full: bool) -> None:
    """Live with a death at each step, and compare."""
    lives.clear()
    plain = lives.undisturbed(full=full)
    assassin = Assassin(lives.operator)
    assert_same(lives.live(assassin.fault(kind), full=full, like=plain), plain)
    surely = {
        of_any_attempt(step) for step in plain.steps if not is_of_status(step) and not is_of_event(step)
    }
    missed = surely - {of_any_attempt(step) for step in {*assassin.struck, *assassin.beside}}
    assert not missed, f"it did not die at {missed}"
    assert len(assassin.struck) >= FEWEST_DEATHS[full], assassin.struck
    assert lives.operator.errors() == []


def test_an_operator_that_dies_after_each_step_of_a_short_life_reaches_the_same_end(lives: Lives) -> None:
    assert_the_same_end(lives, Kind.UNANSWERED, full=False)


@pytest.mark.full
def test_a_full_life_has_every_action_of_the_plan(lives: Lives) -> None:
    steps = lives.undisturbed(full=True).steps
    actions = {action for step in steps if (action := action_of(step))}
    assert actions == {each.__name__ for each in get_args(Action)}
    made = {step.split()[1] for step in steps if step.startswith("create")}
    assert made >= {RESOURCES[kind].plural for kind in ObjectKind}
    assert f"delete {JOBS} life" in steps


@pytest.mark.full
@pytest.mark.parametrize("kind", [Kind.SILENT, Kind.UNANSWERED], ids=["before", "after"])
def test_an_operator_that_dies_at_each_step_of_a_full_life_reaches_the_same_end(
    lives: Lives, kind: Kind
) -> None:
    assert_the_same_end(lives, kind, full=True)
