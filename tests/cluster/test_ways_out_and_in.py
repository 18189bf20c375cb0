"""What goes in and out of a job's pods besides the wire: models on a claim, exports, snapshots, metrics."""

import json
from typing import Any

import pytest

from .jobs import Job, spec_of, until
from .release import Release

SHARED = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "shared"},
    "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "64Mi"}}},
}


def small(iterations: int, **changes: Any) -> dict[str, Any]:
    """A job of a few short iterations."""
    return spec_of(
        es__iterations=iterations,
        es__populationSize=4,
        es__batchSize=16,
        evaluation={"sets": []},
        workers__replicas=1,
        **changes,
    )


def test_a_model_exported_to_a_claim_is_the_next_jobs_base_model(release: Release, namespace: str) -> None:
    release.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(SHARED))
    spec = small(3)
    spec["export"] = {"destination": "pvc://shared/models/first"}
    spec["checkpoint"] = {"weights": {"everyIterations": 2, "destination": "pvc://shared/snapshots"}}
    first = Job.create(release.api, namespace, "first", spec)
    status = first.wait_complete()
    assert status["export"]["uri"] == "pvc://shared/models/first"
    assert status["export"]["digest"] == status["checkpoint"]["digest"], (
        "what was exported is what was trained"
    )
    assert "Exported" in {event["reason"] for event in first.events()}

    spec = small(2, model__source="pvc://shared/models/first")
    second = Job.create(release.api, namespace, "second", spec)
    status = second.wait_complete()
    assert status["checkpoint"]["lastIteration"] == 2
    (worker,) = second.pods("worker")
    mounts = {m["mountPath"]: m for m in worker["spec"]["containers"][0]["volumeMounts"]}
    assert mounts["/mnt/dartes/pvc/shared"]["readOnly"] is True, "a source is mounted read-only"


def test_an_export_that_cannot_be_delivered_fails_in_its_own_words_and_keeps_the_state(
    release: Release, namespace: str
) -> None:
    spec = small(1)
    # Nothing listens at the endpoint; the address is the pod's own.
    spec["export"] = {"destination": "s3://bucket/model", "secretRef": {"name": "s3"}}
    release.kubectl(
        "create", "secret", "generic", "s3", "-n", namespace, "--from-literal=AWS_ACCESS_KEY_ID=x",
        "--from-literal=AWS_SECRET_ACCESS_KEY=y", "--from-literal=AWS_ENDPOINT_URL=http://127.0.0.1:9",
        "--from-literal=AWS_DEFAULT_REGION=us-east-1",
    )  # fmt: skip
    job = Job.create(release.api, namespace, "undelivered", spec)
    failed = job.wait_condition("Failed", reason="ExportFailed", seconds=240)
    assert "s3://bucket/model" in failed["message"]
    assert "kubectl dartes export undelivered" in failed["message"], "the message says what is left to do"
    claims = {
        claim["metadata"]["name"] for claim in release.api.objects("persistent_volume_claim", namespace)
    }
    assert "undelivered-checkpoint" in claims


@pytest.mark.parametrize(
    ("role", "metric"),
    [("coordinator", "dartes_coordinator_iteration "), ("worker", "dartes_worker_evaluations_total")],
)
def test_pods_of_a_job_serve_metrics_and_log_json(
    release: Release, running: Job, role: str, metric: str
) -> None:
    pod = running.ready(role)[0]["metadata"]["name"]
    path = f"/api/v1/namespaces/{running.namespace}/pods/{pod}:8080/proxy/metrics"
    assert metric in release.kubectl("get", "--raw", path)
    lines = release.kubectl("logs", pod, "-n", running.namespace).splitlines()
    assert lines
    for line in lines:
        entry = json.loads(line)
        assert {"time", "level", "logger", "message", "job", "pod", "namespace"} <= set(entry)
        assert (entry["job"], entry["pod"]) == (running.name, pod)
    assert any("incarnation" in json.loads(line) for line in lines)


@pytest.fixture(scope="module")
def running(release: Release, module_namespace: str) -> Job:
    """A job that has committed an iteration and goes on; it ends with its namespace."""
    job = Job.create(release.api, module_namespace, "running", small(100_000))
    job.wait_rows(1)
    until(lambda: job.status["phase"] == "Running", "the status says Running", 30)
    return job


def test_the_operator_serves_metrics_and_logs_json(release: Release, running: Job) -> None:
    (pod,) = release.api.pods("dartes-system", "app.kubernetes.io/component=operator")
    name = pod["metadata"]["name"]
    text = release.kubectl("get", "--raw", f"/api/v1/namespaces/dartes-system/pods/{name}:8080/proxy/metrics")
    assert 'dartes_jobs{phase="Running"}' in text
    assert 'dartes_reconcile_total{result="success"}' in text
    assert 'dartes_reconcile_total{result="bug"}' not in text
    for line in release.operator_log().splitlines():
        json.loads(line)
