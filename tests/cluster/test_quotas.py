"""What a namespace's quotas and limits refuse: shown in the API's words, charged to no budget, and healed.

The jobs' pods are on fake nodes, since who may have a pod is decided before a kubelet is asked. Each case has
a namespace of its own and all are looked at together, so that the operator's back-off is waited for once.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pytest

from .audit import AuditLog
from .held import Document, HeldCluster
from .jobs import Job, until
from .kwok_jobs import Kwok, spec_on_kwok
from .lacking import lacking
from .quota_cases import CASES, Case, limit
from .release import Release
from .releases import Releases

pytestmark = [pytest.mark.usefixtures("alone"), pytest.mark.full]

WORKERS = 3
REFUSED_SECONDS = 60.0
HEALED_SECONDS = 60.0
MOST_ASKED = 24
"""Refused pods of the first passes over a job with very many: sixteen hands at once, then one at a time."""


@dataclass(frozen=True)
class Told:
    """What a job said while it was held up, and after that; empty where it did not say it in time."""

    job: Job
    refused: Document
    while_refused: Document
    pods_then: int
    healed: bool


@pytest.fixture(scope="module")
def told(cluster: HeldCluster, releases: Releases, kwok: Kwok) -> Mapping[str, Told]:
    """All cases at once: held up, looked at, set free, looked at again."""
    namespaces = {case.name: cluster.make_namespace(case.name) for case in CASES}
    try:
        release = releases(*namespaces.values(), kwok=True)
        jobs = {case.name: start(cluster, release, namespaces[case.name], case) for case in CASES}
        refused = {case.name: attempt(jobs[case.name], case) for case in CASES}
        status = {name: job.status for name, job in jobs.items()}
        pods = {name: len(release.api.pods(job.namespace)) for name, job in jobs.items()}
        for case in CASES:
            for plural, _ in case.objects():
                cluster.request("DELETE", f"/api/v1/namespaces/{namespaces[case.name]}/{plural}/tight")
        healed = {name: is_healed(job) for name, job in jobs.items()}
        return {
            name: Told(job, refused[name], status[name], pods[name], healed[name])
            for name, job in jobs.items()
        }
    finally:
        for namespace in namespaces.values():
            cluster.delete_namespace(namespace)


def start(cluster: HeldCluster, release: Release, namespace: str, case: Case) -> Job:
    """Put up what stands in the way, then create the job."""
    for plural, manifest in case.objects():
        stand(cluster, namespace, plural, manifest)
    return Job.create(release.api, namespace, "held", spec_on_kwok(workers__replicas=WORKERS, **case.changes))


def stand(cluster: HeldCluster, namespace: str, plural: str, manifest: Document) -> None:
    """Make a quota or a limit, and wait until the API server goes by it."""
    where = f"/api/v1/namespaces/{namespace}/{plural}"
    cluster.request("POST", where, manifest)
    if plural == "resourcequotas":
        name = manifest["metadata"]["name"]
        until(
            lambda: cluster.request("GET", f"{where}/{name}").get("status", {}).get("hard"), "the quota", 20.0
        )


def attempt(job: Job, case: Case) -> Document:
    """Wait for the condition; empty where it does not come, so that the other cases are seen too."""
    try:
        return job.wait_condition(case.condition, "False", "QuotaExceeded", seconds=REFUSED_SECONDS)
    except AssertionError as error:
        return {"message": str(error)}


def is_healed(job: Job) -> bool:
    """Whether everything that the job asks for is made in time."""

    def whole() -> bool:
        made = len(job.live("coordinator")) == 1 and len(job.live("worker")) == WORKERS
        return made and all(
            job.condition(kind).get("status") == "True" for kind in ("Accepted", "WorkersScaled")
        )

    try:
        until(whole, "healed", HEALED_SECONDS)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_a_quota_or_limit_refuses_is_said_in_the_apis_words_charged_to_no_budget_and_healed(
    told: Mapping[str, Told], case: Case
) -> None:
    found = told[case.name]
    assert found.refused.get("reason") == "QuotaExceeded", found.refused
    assert case.words in found.refused["message"]
    charged = found.while_refused.get("failures", {})
    assert {role: charged.get(role, 0) for role in ("coordinator", "worker", "disruptions")} == {
        "coordinator": 0,
        "worker": 0,
        "disruptions": 0,
    }
    assert "lastFailure" not in found.while_refused
    assert found.healed, found.job.describe()


def test_training_goes_on_with_the_workers_that_there_is_room_for(told: Mapping[str, Told]) -> None:
    found = told["two-pods"]
    assert found.pods_then == 2, "the coordinator, and one worker"
    ready = {each["type"]: each["status"] for each in found.while_refused["conditions"]}
    assert ready["WorkersReady"] == "True", "minReplicas is 1"


def test_no_worker_takes_the_room_that_the_coordinator_needs(told: Mapping[str, Told]) -> None:
    for name in ("no-pods", "limits-wanted", "large-containers"):
        assert told[name].pods_then == 0, name


@pytest.fixture
def held_namespace(cluster: HeldCluster) -> Iterator[str]:
    """A namespace that a test's own release looks after."""
    name = cluster.make_namespace("quota")
    yield name
    cluster.delete_namespace(name)


def test_a_quota_that_shrinks_under_a_running_job_costs_it_no_failure(
    cluster: HeldCluster, releases: Releases, kwok: Kwok, held_namespace: str
) -> None:
    release = releases(held_namespace, kwok=True)
    job = Job.create(release.api, held_namespace, "shrunk", spec_on_kwok())
    first, _ = job.wait_ready("worker", 2)
    stand(
        cluster,
        held_namespace,
        "resourcequotas",
        {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "1"}}},
    )
    release.kubectl("delete", "pod", first["metadata"]["name"], "-n", held_namespace, "--wait=false")
    said = job.wait_condition("WorkersScaled", "False", "QuotaExceeded", seconds=30)
    assert "exceeded quota: small, requested: pods=1" in said["message"]
    release.kubectl("delete", "resourcequota", "small", "-n", held_namespace)
    job.wait_ready("worker", 2, seconds=40)
    until(lambda: job.condition("WorkersScaled").get("status") == "True", "WorkersScaled", 15)
    failures = job.status["failures"]
    assert (failures["worker"], failures["coordinator"]) == (0, 0)
    assert failures["disruptions"] <= 1, "the pod that was deleted at most, and nothing that was refused"


def test_pods_get_the_limits_of_the_namespace_and_stay(
    cluster: HeldCluster, releases: Releases, kwok: Kwok, held_namespace: str
) -> None:
    """A LimitRange changes pods as they are made: what differs from the template is no reason to replace."""
    given = limit(default={"memory": "3Gi"}, defaultRequest={"memory": "1Gi"})
    stand(
        cluster, held_namespace, "limitranges", {"metadata": {"name": "usual"}, "spec": {"limits": [given]}}
    )
    release = releases(held_namespace, kwok=True)
    job = Job.create(release.api, held_namespace, "given", spec_on_kwok())
    pods = job.wait_ready("worker", 2)
    assert {pod["spec"]["containers"][0]["resources"]["limits"]["memory"] for pod in pods} == {"3Gi"}
    # Each change makes a new pass over the job, in which it would replace them.
    for note in ("1", "2", "3"):
        release.kubectl("annotate", "dej", "given", f"note={note}", "--overwrite", "-n", held_namespace)
    job.patch({"ttlSecondsAfterFinished": 1000})
    until(lambda: job.status["observedGeneration"] == job.get()["metadata"]["generation"], "the passes", 20.0)
    assert [pod["metadata"]["uid"] for pod in job.live("worker")] == [pod["metadata"]["uid"] for pod in pods]


def test_very_many_workers_over_a_quota_ask_a_few_times_only(
    cluster: HeldCluster,
    releases: Releases,
    kwok: Kwok,
    held_namespace: str,
    record_property: Callable[[str, object], None],
) -> None:
    if cluster.audit_log is None:
        lacking("this cluster keeps no audit log that can be read")
    stand(
        cluster,
        held_namespace,
        "resourcequotas",
        {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "5"}}},
    )
    release = releases(held_namespace, kwok=True)
    job = Job.create(release.api, held_namespace, "many", spec_on_kwok(workers__replicas=300))
    job.wait_condition("WorkersScaled", "False", "QuotaExceeded", seconds=60)
    until(lambda: len(job.ready("worker")) == 4, "the pods that there is room for", 30.0)
    # Its start makes passes of its own.
    job.wait_ready("coordinator", 1)
    before = len(refused_pods(cluster, held_namespace))
    # Each change is a new pass over the job, in which it could ask for all of them.
    for turn in range(3):
        release.kubectl("annotate", "dej", "many", f"turn={turn}", "--overwrite", "-n", held_namespace)
        asked = len(refused_pods(cluster, held_namespace))
        until(partial(was_asked_again, cluster, held_namespace, asked), "another try", 30.0)
    later = len(refused_pods(cluster, held_namespace)) - before
    record_property("refused_at_first", before)
    record_property("refused_later", later)
    assert before <= MOST_ASKED
    assert later <= 6, "one for each pass"
    assert len(job.pods("worker")) == 4


def was_asked_again(cluster: HeldCluster, namespace: str, before: int) -> bool:
    """Whether more pods were refused than before."""
    return len(refused_pods(cluster, namespace)) > before


def refused_pods(cluster: HeldCluster, namespace: str) -> Sequence[Document]:
    """The requests for a pod of a namespace that were refused, oldest first."""
    assert cluster.audit_log is not None
    return [
        entry
        for entry in AuditLog(cluster.audit_log).entries(namespace)
        if (entry["verb"], entry.get("responseStatus", {}).get("code")) == ("create", 403)
        and entry["objectRef"]["resource"] == "pods"
    ]
