"""An operator and a coordinator of two releases: what either does not know is left out, and the job goes on.

The older coordinator speaks the protocol as compatibility/protocol.json has it, over a real connection with
the job's certificates.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

from dartes.v1 import control_pb2
from dartes_operator.plan.types import Progress
from dartes_operator.progress import to_progress
from testcluster.previous import RETIRED, UNTOLD

from ..operator_plan.kit import running
from .kit import job
from .test_progress import KEY, Scene, play

RECORDED = Path(__file__).resolve().parents[3] / "compatibility" / "protocol.json"
STATUS = "dartes.v1.StatusResponse"
TIME = datetime(2030, 1, 1, tzinfo=UTC)


def older_message() -> Any:
    """An empty `StatusResponse` as the last release knows it."""
    image = json_format.ParseDict(
        json.loads(RECORDED.read_text(encoding="utf-8")),
        descriptor_pb2.FileDescriptorSet(),
        ignore_unknown_fields=True,
    )
    pool = descriptor_pool.DescriptorPool()
    for file in image.file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(STATUS))()


def older_words(**values: Any) -> bytes:
    """What a coordinator of the last release sends, with a field that has been retired since."""
    message = older_message()
    for name, value in values.items():
        setattr(message, name, value)
    words: bytes = message.SerializeToString()
    return words + RETIRED


def heard(words: bytes) -> Progress:
    """What the operator makes of an answer over the wire."""
    found: list[Progress] = []

    async def script(scene: Scene) -> None:
        scene.coordinator.answer = control_pb2.StatusResponse.FromString(words)
        await scene.tick()
        known = scene.cache.progress(KEY, job())
        assert known is not None
        found.append(known)

    play(script)
    return found[0]


def test_an_older_coordinator_is_understood() -> None:
    words = older_words(
        phase=control_pb2.PHASE_RUNNING,
        incarnation=2,
        iteration=7,
        total_iterations=20,
        train_pass_rate=0.5,
        workers_connected=2,
        workers_caught_up=1,
        journal_hash="aa",
        weight_digest="bb",
    )
    progress = heard(words)
    assert (progress.phase, progress.incarnation, progress.iteration) == ("PHASE_RUNNING", 2, 7)
    assert (progress.total_iterations, progress.workers_connected, progress.workers_caught_up) == (20, 2, 1)
    assert (progress.journal_hash, progress.weight_digest) == ("aa", "bb")
    assert (progress.stage, progress.stages, progress.eval_accuracy) == (0, 0, None)


def test_a_job_shows_what_an_older_coordinator_tells() -> None:
    cluster = running()
    cluster.progress = heard(older_words(phase=control_pb2.PHASE_RUNNING, iteration=7, total_iterations=20))
    cluster.settle()
    assert cluster.status["phase"] == "Running"
    assert cluster.status["progress"]["iteration"] == 7
    assert "stage" not in cluster.status["progress"]
    assert cluster.condition("Progressing")["status"] == "True"


def test_an_answer_that_says_nearly_nothing_is_no_bug() -> None:
    cluster = running()
    cluster.progress = heard(RETIRED)
    cluster.settle()
    assert cluster.status["phase"] == "Running"
    assert cluster.status["progress"]["iteration"] == 0


def test_a_newer_coordinator_is_understood_by_an_operator_that_was_rolled_back() -> None:
    answer = control_pb2.StatusResponse(iteration=7, total_iterations=20)
    # Phase 99, in a field that there is.
    progress = to_progress(
        control_pb2.StatusResponse.FromString(answer.SerializeToString() + b"\x08\x63" + RETIRED), TIME
    )
    assert (progress.phase, progress.iteration) == ("PHASE_UNSPECIFIED", 7)


@pytest.mark.parametrize("name", UNTOLD)
def test_no_field_that_an_older_coordinator_leaves_out_is_needed(name: str) -> None:
    whole = control_pb2.StatusResponse(
        phase=control_pb2.PHASE_RUNNING, iteration=7, total_iterations=20, stage=1, stages=2, notes=["n"]
    )
    whole.ClearField(name)
    assert to_progress(whole, TIME).iteration == 7
