"""What the other tests rely on: volumes, names, exec, logs, nodes that come and go, under `restricted`."""

import contextlib
import os
import signal
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from ..waiting import until
from .held import CommandFailedError, HeldCluster, OwnCluster
from .lacking import lacking

CLASSES = ("standard", "portable", "small")
FULL = 4 * 1024**2
"""Bytes written at a time until a small volume is full."""
WRITES = """
import os, pathlib, socketserver
for volume in sorted(pathlib.Path("/volumes").iterdir()):
    (volume / "note").write_text("written")
    print(volume.name, os.stat(volume / "note").st_gid, flush=True)
class Answer(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(b"answered")
socketserver.TCPServer(("", 8080), Answer).serve_forever()
"""
ASKS = """
import socket
with socket.create_connection(("self-test.{namespace}.svc", 80), 10) as connection:
    print(connection.recv(100).decode())
"""
FILLS = """
import errno
with open("/volumes/small/filler", "ab", buffering=0) as file:
    try:
        while True:
            file.write(bytes({size}))
    except OSError as error:
        print(errno.errorcode[error.errno], file.tell())
"""


def pod_manifest(name: str, image: str, code: str, claims: tuple[str, ...], **more: Any) -> dict[str, Any]:
    """A pod that PodSecurity `restricted` admits, running Python code with claims mounted in /volumes."""
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-u", "-c", code],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": claim, "mountPath": f"/volumes/{claim}"} for claim in claims],
    }
    security = {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "fsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    spec = {
        "containers": [container],
        "securityContext": security,
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "volumes": [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims],
        **more,
    }
    metadata = {"name": name, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def create(cluster: HeldCluster, namespace: str, pod: dict[str, Any]) -> dict[str, Any]:
    """Create a pod and wait until it is ready; returns it as it then is."""
    name = pod["metadata"]["name"]
    cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod)
    cluster.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "-n", namespace, "--timeout=90s")
    return cluster.request("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")


@pytest.fixture(scope="module")
def claims(cluster: HeldCluster, module_namespace: str) -> tuple[str, ...]:
    """One claim for each storage class that the cluster has, named after it."""
    names = tuple(name for name in CLASSES if name in cluster.storage_classes)
    if not names:
        lacking("this cluster's storage classes are not known")
    for name in names:
        claim = {
            "metadata": {"name": name},
            "spec": {
                "storageClassName": name,
                "accessModes": ["ReadWriteOncePod" if name == "standard" else "ReadWriteOnce"],
                "resources": {"requests": {"storage": "64Mi"}},
            },
        }
        cluster.request("POST", f"/api/v1/namespaces/{module_namespace}/persistentvolumeclaims", claim)
    return names


@pytest.fixture(scope="module")
def pod(
    cluster: HeldCluster, module_namespace: str, images: Mapping[str, str], claims: tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    """A pod that wrote to every claim and answers behind a service."""
    service = {
        "metadata": {"name": "self-test"},
        "spec": {"selector": {"app": "self-test"}, "ports": [{"port": 80, "targetPort": 8080}]},
    }
    cluster.request("POST", f"/api/v1/namespaces/{module_namespace}/services", service)
    yield create(cluster, module_namespace, pod_manifest("self-test", images["operator"], WRITES, claims))
    cluster.kubectl("delete", "pod", "self-test", "-n", module_namespace, "--ignore-not-found")


def execute(cluster: HeldCluster, pod: dict[str, Any], code: str) -> str:
    """What Python code prints in the pod's container."""
    metadata = pod["metadata"]
    command = ["exec", metadata["name"], "-n", metadata["namespace"], "--", "python3", "-c", code]
    return cluster.kubectl(*command).strip()


def test_volumes_of_every_class_belong_to_the_pods_group(
    cluster: HeldCluster, pod: dict[str, Any], claims: tuple[str, ...]
) -> None:
    namespace = pod["metadata"]["namespace"]
    expected = [f"{name} 65532" for name in sorted(claims)]
    logged = until(
        lambda: (
            lines
            if len(lines := cluster.kubectl("logs", "self-test", "-n", namespace).split("\n")) > len(claims)
            else None
        ),
        "a line for each volume",
        30.0,
    )
    assert logged[: len(claims)] == expected


def test_a_pod_reaches_a_service_by_its_name_even_its_own(cluster: HeldCluster, pod: dict[str, Any]) -> None:
    ask = ASKS.format(namespace=pod["metadata"]["namespace"])

    def answers() -> bool:
        # A pod is ready a moment before every node has been told where the service leads.
        with contextlib.suppress(CommandFailedError):
            return execute(cluster, pod, ask) == "answered"
        return False

    until(answers, "the pod answers under the service's name", 30.0)


def test_a_small_volume_fills_and_has_room_again_when_its_claim_grows(
    cluster: HeldCluster, pod: dict[str, Any]
) -> None:
    if "small" not in cluster.storage_classes:
        lacking("this cluster has no class `small`")
    error, filled = execute(cluster, pod, FILLS.format(size=FULL)).split()
    assert (error, int(filled) <= 16 * 1024**2) == ("ENOSPC", True)
    namespace = pod["metadata"]["namespace"]
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/small"
    cluster.request("PATCH", path, {"spec": {"resources": {"requests": {"storage": "80Mi"}}}})
    until(
        lambda: cluster.request("GET", path)["status"]["capacity"]["storage"] == "80Mi",
        "the claim says that it has grown",
        30.0,
    )
    error, filled = execute(cluster, pod, FILLS.format(size=FULL)).split()
    assert error == "ENOSPC"
    assert 24 * 1024**2 < int(filled) <= 32 * 1024**2


def test_a_container_can_be_killed_from_outside(cluster: HeldCluster, pod: dict[str, Any]) -> None:
    if not cluster.can_hurt_nodes:
        lacking("nothing on this cluster's nodes is touched")
    metadata = pod["metadata"]
    assert cluster.container_runs(pod, "main")
    assert "standard 65532" in cluster.container_log(pod, "main")
    cluster.signal_container(pod, "main", signal.SIGKILL)
    until(lambda: not cluster.container_runs(pod, "main"), "its process has left", 30.0)
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
    until(
        lambda: cluster.request("GET", path)["status"]["containerStatuses"][0]["restartCount"] == 1,
        "kubelet has started it again",
        60.0,
    )


def test_a_node_with_gpus_comes_runs_a_pod_and_goes(
    cluster: HeldCluster, images: Mapping[str, str], namespace: str
) -> None:
    if not cluster.can_change_nodes:
        lacking("no node is added to this cluster")
    name = f"extra-{os.getpid()}"
    cluster.add_node(name, gpus=2)
    try:
        pod = pod_manifest("wants-gpus", images["operator"], "import signal; signal.pause()", ())
        pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "2"}}
        assert create(cluster, namespace, pod)["spec"]["nodeName"] == name
        cluster.kubectl("delete", "pod", "wants-gpus", "-n", namespace)
    finally:
        cluster.remove_node(name)
    assert cluster.find(f"/api/v1/nodes/{name}") is None


def test_every_request_is_in_the_audit_log(cluster: HeldCluster, namespace: str) -> None:
    if cluster.audit_log is None:
        lacking("this cluster was started without an audit log")
    name = f"audited-{namespace}"
    cluster.refused("get", "configmap", name, "-n", namespace)
    log = cluster.audit_log
    until(lambda: name in log.read_text(), "the refused request is logged", 30.0)


def test_a_portable_volume_follows_a_pod_to_another_node(
    lossy_cluster: OwnCluster, request: pytest.FixtureRequest
) -> None:
    images = lossy_cluster.ensure_images()
    namespace = lossy_cluster.make_namespace("follows")
    claim = {
        "metadata": {"name": "portable"},
        "spec": {
            "storageClassName": "portable",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Mi"}},
        },
    }
    lossy_cluster.request("POST", f"/api/v1/namespaces/{namespace}/persistentvolumeclaims", claim)
    writer = pod_manifest("writer", images["operator"], WRITES, ("portable",), nodeName="node2")
    create(lossy_cluster, namespace, writer)
    lossy_cluster.stop_kubelet("node2")
    try:
        reads = "print(open('/volumes/portable/note').read(), flush=True); import signal; signal.pause()"
        reader = pod_manifest("reader", images["operator"], reads, ("portable",), nodeName="node3")
        create(lossy_cluster, namespace, reader)
        until(
            lambda: lossy_cluster.kubectl("logs", "reader", "-n", namespace).strip() == "written",
            "the other node's pod reads what was written",
            30.0,
        )
        lossy_cluster.kubectl("wait", "--for=condition=Ready=Unknown", "node/node2", "--timeout=30s")
    finally:
        lossy_cluster.start_kubelet("node2")
        lossy_cluster.delete_namespace(namespace)
