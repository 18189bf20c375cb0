"""The lease table: what waits, who holds what, and that every task is filled exactly once."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dartes_coordinator.leases import LEASE_SECONDS, LeaseTable, LeaseTask, TaskKind, members_per_lease

TASKS = [LeaseTask(TaskKind.MEMBER, member=m, slice_index=k) for m in range(3) for k in range(2)]
A, B = LeaseTask(TaskKind.MEMBER, member=0), LeaseTask(TaskKind.MEMBER, member=1)


def taken(table: LeaseTable, worker: str, now: float = 0.0) -> LeaseTask:
    grant = table.take(worker, now)
    assert grant is not None
    return grant.task


def test_tasks_are_handed_out_in_order_and_each_once() -> None:
    table = LeaseTable([A, B])
    assert [taken(table, "u"), taken(table, "v")] == [A, B]
    assert table.take("w", 0.0) is None


def test_a_task_may_not_be_listed_twice() -> None:
    with pytest.raises(ValueError, match="twice"):
        LeaseTable([A, A])


def test_the_leases_of_a_lost_worker_are_the_next_to_go_out() -> None:
    table = LeaseTable([A, B])
    taken(table, "u")
    assert table.release("u") == 1
    grant = table.take("v", 1.0)
    assert grant is not None
    assert (grant.task, grant.attempt, table.reissued) == (A, 2, 1)


def test_a_worker_that_asks_again_has_given_up_what_it_held() -> None:
    table = LeaseTable([A, B])
    taken(table, "u")
    assert taken(table, "u") == A
    assert table.holders(A) == ("u",)


def test_releasing_a_worker_that_holds_nothing_changes_nothing() -> None:
    table = LeaseTable([A])
    assert table.release("u") == 0
    assert table.reissued == 0


@pytest.mark.parametrize(
    ("waiting", "workers", "member_seconds", "count"),
    [
        (32, 2, None, 1),  # nothing is known of the members yet
        (32, 2, 0.0, 1),
        (32, 2, LEASE_SECONDS, 1),
        (32, 2, LEASE_SECONDS / 4, 4),
        (32, 2, 1e-9, 8),  # half of a worker's share of what waits
        (7, 2, 1e-9, 1),  # towards the end one by one, so that all end together
        (0, 0, 1e-9, 1),
    ],
)
def test_short_members_are_handed_out_several_at_a_time(
    waiting: int, workers: int, member_seconds: float | None, count: int
) -> None:
    assert members_per_lease(waiting, workers, member_seconds) == count


def test_members_taken_together_are_held_together_and_go_back_together() -> None:
    table = LeaseTable([A, B, LeaseTask(TaskKind.PARENT)])
    taken(table, "u")
    more = table.take_more("u", 0.0, 5)
    assert [grant.task for grant in more] == [B], "a parent is a lease of its own"
    assert (table.holders(A), table.holders(B), table.waiting_count) == (("u",), ("u",), 1)
    assert table.release("u") == 2
    assert table.waiting_count == 3


def test_the_first_report_fills_a_task_and_the_second_is_dropped() -> None:
    table = LeaseTable([A, B])
    taken(table, "u")
    assert table.fill(A, "u", b"x", 1.0)
    assert not table.fill(A, "u", b"x", 1.0)
    assert (table.done_count, table.nondeterministic) == (1, 0)


def test_a_second_report_that_differs_is_counted() -> None:
    table = LeaseTable([A])
    taken(table, "u")
    table.fill(A, "u", b"x", 1.0)
    table.fill(A, "v", b"y", 1.0)
    assert table.nondeterministic == 1


def test_the_report_of_a_lost_worker_counts_where_nobody_was_faster() -> None:
    table = LeaseTable([A])
    taken(table, "u")
    table.release("u")
    assert table.fill(A, "u", b"x", 1.0)
    assert table.complete
    assert table.take("v", 1.0) is None


def test_a_report_on_an_unknown_task_is_an_error() -> None:
    with pytest.raises(KeyError):
        LeaseTable([A]).fill(B, "u", b"", 0.0)


def table_with_a_slow_lease() -> LeaseTable:
    """u took A at 0 and is still at it; v did B in one second."""
    table = LeaseTable([A, B])
    taken(table, "u", 0.0)
    taken(table, "v", 0.0)
    table.fill(B, "v", b"", 1.0)
    return table


def test_a_lease_older_than_twice_the_median_is_offered_to_somebody_else() -> None:
    table = table_with_a_slow_lease()
    assert table.take("v", 1.9) is None
    assert table.next_speculation("v", 1.5) == pytest.approx(0.5)
    assert taken(table, "v", 2.0) == A
    assert set(table.holders(A)) == {"u", "v"}
    assert (table.speculated, table.reissued) == (1, 0)


def test_a_slow_worker_is_not_offered_its_own_lease_as_speculation() -> None:
    table = table_with_a_slow_lease()
    assert table.next_speculation("u", 9.0) is None


def test_a_speculated_lease_is_offered_again_only_when_its_second_holder_is_slow_too() -> None:
    table = table_with_a_slow_lease()
    taken(table, "v", 2.0)
    assert table.take("w", 3.9) is None
    assert table.next_speculation("w", 3.0) == pytest.approx(1.0)
    assert taken(table, "w", 4.0) == A


def test_losing_one_of_two_holders_leaves_the_lease_with_the_other() -> None:
    table = table_with_a_slow_lease()
    taken(table, "v", 2.0)
    assert table.release("u") == 0
    assert table.holders(A) == ("v",)


def test_nothing_is_speculated_while_work_waits_or_no_duration_is_known() -> None:
    table = LeaseTable([A, B])
    taken(table, "u", 0.0)
    assert table.next_speculation("v", 100.0) is None
    taken(table, "v", 0.0)
    assert table.next_speculation("w", 100.0) is None
    assert table.take("w", 100.0) is None


def test_the_duration_of_a_speculated_lease_is_that_of_the_worker_who_did_it() -> None:
    c = LeaseTask(TaskKind.MEMBER, member=2)
    table = LeaseTable([A, B, c])
    for worker in ("u", "v", "w"):
        taken(table, worker, 0.0)
    table.fill(B, "v", b"", 1.0)
    assert taken(table, "v", 50.0) == A
    table.fill(A, "v", b"", 51.0)
    # Durations are 1 and 1, not 1 and 51: c, held since 0, has been slow since 2.
    assert table.next_speculation("v", 51.0) == 0.0
    assert taken(table, "v", 51.0) == c


def test_a_reset_makes_every_task_wait_again_and_forgets_holders() -> None:
    table = table_with_a_slow_lease()
    table.reset()
    assert (table.done_count, table.holders(A)) == (0, ())
    assert [taken(table, "x"), taken(table, "y")] == [A, B]
    assert table.fill(B, "y", b"other answers", 2.0)
    assert table.nondeterministic == 0


class LeaseMachine(RuleBasedStateMachine):
    """Takes, losses, reports early, late and twice, in any order: each task is filled exactly once."""

    @initialize()
    def begin(self) -> None:
        self.table = LeaseTable(TASKS)
        self.now = 0.0
        self.working: dict[str, LeaseTask] = {}
        self.late: list[tuple[str, LeaseTask]] = []
        self.accepted: dict[LeaseTask, int] = dict.fromkeys(TASKS, 0)

    @rule(worker=st.sampled_from("uvwx"), seconds=st.floats(0, 5))
    def take(self, worker: str, seconds: float) -> None:
        self.now += seconds
        grant = self.table.take(worker, self.now)
        if worker in self.working:
            self.late.append((worker, self.working.pop(worker)))
        if grant is not None:
            assert self.accepted[grant.task] == 0
            assert worker in self.table.holders(grant.task)
            self.working[worker] = grant.task

    @precondition(lambda self: self.working)
    @rule(data=st.data())
    def report(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(sorted(self.working)))
        task = self.working.pop(worker)
        self.late.append((worker, task))  # it may be sent twice
        self.fill(task, worker)

    @precondition(lambda self: self.late)
    @rule(data=st.data())
    def late_report(self, data: st.DataObject) -> None:
        worker, task = data.draw(st.sampled_from(self.late))
        self.fill(task, worker)

    @rule(worker=st.sampled_from("uvwx"))
    def lose(self, worker: str) -> None:
        self.table.release(worker)
        if worker in self.working:
            self.late.append((worker, self.working.pop(worker)))

    @rule()
    def reset(self) -> None:
        self.table.reset()
        self.working.clear()
        self.late.clear()
        self.accepted = dict.fromkeys(TASKS, 0)

    def fill(self, task: LeaseTask, worker: str) -> None:
        first = self.table.fill(task, worker, b"", self.now)
        assert first == (self.accepted[task] == 0)
        self.accepted[task] += first

    @invariant()
    def every_task_is_in_one_place(self) -> None:
        filled = {t for t in TASKS if self.table.is_filled(t)}
        assert filled == {t for t, count in self.accepted.items() if count == 1}
        assert max(self.accepted.values()) <= 1
        assert self.table.complete == (len(filled) == len(TASKS))
        assert not any(self.table.holders(t) for t in filled)
        assert self.table.nondeterministic == 0

    def teardown(self) -> None:
        """Whatever happened, one patient worker can finish what is left."""
        if not hasattr(self, "table"):
            return
        for worker in "uvwx":
            self.table.release(worker)
        while (grant := self.table.take("patient", self.now)) is not None:
            self.fill(grant.task, "patient")
        assert self.table.complete
        assert set(self.accepted.values()) == {1}


LeaseMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestLeaseMachine = LeaseMachine.TestCase
