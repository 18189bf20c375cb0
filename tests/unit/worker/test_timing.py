"""Seconds by part add up to the wall clock of a lap."""

import pytest

from dartes_worker.timing import PARTS, Stopwatch


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_what_no_part_claims_is_other() -> None:
    clock = Clock()
    watch = Stopwatch(clock)
    for part, seconds in (("write", 1.0), ("generate", 4.0), ("write", 0.5)):
        with watch.part(part):
            clock.now += seconds
    clock.now += 2.0
    lap = watch.lap()
    assert (lap.write, lap.generate, lap.other) == (1.5, 4.0, 2.0)
    assert sum(getattr(lap, part) for part in (*PARTS, "other")) == 7.5


def test_each_lap_starts_from_nothing() -> None:
    clock = Clock()
    watch = Stopwatch(clock)
    with watch.part("grade"):
        clock.now += 1.0
    watch.lap()
    clock.now += 3.0
    lap = watch.lap()
    assert (lap.grade, lap.other) == (0.0, 3.0)


def test_waiting_inside_a_call_counts_as_idle() -> None:
    clock = Clock()
    watch = Stopwatch(clock)
    with watch.part("wire"):
        clock.now += 5.0
    watch.move("wire", "idle", 4.5)
    lap = watch.lap()
    assert (lap.wire, lap.idle, lap.other) == (0.5, 4.5, 0.0)


def test_a_part_that_fails_is_counted_too() -> None:
    clock = Clock()
    watch = Stopwatch(clock)

    def fail() -> None:
        clock.now += 2.0
        raise ValueError("boo")

    with pytest.raises(ValueError, match="boo"), watch.part("generate"):
        fail()
    assert watch.lap().generate == 2.0
