"""Asking coordinators: whom, how often, with whose certificate, and what wakes a job."""

import asyncio
import base64
import dataclasses
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

import grpc
import grpc.aio
import pytest

from dartes.rpc import tls
from dartes.rpc.channel import server_credentials
from dartes.v1 import control_pb2, control_pb2_grpc
from dartes_operator import progress
from dartes_operator.api import Api
from dartes_operator.cache import Cache
from dartes_operator.certificates import ROLES, issue_certificates
from dartes_operator.kinds import Key
from dartes_operator.plan.types import IssueCertificates
from dartes_operator.progress import (
    OFTEN_SECONDS,
    SELDOM_SECONDS,
    ProgressPoller,
    interval,
    targets_in,
    to_progress,
)

from .kit import JOB_UID, NAMESPACE, FakeServer, job, owned, with_server

KEY = Key(NAMESPACE, "sums")
TIME = datetime(2030, 1, 1, tzinfo=UTC)


def coordinator_pod(
    *, mark: str = "m", phase: str = "Running", role: str = "coordinator", **meta: Any
) -> dict[str, Any]:
    pod = owned(
        "Pod",
        "sums-coordinator",
        labels={"dartes.dev/role": role},
        annotations={"dartes.dev/authority": mark},
        **{"resourceVersion": "5", **meta},
    )
    return {**pod, "status": {"phase": phase, "podIP": "127.0.0.1"}}


def cache_with(*objects: dict[str, Any]) -> Cache:
    cache = Cache()
    for manifest in objects:
        cache.put(manifest)
    return cache


class Coordinator(control_pb2_grpc.ControlServiceServicer):
    """Says what it is told to, and counts how often it was asked."""

    def __init__(self) -> None:
        self.answer = control_pb2.StatusResponse(
            phase=control_pb2.PHASE_RUNNING, iteration=3, total_iterations=20, estimated_remaining_seconds=100
        )
        self.asked = 0

    async def Status(  # noqa: N802 - the name is the protocol's
        self, _request: Any, _context: Any
    ) -> control_pb2.StatusResponse:
        self.asked += 1
        return self.answer


class Scene:
    """A poller, its clock, and a coordinator with real certificates behind a real port."""

    def __init__(self, api: Api, cache: Cache, coordinator: Coordinator, port: int) -> None:
        self.cache = cache
        self.coordinator = coordinator
        self.now = 0.0
        self.woken: list[Key] = []
        self.poller = ProgressPoller(api, cache, self.woken.append, lambda: self.now, lambda: TIME, port)

    async def tick(self, seconds: float = 0.0) -> None:
        self.now += seconds
        await self.poller.tick()


Script = Callable[[Scene], Coroutine[Any, Any, None]]


def play(script: Script, server: FakeServer | None = None) -> FakeServer:
    """Run a script against a coordinator whose certificates are in the API server."""
    server = server or FakeServer()

    async def scenario(api: Api) -> None:
        roles = {role: owned("Secret", f"sums-tls-{role}")["metadata"] for role in ROLES}
        mark = await issue_certificates(api, IssueCertificates(roles, ()), JOB_UID)
        stored = server.objects[f"/api/v1/namespaces/{NAMESPACE}/secrets/sums-tls-coordinator"]["data"]
        parts = [base64.b64decode(stored[name]) for name in ("ca.crt", "tls.crt", "tls.key")]
        coordinator = Coordinator()
        listener = grpc.aio.server()
        control_pb2_grpc.add_ControlServiceServicer_to_server(coordinator, listener)
        port = listener.add_secure_port("127.0.0.1:0", server_credentials(tls.Credentials(*parts)))
        await listener.start()
        scene = Scene(api, cache_with(job(), coordinator_pod(mark=mark)), coordinator, port)
        running = asyncio.create_task(script(scene))
        try:
            await running
        finally:
            polling = asyncio.create_task(scene.poller.run())
            await asyncio.sleep(0)
            polling.cancel()
            await asyncio.gather(polling, return_exceptions=True)
            await listener.stop(None)

    with_server(server, scenario)
    return server


def test_an_answer_is_kept_and_wakes_the_job() -> None:
    async def script(scene: Scene) -> None:
        await scene.tick()
        known = scene.cache.progress(KEY, job())
        assert known is not None
        assert (known.phase, known.iteration) == ("PHASE_RUNNING", 3)
        assert scene.woken == [KEY]

    play(script)


def test_the_same_answer_again_wakes_nobody_and_a_new_iteration_does() -> None:
    async def script(scene: Scene) -> None:
        await scene.tick()
        scene.coordinator.answer.estimated_remaining_seconds = 90
        await scene.tick(SELDOM_SECONDS)
        assert scene.woken == [KEY]
        scene.coordinator.answer.iteration = 4
        await scene.tick(SELDOM_SECONDS)
        assert scene.woken == [KEY, KEY]
        assert scene.coordinator.asked == 3

    play(script)


def test_a_coordinator_is_not_asked_before_it_is_time() -> None:
    async def script(scene: Scene) -> None:
        await scene.tick()
        await scene.tick(SELDOM_SECONDS - 0.1)
        assert scene.coordinator.asked == 1

    play(script)


def test_the_certificate_is_read_once_and_polling_writes_nothing() -> None:
    async def script(scene: Scene) -> None:
        for _ in range(5):
            await scene.tick(SELDOM_SECONDS)

    server = play(script)
    assert server.named("GET") == ["sums-tls-operator"]
    assert {call.method for call in server.calls[3:]} == {"GET"}


def test_a_coordinator_with_a_new_authority_is_called_with_the_new_certificate() -> None:
    async def script(scene: Scene) -> None:
        await scene.tick()
        scene.cache.put(coordinator_pod(mark="another", resourceVersion="6"))
        await scene.tick(SELDOM_SECONDS)

    assert play(script).named("GET") == ["sums-tls-operator"] * 2


def test_no_answer_keeps_the_last_one_and_is_asked_for_again() -> None:
    async def script(scene: Scene) -> None:
        await scene.tick()

        async def silent(request: Any, context: Any) -> None:
            scene.coordinator.asked += 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "busy")

        scene.coordinator.Status = silent  # type: ignore[assignment, method-assign]
        await scene.tick(SELDOM_SECONDS)
        assert scene.cache.progress(KEY, job()) is not None

    play(script)


def test_progress_ends_with_the_coordinators_pod() -> None:
    async def script(scene: Scene) -> None:
        await scene.tick()
        scene.cache.put(coordinator_pod(phase="Failed", resourceVersion="6"))
        await scene.tick(SELDOM_SECONDS)
        assert scene.cache.progress(KEY, job()) is None
        assert scene.coordinator.asked == 1

    play(script)


def test_a_phase_of_a_newer_coordinator_is_told_as_unspecified() -> None:
    async def script(scene: Scene) -> None:
        scene.coordinator.answer.phase = 99  # type: ignore[assignment]
        await scene.tick()
        known = scene.cache.progress(KEY, job())
        assert known is not None
        assert (known.phase, known.iteration) == ("PHASE_UNSPECIFIED", 3)

    play(script)


def test_a_bug_of_one_job_neither_ends_the_polling_nor_fills_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def script(scene: Scene) -> None:
        for text in ("one", "one", "another"):
            monkeypatch.setattr(progress, "to_progress", _raising(text))
            await scene.tick(SELDOM_SECONDS - 0.1)
            await scene.tick(0.1)
        assert scene.coordinator.asked == 3
        monkeypatch.undo()
        await scene.tick(SELDOM_SECONDS)
        assert scene.cache.progress(KEY, job()) is not None

    play(script)
    said = [record for record in caplog.records if record.exc_info]
    assert [str(record.exc_info[1]) for record in said if record.exc_info] == ["one", "another"]


def test_a_bug_before_the_line_is_open_is_survived_too(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def script(scene: Scene) -> None:
        monkeypatch.setattr(progress, "credentials_in", _raising("one"))
        for _ in range(3):
            await scene.tick(SELDOM_SECONDS)
        assert scene.coordinator.asked == 0

    play(script)
    assert len([record for record in caplog.records if record.exc_info]) == 1


def _raising(text: str) -> Callable[..., Any]:
    def fail(*_: Any) -> Any:
        raise ValueError(text)

    return fail


def test_a_certificate_that_is_not_there_yet_is_looked_for_later() -> None:
    async def script(scene: Scene) -> None:
        await scene.tick()
        await scene.tick(SELDOM_SECONDS - 0.1)
        assert scene.coordinator.asked == 0
        await scene.tick(SELDOM_SECONDS)
        assert scene.coordinator.asked == 1

    server = FakeServer()
    server.refuse("GET", "sums-tls-operator", 404, times=1)
    play(script, server)


@pytest.mark.parametrize(
    ("pod", "asked"),
    [
        (coordinator_pod(), True),
        (coordinator_pod(phase="Pending"), False),
        (coordinator_pod(phase="Succeeded"), False),
        (coordinator_pod(role="worker"), False),
        (coordinator_pod(deletionTimestamp="2030-01-01T00:00:00Z"), False),
        ({**coordinator_pod(), "status": {"phase": "Running"}}, False),
    ],
)
def test_only_a_running_coordinator_is_asked(pod: dict[str, Any], asked: bool) -> None:
    assert bool(targets_in(cache_with(job(), pod))) == asked


def test_a_finished_job_is_left_in_peace() -> None:
    done = job(status={"conditions": [{"type": "Complete", "status": "True"}]})
    assert targets_in(cache_with(done, coordinator_pod())) == []


def test_an_address_of_the_newer_kind_is_put_in_brackets() -> None:
    pod = {**coordinator_pod(), "status": {"phase": "Running", "podIP": "fd00::7"}}
    assert targets_in(cache_with(job(), pod))[0].address == "[fd00::7]:7443"


def test_the_first_commit_and_the_end_are_watched_closely() -> None:
    running = to_progress(Coordinator().answer, TIME)
    assert interval(running) == SELDOM_SECONDS
    assert interval(dataclasses.replace(running, iteration=0)) == OFTEN_SECONDS
    assert interval(dataclasses.replace(running, iteration=19)) == OFTEN_SECONDS
    assert interval(dataclasses.replace(running, estimated_remaining_seconds=8)) == OFTEN_SECONDS


def test_what_people_should_be_told_comes_along() -> None:
    assert to_progress(control_pb2.StatusResponse(notes=["a loss"]), TIME).notes == ("a loss",)


def test_the_latest_evaluation_is_the_one_that_is_told() -> None:
    scores = [
        control_pb2.EvaluationScore(set_name="held-out", iteration=10, passed=9, problems=10),
        control_pb2.EvaluationScore(set_name="held-out", iteration=0, passed=1, problems=10),
    ]
    assert to_progress(control_pb2.StatusResponse(evaluations=scores), TIME).eval_accuracy == 0.9
    assert to_progress(control_pb2.StatusResponse(), TIME).eval_accuracy is None
