"""`kubectl dartes export` gets the bundle from the coordinator or by a pod of its own, which never stays."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dartes.cli.export import export_run
from dartes.cli.kube import export as export_module
from dartes.cli.kube.helper_pod import builder_pod, reader_pod
from dartes.cli.kube.main import main
from dartes.cli.kube.remote import receive, send
from dartes.errors import ConfigurationError, TransientError
from dartes.state import RunFolder

from ...waiting import until
from .kube_kit import FakeKubectl, job, listing, pinned_pod, pod, run_config_map

pytestmark = pytest.mark.slow  # not for `make test-fast`

BUNDLE = [sys.executable, "-m", "dartes.cli.kube.bundle", "--run-dir"]


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeKubectl:
    fake = FakeKubectl(tmp_path / "bin")
    monkeypatch.setenv("PATH", fake.path)
    return fake


def cluster(fake: FakeKubectl, folder: Path, phase: str, *pods: dict[str, Any]) -> None:
    """A cluster with one job whose volume is a local folder."""
    fake.on_get("dartesjobs.dartes.dev", "tiny", document=job(phase=phase))
    fake.on_get(
        "configmaps", document=listing(run_config_map(coordinator=pinned_pod(), worker=pinned_pod("w:1")))
    )
    fake.on_get("pods", document=listing(*pods))
    fake.on("create", out="pod/made created")
    fake.on("wait", out="pod/made condition met")
    fake.on("exec", "dartes.cli.kube.bundle", run=[*BUNDLE, str(folder)])
    fake.on("delete", out="deleted")


def digest_of(folder: Path, tmp_path: Path) -> str:
    return export_run(RunFolder(folder), tmp_path / "reference", None, None).digest.total


def test_a_running_job_is_asked_through_its_coordinator(
    kubectl: FakeKubectl, finished_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster(kubectl, finished_folder, "Running", pod("tiny-coordinator", "coordinator"))
    arguments = ["export", "tiny", "-n", "lab", "--context", "west", "--output", str(tmp_path / "model")]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert f"weight digest {digest_of(finished_folder, tmp_path)}" in said
    assert "held-out: " in said
    assert " before, " in said
    (call,) = kubectl.calls("exec")
    assert call["words"][:4] == ["--namespace=lab", "--context=west", "exec", "tiny-coordinator"]
    assert not kubectl.calls("create")
    for path in (tmp_path / "reference").iterdir():
        assert (tmp_path / "model" / path.name).read_bytes() == path.read_bytes()


def test_a_finished_job_is_read_by_a_pod_that_is_deleted(
    kubectl: FakeKubectl, finished_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster(kubectl, finished_folder, "Succeeded", pod("tiny-coordinator", "coordinator", "Succeeded"))
    assert main(["export", "tiny", "--output", str(tmp_path / "model"), "--iteration", "best"]) == 0
    said = capsys.readouterr()
    assert "reading the volume tiny-checkpoint by a short-lived pod" in said.err
    assert "is the best on held-out" in said.err
    (made,) = kubectl.calls("create")
    manifest = json.loads(made["given"])
    name = manifest["metadata"]["name"]
    assert name.startswith("tiny-reader-")
    (deleted,) = kubectl.calls("delete")
    assert deleted["words"][:3] == ["delete", "pod", name]
    assert (tmp_path / "model" / "model.safetensors").is_file()


GONE = "Error from server (NotFound): {} not found"


def test_a_job_that_has_gone_is_told_of_its_kept_volume(
    kubectl: FakeKubectl, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl.on("dartesjobs.dartes.dev", err=GONE.format('dartesjobs.dartes.dev "tiny"'), code=1)
    kubectl.on_get("pvc", "tiny-checkpoint", document={"metadata": {"name": "tiny-checkpoint"}})
    assert main(["export", "tiny", "-n", "lab", "--output", str(tmp_path / "model")]) == 64
    said = capsys.readouterr().err
    assert "no DartESJob 'tiny' in namespace 'lab'" in said
    assert "The volume claim tiny-checkpoint of a job that has gone is still there" in said
    assert "checkpoint.resumeFrom.claimName: tiny-checkpoint" in said
    assert [call["words"][1] for call in kubectl.calls()] == ["get", "get"], "nothing else is asked"


@pytest.mark.parametrize(
    "answer",
    [
        {"err": GONE.format('persistentvolumeclaims "tiny-checkpoint"'), "code": 1},
        {"err": 'Error from server (Forbidden): persistentvolumeclaims "x" is forbidden', "code": 1},
        {"out": json.dumps({"metadata": {"deletionTimestamp": "2026-11-29T12:00:00Z"}})},
    ],
)
def test_a_job_that_never_was_is_not_told_of_a_volume(
    answer: dict[str, Any], kubectl: FakeKubectl, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl.on("dartesjobs.dartes.dev", err=GONE.format('dartesjobs.dartes.dev "tiny"'), code=1)
    kubectl.on("pvc", **answer)
    assert main(["export", "tiny", "--output", str(tmp_path / "model")]) == 64
    said = capsys.readouterr().err
    assert said.endswith("`kubectl get dej -A` lists all of them\n")


def test_a_missing_module_is_told_with_the_extra_that_holds_it(
    kubectl: FakeKubectl,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object) -> list[str]:
        raise ModuleNotFoundError("No module named 'huggingface_hub'", name="huggingface_hub")

    monkeypatch.setattr(export_module, "export_job", fail)
    assert main(["export", "tiny", "--output", str(tmp_path / "model")]) == 64
    assert "pip install '.[worker]' in a clone" in capsys.readouterr().err


@pytest.mark.parametrize("phase", ["Failed", "Suspended"])
def test_a_job_without_a_coordinator_pod_is_read_too(
    phase: str, kubectl: FakeKubectl, finished_folder: Path, tmp_path: Path
) -> None:
    cluster(kubectl, finished_folder, phase)
    assert main(["export", "tiny", "--output", str(tmp_path / "model")]) == 0


def test_a_coordinator_that_is_being_replaced_is_not_disturbed(
    kubectl: FakeKubectl, finished_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster(kubectl, finished_folder, "Restarting", pod("tiny-coordinator", "coordinator", "Failed"))
    assert main(["export", "tiny", "--output", str(tmp_path / "model")]) == 75
    assert "tiny is Restarting" in capsys.readouterr().err
    assert not kubectl.calls("create")


def test_a_pod_that_does_not_start_is_explained_and_deleted(
    kubectl: FakeKubectl, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl.on("wait", err="error: timed out waiting for the condition on pods/made", code=1)
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/3 nodes fit",
    }
    held = pod("made", "reader", "Pending", status={"conditions": [condition]})
    kubectl.on_get("pod", "tiny-reader", document=held)
    kubectl.on_get("events", document=listing())
    cluster(kubectl, tmp_path, "Succeeded")
    assert main(["export", "tiny", "--output", str(tmp_path / "model")]) == 75
    assert "did not start within 120 s: Unschedulable: 0/3 nodes fit" in capsys.readouterr().err
    assert len(kubectl.calls("delete")) == 1


def test_what_goes_wrong_in_the_pod_is_said_in_its_words_and_the_pod_deleted(
    kubectl: FakeKubectl, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster(kubectl, tmp_path, "Succeeded")
    assert main(["export", "tiny", "--output", str(tmp_path / "model")]) == 64
    said = capsys.readouterr().err
    assert "no iteration could be committed there yet; nothing to export" in said
    assert "command terminated" not in said
    assert len(kubectl.calls("delete")) == 1


def test_a_killed_command_deletes_its_pod(kubectl: FakeKubectl, tmp_path: Path) -> None:
    mark = tmp_path / "reading"
    waiting = [sys.executable, "-c", f"open({str(mark)!r}, 'w').close(); import time; time.sleep(60)"]
    kubectl.on("exec", "dartes.cli.kube.bundle", run=waiting)
    cluster(kubectl, tmp_path, "Succeeded")
    command = [
        sys.executable,
        "-m",
        "dartes.cli.kube.main",
        "export",
        "tiny",
        "--output",
        str(tmp_path / "model"),
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        until(mark.exists, "the pod is being read", 30)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 76
    assert "interrupted" in said
    assert "Traceback" not in said
    assert len(kubectl.calls("delete")) == 1


def test_a_base_model_of_the_cluster_only_asks_for_a_copy(
    kubectl: FakeKubectl, finished: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from dartes.builtin import builtin_model

    text = finished.job.read_text()
    finished.job.write_text(text.replace("builtin://addition", "/models/only-there", 1))
    cluster(kubectl, finished.path, "Running", pod("tiny-coordinator", "coordinator"))
    arguments = ["export", "tiny", "--output", str(tmp_path / "model")]
    assert main(arguments) == 64
    assert "give --model PATH, or have it built in the cluster with --remote" in capsys.readouterr().err
    assert main([*arguments, "--model", str(builtin_model("addition"))]) == 0
    assert digest_of_provenance(tmp_path / "model") == summary_digest(finished)


def test_another_base_model_is_refused(
    kubectl: FakeKubectl, finished_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export_run(RunFolder(finished_folder), tmp_path / "tuned", None, None)
    cluster(kubectl, finished_folder, "Running", pod("tiny-coordinator", "coordinator"))
    arguments = ["export", "tiny", "--output", str(tmp_path / "model"), "--model", str(tmp_path / "tuned")]
    assert main(arguments) == 64
    assert "another base model" in capsys.readouterr().err


def test_an_existing_output_is_refused_before_anything_is_asked(
    kubectl: FakeKubectl, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.txt").write_text("mine")
    assert main(["export", "tiny", "--output", str(tmp_path / "model")]) == 64
    assert "exists and is not empty" in capsys.readouterr().err
    assert not kubectl.calls()


def test_a_remote_export_is_the_same_folder(
    kubectl: FakeKubectl, finished_folder: Path, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    program = [sys.executable, "-m", "dartes.cli.kube.remote", "--work", str(work), "--iteration", "6"]
    kubectl.on("exec", "dartes.cli.kube.remote", run=[*program, "--dtype", "float32"])
    cluster(kubectl, finished_folder, "Running", pod("tiny-coordinator", "coordinator"))
    assert main(["export", "tiny", "--output", str(tmp_path / "model"), "--remote"]) == 0
    digest_of(finished_folder, tmp_path)
    for path in (tmp_path / "reference").iterdir():
        assert (tmp_path / "model" / path.name).read_bytes() == path.read_bytes()
    (made,) = kubectl.calls("create")
    container = json.loads(made["given"])["spec"]["containers"][0]
    assert container["image"] == "w:1"
    (call,) = kubectl.calls("exec", "-i")
    assert call["words"][-4:] == ["--iteration", "6", "--dtype", "float32"]
    assert len(kubectl.calls("delete")) == 1
    assert not list(work.iterdir())


def test_a_remote_export_that_fails_leaves_nothing(
    kubectl: FakeKubectl, finished_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = (
        "import sys; sys.stdout.write('x' * 2000); print('error: hub away', file=sys.stderr); sys.exit(75)"
    )
    kubectl.on("exec", "dartes.cli.kube.remote", run=[sys.executable, "-c", broken])
    cluster(kubectl, finished_folder, "Running", pod("tiny-coordinator", "coordinator"))
    assert main(["export", "tiny", "--output", str(tmp_path / "out" / "model"), "--remote"]) == 75
    assert "hub away" in capsys.readouterr().err
    assert list((tmp_path / "out").iterdir()) == []
    assert len(kubectl.calls("delete")) == 1


def digest_of_provenance(model: Path) -> str:
    return str(json.loads((model / "dartes.json").read_text())["weight_digest"])


def summary_digest(folder: RunFolder) -> str:
    return str(json.loads(folder.summary.read_text())["weight_digest"])


def streamed(model: Path, path: Path) -> bytes:
    with path.open("wb") as file:
        send(model, file)
    return path.read_bytes()


def test_a_stream_is_whole_or_refused(finished_folder: Path, tmp_path: Path) -> None:
    import io

    done = export_run(RunFolder(finished_folder), tmp_path / "model", None, None)
    raw, row_hash = streamed(done.output, tmp_path / "stream"), done.row_hash.hex()
    receive(io.BytesIO(raw), tmp_path / "copy", row_hash)
    assert {p.name: p.read_bytes() for p in (tmp_path / "copy").iterdir()} == {
        p.name: p.read_bytes() for p in done.output.iterdir()
    }
    at = raw.index(b"model.safetensors") + 5000
    for spoilt in (b"", raw[:700], raw[: len(raw) // 2], raw[:at] + b"?" + raw[at + 1 :]):
        with pytest.raises(TransientError):
            receive(io.BytesIO(spoilt), tmp_path / "spoilt", row_hash)
    with pytest.raises(ConfigurationError, match="not the model that was asked for"):
        receive(io.BytesIO(raw), tmp_path / "spoilt", "00" * 32)
    left = [path.name for path in tmp_path.iterdir() if "spoilt" in path.name]
    assert not left


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/b", "..", "link"])
def test_a_stream_cannot_write_elsewhere(name: str, tmp_path: Path) -> None:
    import io
    import tarfile

    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        if name == "link":
            entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
        else:
            entry.size = 4
        archive.addfile(entry, io.BytesIO(b"evil"))
    held.seek(0)
    with pytest.raises(ConfigurationError, match="no file of a model"):
        receive(held, tmp_path / "out" / "model", "00")
    assert list((tmp_path / "out").iterdir()) == []
    assert not (tmp_path / "evil").exists()


def test_the_reader_is_restricted_short_lived_and_reads_only() -> None:
    made = reader_pod(job(), pinned_pod(), "tiny-reader-1", "tiny-checkpoint")
    spec, (container,) = made["spec"], made["spec"]["containers"]
    assert container["image"] == "registry.example/dartes/coordinator:1"
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert (spec["restartPolicy"], spec["activeDeadlineSeconds"]) == ("Never", 600)
    assert (spec["automountServiceAccountToken"], spec["enableServiceLinks"]) == (False, False)
    assert spec["nodeSelector"] == {"pool": "cpu"}
    assert spec["imagePullSecrets"] == [{"name": "pull"}]
    mounts = {mount["mountPath"]: mount.get("readOnly", False) for mount in container["volumeMounts"]}
    assert mounts == {"/var/lib/dartes": True, "/tmp": False}
    labels = made["metadata"]["labels"]
    assert labels["dartes.dev/job-name"] == "tiny"
    assert labels["dartes.dev/role"] == "reader"
    assert labels["app.kubernetes.io/managed-by"] == "kubectl-dartes", (
        "the operator must not take it for its own"
    )
    (owner,) = made["metadata"]["ownerReferences"]
    assert "controller" not in owner
    assert owner["uid"] == job()["metadata"]["uid"]


def test_the_builder_has_caches_and_token_but_no_gpu_certificate_or_job_volume() -> None:
    made = builder_pod(job(), pinned_pod(), "tiny-builder-1")
    (container,) = made["spec"]["containers"]
    assert {volume["name"] for volume in made["spec"]["volumes"]} == {"cache", "tmp", "dartes-export-work"}
    assert {m["mountPath"] for m in container["volumeMounts"]} == {
        "/var/cache/dartes",
        "/tmp",
        "/var/lib/dartes-export",
    }
    assert {entry["name"] for entry in container["env"]} == {"HF_HOME", "HF_TOKEN"}
    assert set(container["resources"]["limits"]) == {"cpu", "memory"}
