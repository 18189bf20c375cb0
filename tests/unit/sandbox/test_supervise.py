"""How long a run may take: a computing one its processor time, a waiting one the wall time."""

import time
from functools import partial
from operator import mul

import pytest

from dartes.sandbox.runs import Ending, Limits, ScriptRun
from dartes.sandbox.sandbox import Sandbox
from dartes.sandbox.supervise import _Clock

LIMITS = Limits(seconds=6)
NAPPING = """
import time
while True:
    until = time.process_time() + 0.01
    while time.process_time() < until: pass
    time.sleep(0.2)
"""


def ended_after(share: float) -> float:
    """Seconds after which a run is ended that uses this share of a processor all the time."""
    now = start = 1000.0
    clock = _Clock(start, start + LIMITS.wall_seconds, start + LIMITS.longest_seconds)
    while not clock.is_up(now, partial(mul, share, now - start)):
        now += 0.05
    return now - start


@pytest.mark.parametrize("share", [0.0, 0.01, 0.15])
def test_a_run_that_computes_a_little_now_and_then_has_no_more_time_than_one_that_waits(
    share: float,
) -> None:
    assert ended_after(share) == pytest.approx(LIMITS.wall_seconds, abs=0.1)


@pytest.mark.parametrize("share", [0.25, 1.0, 4.0])
def test_a_run_that_computes_goes_on_until_its_processor_time_or_the_last_limit_ends_it(share: float) -> None:
    assert ended_after(share) == pytest.approx(LIMITS.longest_seconds, abs=0.1)
    assert ended_after(share) > LIMITS.seconds / share


def test_a_run_that_computes_first_and_waits_then_is_ended_when_its_share_is_used_up() -> None:
    clock = _Clock(0.0, 10.0, 50.0)
    assert not clock.is_up(9.9, lambda: pytest.fail("asked before the deadline"))
    assert not clock.is_up(10.0, lambda: 3.0)
    assert clock.deadline == 10.5
    assert not clock.is_up(14.9, lambda: 3.0)
    assert clock.is_up(15.5, lambda: 3.0)


@pytest.mark.slow
def test_a_program_that_naps_does_not_hold_the_sandbox() -> None:
    limits = Limits(seconds=1)
    with Sandbox() as sandbox:
        sandbox.describe()
        begun = time.monotonic()
        result = sandbox.run(ScriptRun(NAPPING, limits=limits))
        assert result.ending is Ending.WALL
        assert time.monotonic() - begun < 2 * limits.wall_seconds


def test_what_runs_before_a_script_is_a_source_of_its_own() -> None:
    program = "from __future__ import annotations\ndef f(x: nowhere): return sqrt(x)\nprint(f(input_value))"
    with Sandbox() as sandbox:
        run = ScriptRun(program, before="from math import *\ninput_value = 9")
        result = sandbox.run(run)
    assert (result.stdout, result.stderr) == ("3.0\n", "")
