"""Events on jobs: one object per story, counted when it repeats, and never in the way."""

from datetime import UTC, datetime
from typing import Any

from dartes_operator.api import Api
from dartes_operator.events import QUIET_SECONDS, EventWriter
from dartes_operator.plan.types import Event

from .kit import NAMESPACE, FakeServer, job, with_server

LOST = Event("Warning", "WorkerDisrupted", "sums-worker-0 was preempted")


def write(server: FakeServer, *events: tuple[float, Event], owner: Any = None) -> None:
    """Write these events at these seconds."""
    now = [0.0]

    async def scenario(api: Api) -> None:
        writer = EventWriter(api, "pod", lambda: now[0], lambda: datetime(2030, 1, 1, tzinfo=UTC))
        for now[0], event in events:
            await writer.write(owner or job(), event)

    with_server(server, scenario)


def stored(server: FakeServer) -> list[dict[str, Any]]:
    return list(server.objects.values())


def test_an_event_names_the_job_that_it_is_about() -> None:
    server = FakeServer()
    write(server, (0, LOST))
    event = stored(server)[0]
    assert event["involvedObject"]["uid"] == job()["metadata"]["uid"]
    assert (event["type"], event["reason"], event["message"]) == (LOST.type, LOST.reason, LOST.message)
    assert event["metadata"]["namespace"] == NAMESPACE
    assert event["count"] == 1


def test_a_repetition_soon_after_costs_no_request_and_a_later_one_raises_the_count() -> None:
    server = FakeServer()
    write(server, (0, LOST), (1, LOST), (2, LOST), (QUIET_SECONDS, LOST))
    assert [call.method for call in server.calls] == ["POST", "PATCH"]
    assert stored(server)[0]["count"] == 4


def test_an_event_written_before_a_restart_is_counted_on_and_not_doubled() -> None:
    server = FakeServer()
    write(server, (0, LOST))
    write(server, (0, LOST))
    assert len(stored(server)) == 1
    assert stored(server)[0]["count"] == 2


def test_other_messages_and_other_jobs_have_events_of_their_own() -> None:
    server = FakeServer()
    write(server, (0, LOST), (0, Event("Warning", LOST.reason, "sums-worker-1 was preempted")))
    write(server, (0, LOST), owner=job(uid="uid-of-the-successor"))
    assert len(stored(server)) == 3


def test_a_refused_event_disturbs_nobody() -> None:
    server = FakeServer()
    server.refuse("POST", "events", 403, "no events here")
    server.refuse("POST", "events", 500, "broken")
    write(server, (0, LOST), (0, Event("Normal", "Accepted", "fine")))
    assert stored(server) == []
