"""Presence: heartbeats, streams that end, processes that are replaced under the same name."""

from dartes_coordinator.workers import LOST_AFTER_SECONDS, Workers


def test_the_end_of_its_only_stream_loses_a_worker() -> None:
    workers = Workers()
    session = workers.open_session()
    workers.beat("u", session, 0.0)
    assert workers.close_session("u", session)
    assert "u" not in workers


def test_a_replaced_process_is_not_lost_when_the_old_stream_ends() -> None:
    workers = Workers()
    old, new = workers.open_session(), workers.open_session()
    workers.beat("u", old, 0.0)
    workers.beat("u", new, 1.0)
    assert not workers.close_session("u", old)
    assert "u" in workers
    assert workers.close_session("u", new)


def test_a_silent_worker_is_lost_once() -> None:
    workers = Workers()
    workers.heard("u", 0.0)
    workers.heard("v", 1.0)
    assert workers.silent(LOST_AFTER_SECONDS) == []
    assert workers.silent(LOST_AFTER_SECONDS + 0.5) == ["u"]
    assert workers.silent(LOST_AFTER_SECONDS + 0.5) == []
    assert [w.name for w in workers.connected()] == ["v"]


def test_a_beat_on_the_old_stream_brings_a_worker_back_with_its_stream() -> None:
    workers = Workers()
    session = workers.open_session()
    workers.beat("u", session, 0.0)
    workers.silent(100.0)
    workers.beat("u", session, 101.0)
    assert "u" in workers
    assert workers.close_session("u", session)


def test_the_end_of_a_stream_that_counts_no_more_loses_nobody() -> None:
    workers = Workers()
    session = workers.open_session()
    workers.beat("u", session, 0.0)
    workers.silent(100.0)
    workers.heard("u", 101.0)
    assert not workers.close_session("u", session)
    assert not workers.close_session("nobody", session)
    assert "u" in workers
