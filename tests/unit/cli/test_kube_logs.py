"""`kubectl dartes logs` finds the pod that is meant and makes its lines readable without losing any."""

import json
from datetime import UTC
from pathlib import Path

import pytest

from dartes.cli.kube.loglines import readable
from dartes.cli.kube.main import main

from .kube_kit import FakeKubectl, job, listing, pod

LINE = json.dumps(
    {
        "time": "2026-11-29T12:00:05.123Z",
        "level": "INFO",
        "logger": "dartes_coordinator.round",
        "message": "iteration 3 is committed",
        "job": "tiny",
        "pod": "tiny-coordinator",
        "incarnation": 2,
    }
)


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeKubectl:
    fake = FakeKubectl(tmp_path / "bin")
    monkeypatch.setenv("PATH", fake.path)
    monkeypatch.setenv("TZ", "UTC")
    fake.on("logs", out=f"{LINE}\nplain words\n")
    fake.on_get("dartesjobs.dartes.dev", document=job(phase="Running"))
    return fake


def shown(line: str, of: str | None = "p") -> list[str]:
    return list(readable(line, of, UTC))


def test_a_json_line_becomes_time_level_pod_and_message() -> None:
    assert shown(LINE, "tiny-coordinator") == ["12:00:05 INFO tiny-coordinator iteration 3 is committed"]
    assert shown(f"[pod/tiny-worker-1/worker] {LINE}", None) == [
        "12:00:05 INFO tiny-worker-1 iteration 3 is committed"
    ]


@pytest.mark.parametrize("line", ["plain words", "", "{", '{"a": 1}', "[1, 2]", "{" * 3000, '{"message"'])
def test_lines_of_another_shape_pass_through(line: str) -> None:
    assert shown(line) == [line]


def test_an_exception_follows_its_line() -> None:
    line = json.dumps({"level": "CRITICAL", "message": "boo", "exception": "Traceback\n  File x"})
    assert shown(line) == ["--:--:-- CRITICAL p boo", "         Traceback", "           File x"]


def test_a_log_cannot_steer_the_terminal() -> None:
    assert shown("\x1b[2Jgone") == ["\ufffd[2Jgone"]
    assert shown(json.dumps({"message": "a\u001b]0;b\u0007"})) == ["--:--:-- - p a\ufffd]0;b\ufffd"]


def test_the_coordinator_is_shown_by_default(
    kubectl: FakeKubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl.on_get(
        "pods",
        document=listing(
            pod("tiny-coordinator", "coordinator", "Running"),
            pod("tiny-coordinator-old", "coordinator", "Failed", created="2026-11-29T13:00:00Z"),
        ),
    )
    assert main(["logs", "tiny"]) == 0
    assert "INFO tiny-coordinator iteration 3 is committed\nplain words\n" in capsys.readouterr().out
    (call,) = kubectl.calls("logs")
    assert call["words"] == ["logs", "tiny-coordinator", "--container=coordinator", "--tail=-1"]
    (asked,) = kubectl.calls("pods")
    assert "dartes.dev/job-name=tiny,dartes.dev/role=coordinator" in asked["words"]


def test_options_are_handed_on(kubectl: FakeKubectl, capsys: pytest.CaptureFixture[str]) -> None:
    kubectl.on_get(
        "pods", document=listing(*(pod(f"tiny-worker-{i}", "worker", "Running", i) for i in range(3)))
    )
    assert main(["logs", "tiny", "--worker", "2", "-f", "--tail", "5", "--since", "10m", "--raw"]) == 0
    (call,) = kubectl.calls("logs")
    assert call["words"] == [
        "logs", "tiny-worker-2", "--container=worker", "--tail=5", "--follow", "--since=10m",
    ]  # fmt: skip
    assert capsys.readouterr().out == f"{LINE}\nplain words\n"


def test_previous_is_the_pod_that_failed_last(kubectl: FakeKubectl) -> None:
    def ended(at: str) -> dict[str, object]:
        return {"terminated": {"exitCode": 1, "finishedAt": at}}

    kubectl.on_get(
        "pods",
        document=listing(
            pod("tiny-worker-0-2", "worker", "Running", 0),
            pod("tiny-worker-0", "worker", "Failed", 0, state=ended("2026-11-29T12:10:00Z")),
            pod("tiny-worker-0-1", "worker", "Failed", 0, state=ended("2026-11-29T12:20:00Z")),
        ),
    )
    assert main(["logs", "tiny", "--worker", "0", "--previous"]) == 0
    assert kubectl.calls("logs")[0]["words"][1] == "tiny-worker-0-1"


def test_all_follows_every_pod_of_the_job_but_our_own(kubectl: FakeKubectl) -> None:
    kubectl.on_get("pods", document=listing(pod("tiny-coordinator", "coordinator")))
    assert main(["logs", "tiny", "--all"]) == 0
    (call,) = kubectl.calls("logs")
    assert "dartes.dev/job-name=tiny,dartes.dev/role!=reader" in call["words"]
    assert "--tail=-1" in call["words"], "kubectl would show ten lines of each"
    assert "--prefix" in call["words"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "tiny has no pod of the coordinator now; kubectl dartes status tiny says why"),
        (["--worker", "7"], "tiny has no pod of worker 7 now"),
        (["--previous"], "tiny has no failed pod of the coordinator now"),
        (["--all"], "tiny has no pods now"),
        (["--all", "--previous"], "--previous is of one pod"),
    ],
)
def test_where_there_is_no_pod_the_message_says_where_to_look(
    arguments: list[str], words: str, kubectl: FakeKubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl.on_get("pods", document=listing())
    assert main(["logs", "tiny", *arguments]) == 64
    assert words in capsys.readouterr().err


def test_what_kubectl_refuses_comes_after_what_it_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = FakeKubectl(tmp_path / "other")
    monkeypatch.setenv("PATH", fake.path)
    fake.on_get("pods", document=listing(pod("tiny-coordinator", "coordinator")))
    words = 'container "coordinator" in pod "tiny-coordinator" is waiting to start: ContainerCreating'
    fake.on("logs", out="so far\n", err=f"Error from server (BadRequest): {words}\n", code=1)
    assert main(["logs", "tiny"]) == 64
    said = capsys.readouterr()
    assert said.out == "so far\n"
    assert words in said.err
