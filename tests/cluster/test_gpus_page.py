"""docs/gpus.md: what its job files ask for is what a worker gets, from the scheduler's point of view.

Nodes are fake and their GPUs a number; that anything computes on a GPU is not shown here.
"""

import re
import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from ruamel.yaml import YAML

from testcluster.extras.kwok import LABELS, MARK, ROOM, TAINT

from .held import ROOT, HeldCluster
from .jobs import Job
from .kwok_jobs import Kwok, spec_on_kwok
from .release import Release
from .releases import Releases

pytestmark = pytest.mark.usefixtures("alone")

PAGE = (ROOT / "docs" / "gpus.md").read_text(encoding="utf-8")
WORKERS: list[dict[str, Any]] = [
    YAML(typ="safe", pure=True).load(text)["spec"]["workers"]
    for text in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
]
"""What the page's examples say of workers."""


@pytest.fixture(scope="module")
def operator(releases: Releases, kwok: Kwok, module_namespace: str) -> Release:
    """An operator whose jobs run on fake nodes."""
    return releases(module_namespace, kwok=True)


@pytest.fixture
def runtime_class(cluster: HeldCluster) -> Iterator[None]:
    """The runtime class that NVIDIA's operator would have made."""
    body = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}}
    there = cluster.find("/apis/node.k8s.io/v1/runtimeclasses/nvidia")
    if there is None:
        cluster.request("POST", "/apis/node.k8s.io/v1/runtimeclasses", {**body, "handler": "nvidia"})
    yield
    if there is None:
        cluster.request("DELETE", "/apis/node.k8s.io/v1/runtimeclasses/nvidia")


@pytest.fixture
def node(cluster: HeldCluster, workers: dict[str, Any]) -> Iterator[str]:
    """A node that offers what the example asks for, and keeps out whoever does not want a GPU."""
    name = f"gpu-{secrets.token_hex(3)}"
    resource = workers["gpuResourceName"]
    room = {**ROOM, resource: "4"}
    own = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **workers.get("nodeSelector", {})}
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**LABELS, **own}, "annotations": {MARK: "fake"}},
        "spec": {"taints": [TAINT, {"key": resource, "value": "present", "effect": "NoSchedule"}]},
        "status": {"capacity": room, "allocatable": room},
    }
    cluster.request("POST", "/api/v1/nodes", body)
    yield name
    cluster.request("DELETE", f"/api/v1/nodes/{name}")


@pytest.mark.parametrize("workers", WORKERS, ids=lambda workers: workers["gpuResourceName"])
def test_a_worker_gets_the_gpu_that_the_page_asks_for(
    operator: Release, module_namespace: str, runtime_class: None, workers: dict[str, Any], node: str
) -> None:
    spec = spec_on_kwok(workers__replicas=1)
    spec["workers"].update(workers)
    job = Job.create(operator.api, module_namespace, node, spec)
    try:
        (pod,) = job.wait_ready("worker", 1)
        (coordinator,) = job.live("coordinator")
    finally:
        job.delete()
    assert pod["spec"]["nodeName"] == node
    assert coordinator["spec"].get("nodeName") != node, "it has no GPU and does not tolerate the taint"
    (container,) = pod["spec"]["containers"]
    count = str(workers["gpusPerWorker"])
    for kind in ("requests", "limits"):
        assert container["resources"][kind][workers["gpuResourceName"]] == count
    assert pod["spec"].get("runtimeClassName") == workers.get("runtimeClassName")
