"""What goes and what stays: each row of the table in docs/operations.md, on pods that are only objects.

No finalizer is the operator's, so everything that is deleted goes whether an operator is there or not. That a
run without an operator trains to its end is shown with real pods in test_upgrades.py.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from .definitions import PATH as DEFINITION_PATH
from .definitions import given_back, put_back, remove
from .held import HeldCluster
from .jobs import Job, Object, uid, until
from .kwok_jobs import Kwok, spec_on_kwok
from .release import Release
from .releases import Releases

WORKERS = 2
KINDS = "pods,services,configmaps,secrets,networkpolicies,poddisruptionbudgets"
LAST_WORDS = json.dumps(
    {
        "iteration": 20,
        "totalIterations": 20,
        "epoch": 1,
        "journalHash": "aa",
        "weightDigest": "bb",
        "trainPassRate": 0.5,
        "evalAccuracy": 0.5,
        "incarnation": 1,
    }
)


def start(release: Release, namespace: str, name: str, **changes: object) -> Job:
    """A job that runs."""
    job = Job.create(release.api, namespace, name, spec_on_kwok(**changes))
    job.wait_ready("coordinator", 1)
    job.wait_ready("worker", WORKERS)
    job.wait_condition("WorkersReady")
    return job


def objects(cluster: HeldCluster, job: Job, kinds: str = KINDS) -> dict[str, Object]:
    """The job's objects of some kinds by kind and name."""
    words = ("get", kinds, "-n", job.namespace, "-l", f"dartes.dev/job-name={job.name}", "-o", "json")
    found = json.loads(cluster.kubectl(*words))["items"]
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in found}


def uids(found: dict[str, Object]) -> dict[str, str]:
    """What tells objects from their successors of the same name."""
    return {name: uid(each) for name, each in found.items()}


def is_gone(cluster: HeldCluster, job: Job) -> bool:
    """Whether neither the job nor anything of it is left, but a volume."""
    return not job.exists() and not objects(cluster, job)


@dataclass(frozen=True)
class LeftAlone:
    """Jobs whose operator was uninstalled while they ran."""

    namespace: str
    finishes: Job
    goes_on: Job
    deleted: Job
    kept: dict[str, str]


@pytest.fixture(scope="module")
def left_alone(
    cluster: HeldCluster, kwok: Kwok, releases: Releases, module_namespace: str
) -> Iterator[LeftAlone]:
    """Three running jobs, and an operator that is no longer there."""
    release = releases(module_namespace, kwok=True)
    keeps = {"checkpoint__retentionPolicy": "Retain"}

    def create(name: str) -> Job:
        return Job.create(release.api, module_namespace, name, spec_on_kwok(**keeps))

    jobs = finishes, goes_on, deleted = create("finishes"), create("goes-on"), create("deleted")
    for job in jobs:
        until(lambda each=job: each.status.get("phase") == "Running", f"{job.name} runs", 60)  # type: ignore[misc]
    release.uninstall()
    pods = {name: uid(pod) for job in jobs for name, pod in objects(cluster, job).items()}
    yield LeftAlone(module_namespace, finishes, goes_on, deleted, pods)
    for job in jobs:
        cluster.kubectl("delete", "dej", job.name, "-n", job.namespace, "--ignore-not-found", "--wait=false")


def test_a_job_deleted_while_no_operator_is_there_leaves_its_volume_and_nothing_else(
    cluster: HeldCluster, left_alone: LeftAlone
) -> None:
    job = left_alone.deleted
    assert "finalizers" not in job.get()["metadata"]
    cluster.kubectl("delete", "dej", job.name, "-n", job.namespace, "--timeout=30s")
    until(lambda: is_gone(cluster, job), "nothing of the job is left", 60)
    assert set(objects(cluster, job, "pvc")) == {"PersistentVolumeClaim/deleted-checkpoint"}


def test_jobs_outlive_their_operator_and_a_release_of_another_name_catches_up(
    cluster: HeldCluster, kwok: Kwok, releases: Releases, left_alone: LeftAlone
) -> None:
    finishes, goes_on = left_alone.finishes, left_alone.goes_on
    for pod in (*finishes.live("coordinator"), *finishes.live("worker")):
        kwok.finish(pod, message=LAST_WORDS if "coordinator" in pod["metadata"]["name"] else "")
    assert finishes.status["phase"] == "Running", "nobody is there to tell of the end"
    release = releases(left_alone.namespace, kwok=True)
    status = finishes.wait_complete(60)
    assert status["progress"]["iteration"] == 20
    policy = f"/apis/networking.k8s.io/v1/namespaces/{goes_on.namespace}/networkpolicies/goes-on-coordinator"
    until(
        lambda: release.namespace in json.dumps((cluster.find(policy) or {}).get("spec")),
        "the new operator's namespace is let in to the coordinator",
        30,
    )
    assert goes_on.status["phase"] == "Running"
    now = {**uids(objects(cluster, finishes)), **uids(objects(cluster, goes_on))}
    assert now.items() <= left_alone.kept.items(), "nothing is made anew"
    lost = goes_on.live("worker")[0]
    release.api.core.delete_namespaced_pod(lost["metadata"]["name"], goes_on.namespace)
    until(lambda: uid(lost) not in {uid(pod) for pod in goes_on.live("worker")}, "the pod is gone", 30)
    assert len(goes_on.wait_ready("worker", WORKERS)) == WORKERS, "what is lost from now on returns"


@pytest.mark.full
def test_a_job_deleted_with_cascade_orphan_leaves_everything_and_nobody_touches_it(
    cluster: HeldCluster, kwok: Kwok, releases: Releases, namespace: str
) -> None:
    release = releases(namespace, kwok=True)
    job = start(release, namespace, "orphan")
    before = uids(objects(cluster, job))
    cluster.kubectl("delete", "dej", "orphan", "-n", namespace, "--cascade=orphan", "--timeout=30s")
    left = objects(cluster, job)
    assert uids(left) == before
    assert not [name for name, each in left.items() if each["metadata"].get("ownerReferences")]
    victim = job.live("worker")[0]["metadata"]["name"]
    release.api.core.delete_namespaced_pod(victim, namespace)
    # Another job's whole start is time enough for an operator that would make it again.
    start(release, namespace, "another")
    assert victim not in {pod["metadata"]["name"] for pod in job.live("worker")}
    again = Job.create(release.api, namespace, "orphan", spec_on_kwok())
    refused = again.wait_condition("ResourcesReady", "False")
    assert refused["reason"] in ("NameConflict", "VolumeExists"), refused
    # As docs/operations.md says it, with the claim.
    cluster.kubectl("delete", KINDS, "-n", namespace, "-l", "dartes.dev/job-name=orphan")
    cluster.kubectl("delete", "pvc", "-n", namespace, "orphan-checkpoint")
    again.wait_ready("worker", WORKERS)


@pytest.mark.full
def test_a_namespace_deleted_with_running_jobs_goes_and_the_operator_works_on_elsewhere(
    cluster: HeldCluster, kwok: Kwok, releases: Releases, namespace: str
) -> None:
    doomed = cluster.make_namespace("doomed")
    release = releases(doomed, namespace, kwok=True)
    start(release, doomed, "gone", checkpoint__retentionPolicy="Retain")
    stays = start(release, namespace, "stays")
    operator = uid(release.operator_pod())
    cluster.kubectl("delete", "namespace", doomed, "--timeout=60s", seconds=90)
    lost = stays.live("worker")[0]
    release.api.core.delete_namespaced_pod(lost["metadata"]["name"], namespace)
    until(lambda: uid(lost) not in {uid(pod) for pod in stays.live("worker")}, "the pod is gone", 30)
    stays.wait_ready("worker", WORKERS)
    start(release, namespace, "later")
    assert uid(release.operator_pod()) == operator


@pytest.mark.full
def test_deleting_the_definition_deletes_every_job_and_keeps_their_volumes(
    cluster: HeldCluster, kwok: Kwok, releases: Releases, namespace: str
) -> None:
    release = releases(namespace, kwok=True)
    job = start(release, namespace, "all", checkpoint__retentionPolicy="Retain")
    with given_back(cluster):
        remove(cluster)
        until(lambda: not objects(cluster, job), "nothing of the job is left", 60)
        assert set(objects(cluster, job, "pvc")) == {"PersistentVolumeClaim/all-checkpoint"}
        put_back(cluster)
        start(release, namespace, "after")


@pytest.mark.full
def test_uninstalling_a_release_that_does_not_keep_the_definition_deletes_every_job(
    cluster: HeldCluster, kwok: Kwok, releases: Releases, namespace: str
) -> None:
    with given_back(cluster):
        remove(cluster)
        release = releases(namespace, kwok=True, options=("--set=crds.create=true", "--set=crds.keep=false"))
        job = start(release, namespace, "all", checkpoint__retentionPolicy="Retain")
        release.uninstall()
        until(lambda: cluster.find(DEFINITION_PATH) is None, "the definition is gone", 60)
        until(lambda: not objects(cluster, job), "nothing of the job is left", 60)
        assert set(objects(cluster, job, "pvc")) == {"PersistentVolumeClaim/all-checkpoint"}


@pytest.mark.full
def test_a_second_release_uses_the_definition_of_the_first_and_keeps_it_when_that_one_goes(
    cluster: HeldCluster, kwok: Kwok, releases: Releases, namespace: str
) -> None:
    other = cluster.make_namespace("second")
    try:
        with given_back(cluster):
            remove(cluster)
            first = releases(namespace, kwok=True, options=("--set=crds.create=true",))
            second = releases(other, kwok=True)
            jobs = [start(release, where, "same") for release, where in ((first, namespace), (second, other))]
            first.uninstall()
            lost, unseen = (job.live("worker")[0] for job in jobs[::-1])
            for pod in (lost, unseen):
                where = pod["metadata"]["namespace"]
                second.api.core.delete_namespaced_pod(pod["metadata"]["name"], where)
            until(lambda: uid(lost) not in map(uid, jobs[1].live("worker")), "the pod is gone", 30)
            jobs[1].wait_ready("worker", WORKERS)
            assert len(jobs[0].live("worker")) == WORKERS - 1, "nobody looks after the first's jobs any more"
            start(second, other, "later")
    finally:
        cluster.delete_namespace(other)
