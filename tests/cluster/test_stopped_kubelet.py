"""A kubelet that is stopped while it starts a container: the pod ends, and it is no fault of the job.

The moment is held open from both sides: the image comes from a registry that answers when it is told to, and
the process that would start the container is halted meanwhile.
"""

import base64
import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from testcluster.paths import Paths

from .held import HeldCluster
from .jobs import Job, Object, spec_of, until
from .lacking import lacking
from .provider import Provider
from .registry import Registry
from .release import Release

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


@pytest.fixture
def registry(cluster: HeldCluster, release: Release) -> Iterator[Registry]:
    """A registry with this project's images."""
    if cluster.provider is not Provider.OWN:
        lacking("nodes elsewhere can't reach a registry on this host")
    with Registry(sorted(Paths.from_environment().images.glob("dartes*.tar"))) as registry:
        yield registry


def make_pull_secret(cluster: HeldCluster, namespace: str, registry: Registry) -> list[dict[str, str]]:
    """A Secret with the registry's password, as a list of references to it."""
    login = base64.b64encode(f"{registry.user}:{registry.password}".encode()).decode()
    secret = {
        "metadata": {"name": "puller"},
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": json.dumps({"auths": {registry.address: {"auth": login}}})},
    }
    cluster.request("POST", f"/api/v1/namespaces/{namespace}/secrets", secret)
    return [{"name": "puller"}]


def starter_of(pod: Object) -> int:
    """The process on this host that starts the containers of a pod; its sandbox has to be there."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if pod["metadata"]["uid"] in (process / "cgroup").read_text():
                return int((process / "status").read_text().partition("PPid:")[2].split()[0])
    raise AssertionError("no process of the pod is there")


@contextmanager
def halted(pid: int) -> Iterator[None]:
    """Meanwhile a process does nothing."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def told_of(release: Release, pod: Object) -> set[str]:
    """Reasons of the events about a pod."""
    events = release.api.objects("event", pod["metadata"]["namespace"])
    return {e["reason"] for e in events if e["involvedObject"].get("uid") == pod["metadata"]["uid"]}


def test_a_start_that_a_stopped_kubelet_gives_up_is_a_disruption(
    cluster: HeldCluster, release: Release, registry: Registry, images: Mapping[str, str], namespace: str
) -> None:
    secrets = make_pull_secret(cluster, namespace, registry)
    registry.store.answers.clear()
    spec = spec_of(
        es__iterations=2,
        es__populationSize=4,
        es__batchSize=16,
        evaluation={"sets": []},
        workers__replicas=1,
        workers__image=f"{registry.address}/{images['worker']}",
        workers__imagePullSecrets=secrets,
    )
    job = Job.create(release.api, namespace, "given-up", spec)
    until(lambda: registry.store.asked_for, f"the image is asked for\n{job.describe()}", 60)
    (pod,) = job.pods("worker")
    node = pod["spec"]["nodeName"]
    with halted(starter_of(pod)):
        registry.store.answers.set()
        until(lambda: "Created" in told_of(release, pod), f"the container is made\n{job.describe()}", 60)
        cluster.stop_kubelet(node)
    cluster.start_kubelet(node)
    job.wait_complete(seconds=120)
    failures = job.status["failures"]
    assert (failures["worker"], failures["disruptions"]) == (0, 1)
    told = [event["message"] for event in job.events() if event["reason"] == "WorkerDisrupted"]
    assert [words.split(": ")[:2] for words in told] == [["given-up-worker-0", "StartError"]]
    assert "context canceled" in told[0]
