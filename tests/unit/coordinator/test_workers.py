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


SERVICE_DOWN = "rewards are unavailable: no answer"


def troubled(*names: str) -> Workers:
    """Workers u and v, of whom those named have said that their rewards are unavailable."""
    workers = Workers()
    for name in ("u", "v"):
        workers.beat(name, workers.open_session(), 0.0, SERVICE_DOWN if name in names else "")
    return workers


def test_trouble_holds_the_run_up_until_somebody_fills_a_lease() -> None:
    workers = troubled("u")
    assert workers.hindrance() == f"worker u: {SERVICE_DOWN}"
    workers.filled()
    assert workers.hindrance() is None
    workers.beat("u", 0, 1.0, SERVICE_DOWN + ", tried 8 times")
    assert workers.hindrance() is None, "the same trouble in other words has not begun anew"


def test_trouble_that_begins_later_holds_it_up_again() -> None:
    workers = troubled("u")
    workers.filled()
    workers.beat("v", 1, 1.0, SERVICE_DOWN)
    assert workers.hindrance() == f"worker v: {SERVICE_DOWN}"
    workers.beat("v", 1, 2.0, "")
    assert workers.hindrance() is None


def test_the_newest_words_are_shown_with_the_number_of_others() -> None:
    workers = troubled("u", "v")
    workers.beat("u", 0, 1.0, "tried 8 times")
    assert workers.hindrance() == "worker u (and 1 other worker): tried 8 times"


def test_the_trouble_of_a_worker_that_is_gone_is_gone() -> None:
    workers = troubled("u")
    workers.beat("v", 1, LOST_AFTER_SECONDS + 1, "")
    assert workers.silent(LOST_AFTER_SECONDS + 1) == ["u"]
    assert workers.hindrance() is None


def test_each_turn_of_the_trouble_is_news_once() -> None:
    workers = troubled()
    assert workers.turn() is None
    workers.beat("u", 0, 1.0, SERVICE_DOWN)
    assert workers.turn() == f"worker u: {SERVICE_DOWN}"
    workers.beat("u", 0, 2.0, "in other words")
    assert workers.turn() is None
    workers.beat("u", 0, 3.0, "")
    assert [workers.turn(), workers.turn()] == ["", None]
