"""A cluster that tests hold: what they may ask of it and do to it, whoever provides it.

`HeldCluster` is what every provider offers; `OwnCluster` is this project's, driven by its command line. What
a provider can't do is said by a flag before, and is a plain error when tried all the same.
"""

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from kubernetes import client, config

from dartes import __version__
from testcluster.images import TARGETS, ensure_images, image_name
from testcluster.paths import Paths
from testcluster.pki import CONTEXT

from ..waiting import until
from .provider import Provider

ROOT = Path(__file__).resolve().parents[2]
COMMAND_SECONDS = 120.0
Document = dict[str, Any]


class CommandFailedError(Exception):
    """A program or the API server said no: `words` is what it printed, `status` the HTTP status."""

    def __init__(self, command: Sequence[str], words: str, status: int | None = None) -> None:
        super().__init__(f"{' '.join(command)}: {words}")
        self.words = words
        self.status = status


class NotHereError(Exception):
    """This provider can't do that; a test asks `can_hurt_nodes` or `can_change_nodes` before."""

    def __init__(self, *what: object) -> None:
        super().__init__("this cluster can't do that: " + " ".join(map(str, what)))


def run(command: Sequence[str], stdin: str | None = None, seconds: float = COMMAND_SECONDS) -> str:
    """A program's standard output; CommandFailedError where it fails, TimeoutExpired when late."""
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=seconds, cwd=ROOT)
    if done.returncode:
        raise CommandFailedError(command, done.stderr.strip() or done.stdout.strip())
    return done.stdout


class HeldCluster:
    """What every cluster offers."""

    provider: ClassVar[Provider]
    can_hurt_nodes: ClassVar[bool] = False
    """Kubelets may be stopped, processes killed from outside, and resources advertised."""
    can_change_nodes: ClassVar[bool] = False
    """Nodes may be added and removed, and extras started."""
    storage_classes: ClassVar[frozenset[str]] = frozenset()
    """Which of `standard`, `portable` and `small` there are."""

    def __init__(self, kubeconfig: Path, context: str) -> None:
        self.kubeconfig = kubeconfig
        self.context = context
        self._namespaces: set[str] = set()

    @property
    def audit_log(self) -> Path | None:
        """The API server's audit log, one JSON object a line; None where it keeps none that we can read."""
        return None

    @cached_property
    def client(self) -> client.ApiClient:
        """The official client, as the administrator."""
        return config.new_client_from_config(str(self.kubeconfig), context=self.context)

    def request(self, method: str, path: str, body: Document | None = None) -> Document:
        """One request to the API server; CommandFailedError with its words for a status of 400 or more."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Accept": "application/json", "Content-Type": kind}
        words = self.client.param_serialize(
            method=method, resource_path=path, header_params=headers, body=body, auth_settings=["BearerToken"]
        )
        response = self.client.call_api(*words, _request_timeout=COMMAND_SECONDS)
        text = (response.read() or b"").decode()
        if response.status >= 400:
            raise CommandFailedError([method, path], text, response.status)
        document: Document = json.loads(text)
        return document

    def find(self, path: str) -> Document | None:
        """One object by its path, or None where there is none."""
        try:
            return self.request("GET", path)
        except CommandFailedError as failure:
            if failure.status == 404:
                return None
            raise

    @property
    def kubectl_command(self) -> list[str]:
        """The words before a kubectl command's own."""
        return [program("kubectl"), "--kubeconfig", str(self.kubeconfig), "--context", self.context]

    def kubectl(self, *words: str, input: str | None = None, seconds: float = COMMAND_SECONDS) -> str:  # noqa: A002
        """kubectl's standard output; CommandFailedError with its words where it says no."""
        return run([*self.kubectl_command, *words], input, seconds)

    def refused(self, *words: str, input: str | None = None) -> str:  # noqa: A002
        """The words with which kubectl says no; AssertionError where it doesn't."""
        try:
            said = self.kubectl(*words, input=input)
        except CommandFailedError as failure:
            return failure.words
        raise AssertionError(f"kubectl {' '.join(words)} was not refused: {said}")

    def helm(self, *words: str, seconds: float = COMMAND_SECONDS) -> str:
        """helm's standard output; CommandFailedError with its words where it fails."""
        cluster = ["--kubeconfig", str(self.kubeconfig), "--kube-context", self.context]
        return run([program("helm"), *cluster, *words], None, seconds)

    def make_namespace(self, prefix: str = "test", enforce: str = "restricted") -> str:
        """A new namespace with PodSecurity enforced, in which pods can be created; returns its name."""
        name = f"{prefix}-{secrets.token_hex(3)}"
        metadata = {"name": name, "labels": {"pod-security.kubernetes.io/enforce": enforce}}
        self.request("POST", "/api/v1/namespaces", {"metadata": metadata})
        self._namespaces.add(name)
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        until(lambda: self.find(account), f"service account of namespace {name}", 30.0)
        return name

    def delete_namespace(self, name: str) -> None:
        """Delete a namespace without waiting for its end; nothing where it is gone."""
        self.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")
        self._namespaces.discard(name)

    def delete_namespaces(self) -> None:
        """Delete those that a set-up which failed has left."""
        for name in sorted(self._namespaces):
            self.delete_namespace(name)

    def ensure_images(self) -> Mapping[str, str]:
        """Build this project's images, load them on every node, and return their names by target."""
        raise NotHereError("images")

    def add_node(self, name: str, gpus: int = 0) -> None:
        """Start a node and wait until it is Ready."""
        raise NotHereError("add_node", name, gpus)

    def remove_node(self, name: str, keep_object: bool = False) -> None:
        """Take a node away at once, as a power cut does, with its pods; its Node object may stay."""
        raise NotHereError("remove_node", name, keep_object)

    def stop_kubelet(self, node: str) -> None:
        """Kill a node's kubelet: the cluster loses sight of the node, whose pods go on running."""
        raise NotHereError("stop_kubelet", node)

    def start_kubelet(self, node: str) -> None:
        """Start a stopped kubelet and wait until its node is Ready."""
        raise NotHereError("start_kubelet", node)

    def set_gpus(self, node: str, count: int) -> None:
        """Let a node advertise fake GPUs."""
        if not self.can_hurt_nodes:
            raise NotHereError("set_gpus", node)
        resources = {"nvidia.com/gpu": str(count)}
        body = {"status": {"capacity": resources, "allocatable": resources}}
        self.request("PATCH", f"/api/v1/nodes/{node}/status", body)

    def start_extra(self, name: str) -> None:
        """Start an extra of `testcluster.extras` in the cluster; nothing where it runs already."""
        raise NotHereError("start_extra", name)

    def signal_container(
        self, pod: Document, container: str, number: signal.Signals = signal.SIGKILL
    ) -> None:
        """Send a signal to a container's first process from outside, which even a PID 1 can't ignore."""
        raise NotHereError("signal_container", pod["metadata"]["name"], container, number)

    def container_runs(self, pod: Document, container: str) -> bool:
        """Whether a container's first process is there, as its node sees it: works without the API server."""
        raise NotHereError("container_runs", pod["metadata"]["name"], container)

    def container_log(self, pod: Document, container: str) -> str:
        """What a container printed, as its node keeps it: works without the API server."""
        raise NotHereError("container_log", pod["metadata"]["name"], container)


class OwnCluster(HeldCluster):
    """This project's test cluster."""

    provider = Provider.OWN
    can_hurt_nodes = True
    can_change_nodes = True
    storage_classes = frozenset({"standard", "portable", "small"})

    def __init__(self, paths: Paths, images: Mapping[str, str] | None = None) -> None:
        """`images` are names of images that the session has built already, all from the same sources."""
        super().__init__(paths.admin_kubeconfig, CONTEXT)
        self.paths = paths
        self._images = images

    @property
    def audit_log(self) -> Path | None:
        return self.paths.audit_log if self.paths.audit_log.exists() else None

    def ensure_images(self) -> Mapping[str, str]:
        self._images = self._images or built_images(self.paths)
        own("load-image", seconds=600.0)
        return self._images

    def add_node(self, name: str, gpus: int = 0) -> None:
        own("add-node", name, "--gpus", str(gpus))

    def remove_node(self, name: str, keep_object: bool = False) -> None:
        own("remove-node", name, *(["--keep-object"] if keep_object else []))

    def stop_kubelet(self, node: str) -> None:
        own("stop-kubelet", node)

    def start_kubelet(self, node: str) -> None:
        own("start-kubelet", node)

    def start_extra(self, name: str) -> None:
        own("build", name, seconds=3600.0)
        own("extra", name)

    def container_pid(self, pod: Document, container: str) -> int | None:
        """The host's pid of a container's first process, by the pod as last read; None where it ended."""
        said = own("task-pid", pod["spec"]["nodeName"], container_id(pod, container))
        return int(said) if said.strip() else None

    def signal_container(
        self, pod: Document, container: str, number: signal.Signals = signal.SIGKILL
    ) -> None:
        pid = self.container_pid(pod, container)
        try:
            if pid is None:
                raise ProcessLookupError
            os.kill(pid, number)
        except ProcessLookupError as error:
            name = pod["metadata"]["name"]
            raise CommandFailedError(["kill", name], f"container {container} doesn't run") from error

    def container_runs(self, pod: Document, container: str) -> bool:
        return self.container_pid(pod, container) is not None

    def container_log(self, pod: Document, container: str) -> str:
        metadata = pod["metadata"]
        folder = f"{metadata['namespace']}_{metadata['name']}_{metadata['uid']}"
        logs = self.paths.nodes / pod["spec"]["nodeName"] / "logs" / folder / container
        return "".join(file.read_text() for file in sorted(logs.glob("*.log")))


def built_images(paths: Paths) -> Mapping[str, str]:
    """Names by target of this project's images, built from the present sources unless told otherwise.

    DARTES_TEST_IMAGES=as-built takes them as they were last built. ClusterError where a build fails.
    """
    if os.environ.get("DARTES_TEST_IMAGES") == "as-built":
        return {target: image_name(target, __version__) for target in TARGETS}
    return ensure_images(paths).names


def container_id(pod: Document, container: str) -> str:
    """A container's id in a pod's status; CommandFailedError where the pod as it was read had none."""
    for status in pod.get("status", {}).get("containerStatuses", []):
        if status["name"] == container and status.get("containerID"):
            return str(status["containerID"])
    raise CommandFailedError(
        ["containerID", pod["metadata"]["name"]], f"container {container} has not started"
    )


def program(name: str) -> str:
    """kubectl or helm: the test cluster's where it is built, else the one on PATH."""
    built = Paths.from_environment().bin / name
    return str(built) if built.exists() else name


def own(*words: str, seconds: float = COMMAND_SECONDS) -> str:
    """What `python -m testcluster WORDS` prints; CommandFailedError with its words where it fails."""
    return run([sys.executable, "-m", "testcluster", *words], None, seconds)
