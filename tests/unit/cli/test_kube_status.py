"""`kubectl dartes status` says where a job stands, what is wrong in whose words, and what to do next."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dartes.cli.kube import status as status_module
from dartes.cli.kube.kubectl import Kubectl, Target
from dartes.cli.kube.main import main
from dartes.cli.kube.objects import last_failed, newest, pod_of
from dartes.cli.kube.view import age, status_lines, status_view

from .kube_kit import FakeKubectl, job, listing, pod

NOW = datetime(2026, 11, 29, 12, 30, tzinfo=UTC)
SCHEDULER = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."

RUNNING: dict[str, Any] = {
    "phase": "Running",
    "observedGeneration": 1,
    "startTime": "2026-11-29T12:00:00Z",
    "conditions": [
        {"type": "Accepted", "status": "True", "reason": "Valid", "message": ""},
        {
            "type": "WorkersReady",
            "status": "False",
            "reason": "Unschedulable",
            "message": SCHEDULER,
            "lastTransitionTime": "2026-11-29T12:25:00Z",
        },
        {"type": "Complete", "status": "False", "reason": "Running", "message": ""},
        {"type": "Failed", "status": "False", "reason": "Running", "message": ""},
    ],
    "coordinator": {"podName": "tiny-coordinator", "ready": True, "incarnation": 2, "restarts": 1},
    "workers": {"ready": 3, "desired": 4, "pending": 1, "draining": 0},
    "failures": {"coordinator": 0, "worker": 2, "disruptions": 5},
    "lastFailure": {
        "pod": "tiny-worker-1",
        "role": "worker",
        "reason": "OOMKilled",
        "exitCode": 137,
        "message": "first line\nsecond line",
        "time": "2026-11-29T12:20:00Z",
    },
    "progress": {
        "iteration": 12,
        "totalIterations": 20,
        "epoch": 1,
        "trainPassRate": 0.4125,
        "evalAccuracy": 0.312,
        "lastIterationSeconds": 4.12,
        "estimatedRemainingSeconds": 200,
        "lastUpdateTime": "2026-11-29T12:29:55Z",
    },
}


def event(reason: str, message: str, at: str, name: str = "tiny", **more: Any) -> dict[str, Any]:
    return {
        "type": "Warning",
        "reason": reason,
        "message": message,
        "lastTimestamp": at,
        "involvedObject": {"name": name},
        **more,
    }


def lines(
    status: dict[str, Any], *pods: dict[str, Any], events: list[Any] | None = None, **changes: Any
) -> str:
    document = job(**status)
    document["metadata"].update(changes.get("metadata", {}))
    document["spec"].update(changes.get("spec", {}))
    view = status_view(document, [pod_of(p) for p in pods], events or [], NOW)
    json.dumps(view, allow_nan=False)
    return "\n".join(status_lines(view))


def test_a_job_in_trouble_is_told_on_one_screen() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": SCHEDULER}
    said = lines(
        RUNNING,
        pod("tiny-worker-3", "worker", "Pending", 3, status={"conditions": [condition]}, node=None),
        pod(
            "tiny-worker-1",
            "worker",
            "Failed",
            1,
            state={"terminated": {"reason": "OOMKilled", "exitCode": 137}},
        ),
        pod("tiny-coordinator", "coordinator"),
        events=[
            event("FailedScheduling", SCHEDULER, "2026-11-29T12:29:00Z", "tiny-worker-3", count=12),
            event("WorkerDisrupted", "node node2 went", "2026-11-29T12:10:00Z"),
        ],
    )
    assert said.splitlines() == [
        "tiny in lab: Running for 30m",
        "  progress      12 of 20 iterations, epoch 1, pass rate 0.412, evaluation 31.2 %, 4.1 s for the "
        "last one, 3m20s left",
        "  coordinator   tiny-coordinator ready, incarnation 2, 1 restarts",
        "  workers       3 of 4 ready, 1 pending",
        "  losses        2 worker failures, 5 disruptions",
        "  last failure  tiny-worker-1: OOMKilled, exit code 137, 2026-11-29T12:20:00Z",
        "                first line",
        "                second line",
        "not as it should be",
        "  WorkersReady is False for 5m0s: Unschedulable",
        f"      {SCHEDULER}",
        "pods",
        "  tiny-coordinator  Ready  29m  node1",
        "  tiny-worker-1     OOMKilled (exit code 137)  29m  node1",
        "  tiny-worker-3     Unschedulable  29m  no node",
        "newest events",
        f"     60s ago  Warning FailedScheduling tiny-worker-3 (12 times): {SCHEDULER}",
        "     20m ago  Warning WorkerDisrupted tiny: node node2 went",
        "next",
        "  Unschedulable: give the cluster a node with what the pods ask for, or ask for less "
        "(workers.resources, gpusPerWorker, nodeSelector, tolerations); training goes on with what is "
        "scheduled",
        "  last words of tiny-worker-1: kubectl dartes logs tiny --worker 1 --previous",
    ]


def test_a_job_that_is_well_asks_for_nothing() -> None:
    status = {**RUNNING, "conditions": RUNNING["conditions"][:1], "lastFailure": None}
    said = lines(status, pod("tiny-coordinator", "coordinator"))
    assert "not as it should be" not in said
    assert said.endswith("next\n  nothing")


def test_old_progress_is_called_old() -> None:
    status = {**RUNNING, "progress": {**RUNNING["progress"], "lastUpdateTime": "2026-11-29T12:20:00Z"}}
    assert "as of 10m ago" in lines(status)
    assert "as of" not in lines(RUNNING)


def test_a_finished_job_names_its_model_or_how_to_get_it() -> None:
    done = {
        "phase": "Succeeded",
        "startTime": "2026-11-29T12:00:00Z",
        "completionTime": "2026-11-29T12:10:00Z",
        "conditions": [{"type": "WorkersReady", "status": "False", "reason": "Finished", "message": ""}],
    }
    said = lines(done)
    assert "Succeeded after 10m" in said
    assert "not as it should be" not in said, "a finished job needs no workers"
    assert "get the model: kubectl dartes export tiny --output MODEL_DIR" in said
    assert "the model is at s3://b/m" in lines({**done, "export": {"uri": "s3://b/m"}})


def test_pods_that_have_done_their_work_are_no_problem() -> None:
    trained = {"type": "WorkersReady", "status": "False", "reason": "Trained", "message": "all is committed"}
    assert "not as it should be" not in lines({"phase": "Completing", "conditions": [trained]})
    assert "not as it should be" in lines(
        {"phase": "Running", "conditions": [{**trained, "reason": "Other"}]}
    )


def test_a_failed_job_says_why_and_what_to_do() -> None:
    failed = {
        "phase": "Failed",
        "conditions": [
            {"type": "Failed", "status": "True", "reason": "InvalidConfiguration", "message": "no such model"}
        ],
    }
    said = lines(failed)
    assert "Failed is True: InvalidConfiguration\n      no such model" in said
    assert "delete the job and apply it again" in said


def test_the_log_of_a_failed_pod_is_looked_for_where_it_is() -> None:
    ended = {"terminated": {"reason": "Error", "exitCode": 1}}
    coordinator = pod("tiny-coordinator", "coordinator", "Failed", state=ended)
    older = {"terminated": {"reason": "Error", "exitCode": 1, "finishedAt": "2026-11-29T12:10:00Z"}}
    newer = {"terminated": {"reason": "Error", "exitCode": 1, "finishedAt": "2026-11-29T12:20:00Z"}}
    workers = [
        pod("tiny-worker-0", "worker", "Failed", 0, state=older),
        pod("tiny-worker-3", "worker", "Failed", 3, state=newer),
    ]
    of_coordinator = lines(RUNNING, coordinator)
    assert "the coordinator failed: its last words are under last failure" in of_coordinator
    assert "kubectl dartes logs tiny\n" in f"{of_coordinator}\n"
    assert "--previous" not in of_coordinator, "its failed pod goes when the next one takes its name"
    of_workers = lines(RUNNING, *workers)
    assert "last words of tiny-worker-3: kubectl dartes logs tiny --worker 3 --previous" in of_workers
    assert "--worker 0" not in of_workers, "only the worker that failed last is kept"
    assert "the coordinator failed" not in of_workers


def test_a_job_that_nobody_looks_at_points_to_the_operator() -> None:
    said = lines({})
    assert "tiny in lab: Unseen" in said
    assert "the operator has not looked at the job" in said
    behind = lines({**RUNNING, "observedGeneration": 1}, metadata={"generation": 2})
    assert "has not looked at the newest change" in behind
    blocked = [
        {"type": "ResourcesReady", "status": "False", "reason": "VolumeExists", "observedGeneration": 2}
    ]
    held_up = {**RUNNING, "observedGeneration": 1, "conditions": blocked}
    assert "has not looked at" not in lines(held_up, metadata={"generation": 2}), "its conditions say it has"
    off = lines({}, metadata={"annotations": {"dartes.dev/reconcile": "disabled"}})
    assert "remove the annotation" in off
    other = lines({}, spec={"managedBy": "kueue.x-k8s.io/multikueue"})
    assert "that controller acts on this job" in other


def test_a_large_job_shows_who_is_unwell_and_counts_the_rest() -> None:
    many = [pod(f"tiny-worker-{i}", "worker", "Running", i) for i in range(40)]
    many.append(pod("tiny-worker-40", "worker", "Pending", 40))
    said = lines(RUNNING, *many)
    assert "tiny-worker-40  Pending" in said
    assert "and 29 more that are Ready" in said


def test_every_key_is_there_in_every_phase() -> None:
    empty = status_view(job(), [], [], NOW)
    full = status_view(job(**RUNNING), [], [], NOW)
    assert set(empty) == set(full)


def test_garbage_in_a_status_is_no_traceback() -> None:
    odd: dict[str, Any] = {"conditions": ["x", {"type": None}], "coordinator": None, "lastFailure": "x"}
    assert "tiny in lab" in lines(odd, {}, {"status": {"containerStatuses": "x"}}, events=[{}])


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0s"), (119, "119s"), (187, "3m7s"), (1800, "30m"), (8100, "2h15m"), (273_600, "3d4h")],
)
def test_ages_read_as_kubernetes_writes_them(seconds: float, words: str) -> None:
    assert age(seconds) == words


def test_the_pod_that_stands_for_a_role_is_the_living_one() -> None:
    old = pod_of(pod("c-old", "coordinator", "Failed", created="2026-11-29T12:20:00Z"))
    new = pod_of(pod("c-new", "coordinator", "Running", created="2026-11-29T12:10:00Z"))
    assert newest([old, new]) == new
    assert newest([old]) == old
    assert newest([]) is None
    assert last_failed([old, new]) == old
    assert last_failed([new]) is None


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeKubectl:
    fake = FakeKubectl(tmp_path / "bin")
    monkeypatch.setenv("PATH", fake.path)
    return fake


def test_the_command_asks_for_few_things_and_prints_json(
    kubectl: FakeKubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl.on_get("dartesjobs.dartes.dev", "tiny", document=job(**RUNNING))
    waiting = [pod(f"tiny-worker-{i}", "worker", "Pending", i) for i in range(9)]
    kubectl.on_get("pods", document=listing(*waiting))
    kubectl.on_get("events", document=listing(event("X", "y", "2026-11-29T12:29:00Z")))
    assert main(["status", "tiny", "--json", "-n", "lab"]) == 0
    view = json.loads(capsys.readouterr().out)
    assert view["phase"] == "Running"
    assert view["iteration"] == 12
    assert len(view["pods"]) == 9
    assert len(kubectl.calls()) == 6, "job, pods, the job's events, and those of three pods"
    assert all("--namespace=lab" in call["words"] for call in kubectl.calls())


def test_without_the_right_to_read_events_the_rest_is_shown(
    kubectl: FakeKubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl.on_get("dartesjobs.dartes.dev", document=job(**RUNNING))
    kubectl.on_get("pods", document=listing())
    kubectl.on(
        "events", err='Error from server (Forbidden): events is forbidden: User "u" cannot list', code=1
    )
    assert main(["status", "tiny"]) == 0
    assert "12 of 20 iterations" in capsys.readouterr().out


def test_watching_prints_changes_only_and_ends_with_the_job(
    kubectl: FakeKubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    later = {**RUNNING, "progress": {**RUNNING["progress"], "iteration": 13}}
    for status in (RUNNING, RUNNING, later):
        kubectl.on_get("dartesjobs.dartes.dev", document=job(**status), once=True)
    kubectl.on_get("dartesjobs.dartes.dev", document=job(phase="Succeeded"))
    kubectl.on_get("pods", document=listing())
    kubectl.on_get("events", document=listing())
    pauses: list[float] = []
    status_module.watch(Kubectl(Target()), "tiny", True, pauses.append)
    seen = [json.loads(line)["iteration"] for line in capsys.readouterr().out.splitlines()]
    assert seen == [12, 13, None]
    assert pauses == [status_module.WATCH_SECONDS] * 3


def test_watching_outlives_an_api_server_that_is_away_for_a_while(
    kubectl: FakeKubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    away = "The connection to the server 10.0.0.1:6443 was refused"
    kubectl.on_get("dartesjobs.dartes.dev", document=job(**RUNNING), once=True)
    kubectl.on("dartesjobs.dartes.dev", err=away, code=1, once=True)
    kubectl.on_get("dartesjobs.dartes.dev", document=job(phase="Succeeded"))
    kubectl.on_get("pods", document=listing())
    kubectl.on_get("events", document=listing())
    status_module.watch(Kubectl(Target()), "tiny", False, lambda _: None)
    said = capsys.readouterr()
    assert "asking again" in said.err
    assert "tiny in lab: Succeeded" in said.out


def test_watching_a_cluster_that_was_never_there_ends_at_once(kubectl: FakeKubectl) -> None:
    kubectl.on("get", err="Unable to connect to the server: no such host", code=1)
    assert main(["status", "tiny", "--watch"]) == 75
