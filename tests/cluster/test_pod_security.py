"""Jobs in namespaces of every level of PodSecurity: their pods pass the strictest, and the operator refuses
what a job must not have even where the namespace would let it.

Pods are on fake nodes: whether a pod may be is decided before a kubelet is asked.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from ..unit.operator_plan.forbidden import FORBIDDEN
from .held import CommandFailedError, Document, HeldCluster
from .jobs import Job, until
from .kwok_jobs import Kwok, spec_on_kwok
from .release import Release
from .releases import Releases

pytestmark = [pytest.mark.usefixtures("alone"), pytest.mark.full]

LEVELS = ("restricted", "baseline", "privileged")
HUB = {"source": "hf://example/model"}
SHAPES: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "gpus": {"workers__gpusPerWorker": 2},
    "vllm": {
        "model": HUB,
        "workers__engine": "VLLM",
        "workers__gpusPerWorker": 2,
        "workers__engineOptions": {"tensorParallelSize": 2},
    },
    "cached": {"model": {**HUB, "cache": {"claimName": "cache"}}},
    "cached-image": {"model": {**HUB, "cache": {"image": "registry.example.com/model:1"}}},
    "on-a-claim": {"model": {"source": "pvc://models/small"}},
    "own-reward": {
        "task": {"kind": "python", "python": {"configMap": {"name": "reward", "key": "reward.py"}}}
    },
    "strict": {"networkPolicy__mode": "Strict", "disruptionBudget": "BlockVoluntary"},
    "snapshots": {"checkpoint__weights": {"everyIterations": 5}},
    "exported": {"export": {"destination": "pvc://models/out"}},
}
"""Jobs whose pods differ in what they mount, ask for and run."""
SIDECAR = {"name": "log", "image": "registry.example.com/log:1"}


@pytest.fixture(scope="module")
def namespaces(cluster: HeldCluster) -> Iterator[Mapping[str, str]]:
    """A namespace of each level, by level."""
    made = {level: cluster.make_namespace(level, enforce=level) for level in LEVELS}
    yield made
    for namespace in made.values():
        cluster.delete_namespace(namespace)


@pytest.fixture(scope="module")
def release(releases: Releases, kwok: Kwok, namespaces: Mapping[str, str]) -> Release:
    """A release that looks after all of them."""
    return releases(*namespaces.values(), kwok=True)


def roles_of(job: Job) -> set[str]:
    """The roles of which the job has a pod."""
    return {role for role in ("coordinator", "worker", "export") if job.pods(role)}


@pytest.fixture(scope="module")
def shaped(release: Release, kwok: Kwok, namespaces: Mapping[str, str]) -> Mapping[tuple[str, str], Job]:
    """Every shape at both enforced levels, by level and shape; the exported ones are past their training."""
    jobs = {
        (level, shape): Job.create(release.api, namespaces[level], shape, spec_on_kwok(**changes))
        for level in LEVELS[:2]
        for shape, changes in SHAPES.items()
    }
    for level in LEVELS[:2]:
        (coordinator,) = jobs[level, "exported"].wait_ready("coordinator", 1)
        kwok.finish(coordinator)
    return jobs


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("level", LEVELS[:2])
def test_every_pod_of_a_job_passes_the_level_of_its_namespace(
    shaped: Mapping[tuple[str, str], Job], level: str, shape: str
) -> None:
    job = shaped[level, shape]
    # After training the workers leave.
    wanted = {"coordinator", "export" if shape == "exported" else "worker"}
    until(lambda: wanted <= roles_of(job), f"pods of {sorted(wanted)}\n{job.describe()}", 60.0)
    assert job.condition("Accepted")["status"] == "True"


def test_containers_of_ones_own_are_confined_like_the_others(
    release: Release, namespaces: Mapping[str, str]
) -> None:
    """What the strictest level asks of every container is added to those of a template, too."""
    template = {"containers": [SIDECAR], "initContainers": [{**SIDECAR, "name": "fetch"}]}
    spec = spec_on_kwok(workers__podTemplate={"spec": template})
    job = Job.create(release.api, namespaces["restricted"], "sidecar", spec)
    for pod in job.wait_ready("worker", 2):
        contexts = {
            container["name"]: container["securityContext"]
            for container in (*pod["spec"]["containers"], *pod["spec"]["initContainers"])
        }
        assert contexts.keys() == {"worker", "log", "fetch"}
        for context in contexts.values():
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"]["drop"] == ["ALL"]


@pytest.fixture(scope="module")
def forbidden(release: Release, namespaces: Mapping[str, str]) -> Sequence[Job | str]:
    """A job for each thing of the guard's list, where PodSecurity minds nothing; or why it isn't stored."""
    namespace = namespaces["privileged"]
    return [
        attempt(release, namespace, f"forbidden-{number}", workers)
        for number, (workers, _) in enumerate(FORBIDDEN)
    ]


def attempt(release: Release, namespace: str, name: str, workers: Mapping[str, Any]) -> Job | str:
    """Create a job with these fields of its workers; the API server's words where it refuses."""
    spec = spec_on_kwok()
    spec["workers"] = {**spec["workers"], **workers}
    body = {
        "apiVersion": "dartes.dev/v1alpha1",
        "kind": "DartESJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
    try:
        release.cluster.request("POST", f"/apis/dartes.dev/v1alpha1/namespaces/{namespace}/dartesjobs", body)
    except CommandFailedError as failure:
        if failure.status == 422:
            return failure.words
        raise
    return Job(release.api, namespace, name)


@pytest.mark.parametrize("number", range(len(FORBIDDEN)), ids=[path for _, path in FORBIDDEN])
def test_the_operator_refuses_what_a_privileged_namespace_would_let_in(
    forbidden: Sequence[Job | str], number: int
) -> None:
    job, (_, path) = forbidden[number], FORBIDDEN[number]
    if isinstance(job, str):
        # The definition types these fields; a pod template it takes as it is.
        assert not path.startswith("spec.workers.podTemplate"), job
        return
    refused = until(lambda: is_refused(job), f"refused\n{job.describe()}", 60.0)
    assert path in refused["message"], refused


def is_refused(job: Job) -> Document | None:
    """The condition that says that a job isn't accepted."""
    found = job.condition("Accepted")
    return found if found.get("status") == "False" else None


def test_nothing_is_made_for_jobs_that_are_refused(
    release: Release, forbidden: Sequence[Job | str], namespaces: Mapping[str, str]
) -> None:
    jobs = [job for job in forbidden if isinstance(job, Job)]
    until(lambda: all(is_refused(job) for job in jobs), "all are refused", 60.0)
    kinds = "pods,services,secrets,pvc,networkpolicies,poddisruptionbudgets,configmaps"
    words = (
        "get",
        kinds,
        "-l",
        "app.kubernetes.io/name=dartes",
        "-o",
        "name",
        "-n",
        namespaces["privileged"],
    )
    assert release.kubectl(*words) == ""


def test_a_privileged_namespace_would_let_the_worst_of_it_in(
    cluster: HeldCluster, namespaces: Mapping[str, str]
) -> None:
    """So it is the operator that refuses."""
    container = {"name": "any", "image": "any", "securityContext": {"privileged": True, "runAsUser": 0}}
    spec = {
        "hostNetwork": True,
        "hostPID": True,
        "hostIPC": True,
        "containers": [container],
        "volumes": [{"name": "node", "hostPath": {"path": "/"}}],
    }
    pod = {"metadata": {"name": "worst"}, "spec": spec}
    where = "/api/v1/namespaces/{}/pods"
    assert cluster.request("POST", where.format(namespaces["privileged"]) + "?dryRun=All", pod)["spec"][
        "hostPID"
    ]
    for level in LEVELS[:2]:
        with pytest.raises(CommandFailedError, match="violates PodSecurity"):
            cluster.request("POST", where.format(namespaces[level]) + "?dryRun=All", pod)
