"""Every refusal of kubectl becomes one plain line with an exit code, and no wait is without end."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from dartes.cli.kube.kubectl import Kubectl, NotFoundError, Target, refusal
from dartes.cli.kube.main import main
from dartes.errors import ConfigurationError, DartesError, TransientError

from .kube_kit import FakeKubectl

pytestmark = pytest.mark.slow  # not for `make test-fast`

COMMANDS = ("status", "logs", "export")


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeKubectl:
    fake = FakeKubectl(tmp_path / "bin")
    monkeypatch.setenv("PATH", fake.path)
    return fake


@pytest.mark.parametrize(
    ("stderr", "kind", "words"),
    [
        ('Error from server (NotFound): pods "x" not found', NotFoundError, 'pods "x" not found'),
        (
            'error: the server doesn\'t have a resource type "dartesjobs"',
            ConfigurationError,
            "isn't installed",
        ),
        (
            'Error from server (Forbidden): pods "x" is forbidden: User "u" cannot create resource',
            ConfigurationError,
            "you may not do this here",
        ),
        ("error: You must be logged in to the server (Unauthorized)", ConfigurationError, "you may not"),
        ("The connection to the server localhost:8080 was refused", TransientError, "can't be reached"),
        (
            "Unable to connect to the server: dial tcp: lookup x: no such host",
            TransientError,
            "can't be reached",
        ),
        ('error: context "west" does not exist', ConfigurationError, 'context "west" does not exist'),
        ("error: stat /nowhere: no such file or directory", ConfigurationError, "stat /nowhere"),
        (
            "E1129 12:00:00.0 1 memcache.go:265] couldn't get current server API group list\n"
            "The connection to the server 10.0.0.1 was refused - did you specify the right host?",
            TransientError,
            "The connection to the server",
        ),
        (
            "error: no space here\ncommand terminated with exit code 64",
            ConfigurationError,
            "in the pod: no space",
        ),
        ("error: hub away\ncommand terminated with exit code 75", TransientError, "in the pod: hub away"),
        ("command terminated with exit code 137", TransientError, "in the pod"),
        ("", ConfigurationError, "it printed no reason"),
    ],
)
def test_a_refusal_is_one_line_of_the_right_kind(stderr: str, kind: type[DartesError], words: str) -> None:
    error = refusal(["get"], stderr.encode())
    assert type(error) is kind
    assert words in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_job_that_does_not_exist_is_named_with_its_namespace(
    command: str, kubectl: FakeKubectl, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = 'Error from server (NotFound): dartesjobs.dartes.dev "nope" not found'
    kubectl.on("dartesjobs.dartes.dev", err=missing, code=1)
    kubectl.on_get("pods", document={"items": []})
    more = ["--output", str(tmp_path / "model")] if command == "export" else []
    assert main([command, "nope", "-n", "lab", *more]) == 64
    said = capsys.readouterr().err
    assert said == "error: no DartESJob 'nope' in namespace 'lab'; `kubectl get dej -A` lists all of them\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_without_kubectl_the_message_says_how_to_get_it(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    more = ["--output", str(tmp_path / "model")] if command == "export" else []
    assert main([command, "tiny", *more]) == 64
    assert "kubectl isn't on the PATH; install it" in capsys.readouterr().err


def test_a_cluster_that_is_away_is_worth_another_try(
    kubectl: FakeKubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl.on("get", err="Unable to connect to the server: net/http: TLS handshake timeout", code=1)
    assert main(["status", "tiny"]) == 75
    assert "the cluster can't be reached" in capsys.readouterr().err


def test_a_kubectl_that_hangs_is_given_up(kubectl: FakeKubectl) -> None:
    kubectl.on("get", run=[sys.executable, "-c", "import time; time.sleep(60)"])
    with pytest.raises(TransientError, match="no answer within 1 s; try again"):
        Kubectl(Target()).run("get", "pods", seconds=1.0)


def test_an_answer_that_is_too_large_is_refused(kubectl: FakeKubectl) -> None:
    kubectl.on("get", out="x" * 5000)
    with pytest.raises(TransientError, match="more than 1000 bytes"):
        Kubectl(Target()).run("get", "pods", most_bytes=1000)


def test_an_answer_that_is_no_json_is_no_traceback(kubectl: FakeKubectl) -> None:
    kubectl.on("get", out="<html>")
    with pytest.raises(TransientError, match="no JSON"):
        Kubectl(Target()).objects("pods")


def test_cluster_and_namespace_go_to_every_call(kubectl: FakeKubectl) -> None:
    kubectl.on("get", out="{}")
    Kubectl(Target("lab", "west", "/etc/k")).objects("pods")
    (call,) = kubectl.calls("get")
    assert call["words"][:3] == ["--namespace=lab", "--context=west", "--kubeconfig=/etc/k"]
    assert "--request-timeout=15s" in call["words"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_explains_every_argument(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    said = capsys.readouterr().out
    assert said.startswith(f"usage: kubectl dartes {command}")
    _, _, *parts = said.split("\n\n")
    entries = [entry for part in parts for entry in re.split(r"\n  (?=\S)", part)[1:]]
    for entry in entries:
        assert len(re.split(r"\s{2,}", entry.strip(), maxsplit=1)) == 2, f"no explanation: {entry}"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "the following arguments are required"),
        (["status"], "the following arguments are required: NAME"),
        (["delete", "tiny"], "invalid choice: 'delete'"),
        (["export", "tiny"], "required: --output"),
        (["export", "tiny", "--output", "m", "--iteration", "first"], "allowed: at least 0, Best or Last"),
        (["logs", "tiny", "--worker", "-1"], "-1 is out of bounds"),
        (["logs", "tiny", "--worker", "1", "--all"], "not allowed with argument"),
    ],
)
def test_wrong_usage_exits_64(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 64
    assert words in capsys.readouterr().err


def test_it_starts_without_loading_what_only_an_export_needs() -> None:
    code = (
        "import sys, dartes.cli.kube.main, dartes.cli.kube.status, dartes.cli.kube.logs\n"
        "print(sorted({'numpy', 'torch', 'grpc', 'pydantic', 'numba'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_image_that_is_too_old_is_named_as_the_reason() -> None:
    error = refusal(["exec"], b"python: No module named dartes.cli.kube\ncommand terminated with exit code 1")
    assert "the job's images are of a version that can't do this" in str(error)
    assert error.exit_code == 64


def test_a_stream_that_never_ends_is_cut_off(kubectl: FakeKubectl) -> None:
    kubectl.on("exec", run=[sys.executable, "-c", "import time; time.sleep(3)"])
    with (
        pytest.raises(DartesError),
        Kubectl(Target()).stream("exec", "-i", "pod", given=b"", seconds=0.5) as stream,
    ):
        assert stream.read() == b""
