"""What a user reads when pods cannot start, and that a job heals once the cause is gone.

The words in conditions are the scheduler's, the kubelet's and the pod's own, since those are what people
search for.
"""

from pathlib import Path
from typing import Any

import pytest

from .jobs import Job, manifest, spec_of, until
from .reference import Reference, assert_same_end, run_locally
from .release import Release


def small(**changes: Any) -> dict[str, Any]:
    """A job of two short iterations and one worker."""
    return spec_of(
        es__iterations=2,
        es__populationSize=4,
        es__batchSize=16,
        evaluation={"sets": []},
        workers__replicas=1,
        **changes,
    )


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """The small job without a cluster: neither its name nor where its pods go decides anything."""
    return run_locally(manifest("small", "default", small()), tmp_path_factory.mktemp("reference") / "small")


def test_an_image_that_cannot_be_pulled_is_named_and_healed_while_suspended(
    release: Release, namespace: str, undisturbed: Reference
) -> None:
    job = Job.create(release.api, namespace, "no-image", small(workers__image="dartes/worker:there-is-none"))
    condition = job.wait_condition("WorkersReady", "False", "ImagePullBackOff", seconds=90)
    assert "dartes/worker:there-is-none" in condition["message"]
    assert job.status["failures"]["worker"] == 0, "a pod that never ran charges no budget"
    job.patch({"suspend": True})
    job.wait_condition("Suspended", seconds=60)
    job.patch({"suspend": False, "workers": {"image": None}})
    job.wait_complete()
    assert_same_end(job, undisturbed)


def test_an_unschedulable_worker_shows_the_schedulers_words_and_starts_when_there_is_room(
    release: Release, namespace: str, undisturbed: Reference
) -> None:
    spec = small(workers__gpusPerWorker=1, workers__gpuResourceName="example.com/accelerator")
    job = Job.create(release.api, namespace, "no-gpu", spec)
    condition = job.wait_condition("WorkersReady", "False", "Unschedulable", seconds=60)
    assert "Insufficient example.com/accelerator" in condition["message"]
    assert job.status["workers"]["pending"] == 1
    release.advertise("example.com/accelerator", 1)
    try:
        job.wait_complete()
        assert_same_end(job, undisturbed)
    finally:
        release.advertise("example.com/accelerator", 0)


def test_a_missing_secret_is_named_and_the_job_heals_when_it_appears(
    release: Release, namespace: str, undisturbed: Reference
) -> None:
    spec = small(workers__envFrom=[{"secretRef": {"name": "storage-keys"}}])
    job = Job.create(release.api, namespace, "no-secret", spec)
    condition = job.wait_condition("ResourcesReady", "False", "SecretMissing", seconds=90)
    assert "storage-keys" in condition["message"]
    assert job.status["failures"]["worker"] == 0
    release.kubectl(
        "create", "secret", "generic", "storage-keys", "--from-literal=KEY=value", "-n", namespace
    )
    job.wait_complete()
    assert_same_end(job, undisturbed)
    assert job.condition("ResourcesReady")["status"] == "True"


def test_a_start_up_that_takes_too_long_fails_the_job(release: Release, namespace: str) -> None:
    spec = small(
        workers__gpusPerWorker=1, workers__gpuResourceName="example.com/none", startupDeadlineSeconds=5
    )
    job = Job.create(release.api, namespace, "too-late", spec)
    failed = job.wait_condition("Failed", reason="StartupDeadlineExceeded", seconds=60)
    assert "startupDeadlineSeconds" in failed["message"]
    until(lambda: not job.live("worker") and not job.live("coordinator"), "its pods are gone", 60)


def test_a_job_that_runs_too_long_fails(release: Release, namespace: str) -> None:
    spec = {**small(), "activeDeadlineSeconds": 15}
    spec["es"] = {**spec["es"], "iterations": 100_000}
    job = Job.create(release.api, namespace, "too-long", spec)
    failed = job.wait_condition("Failed", reason="DeadlineExceeded", seconds=90)
    assert "activeDeadlineSeconds" in failed["message"]
    until(lambda: not job.live("worker") and not job.live("coordinator"), "its pods are gone", 60)


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("no-model", {"model__source": "file:///models/there-is-none"}, "/models/there-is-none"),
        ("no-data", {"dataset__source": "file:///data/there-is-none.jsonl"}, "/data/there-is-none.jsonl"),
        ("no-weights", {"model__source": "file:///etc/dartes"}, "/etc/dartes: no weights"),
    ],
)
def test_what_only_the_pods_can_find_fails_the_job_at_once_in_the_pods_words(
    release: Release, namespace: str, name: str, changes: dict[str, Any], words: str
) -> None:
    job = Job.create(release.api, namespace, name, small(**changes))
    failed = job.wait_condition("Failed", reason="InvalidConfiguration", seconds=120)
    assert words in failed["message"]
    assert len(failed["message"]) <= 2048
    until(lambda: not job.live("worker") and not job.live("coordinator"), "its pods are gone", 60)
    ended = [pod for role in ("coordinator", "worker") for pod in job.pods(role)]
    assert 1 <= len(ended) <= 2, "nothing was tried again"


def test_an_empty_data_set_fails_the_job_in_the_coordinators_words(
    release: Release, namespace: str, tmp_path: Path
) -> None:
    empty = tmp_path / "train.jsonl"
    empty.touch()
    release.kubectl("create", "configmap", "data", f"--from-file={empty}", "-n", namespace)
    mount: dict[str, Any] = {
        "volumes": [{"name": "data", "configMap": {"name": "data"}}],
        "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": True}],
    }
    spec = small(dataset={"source": "file:///data/train.jsonl"})
    spec["coordinator"] = mount
    spec["workers"] = {**spec["workers"], **mount}
    job = Job.create(release.api, namespace, "empty", spec)
    failed = job.wait_condition("Failed", reason="InvalidConfiguration", seconds=120)
    assert "train.jsonl" in failed["message"]


def test_a_pod_template_that_asks_for_too_much_is_refused_by_the_operator(
    release: Release, namespace: str
) -> None:
    spec = small(workers__podTemplate={"spec": {"hostNetwork": True}})
    job = Job.create(release.api, namespace, "greedy", spec)
    refused = job.wait_condition("Accepted", "False", "PodTemplateInvalid", seconds=60)
    assert "hostNetwork" in refused["message"]
    assert not job.pods("worker")
