"""Nodes: one containerd and one kubelet each, all on this host, each with an address, a cgroup and a folder.

Adds, removes and hurts them. A node's pods are processes in its cgroup, so nothing of it can stay behind.
"""

import datetime as dt
import json
import shutil
import time
from pathlib import Path
from typing import Any, Final

from . import containerd
from .api import STRATEGIC
from .cgroups import DAEMONS, end
from .commands import ClusterError, attempt, read, run, wait_for, write
from .host import unmount_below
from .machinery import Machinery
from .options import Options

MOST_NODES: Final = 199
READY_SECONDS: Final = 90.0
CNI_RESULTS: Final = Path("/var/lib/cni/results")


def kubelet_name(node: str) -> str:
    """The name of a node's kubelet among the processes."""
    return f"kubelet-{node}"


def names(machinery: Machinery) -> list[str]:
    """The nodes that have a folder."""
    folder = machinery.paths.nodes
    return sorted(entry.name for entry in folder.iterdir()) if folder.exists() else []


def home_of(machinery: Machinery, node: str) -> Path:
    """A node's folder; ClusterError where there is no such node."""
    home = machinery.paths.nodes / node
    if not (home / "index").exists():
        raise ClusterError(f"no node {node}; there are {', '.join(names(machinery)) or 'none'}")
    return home


def add(machinery: Machinery, options: Options, node: str, golden: Path) -> None:
    """Start a node, new or removed with its object kept; `wait_ready` tells when it is one."""
    if machinery.processes.pid(kubelet_name(node)):
        raise ClusterError(f"node {node} runs already")
    home = machinery.paths.nodes / node
    index = take_index(machinery, home)
    address = machinery.network.node_address(index)
    run(["ip", "addr", "replace", f"{address}/16", "dev", machinery.network.bridge])
    write(home / "cni" / "10-bridge.conflist", network_config(machinery, node, index))
    if not (home / "containerd").exists():
        containerd.copy_golden(golden, home)
    if not machinery.processes.pid(containerd.process_name(node)):
        containerd.start(machinery, containerd.process_name(node), home)
    user = f"system:node:{node}"
    machinery.certificates.issue(f"kubelet-{node}", user, "system:nodes", names=[node], ips=[address])
    machinery.certificates.kubeconfig(f"node-{node}", user, "system:nodes")
    machinery.cgroups.make(node)
    write(home / "kubelet.json", kubelet_config(machinery, node, address))
    command = [
        f"{machinery.paths.bin}/kubelet",
        f"--config={home}/kubelet.json",
        f"--hostname-override={node}",
        f"--kubeconfig={machinery.paths.state}/node-{node}.kubeconfig",
        f"--root-dir={home}/kubelet",
        f"--cert-dir={home}/kubelet/pki",
        f"--node-ip={address}",
        *options.extra("kubelet"),
    ]
    write(home / "kubelet-command.json", command)
    start_kubelet(machinery, node)


def start_kubelet(machinery: Machinery, node: str) -> None:
    """Start a node's kubelet, for the first time or after `stop_kubelet`."""
    home = home_of(machinery, node)
    if not machinery.processes.pid(kubelet_name(node)):
        command: list[str] = json.loads(read(home / "kubelet-command.json"))
        machinery.processes.start(kubelet_name(node), command)


def stop_kubelet(machinery: Machinery, node: str) -> None:
    """Kill a node's kubelet: the cluster loses sight of the node, whose pods go on running."""
    home_of(machinery, node)
    machinery.processes.kill(kubelet_name(node))


def take_index(machinery: Machinery, home: Path) -> int:
    """The node's number: the one it has, or the first that is free."""
    if (home / "index").exists():
        return int(read(home / "index"))
    used = {int(read(machinery.paths.nodes / name / "index") or 0) for name in names(machinery)}
    free = [index for index in range(1, MOST_NODES + 1) if index not in used]
    if not free:
        raise ClusterError(f"there are {MOST_NODES} nodes, and no more addresses")
    write(home / "index", str(free[0]))
    return free[0]


def network_config(machinery: Machinery, node: str, index: int) -> dict[str, Any]:
    """CNI: a port on the cluster's bridge and an address out of the node's 254."""
    network = machinery.network
    addresses = {
        "subnet": network.pods,
        "gateway": network.gateway,
        "rangeStart": f"{network.prefix}.{index}.1",
        "rangeEnd": f"{network.prefix}.{index}.254",
    }
    ipam = {
        "type": "host-local",
        "dataDir": str(machinery.paths.nodes / node / "ipam"),
        "routes": [{"dst": "0.0.0.0/0"}],
        "ranges": [[addresses]],
    }
    bridge = {
        "type": "bridge",
        "bridge": network.bridge,
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
    }
    return {
        "cniVersion": "1.0.0",
        "name": cni_name(machinery, node),
        "plugins": [{**bridge, "ipam": ipam}],
    }


def cni_name(machinery: Machinery, node: str) -> str:
    """The name of a node's network, by which its files among CNI's are found."""
    return f"{machinery.cgroups.name}-{node}"


def kubelet_config(machinery: Machinery, node: str, address: str) -> dict[str, Any]:
    """Kubelet's configuration; what isn't usual is so because all nodes share one host."""
    home, pki = machinery.paths.nodes / node, machinery.paths.pki
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "x509": {"clientCAFile": f"{pki}/ca.crt"},
        },
        "address": address,
        "healthzBindAddress": address,
        "containerRuntimeEndpoint": f"unix://{home}/containerd.sock",
        "tlsCertFile": f"{pki}/kubelet-{node}.crt",
        "tlsPrivateKeyFile": f"{pki}/kubelet-{node}.key",
        "clusterDNS": [machinery.network.gateway],
        "clusterDomain": "cluster.local",
        "resolvConf": "",
        "cgroupDriver": "cgroupfs",
        # A root of its own: two kubelets under one root kill each other's pods as orphans.
        "cgroupRoot": f"/{machinery.cgroups.name}/{node}",
        "failCgroupV1": False,
        "failSwapOn": False,
        # Kubelet can't tell the root device in every virtual machine, and would refuse to start.
        "localStorageCapacityIsolation": False,
        "makeIPTablesUtilChains": False,
        "podLogsDir": f"{home}/logs",
        "volumePluginDir": f"{home}/volume-plugins",
        "nodeStatusUpdateFrequency": "2s",
        "syncFrequency": "10s",
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        # A full disk of the host must not cost the images that were loaded by hand.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        # An image that was loaded by hand stays everybody's, though a pod has pulled it with a secret.
        "imagePullCredentialsVerificationPolicy": "NeverVerify",
    }


def wait_ready(machinery: Machinery, node: str, since: dt.datetime) -> None:
    """Until a heartbeat after `since` says that the node is Ready; ClusterError when late."""
    api = machinery.api()

    def probe() -> bool:
        found = api.find(f"/api/v1/nodes/{node}")
        return found is not None and is_ready(found, since)

    try:
        wait_for(f"node {node} that is Ready", probe, READY_SECONDS)
    except ClusterError as error:
        words = machinery.processes.last_words(kubelet_name(node))
        raise ClusterError(f"{error}; its kubelet's last words:\n{words}") from None


def is_ready(node: dict[str, Any], since: dt.datetime) -> bool:
    """Whether a Node object says that it is Ready, in a heartbeat of a later second than `since`."""
    return any(
        each["type"] == "Ready"
        and each["status"] == "True"
        and dt.datetime.fromisoformat(each["lastHeartbeatTime"]) > since
        for each in node["status"].get("conditions", [])
    )


def set_gpus(machinery: Machinery, node: str, count: int) -> None:
    """Let a node advertise fake GPUs: the scheduler counts them, and the pods that ask for them run."""
    resources = {"nvidia.com/gpu": str(count)}
    body = {"status": {"capacity": resources, "allocatable": resources}}
    machinery.api().patch(f"/api/v1/nodes/{node}/status", body, STRATEGIC)


def halt(machinery: Machinery, node: str) -> None:
    """Stop everything on a node, pods and all, and let go of what it holds of the host; its folder stays."""
    home = machinery.paths.nodes / node
    machinery.processes.stop(kubelet_name(node))
    machinery.processes.stop(containerd.process_name(node))
    kill_shims(machinery, home)
    machinery.cgroups.empty(node)
    for shim in (home / "run").rglob("bootstrap.json"):  # killed shims leave their sockets
        address = str(json.loads(read(shim) or "{}").get("address", ""))
        Path(address.removeprefix("unix://")).unlink(missing_ok=True) if address else None
    unmount_below(home)
    forget_addresses(machinery, node)


def kill_shims(machinery: Machinery, home: Path) -> None:
    """End the processes that hold a node's containers: containerd's children, which outlive it."""
    address = f"{home}/containerd.sock"
    folder = machinery.cgroups.tracker / machinery.cgroups.name / DAEMONS
    for pid in read(folder / "cgroup.procs").split():
        if address in read(Path(f"/proc/{pid}/cmdline")).split("\0"):
            end(int(pid))


def forget_addresses(machinery: Machinery, node: str) -> None:
    """Remove CNI's notes on a node's pods, and on their loopback devices."""
    prefix = f"{cni_name(machinery, node)}-"
    for note in list(CNI_RESULTS.glob(f"{prefix}*-eth0")):
        sandbox = note.name.removeprefix(prefix).split("-")[0]
        for file in CNI_RESULTS.glob(f"*-{sandbox}-*"):
            file.unlink(missing_ok=True)


def remove(machinery: Machinery, node: str, keep_object: bool) -> None:
    """Take a node away at once, as a power cut does; its object may stay, as it then does."""
    home = home_of(machinery, node)
    halt(machinery, node)
    index = int(read(home / "index"))
    if index != 1:  # the first node's address is the gateway's
        address = f"{machinery.network.node_address(index)}/16"
        attempt(["ip", "addr", "del", address, "dev", machinery.network.bridge])
    if not keep_object:
        machinery.api().delete(f"/api/v1/nodes/{node}")
    remove_folder(home)


def remove_folder(folder: Path, seconds: float = 10.0) -> None:
    """Delete a folder in which a lazily unmounted file system may still be busy for a moment."""
    deadline = time.monotonic() + seconds
    while folder.exists():
        unmount_below(folder)
        shutil.rmtree(folder, ignore_errors=time.monotonic() < deadline)


def container_pid(machinery: Machinery, namespace: str, pod: str, container: str | None) -> int:
    """The host's pid of a container's first process; ClusterError where it doesn't run."""
    found = machinery.api().find(f"/api/v1/namespaces/{namespace}/pods/{pod}")
    if found is None:
        raise ClusterError(f"no pod {pod} in namespace {namespace}")
    statuses = found.get("status", {}).get("containerStatuses", [])
    wanted = [each for each in statuses if container in (None, each["name"])]
    if not wanted or "running" not in wanted[0].get("state", {}):
        raise ClusterError(f"pod {namespace}/{pod}: container {container or 'of any name'} doesn't run")
    pid = task_pid(machinery, found["spec"]["nodeName"], wanted[0]["containerID"])
    if pid is None:
        raise ClusterError(f"pod {namespace}/{pod}: {wanted[0]['name']} has just ended")
    return pid


def task_pid(machinery: Machinery, node: str, container_id: str) -> int | None:
    """The host's pid of a container, by its id in a pod's status; None where it has ended.

    Asks the node's containerd, so it works for pods that the API server has lost sight of.
    """
    identity = container_id.removeprefix("containerd://")
    for line in containerd.ctl(machinery, home_of(machinery, node), "tasks", "ls").splitlines():
        name, pid, state = line.split()[:3]
        if name == identity and state == "RUNNING":
            return int(pid)
    return None
