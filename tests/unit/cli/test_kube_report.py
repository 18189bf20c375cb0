"""`kubectl dartes report-bug` brings together what is needed, never a Secret, and says what it lacks."""

import json
import stat
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dartes.cli.kube import report_archive, report_parts
from dartes.cli.kube.kubectl import Kubectl, Target
from dartes.cli.kube.main import main
from dartes.cli.kube.redact import LAST_APPLIED, REMOVED

from .kube_kit import FakeKubectl, job, listing, pinned_pod, pod, run_config_map

PLANTED = {
    "in the job's environment": "tulip-marigold-17",
    "in the pod's environment": "hyacinth-clover-23",
    "in the pinned pods": "foxglove-aster-42",
    "in the operator's environment": "snowdrop-iris-99",
    "as the hub's token": "hf_" + "aB3" * 11,
    "in an event": "ghp_" + "x1" * 18,
    "in the status": "AKIA" + "IOSFODNN7EXAMPLE",
    "in what was applied last": "peony-lavender-55",
}


def env(name: str, value: str) -> list[dict[str, str]]:
    return [{"name": name, "value": value}]


def running_pod(name: str, role: str, index: int | None = None, **more: Any) -> dict[str, Any]:
    made = pod(name, role, index=index, **more)
    made["metadata"]["namespace"] = "lab"
    made["status"]["containerStatuses"][0].update(name=role, restartCount=0)
    made["spec"]["containers"] = [
        {"name": role, "env": env("PROXY_PASSWORD", PLANTED["in the pod's environment"])}
    ]
    return made


def event(about: str, message: str) -> dict[str, Any]:
    return {
        "type": "Warning",
        "reason": "Failed",
        "message": message,
        "lastTimestamp": "2026-11-29T12:10:00Z",
        "involvedObject": {"name": about},
    }


def pinned() -> dict[str, Any]:
    template = pinned_pod()
    template["spec"]["containers"][0]["env"] += env("DB_PASSWORD", PLANTED["in the pinned pods"])
    made = run_config_map(coordinator=template)
    made["kind"] = "ConfigMap"
    made["data"]["job.yaml"] = (
        "spec:\n  coordinator:\n    env:\n"
        f"    - {{name: API_TOKEN, value: {PLANTED['in the job' + chr(39) + 's environment']}}}\n"
    )
    return made


def planted_cluster(folder: Path) -> FakeKubectl:
    """A cluster with one job, an operator, and secrets planted wherever one may stand."""
    fake = FakeKubectl(folder / "bin")
    running = job(
        phase="Running", lastFailure={"message": f"key {PLANTED['in the status']} was refused", "pod": "w"}
    )
    running["spec"]["coordinator"] = {"env": env("API_TOKEN", PLANTED["in the job's environment"])}
    running["metadata"]["annotations"] = {
        LAST_APPLIED: json.dumps({"spec": {"env": env("OLD_TOKEN", PLANTED["in what was applied last"])}})
    }
    operator = running_pod("dartes-7d9f-x", "operator")
    operator["metadata"]["namespace"] = "dartes-system"
    operator["spec"]["containers"][0]["env"] = env("PROXY_SECRET", PLANTED["in the operator's environment"])
    operator["status"]["containerStatuses"][0]["restartCount"] = 1
    log = "\n".join(["a line", *PLANTED.values(), "the end"])
    fake.on(
        "version",
        out='{"clientVersion": {"gitVersion": "v1.37.2"}, "serverVersion": {"gitVersion": "v1.36.0"}}',
    )
    fake.on("--raw", out="dartes_coordinator_iteration 12.0\n")
    fake.on("logs", "--previous", out="the run before\n")
    fake.on("logs", out=log)
    fake.on_get("pods", report_parts.OPERATOR, document=listing(operator))
    fake.on_get(
        "pods",
        document=listing(
            running_pod("tiny-coordinator", "coordinator"), running_pod("tiny-worker-0", "worker", 0)
        ),
    )
    fake.on_get("events", "field-selector", document=listing(event("dartes-7d9f-x", "Back-off restarting")))
    fake.on_get(
        "events",
        document=listing(
            event("tiny-worker-0", f"token {PLANTED['in an event']}"),
            event("tiny-worker-7-2", "of a pod that has gone"),
            event("other-worker-0", "of another job"),
        ),
    )
    fake.on_get("configmaps", document=listing(pinned()))
    fake.on_get("nodes", document=listing({"metadata": {"name": "node1", "labels": {"rack": "r7"}}}))
    fake.on_get("crd", document={"kind": "CustomResourceDefinition", "spec": {"versions": []}})
    fake.on_get("dartesjobs.dartes.dev", "tiny", document=running)
    fake.on_get("dartesjobs.dartes.dev", document=listing(running, job("second", phase="Succeeded")))
    for kind in (*report_parts.OWNED, *report_parts.IN_THE_NAMESPACE, "storageclasses"):
        fake.on_get(kind, document=listing())
    return fake


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeKubectl:
    """Such a cluster for one test."""
    fake = planted_cluster(tmp_path)
    monkeypatch.setenv("PATH", fake.path)
    monkeypatch.chdir(tmp_path)
    return fake


@dataclass(frozen=True)
class Made:
    """A report: its archive, the files in it, and every word that kubectl was called with."""

    archive: Path
    files: dict[str, str]
    asked: list[str]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """One report of the job `tiny`, for all tests that only look at it."""
    folder = tmp_path_factory.mktemp("report")
    fake = planted_cluster(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", fake.path)
        files = report(folder)
    return Made(folder / "out.tar.gz", files, [word for call in fake.calls() for word in call["words"]])


def files_of(archive: Path) -> dict[str, str]:
    """Every file of an archive by its path in the report's folder."""
    with tarfile.open(archive) as tar:
        read = {member.name: tar.extractfile(member) for member in tar}
        return {
            name.removeprefix("dartes-report/"): file.read().decode() for name, file in read.items() if file
        }


def report(tmp_path: Path, *words: str) -> dict[str, str]:
    """Make a report of the job `tiny` and read it."""
    assert main(["report-bug", "tiny", "-o", str(tmp_path / "out.tar.gz"), *words]) == 0
    return files_of(tmp_path / "out.tar.gz")


def test_all_that_is_needed_is_in_it(made: Made) -> None:
    files = made.files
    versions = json.loads(files["versions.json"])
    assert (versions["kubectl"], versions["cluster"]) == ("v1.37.2", "v1.36.0")
    assert json.loads(files["jobs/tiny/job.json"])["metadata"]["name"] == "tiny"
    assert [p["metadata"]["name"] for p in json.loads(files["jobs/tiny/pods.json"])] == [
        "tiny-coordinator",
        "tiny-worker-0",
    ]
    assert files["jobs/tiny/status.txt"].startswith("tiny in lab: Running")
    assert files["jobs/tiny/logs/tiny-worker-0.worker.log"].startswith("a line\n")
    assert "dartes_coordinator_iteration" in files["jobs/tiny/metrics/tiny-coordinator.txt"]
    assert "cluster/definition.json" in files
    assert files["operator/dartes-system/logs/dartes-7d9f-x.operator.previous.log"] == "the run before\n"
    assert "dartes_" in files["operator/dartes-system/metrics/dartes-7d9f-x.txt"]
    assert "Back-off" in files["operator/dartes-system/events-of-dartes-7d9f-x.json"]
    assert files["left-out.txt"] == ""


def test_no_secret_is_asked_for(made: Made) -> None:
    assert not [word for word in made.asked if "secret" in word.lower()]


def test_no_planted_secret_is_in_it(made: Made) -> None:
    files = made.files
    leaks = [(name, where) for name, text in files.items() for where in PLANTED if PLANTED[where] in text]
    assert leaks == []
    log = files["jobs/tiny/logs/tiny-worker-0.worker.log"]
    assert log.count(REMOVED) == len(PLANTED)
    assert log.endswith("the end")


def test_events_of_other_jobs_are_left_and_those_of_pods_that_have_gone_are_kept(made: Made) -> None:
    about = [e["involvedObject"]["name"] for e in json.loads(made.files["jobs/tiny/events.json"])]
    assert sorted(about) == ["tiny-worker-0", "tiny-worker-7-2"]


def test_a_nodes_labels_stay_in_the_cluster(made: Made) -> None:
    nodes = made.files["cluster/nodes.json"]
    assert "node1" in nodes
    assert "r7" not in nodes


def test_without_a_name_all_jobs_of_the_namespace_are_in_it(kubectl: FakeKubectl, tmp_path: Path) -> None:
    assert main(["report-bug"]) == 0
    files = files_of(tmp_path / "dartes-report.tar.gz")
    assert {"jobs/tiny/job.json", "jobs/second/job.json"} <= set(files)


def test_the_operators_namespace_can_be_named(kubectl: FakeKubectl, tmp_path: Path) -> None:
    report(tmp_path)
    assert "--all-namespaces" in kubectl.calls(report_parts.OPERATOR)[0]["words"]
    (tmp_path / "out.tar.gz").unlink()
    report(tmp_path, "--operator-namespace", "dartes-system", "-n", "lab")
    words = kubectl.calls(report_parts.OPERATOR)[-1]["words"]
    assert "--namespace=dartes-system" in words
    assert "--all-namespaces" not in words


def test_what_may_not_be_read_is_left_out_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = FakeKubectl(tmp_path / "bin")
    monkeypatch.setenv("PATH", fake.path)
    fake.on("version", out="{}")
    fake.on_get("dartesjobs.dartes.dev", "tiny", document=job(phase="Running"))
    fake.on("get", err="Error from server (Forbidden): nodes is forbidden: User x cannot list\n", code=1)
    files = report(tmp_path)
    assert set(files) >= {"jobs/tiny/job.json", "jobs/tiny/status.txt", "versions.json"}
    left_out = files["left-out.txt"].splitlines()
    for what in ("events", "nodes", "pods of tiny", "the operator's pods", "definition of DartESJob"):
        (line,) = [line for line in left_out if line.startswith(f"{what}")]
        assert "you may not do this here" in line
    assert f"{len(left_out)} things could not be read" in capsys.readouterr().out


def test_a_log_that_is_not_there_costs_nothing_but_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeKubectl(tmp_path / "bin")
    monkeypatch.setenv("PATH", fake.path)
    fake.on("logs", "tiny-worker-0", err="Error from server (NotFound): pods not found\n", code=1)
    fake.on("logs", out="a line\n")
    fake.on("--raw", err="Error from server (ServiceUnavailable): no\n", code=1)
    workers = [running_pod(f"tiny-worker-{i}", "worker", i) for i in range(2)]
    found = report_parts.Findings(talking=[("jobs/tiny", worker) for worker in workers])
    read = list(report_parts.talk(Kubectl(Target()), found))
    assert read == [report_parts.Document("jobs/tiny/logs/tiny-worker-1.worker.log", "a line\n")]
    assert [line.partition(": ")[0] for line in found.left_out] == [
        "log of tiny-worker-0/worker",
        "metrics of tiny-worker-0",
        "metrics of tiny-worker-1",
    ]


@pytest.fixture
def three_talking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[FakeKubectl, report_parts.Findings]:
    """A cluster that answers, and three pods with a log and a metrics page each."""
    fake = FakeKubectl(tmp_path / "bin")
    monkeypatch.setenv("PATH", fake.path)
    fake.on("logs", out="a line\n")
    fake.on("--raw", out="x 1\n")
    workers = [running_pod(f"tiny-worker-{i}", "worker", i) for i in range(3)]
    return fake, report_parts.Findings(talking=[("jobs/tiny", worker) for worker in workers])


def test_after_its_time_nothing_more_is_asked_for_and_what_is_missing_is_named(
    three_talking: tuple[FakeKubectl, report_parts.Findings],
) -> None:
    fake, found = three_talking
    times = iter([0.0, 1.0, report_parts.TALK_SECONDS - 1.0, *[report_parts.TALK_SECONDS] * 4])
    read = list(report_parts.talk(Kubectl(Target()), found, clock=lambda: next(times)))
    assert [document.path for document in read] == [
        "jobs/tiny/logs/tiny-worker-0.worker.log",
        "jobs/tiny/metrics/tiny-worker-0.txt",
    ]
    assert len(fake.calls()) == 2
    assert found.left_out == [
        f"{what} of tiny-worker-{i}{more}: not asked for, since 300 s were over"
        for i in (1, 2)
        for what, more in (("log", "/worker"), ("metrics", ""))
    ]


def test_nothing_more_is_asked_for_once_the_archive_is_full(
    three_talking: tuple[FakeKubectl, report_parts.Findings],
) -> None:
    fake, found = three_talking
    room = iter([True, *[False] * 5])
    assert len(list(report_parts.talk(Kubectl(Target()), found, lambda: next(room)))) == 1
    assert len(fake.calls()) == 1
    assert len(found.left_out) == 5
    assert all(line.endswith(": the archive is full") for line in found.left_out)


def test_a_full_archive_asks_for_no_log(
    kubectl: FakeKubectl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_archive, "TOTAL_BYTES", report_archive.TEXT_BYTES)
    files = report(tmp_path)
    assert kubectl.calls("logs") == []
    assert "log of tiny-worker-0/worker: the archive is full" in files["left-out.txt"]


def test_of_many_pods_those_that_are_not_well_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = [running_pod(f"tiny-worker-{i}", "worker", i) for i in range(500)]
    pods[321]["status"]["containerStatuses"][0]["ready"] = False
    pods.append(running_pod("tiny-coordinator", "coordinator"))
    fake = FakeKubectl(tmp_path / "bin")
    monkeypatch.setenv("PATH", fake.path)
    fake.on("version", out="{}")
    fake.on("--raw", out="x 1\n")
    fake.on("logs", out="a line\n")
    fake.on_get("dartesjobs.dartes.dev", "tiny", document=job(phase="Running"))
    fake.on_get("pods", "dartes.dev/job-name=tiny", document=listing(*pods))
    fake.on("get", out='{"items": []}')
    monkeypatch.setattr(report_parts, "MOST_TALKING", 4)
    files = report(tmp_path)
    kept = [p["metadata"]["name"] for p in json.loads(files["jobs/tiny/pods.json"])]
    assert len(kept) == report_parts.MOST_PODS
    assert kept[:2] == ["tiny-coordinator", "tiny-worker-321"]
    assert len([name for name in files if "/logs/" in name]) == 4
    assert "of 4 of its 501 pods" in files["left-out.txt"]


def test_only_its_owner_may_read_it(made: Made) -> None:
    assert stat.S_IMODE(made.archive.stat().st_mode) == 0o600


def test_nothing_is_overwritten(
    kubectl: FakeKubectl, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out.tar.gz").write_text("mine")
    assert main(["report-bug", "tiny", "-o", str(tmp_path / "out.tar.gz")]) == 64
    assert "exists already" in capsys.readouterr().err
    assert (tmp_path / "out.tar.gz").read_text() == "mine"
    assert main(["report-bug", "tiny", "-o", str(tmp_path / "nowhere" / "out.tar.gz")]) == 64


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        ('Error from server (NotFound): dartesjobs.dartes.dev "tiny" not found', "no DartESJob 'tiny'", 64),
        ("Unable to connect to the server: dial tcp: i/o timeout", "can't be reached", 75),
    ],
)
def test_without_the_job_or_the_cluster_there_is_no_archive(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str,
    said: str,
    code: int,
) -> None:
    fake = FakeKubectl(tmp_path / "bin")
    monkeypatch.setenv("PATH", fake.path)
    fake.on("version", out="{}")
    fake.on("get", err=f"{words}\n", code=1)
    assert main(["report-bug", "tiny", "-o", str(tmp_path / "out.tar.gz")]) == code
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [tmp_path / "bin"]
