"""Storage that fills, is damaged or is somebody else's, and certificates that are lost: on one long job.

The job's volume is of a class whose size is enforced. Its history is compared with that of an undisturbed run
after each disturbance, and its end at the end; then another job goes back to an older state of it.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from .held import HeldCluster
from .jobs import Job, Object, make_disturbed_engine, spec_of, uid, until, with_disturbed_engine
from .kwok_jobs import Kwok, spec_on_kwok
from .lacking import lacking
from .reference import MORE, Reference, assert_same_end, goes_on, run_undisturbed
from .release import Release
from .releases import Releases

pytestmark = pytest.mark.usefixtures("alone")

WORKERS = 2
ITERATIONS = 90
PACE_SECONDS = 0.1
BACKUP_EVERY = 10
"""Iterations that must follow a disturbance before its test is content."""

STATE = "/var/lib/dartes/run"
FILL = """
with open("/var/lib/dartes/ballast", "ab", buffering=0) as file:
    try:
        while True:
            file.write(bytes(4096))
    except OSError as error:
        print(error.strerror)
"""
DAMAGE = f"""
import os
os.truncate("{STATE}/state.sqlite", os.path.getsize("{STATE}/state.sqlite") // 2)
"""


def long_spec(**checkpoint: Any) -> Object:
    """Small members, many iterations of at least 0.8 s, and not one failure of the coordinator allowed."""
    spec = spec_of(
        es__iterations=ITERATIONS,
        es__populationSize=16,
        es__batchSize=64,
        evaluation={"everyIterations": 100, "sets": []},
        checkpoint=checkpoint,
        workers__replicas=WORKERS,
        failurePolicy={"coordinatorRestarts": 0, "workerFailures": 0},
    )
    spec["workers"] = with_disturbed_engine(spec["workers"], PACE_SECONDS)
    return spec


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """The same job without a cluster and without disturbances."""
    return run_undisturbed("long", long_spec(), tmp_path_factory.mktemp("reference"))


@pytest.fixture(scope="module")
def own_release(cluster: HeldCluster, releases: Releases, module_namespace: str) -> Release:
    """An operator for this module's namespace alone."""
    if "small" not in cluster.storage_classes:
        lacking("this cluster has no storage class that enforces a volume's size")
    return releases(module_namespace)


@pytest.fixture(scope="module")
def job(own_release: Release, module_namespace: str, reference: Reference) -> Iterator[Job]:
    """The long job, running with both workers on a volume of 16 MiB."""
    make_disturbed_engine(own_release.api, module_namespace)
    spec = long_spec(volume={"size": "64Mi", "storageClassName": "small"})
    job = Job.create(own_release.api, module_namespace, "long", spec)
    job.wait_ready("worker", WORKERS)
    job.wait_rows(1)
    yield job
    job.delete()


def in_coordinator(job: Job, *command: str) -> str:
    """What a command prints in the coordinator's container."""
    (coordinator,) = job.live("coordinator")
    return job.api.execute(job.namespace, coordinator["metadata"]["name"], "coordinator", *command)


def fill(job: Job) -> None:
    """Leave not one page on the job's volume."""
    said = in_coordinator(job, "python", "-c", FILL)
    assert "No space left on device" in said


def grow(job: Job, size: str) -> None:
    """Make the job's claim as large as this; the volume grows by as much as the claim does."""
    body = {"spec": {"resources": {"requests": {"storage": size}}}}
    job.api.core.patch_namespaced_persistent_volume_claim(f"{job.name}-checkpoint", job.namespace, body)


def uids(job: Job) -> set[str]:
    """All live pods of a job."""
    return {uid(pod) for role in ("coordinator", "worker") for pod in job.live(role)}


def charges(job: Job) -> tuple[int, int]:
    """Failures charged to the budgets."""
    failures = job.status["failures"]
    return failures["coordinator"], failures["worker"]


def secrets_of(job: Job) -> Mapping[str, str]:
    """Version of each TLS Secret of a job that is there."""
    return {
        secret["metadata"]["name"]: str(secret["metadata"]["resourceVersion"])
        for secret in job.api.objects("secret", job.namespace)
        if secret["metadata"]["name"].startswith(f"{job.name}-tls-")
    }


@pytest.mark.full
def test_a_full_volume_pauses_training_with_a_condition_and_heals_when_its_claim_grows(
    job: Job, reference: Reference
) -> None:
    pods = uids(job)
    fill(job)
    paused = job.wait_condition("CheckpointHealthy", "False", "Paused", seconds=30)
    assert "the disk is full" in paused["message"]
    assert job.status["message"].startswith("Paused: ")
    before = len(job.rows())
    assert job.iteration <= before, "nothing is called committed that could not be written"
    grow(job, "80Mi")
    job.wait_condition("CheckpointHealthy", "True", "Written", seconds=60)
    goes_on(job, reference, before)
    assert uids(job) == pods, "no pod was restarted"
    assert charges(job) == (0, 0)
    assert "CheckpointFailed" in {event["reason"] for event in job.events()}


@pytest.mark.full
def test_a_coordinator_that_starts_on_a_full_volume_waits_for_room_and_charges_no_budget(
    job: Job, reference: Reference
) -> None:
    before = len(job.rows())
    fill(job)
    job.wait_condition("CheckpointHealthy", "False", "Paused", seconds=30)
    (victim,) = job.live("coordinator")
    job.api.core.delete_namespaced_pod(victim["metadata"]["name"], job.namespace)
    until(
        lambda: job.status.get("lastFailure", {}).get("reason") == "VolumeFull",
        f"the next coordinator says that its volume is full\n{job.describe()}",
        60,
    )
    assert "the disk is full" in job.condition("CheckpointHealthy")["message"]
    grow(job, "96Mi")
    job.wait_condition("CheckpointHealthy", "True", "Written", seconds=90)
    goes_on(job, reference, before)
    assert charges(job) == (0, 0), "no failure was allowed, and none was charged"


def between_backups(rows: int) -> int | None:
    """The number of rows where the next backup is far."""
    return rows if 1 <= rows % BACKUP_EVERY <= BACKUP_EVERY // 2 else None


@pytest.mark.full
def test_a_damaged_newest_state_is_replaced_by_a_backup_and_the_loss_is_said(
    job: Job, reference: Reference
) -> None:
    job.patch({"failurePolicy": {"coordinatorRestarts": 1}})  # it may meet the damage before it is gone
    job.wait_rows(BACKUP_EVERY + 1)
    # So early after a backup that the next one is not made before the damage.
    before = until(lambda: between_backups(len(job.rows())), "some iterations after a backup", 60)
    (victim,) = job.live("coordinator")
    in_coordinator(job, "python", "-c", DAMAGE)
    job.api.core.delete_namespaced_pod(victim["metadata"]["name"], job.namespace)
    restored = job.wait_condition("CheckpointHealthy", "True", "Restored", seconds=90)
    kept = before - before % BACKUP_EVERY
    assert (
        f"backup state-{kept:08d}.sqlite is used instead: {kept} iterations are kept" in restored["message"]
    )
    goes_on(job, reference, before)
    assert "state.sqlite.0" in in_coordinator(job, "ls", f"{STATE}/damaged"), "it is kept for a post-mortem"
    assert "Restored" in {event["reason"] for event in job.events()}


@pytest.mark.full
def test_a_deleted_tls_secret_is_issued_again_and_the_pods_are_restarted(
    job: Job, reference: Reference
) -> None:
    before, charged, pods, secrets = len(job.rows()), charges(job), uids(job), secrets_of(job)
    disruptions = job.status["failures"]["disruptions"]
    assert len(secrets) == 3
    job.api.core.delete_namespaced_secret(f"{job.name}-tls-worker", job.namespace)
    goes_on(job, reference, before)
    assert uids(job) == pods, "pods that run have read their own already"
    victim = job.live("worker")[0]
    job.api.core.delete_namespaced_pod(victim["metadata"]["name"], job.namespace)
    until(lambda: not uids(job) & pods, "no pod of the lost authority is left", 90)
    job.wait_ready("coordinator", 1)
    job.wait_ready("worker", WORKERS)
    now = secrets_of(job)
    assert now.keys() == secrets.keys()
    assert not set(now.values()) & set(secrets.values()), "the authority's key is gone, so all three are new"
    goes_on(job, reference, len(job.rows()))
    assert charges(job) == charged
    assert job.status["failures"]["disruptions"] == disruptions + 1, "the deleted worker's, and no other"


@pytest.mark.full
def test_the_job_whose_storage_was_disturbed_ends_as_an_undisturbed_one(
    job: Job, reference: Reference
) -> None:
    job.wait_complete(seconds=400)
    assert_same_end(job, reference)


@pytest.mark.full
def test_a_job_goes_on_from_an_older_iteration_of_another_job_and_goes_back_only_once(
    job: Job, reference: Reference
) -> None:
    kept = ITERATIONS - 12
    spec = long_spec(resumeFrom={"jobName": job.name, "iteration": kept})
    again = Job.create(job.api, job.namespace, "again", spec)
    again.wait_ready("worker", WORKERS)
    rows = again.wait_rows(kept + MORE)
    assert len(rows) < ITERATIONS, "it has gone back"
    (victim,) = again.live("coordinator")
    again.api.core.delete_namespaced_pod(victim["metadata"]["name"], again.namespace)
    until(lambda: [p for p in again.ready("coordinator") if uid(p) != uid(victim)], "a new coordinator", 60)
    assert len(again.wait_rows(1)) >= len(rows), "a second start does not go back"
    listed = in_coordinator(again, "ls", f"{STATE}/rewound").split()
    assert listed == [f"state-{ITERATIONS:08d}-{again.get()['metadata']['uid']}.sqlite"], "it is kept once"
    again.wait_complete()
    assert_same_end(again, reference)


@pytest.mark.full
def test_an_iteration_that_was_never_reached_fails_the_job_in_the_coordinators_words(job: Job) -> None:
    spec = long_spec(resumeFrom={"claimName": f"{job.name}-checkpoint", "iteration": ITERATIONS + 1})
    beyond = Job.create(job.api, job.namespace, "beyond", spec)
    failed = beyond.wait_condition("Failed", reason="InvalidConfiguration", seconds=90)
    assert (
        f"can't go on from iteration {ITERATIONS + 1}: {ITERATIONS} iterations are committed"
        in (failed["message"])
    )


@pytest.fixture(scope="module")
def claim_namespace(kwok: Kwok) -> Iterator[str]:
    """A namespace for jobs on fake nodes, with a claim `state` that a user has made."""
    namespace = kwok.cluster.make_namespace()
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "state"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "64Mi"}}},
    }
    kwok.cluster.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(claim))
    yield namespace
    kwok.cluster.delete_namespace(namespace)


@pytest.fixture(scope="module")
def users(claim_namespace: str, releases: Releases) -> list[Job]:
    """Three jobs on one claim, created one after the other; the first has pods."""
    api = releases(claim_namespace, kwok=True).api
    first = Job.create(api, claim_namespace, "first", on_claim(volume={"claimName": "state"}))
    first.wait_ready("coordinator", 1, seconds=60)
    second = Job.create(api, claim_namespace, "second", on_claim(volume={"claimName": "state"}))
    second.wait_condition("ResourcesReady", "False", seconds=30)
    third = Job.create(api, claim_namespace, "third", on_claim(resumeFrom={"claimName": "state"}))
    return [first, second, third]


def on_claim(**checkpoint: Any) -> Object:
    """A job on fake nodes whose state is where this says."""
    return spec_on_kwok(checkpoint=checkpoint)


def test_two_jobs_never_work_on_one_claim(users: list[Job]) -> None:
    for job in users[1:]:
        refused = job.wait_condition("ResourcesReady", "False", "VolumeExists", seconds=30)
        assert "the volume claim state is in use by the job first" in refused["message"]
        assert not job.pods("coordinator")


@pytest.mark.full
def test_a_claim_that_is_free_again_goes_to_the_job_that_was_created_first(users: list[Job]) -> None:
    first, second, third = users
    first.delete()
    second.wait_ready("coordinator", 1, seconds=90)
    assert not third.pods("coordinator")
