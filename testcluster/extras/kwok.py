"""KWOK: fake nodes whose pods run at once, and are nothing but objects. For tests of hundreds of pods.

KWOK plays the kubelet as far as the stages below go; what else a kubelet would say of a pod (that a container
ended, say) a test writes into the pod's status. Facts of its flags and templates: KWOK's own documentation.
"""

import json
from typing import Any, Final

from ..api import ApiError
from ..commands import ClusterError, wait_for, write
from ..machinery import Machinery

NAME: Final = "kwok"
NODES: Final = 10
LABELS: Final = {"type": "kwok"}
TAINT: Final = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}
MARK: Final = "kwok.x-k8s.io/node"
POD_ADDRESS: Final = "testcluster/pod-ip"
"""Annotation of a pod: the address that it gets, so that what is dialled there can be a server of a test."""
ADDRESSES: Final = "198.18.0.0/16"
"""For pods without: the range of benchmarks (RFC 2544), in which nothing answers."""
LEASE_SECONDS: Final = 40
ROOM: Final = {"cpu": "1000", "memory": "4Ti", "pods": "2000", "ephemeral-storage": "4Ti"}

NODE_READY: Final = """
{{ $now := Now }}
conditions:
{{ range NodeConditions }}
- type: {{ .type | Quote }}
  status: {{ .status | Quote }}
  reason: {{ .reason | Quote }}
  message: {{ .message | Quote }}
  lastHeartbeatTime: {{ $now | Quote }}
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
phase: Running
"""
POD_READY: Final = """
{{ $now := Now }}
phase: Running
startTime: {{ $now | Quote }}
conditions:
- {type: Initialized, status: "True", lastTransitionTime: {{ $now | Quote }}}
- {type: ContainersReady, status: "True", lastTransitionTime: {{ $now | Quote }}}
- {type: Ready, status: "True", lastTransitionTime: {{ $now | Quote }}}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  started: true
  restartCount: 0
  state: {running: {startedAt: {{ $now | Quote }}}}
{{ end }}
{{ with .spec.initContainers }}
initContainerStatuses:
{{ range . }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  restartCount: 0
  state:
    terminated:
      {exitCode: 0, reason: Completed, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }}}
{{ end }}
{{ end }}
{{ $address := PodIPWith .spec.nodeName false .metadata.uid .metadata.name .metadata.namespace }}
{{ with .metadata.annotations }}{{ with index . "ANNOTATION" }}{{ $address = . }}{{ end }}{{ end }}
podIP: {{ $address | Quote }}
podIPs:
- ip: {{ $address | Quote }}
""".replace("ANNOTATION", POD_ADDRESS)


def stage(name: str, kind: str, conditions: list[tuple[str, str, list[str]]], following: Any) -> Any:
    """One step that KWOK takes with an object of a kind where all conditions (key, operator, values) hold."""
    expressions = [
        {"key": key, "operator": operator, **({"values": values} if values else {})}
        for key, operator, values in conditions
    ]
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": expressions},
            "next": following,
        },
    }


def stages() -> list[Any]:
    """A node becomes Ready and stays so by its lease; a pod becomes Ready; what is deleted goes."""
    ready = '.status.conditions.[] | select( .type == "Ready" ) | .status'
    going = ".metadata.deletionTimestamp"
    return [
        stage("node-ready", "Node", [(ready, "NotIn", ["True"])], {"statusTemplate": NODE_READY}),
        stage(
            "pod-ready",
            "Pod",
            [(going, "DoesNotExist", []), (".status.phase", "In", ["Pending"]), (ready, "NotIn", ["True"])],
            {"statusTemplate": POD_READY},
        ),
        stage("pod-gone", "Pod", [(going, "Exists", [])], {"delete": True}),
    ]


def node(number: int) -> Any:
    """A fake node with room for anything; its taint keeps pods away that aren't meant for it."""
    name = f"kwok{number}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {**LABELS, "kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
            "annotations": {MARK: "fake"},
        },
        "spec": {"taints": [TAINT]},
        "status": {"capacity": ROOM, "allocatable": ROOM},
    }


def start(machinery: Machinery) -> None:
    """Start KWOK with its nodes and wait until they are Ready; nothing where they are there."""
    if machinery.processes.pid(NAME):
        return
    program = machinery.paths.bin / NAME
    if not program.exists():
        raise ClusterError("not built: kwok; run `python -m testcluster build kwok` first")
    config = machinery.paths.state / "kwok.yaml"
    # JSON documents are YAML documents too.
    write(config, "\n---\n".join(json.dumps(each) for each in stages()) + "\n")
    machinery.certificates.kubeconfig(NAME, "testcluster:kwok", "system:masters")
    machinery.processes.start(
        NAME,
        [
            program,
            f"--kubeconfig={machinery.paths.state}/{NAME}.kubeconfig",
            f"--config={config}",
            f"--manage-nodes-with-annotation-selector={MARK}=fake",
            f"--cidr={ADDRESSES}",
            f"--node-lease-duration-seconds={LEASE_SECONDS}",
        ],
    )
    api = machinery.api()
    for number in range(NODES):
        api.create("/api/v1/nodes", node(number))
    for number in range(NODES):

        def is_ready(name: str = f"kwok{number}") -> bool:
            conditions = api.get(f"/api/v1/nodes/{name}")["status"].get("conditions", [])
            return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

        try:
            wait_for(f"Ready fake node kwok{number}", is_ready)
        except (ClusterError, ApiError) as error:
            raise ClusterError(f"{error}: {machinery.processes.last_words(NAME)}") from error
