"""The work-queue: no key twice, none in two hands, delays, back-off."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dartes_operator.kinds import Key
from dartes_operator.queue import BACK_OFF_CAP_SECONDS, SPACING_SECONDS, URGENT_SPACING_SECONDS, WorkQueue

A, B = Key("team", "a"), Key("team", "b")


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def queue_at(clock: Clock, chance: float = 0.0) -> WorkQueue:
    return WorkQueue(clock, lambda: chance)


def test_a_key_that_is_added_twice_comes_once() -> None:
    queue = queue_at(Clock())
    queue.add(A)
    queue.add(A)
    assert queue.pop() == A
    assert queue.pop() is None


def test_a_key_in_one_hand_is_not_given_to_another_but_comes_again_when_done() -> None:
    clock = Clock()
    queue = queue_at(clock)
    queue.add(A)
    assert queue.pop() == A
    queue.add(A)
    clock.now += SPACING_SECONDS
    assert queue.pop() is None
    queue.done(A)
    assert queue.pop() == A


def test_a_key_under_way_does_not_hold_up_the_others() -> None:
    clock = Clock()
    queue = queue_at(clock)
    queue.add(A)
    assert queue.pop() == A
    queue.add(A)
    clock.now += SPACING_SECONDS
    queue.add(B)
    assert queue.pop() == B


def test_a_key_under_way_is_not_given_out_for_a_wish_that_was_outdone() -> None:
    clock = Clock()
    queue = queue_at(clock)
    queue.add(A, 5.0)
    queue.add(A)
    assert queue.pop() == A
    queue.add(A, 5.0)
    clock.now += 5.0
    assert queue.pop() is None
    assert queue.next_due() is None
    queue.done(A)
    assert queue.pop() == A
    assert queue.pop() is None


def test_of_two_delays_the_earlier_holds() -> None:
    clock = Clock()
    queue = queue_at(clock)
    queue.add(A, 60)
    queue.add(A, 5)
    queue.add(A, 30)
    assert queue.next_due() == 5
    clock.now += 5
    assert queue.pop() == A
    queue.done(A)
    clock.now += 100
    assert queue.pop() is None


def test_a_burst_of_events_after_a_pass_waits_a_moment_and_costs_one_pass() -> None:
    clock = Clock()
    queue = queue_at(clock)
    queue.add(A)
    assert queue.pop() == A
    queue.done(A)
    for _ in range(10):
        queue.add(A)
    assert queue.pop() is None
    assert queue.next_due() == SPACING_SECONDS


def test_what_is_urgent_waits_hardly_at_all() -> None:
    clock = Clock()
    queue = queue_at(clock)
    queue.add(A)
    assert queue.pop() == A
    queue.done(A)
    queue.add(A)
    queue.add(A, urgent=True)
    assert queue.next_due() == pytest.approx(URGENT_SPACING_SECONDS)


def test_errors_double_the_delay_up_to_a_bound_until_a_pass_succeeds() -> None:
    queue = queue_at(Clock(), chance=1.0)
    delays = [queue.retry(A) for _ in range(12)]
    assert delays[:4] == [0.5, 1.0, 2.0, 4.0]
    assert delays[-1] == BACK_OFF_CAP_SECONDS
    assert queue.retry(B) == 0.5
    queue.succeeded(A)
    assert queue.retry(A) == 0.5


def test_an_error_after_some_work_was_done_does_not_double_the_delay() -> None:
    queue = queue_at(Clock(), chance=1.0)
    delays = [queue.retry(A, got_further=further) for further in (False, True, True, False, False)]
    assert delays == [0.5, 1.0, 1.0, 1.0, 2.0]


@given(st.floats(0, 1, exclude_max=True), st.integers(0, 200))
def test_jitter_takes_at_most_half_of_the_delay(chance: float, failures: int) -> None:
    queue, longest = queue_at(Clock(), chance), queue_at(Clock(), 1.0)
    for _ in range(failures):
        queue.retry(A)
        longest.retry(A)
    full = longest.retry(A)
    assert full / 2 <= queue.retry(A) <= full


def test_a_server_that_says_when_to_come_back_is_obeyed() -> None:
    queue = queue_at(Clock())
    assert queue.retry(A, at_least=7.0) == 7.0
    assert queue.next_due() == 7.0


@pytest.mark.parametrize("under_way", [True, False])
def test_an_event_does_not_come_before_the_time_that_a_server_has_named(under_way: bool) -> None:
    clock = Clock()
    queue = queue_at(clock)
    queue.add(A)
    assert queue.pop() == A
    if under_way:
        queue.add(A, urgent=True)
    queue.retry(A, at_least=5.0)
    queue.done(A)
    queue.add(A, urgent=True)
    clock.now += 4.9
    assert queue.pop() is None
    clock.now += 0.1
    assert queue.pop() == A
    queue.succeeded(A)
    queue.done(A)
    queue.add(A, urgent=True)
    clock.now += URGENT_SPACING_SECONDS
    assert queue.pop() == A


def test_depth_counts_what_is_due_and_not_what_waits_for_its_time() -> None:
    clock = Clock()
    queue = queue_at(clock)
    queue.add(A)
    queue.add(B, 60)
    assert queue.depth == 1
    assert queue.pop() == A
    assert queue.depth == 0
    clock.now += 61
    assert queue.depth == 1


def test_the_longest_pass_under_way_is_known() -> None:
    clock = Clock()
    queue = queue_at(clock)
    assert queue.longest_pass() == 0
    queue.add(A)
    queue.pop()
    clock.now += 40
    assert queue.longest_pass() == 40
    queue.done(A)
    assert queue.longest_pass() == 0


def test_hands_that_wait_are_woken_by_what_is_added() -> None:
    async def scenario() -> set[Key]:
        queue = queue_at(Clock())
        hands = [asyncio.create_task(queue.get()) for _ in range(2)]
        await asyncio.sleep(0)
        queue.add(A)
        queue.add(B)
        return set(await asyncio.wait_for(asyncio.gather(*hands), 5))

    assert asyncio.run(scenario()) == {A, B}


def test_a_closed_queue_waits_for_what_is_under_way_and_gives_out_no_more() -> None:
    async def scenario() -> bool:
        queue = queue_at(Clock())
        queue.add(A)
        await queue.get()
        queue.add(B)
        closing = asyncio.create_task(queue.close(60))
        hand = asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        assert not closing.done()
        queue.add(A)
        queue.done(A)
        await asyncio.wait_for(closing, 5)
        assert queue.next_due() is None
        return hand.done()

    assert asyncio.run(scenario()) is False


def test_a_closed_queue_does_not_wait_for_ever() -> None:
    async def scenario() -> None:
        queue = queue_at(Clock())
        queue.add(A)
        await queue.get()
        await asyncio.wait_for(queue.close(0.01), 5)

    asyncio.run(scenario())
