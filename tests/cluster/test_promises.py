"""What a job survives in a cluster: each promise of docs/failure-modes.md that needs no lost node.

One long job takes the disturbances in turn. After each, every committed iteration must carry the hash that an
undisturbed run has there (hashes are chained, so the newest vouches for all); the last test lets the job end
and compares journal and weights.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .jobs import Job, is_live, make_disturbed_engine, spec_of, uid, until, with_disturbed_engine
from .reference import Reference, assert_same_end, goes_on, run_locally, run_undisturbed
from .release import Release

WORKERS = 2
ITERATIONS = 130
PACE_SECONDS = 0.1
"""Iterations that must follow a disturbance before its test is content."""

WORKER_MEMORY = "1200Mi"


def long_spec() -> dict[str, Any]:
    """Small members, many iterations of at least 0.8 s, a volume that can follow to another node."""
    spec = spec_of(
        es__iterations=ITERATIONS,
        es__populationSize=16,
        es__batchSize=64,
        evaluation={"everyIterations": 100, "sets": []},
        checkpoint={"volume": {"size": "64Mi", "storageClassName": "portable"}, "retentionPolicy": "Delete"},
        workers__replicas=WORKERS,
        workers__resources={"limits": {"memory": WORKER_MEMORY}},
        failurePolicy={"coordinatorRestarts": 6, "workerFailures": 8},
    )
    spec["workers"] = with_disturbed_engine(spec["workers"], PACE_SECONDS)
    return spec


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """The same job without a cluster and without disturbances."""
    return run_undisturbed("long", long_spec(), tmp_path_factory.mktemp("reference"))


@pytest.fixture(scope="module")
def job(release: Release, module_namespace: str, reference: Reference) -> Iterator[Job]:
    """The long job, running with both workers."""
    make_disturbed_engine(release.api, module_namespace)
    job = Job.create(release.api, module_namespace, "long", long_spec())
    job.wait_ready("worker", WORKERS)
    job.wait_rows(1)
    yield job
    job.delete()


def charges(job: Job) -> int:
    """Failures charged to the budgets; those of workers are forgiven as the run goes on."""
    failures = job.status["failures"]
    return int(failures["worker"]) + int(failures["coordinator"])


def replaced(job: Job, victim: dict[str, Any], role: str, count: int) -> None:
    """Wait until a pod is gone or has ended, and so many of its role are ready again."""
    until(lambda: uid(victim) not in {uid(p) for p in job.live(role)}, f"{role}: the end of the victim", 60)
    job.wait_ready(role, count)


def test_a_deleted_worker_pod_returns(job: Job, reference: Reference) -> None:
    before = len(job.rows())
    victim = job.live("worker")[0]
    job.api.core.delete_namespaced_pod(victim["metadata"]["name"], job.namespace)
    replaced(job, victim, "worker", WORKERS)
    goes_on(job, reference, before)
    assert charges(job) == 0, "a deleted pod is a disruption and charges no budget"


def test_a_worker_pod_that_is_gone_at_once_is_a_disruption(job: Job, reference: Reference) -> None:
    before, charged = len(job.rows()), charges(job)
    disruptions = job.status["failures"]["disruptions"]
    victim = job.live("worker")[0]
    job.api.core.delete_namespaced_pod(victim["metadata"]["name"], job.namespace, grace_period_seconds=0)
    replaced(job, victim, "worker", WORKERS)
    goes_on(job, reference, before)
    assert charges(job) == charged
    assert job.status["failures"]["disruptions"] == disruptions + 1


def test_a_killed_worker_process_is_replaced(release: Release, job: Job, reference: Reference) -> None:
    before = len(job.rows())
    victim = job.live("worker")[1]
    release.kill_container(victim, "worker")
    replaced(job, victim, "worker", WORKERS)
    goes_on(job, reference, before)
    last = job.status["lastFailure"]
    assert (last["role"], last["exitCode"], last["counted"]) == ("worker", 137, True)


def test_an_out_of_memory_killed_worker_is_replaced(job: Job, reference: Reference) -> None:
    before = len(job.rows())
    victim = job.live("worker")[0]
    job.api.execute(job.namespace, victim["metadata"]["name"], "worker", "touch", "/tmp/allocate")
    until(
        lambda: job.status.get("lastFailure", {}).get("reason") == "OOMKilled",
        f"lastFailure OOMKilled\n{job.describe()}",
        60,
    )
    replaced(job, victim, "worker", WORKERS)
    goes_on(job, reference, before)


def test_a_drained_node_loses_nothing(release: Release, job: Job, reference: Reference) -> None:
    before, charged = len(job.rows()), charges(job)
    node = job.live("coordinator")[0]["spec"]["nodeName"]
    incarnation = job.status["coordinator"]["incarnation"]
    release.kubectl(
        "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=90s",
        "--pod-selector", f"dartes.dev/job-name={job.name}",
    )  # fmt: skip
    try:
        job.wait_ready("coordinator", 1)
        job.wait_ready("worker", WORKERS)
        assert all(pod["spec"]["nodeName"] != node for pod in job.live("coordinator"))
        goes_on(job, reference, before)
    finally:
        release.kubectl("uncordon", node)
    until(
        lambda: job.status["coordinator"]["incarnation"] > incarnation,
        "a higher incarnation in the status",
        30,
    )
    assert charges(job) <= charged, "a drain charges no budget"
    assert job.status["failures"]["disruptions"] >= 1


def test_a_deleted_coordinator_pod_goes_on_from_its_volume(job: Job, reference: Reference) -> None:
    before = len(job.rows())
    workers = {uid(pod) for pod in job.live("worker")}
    victim = job.live("coordinator")[0]
    job.api.core.delete_namespaced_pod(victim["metadata"]["name"], job.namespace)
    until(lambda: [p for p in job.ready("coordinator") if uid(p) != uid(victim)], "a new coordinator", 60)
    goes_on(job, reference, before)
    assert {uid(pod) for pod in job.live("worker")} == workers, "workers wait and rejoin"
    assert job.status["failures"]["coordinator"] == 0


def test_a_killed_coordinator_process_goes_on_from_its_volume(
    release: Release, job: Job, reference: Reference
) -> None:
    before = len(job.rows())
    victim = job.live("coordinator")[0]
    release.kill_container(victim, "coordinator")
    until(lambda: [p for p in job.ready("coordinator") if uid(p) != uid(victim)], "a new coordinator", 60)
    goes_on(job, reference, before)
    assert job.status["failures"]["coordinator"] == 1
    assert job.status["lastFailure"]["role"] == "coordinator"


def test_training_does_not_notice_that_the_operator_is_away(
    release: Release, job: Job, reference: Reference
) -> None:
    before = len(job.rows())
    release.scale_operator(0)
    try:
        goes_on(job, reference, before)
        victim, survivor = job.live("worker")
        job.api.core.delete_namespaced_pod(victim["metadata"]["name"], job.namespace)
        goes_on(job, reference, len(job.rows()))
        kept = {uid(pod) for pod in [survivor, *job.live("coordinator")]}
    finally:
        release.scale_operator(1)
    job.wait_ready("worker", WORKERS)
    now = {uid(pod) for role in ("coordinator", "worker") for pod in job.live(role)}
    assert kept < now, "an operator that comes back restarts nothing"
    goes_on(job, reference, len(job.rows()))


def test_kubectl_scale_adds_and_removes_workers(release: Release, job: Job, reference: Reference) -> None:
    before, charged = len(job.rows()), charges(job)
    disruptions = job.status["failures"]["disruptions"]
    release.kubectl("scale", f"dej/{job.name}", "--replicas=3", "-n", job.namespace)
    job.wait_ready("worker", 3)
    release.kubectl("scale", f"dej/{job.name}", "--replicas=1", "-n", job.namespace)
    (left,) = job.wait_ready("worker", 1)
    assert left["metadata"]["labels"]["dartes.dev/worker-index"] == "0", "the highest index goes first"
    goes_on(job, reference, before)
    release.kubectl("scale", f"dej/{job.name}", f"--replicas={WORKERS}", "-n", job.namespace)
    job.wait_ready("worker", WORKERS)
    assert charges(job) <= charged
    assert job.status["failures"]["disruptions"] == disruptions, "what is scaled away is no loss"
    assert {event["reason"] for event in job.events()} >= {"ScaledUp", "ScaledDown"}


def test_a_suspended_job_keeps_its_state_and_goes_on(job: Job, reference: Reference) -> None:
    before = len(job.rows())
    job.patch({"suspend": True})
    job.wait_condition("Suspended", seconds=60)
    until(lambda: not [p for r in ("coordinator", "worker") for p in job.live(r)], "no pod is left", 60)
    assert job.status["phase"] == "Suspended"
    job.patch({"suspend": False})
    job.wait_condition("Suspended", status="False", seconds=60)
    job.wait_ready("worker", WORKERS)
    goes_on(job, reference, before)


def test_the_disturbed_job_ends_as_an_undisturbed_one(job: Job, reference: Reference) -> None:
    job.wait_complete(seconds=400)
    assert_same_end(job, reference)
    assert job.status["phase"] == "Succeeded"
    assert job.status["progress"]["iteration"] == ITERATIONS
    until(lambda: not job.live("worker"), "workers leave when the run is done", 60)
    until(lambda: not job.live("coordinator"), "the coordinator leaves when the run is done", 60)


def test_a_coordinator_killed_inside_a_commit_loses_nothing(
    release: Release, module_namespace: str, tmp_path: Path
) -> None:
    spec = spec_of(es__iterations=8, evaluation={"sets": []}, es__populationSize=8, es__batchSize=32)
    reference = run_locally(
        {
            "apiVersion": "dartes.dev/v1alpha1",
            "kind": "DartESJob",
            "metadata": {"name": "struck"},
            "spec": spec,
        },
        tmp_path / "struck",
    )
    plan = "inside-transaction:3@1,after-commit:2@2"
    spec["coordinator"] = {"env": [{"name": "DARTES_FAULT", "value": plan}]}
    job = Job.create(release.api, module_namespace, "struck", spec)
    job.wait_complete()
    assert_same_end(job, reference)
    assert job.status["failures"]["coordinator"] == 2
    assert job.status["coordinator"]["incarnation"] == 3


def test_two_jobs_side_by_side_do_not_touch_each_other(
    release: Release, module_namespace: str, tmp_path: Path
) -> None:
    specs = {
        name: spec_of(es__iterations=5, es__seed=seed, es__populationSize=8, evaluation={"sets": []})
        for name, seed in (("left", 1), ("right", 2))
    }
    jobs = {name: Job.create(release.api, module_namespace, name, spec) for name, spec in specs.items()}
    for job in jobs.values():
        job.wait_complete()
    for name, job in jobs.items():
        local = {
            "apiVersion": "dartes.dev/v1alpha1",
            "kind": "DartESJob",
            "metadata": {"name": name},
            "spec": specs[name],
        }
        assert_same_end(job, run_locally(local, tmp_path / name))


def test_a_job_deleted_half_way_leaves_a_clean_namespace(release: Release, namespace: str) -> None:
    spec = spec_of(es__iterations=500, checkpoint={"retentionPolicy": "Delete"})
    job = Job.create(release.api, namespace, "gone", spec)
    job.wait_rows(1)
    job.delete()

    def left() -> list[str]:
        kinds = ("pod", "service", "secret", "config_map", "persistent_volume_claim")
        found = [o for kind in kinds for o in release.api.objects(kind, namespace)]
        labelled = [o for o in found if o["metadata"].get("labels", {}).get("dartes.dev/job-name")]
        policies = json.loads(release.kubectl("get", "networkpolicies", "-n", namespace, "-o", "json"))
        return [str(o["metadata"]["name"]) for o in [*labelled, *policies["items"]]]

    until(lambda: not left() and not job.exists(), f"nothing of the job is left, but {left()}", 60)


def test_a_finished_job_is_deleted_when_its_time_has_passed(release: Release, namespace: str) -> None:
    spec = spec_of(
        es__iterations=1,
        es__populationSize=4,
        es__batchSize=16,
        evaluation={"sets": []},
        ttlSecondsAfterFinished=3,
    )
    job = Job.create(release.api, namespace, "brief", spec)
    job.wait_complete()
    until(lambda: not job.exists(), "the job is gone", 60)
    until(lambda: not [p for p in job.pods("worker") if is_live(p)], "its pods are gone", 60)
    claims = release.api.objects("persistent_volume_claim", namespace)
    assert [claim["metadata"]["name"] for claim in claims] == ["brief-checkpoint"], "Retain keeps the volume"


def test_the_same_name_over_a_retained_volume_is_refused_until_it_is_named(
    release: Release, namespace: str, tmp_path: Path
) -> None:
    spec = spec_of(es__iterations=2, es__populationSize=4, es__batchSize=16, evaluation={"sets": []})
    first = Job.create(release.api, namespace, "again", spec)
    first.wait_complete()
    first.delete()
    until(lambda: not first.exists() and not first.pods("coordinator"), "the first job is gone", 60)
    second = Job.create(release.api, namespace, "again", spec)
    refused = second.wait_condition("ResourcesReady", "False", "VolumeExists", seconds=60)
    assert "again-checkpoint" in refused["message"]
    assert "resumeFrom" in refused["message"], "the message says what to do"
    assert not second.pods("coordinator")
    second.delete()
    until(lambda: not second.exists(), "the second job is gone", 60)
    spec["es"]["iterations"] = 4
    spec["checkpoint"] = {**spec.get("checkpoint", {}), "resumeFrom": {"jobName": "again"}}
    third = Job.create(release.api, namespace, "again", spec)
    third.wait_complete()
    del spec["checkpoint"]
    local = {
        "apiVersion": "dartes.dev/v1alpha1",
        "kind": "DartESJob",
        "metadata": {"name": "again"},
        "spec": spec,
    }
    assert_same_end(third, run_locally(local, tmp_path / "again"))


def test_the_commands_that_the_readme_gives_work(release: Release, namespace: str) -> None:
    example = Path(__file__).resolve().parents[2] / "examples" / "addition.yaml"
    release.kubectl("apply", "-n", namespace, "-f", str(example))
    release.kubectl(
        "wait", "-n", namespace, "--for=condition=Complete", "dej/addition", "--timeout=240s", seconds=250
    )
    table = release.kubectl("get", "dej", "-n", namespace)
    header, line = table.strip().splitlines()
    assert header.split() == ["NAME", "PHASE", "ITER", "TOTAL", "WORKERS", "DESIRED", "PASSRATE", "AGE"]
    assert line.split()[:4] == ["addition", "Succeeded", "20", "20"]
    job = Job(release.api, namespace, "addition")
    assert float(job.status["progress"]["evalAccuracy"]) > 0.9
    generation = job.get()["metadata"]["generation"]
    subprocess.run(
        [*release.kubectl_command, "apply", "-n", namespace, "-f", str(example)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert job.get()["metadata"]["generation"] == generation, "a second apply changes nothing"
    assert job.status["phase"] == "Succeeded"
