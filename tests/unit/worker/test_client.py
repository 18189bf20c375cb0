"""A worker's calls: patient for as long as the coordinator is away; refusals by their kind."""

import logging
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from dartes.errors import ConfigurationError, ExitCode
from dartes.rpc.tls import Credentials
from dartes.v1 import population_pb2 as wire
from dartes.v1 import population_pb2_grpc
from dartes_worker import client as client_module
from dartes_worker.client import (
    CALL_SECONDS,
    CoordinatorClient,
    IncarnationOverError,
    InterruptedWaitError,
    ReportRefusedError,
)

DEADLINE_SECONDS = 30.0


class Refusal(grpc.RpcError):  # type: ignore[misc]
    """An error as a stub raises it."""

    def __init__(self, code: grpc.StatusCode, details: str = "words") -> None:
        super().__init__(details)
        self._code, self._details = code, details

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details


class Waiting:
    """A lease call that is under way."""

    def __init__(self, outcome: wire.LeaseResponse | Exception | None) -> None:
        self._outcome = outcome
        self._cancelled = threading.Event()
        self.asked = threading.Event()

    def result(self) -> wire.LeaseResponse:
        self.asked.set()
        if self._outcome is None:
            assert self._cancelled.wait(DEADLINE_SECONDS)
            raise grpc.FutureCancelledError
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

    def cancel(self) -> None:
        self._cancelled.set()


class LeaseMethod:
    """The stub's Lease, which only gives futures."""

    def __init__(self, calls: list[Waiting]) -> None:
        self._calls = calls
        self.requests: list[wire.LeaseRequest] = []

    def future(self, request: wire.LeaseRequest, timeout: float) -> Waiting:
        assert timeout == CALL_SECONDS
        self.requests.append(request)
        return self._calls[len(self.requests) - 1]


class World:
    """A clock that moves with pauses, and a stub that answers from a script."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.pauses: list[float] = []
        self.script: list[Any] = []
        self.requests: list[Any] = []
        self.beats: list[wire.SessionRequest] = []
        self.sessions = 0
        self.beaten = threading.Event()
        self.opened = self.closed = 0
        monkeypatch.setattr(client_module, "open_channel", self.open)
        monkeypatch.setattr(population_pb2_grpc, "PopulationServiceStub", lambda _: self)
        self.Lease = LeaseMethod([])
        self.client = CoordinatorClient(
            "host:1", Credentials(b"", b"", b""), "worker-0", lambda: self.now, self.pause
        )

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def call(self, request: Any, timeout: float) -> Any:
        assert timeout == CALL_SECONDS
        self.requests.append(request)
        outcome = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    Register = Report = Updates = Attest = call

    def Session(self, beats: Iterator[wire.SessionRequest]) -> Iterator[wire.SessionResponse]:  # noqa: N802
        self.sessions += 1
        for beat in beats:
            self.beats.append(beat)
            self.beaten.set()
            yield wire.SessionResponse()
            if self.sessions == 1:
                raise Refusal(grpc.StatusCode.UNAVAILABLE)

    def open(self, *_: object) -> "World":
        self.opened += 1
        return self

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


AWAY = Refusal(grpc.StatusCode.UNAVAILABLE, "connection refused")


def test_a_coordinator_that_is_away_is_waited_for_with_a_growing_bounded_pause(world: World) -> None:
    world.script = [AWAY] * 7 + [Refusal(grpc.StatusCode.DEADLINE_EXCEEDED), wire.UpdatesResponse()]
    world.client.updates(0, 64)
    assert world.pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]
    assert len(world.requests) == 9


def test_patience_has_no_end_and_says_so_once_a_minute(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    an_hour = 1800
    world.script = [AWAY] * an_hour + [wire.UpdatesResponse()]
    world.client.updates(0, 64)
    assert world.now > 3500
    words = [record.getMessage() for record in caplog.records]
    assert words[0] == "the coordinator at host:1 does not answer; waiting for it (connection refused)"
    assert words[1].startswith("the coordinator at host:1 does not answer since 6")
    assert words[-1].startswith("the coordinator at host:1 answers again after 3")
    assert 55 <= len(words) <= 65


def test_an_interrupt_ends_the_wait_for_an_absent_coordinator(world: World) -> None:
    world.script = [AWAY]
    world.client.interrupt()
    with pytest.raises(InterruptedWaitError) as caught:
        world.client.register(wire.RegisterRequest())
    assert caught.value.exit_code == ExitCode.DRAINED
    assert len(world.requests) == 1


def test_what_is_worked_out_is_reported_even_after_an_interrupt_but_not_for_long(world: World) -> None:
    world.script = [AWAY, AWAY, wire.ReportResponse(accepted=True)]
    world.client.interrupt()
    assert world.client.report("1-1", 0, wire.Timings()).accepted
    assert world.pauses == [0.1, 0.2]
    world.script = [AWAY]
    with pytest.raises(InterruptedWaitError):
        world.client.report("1-2", 0, wire.Timings())
    assert 5.0 < sum(world.pauses[2:]) < 8.0


def test_a_channel_that_gets_no_answer_is_opened_anew(world: World) -> None:
    world.script = [AWAY] * 20 + [wire.UpdatesResponse()]
    world.client.updates(0, 64)
    assert sum(world.pauses) == pytest.approx(33.1)
    assert (world.opened, world.closed) == (1 + 3, 3), "every ten seconds, and the old one is closed"


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (grpc.StatusCode.ABORTED, IncarnationOverError),
        (grpc.StatusCode.INVALID_ARGUMENT, ReportRefusedError),
        (grpc.StatusCode.FAILED_PRECONDITION, ConfigurationError),
        (grpc.StatusCode.PERMISSION_DENIED, ConfigurationError),
        (grpc.StatusCode.INTERNAL, grpc.RpcError),
    ],
)
def test_a_refusal_is_told_by_its_status_code_and_never_repeated(
    world: World, code: grpc.StatusCode, error: type[Exception]
) -> None:
    world.script = [Refusal(code, "because")]
    with pytest.raises(error, match="because"):
        world.client.attest(wire.WeightsVersion(), "digest", rebuilt=False)
    assert (len(world.requests), world.pauses) == (1, [])


def test_calls_carry_the_name_and_the_incarnation_of_the_last_registration(world: World) -> None:
    world.script = [wire.RegisterResponse(incarnation=5, heartbeat_seconds=0.001)]
    world.client.register(wire.RegisterRequest())
    world.script = [wire.ReportResponse()]
    world.client.report("5-1", 3, wire.Timings(), evaluate=wire.EvaluateResult(member=2))
    report = world.requests[-1]
    assert (report.worker, report.incarnation, report.lease_id, report.iteration) == ("worker-0", 5, "5-1", 3)
    assert report.evaluate.member == 2
    world.client.close()


def test_presence_is_shown_after_registering_again_and_again_until_the_end(world: World) -> None:
    world.script = [wire.RegisterResponse(incarnation=5, heartbeat_seconds=0.001)]
    assert world.client._presence is None
    world.client.register(wire.RegisterRequest())
    first = world.client._presence
    world.client.register(wire.RegisterRequest())
    assert world.client._presence is first, "one thread, whatever happens"
    assert first is not None
    assert world.beaten.wait(DEADLINE_SECONDS)
    world.beaten.clear()
    assert world.beaten.wait(DEADLINE_SECONDS), "the broken stream is opened again"
    world.client.close()
    first.join(DEADLINE_SECONDS)
    assert not first.is_alive()
    assert world.closed == 1
    assert {(beat.worker, beat.incarnation) for beat in world.beats} == {("worker-0", 5)}


def test_a_lease_is_asked_for_with_weights_and_what_is_known(world: World) -> None:
    response = wire.LeaseResponse(done=wire.DoneAction())
    world.Lease = LeaseMethod([Waiting(AWAY), Waiting(response)])
    assert world.client.lease(wire.WeightsVersion(iteration=4), 5) == response
    assert [(r.weights.iteration, r.known_batch) for r in world.Lease.requests] == [(4, 5)] * 2
    assert world.pauses == [0.1]


def test_an_interrupt_ends_a_waiting_call_and_all_later_ones(world: World) -> None:
    waiting = Waiting(None)
    world.Lease = LeaseMethod([waiting])
    answers: list[wire.LeaseResponse | None] = []

    def ask() -> None:
        answers.append(world.client.lease(wire.WeightsVersion(), 0))

    thread = threading.Thread(target=ask)
    thread.start()
    assert waiting.asked.wait(DEADLINE_SECONDS)
    world.client.interrupt()
    thread.join(DEADLINE_SECONDS)
    ask()
    assert answers == [None, None]
    assert len(world.Lease.requests) == 1


def test_an_interrupt_before_any_call_is_remembered(world: World) -> None:
    world.client.interrupt()
    assert world.client.lease(wire.WeightsVersion(), 0) is None


def test_trouble_is_told_with_a_beat_that_comes_at_once(world: World) -> None:
    world.script = [wire.RegisterResponse(incarnation=5, heartbeat_seconds=10 * DEADLINE_SECONDS)]
    world.client.register(wire.RegisterRequest())
    for _ in ("of the stream that is broken", "of the next one"):
        assert world.beaten.wait(DEADLINE_SECONDS)
        world.beaten.clear()
    assert [beat.trouble for beat in world.beats] == ["", ""]
    for text in ("the service is down" + "!" * 5000, ""):
        world.client.tell_trouble(text)
        assert world.beaten.wait(DEADLINE_SECONDS)
        world.beaten.clear()
        assert world.beats[-1].trouble == text[: client_module.TROUBLE_CHARACTERS]
    world.client.close()
    presence = world.client._presence
    assert presence is not None
    presence.join(DEADLINE_SECONDS)
    assert not presence.is_alive()
