"""Clusters that aren't this project's: kind on the user's Docker, and the user's own by its context.

Both get this project's images as their users would bring them: by `kind load`, or from a registry.
"""

import os
import signal
import tempfile
from collections.abc import Mapping
from pathlib import Path

from dartes import __version__
from testcluster.images import TARGETS, image_name

from .held import ROOT, CommandFailedError, Document, HeldCluster, NotHereError, container_id, run
from .provider import Provider

KIND_NAME = "dartes-tests"
REGISTRY_VARIABLE = "DARTES_TEST_REGISTRY"
KIND_NODES = """
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
nodes: [{role: control-plane}, {role: worker}, {role: worker}]
"""


class KindCluster(HeldCluster):
    """A cluster in Docker containers, made for the tests; its only storage class is `standard`."""

    provider = Provider.KIND
    can_hurt_nodes = True
    storage_classes = frozenset({"standard"})

    @classmethod
    def start(cls) -> "KindCluster":
        """Make the cluster, or use the one that an earlier run left."""
        folder = Path(tempfile.gettempdir()) / KIND_NAME
        folder.mkdir(mode=0o700, exist_ok=True)
        kubeconfig = folder / "kubeconfig"
        if KIND_NAME not in run(["kind", "get", "clusters"]).split():
            command = ["kind", "create", "cluster", "--name", KIND_NAME, "--config", "-", "--wait", "120s"]
            run([*command, "--kubeconfig", str(kubeconfig)], KIND_NODES, 600.0)
        else:
            run(["kind", "export", "kubeconfig", "--name", KIND_NAME, "--kubeconfig", str(kubeconfig)])
        return cls(kubeconfig, f"kind-{KIND_NAME}")

    @staticmethod
    def delete() -> None:
        """Remove the cluster and its containers."""
        run(["kind", "delete", "cluster", "--name", KIND_NAME])

    def ensure_images(self) -> Mapping[str, str]:
        names = {target: image_name(target, __version__) for target in TARGETS}
        for target, name in names.items():
            run(["docker", "build", "--target", target, "--tag", name, str(ROOT)], None, 1800.0)
        run(["kind", "load", "docker-image", "--name", KIND_NAME, *names.values()], None, 600.0)
        return names

    def stop_kubelet(self, node: str) -> None:
        run(["docker", "exec", node, "systemctl", "kill", "--signal", "KILL", "kubelet"])
        run(["docker", "exec", node, "systemctl", "stop", "kubelet"])

    def start_kubelet(self, node: str) -> None:
        run(["docker", "exec", node, "systemctl", "start", "kubelet"])
        self.kubectl("wait", "--for=condition=Ready", f"node/{node}", "--timeout=90s")

    def signal_container(
        self, pod: Document, container: str, number: signal.Signals = signal.SIGKILL
    ) -> None:
        node, pid = pod["spec"]["nodeName"], self._pid(pod, container)
        run(["docker", "exec", node, "kill", f"-{number.value}", pid])

    def container_runs(self, pod: Document, container: str) -> bool:
        try:
            return self._pid(pod, container) != "0"
        except CommandFailedError:
            return False

    def container_log(self, pod: Document, container: str) -> str:
        node, identity = pod["spec"]["nodeName"], container_id(pod, container).rpartition("/")[2]
        return run(["docker", "exec", node, "crictl", "logs", identity])

    def _pid(self, pod: Document, container: str) -> str:
        node, identity = pod["spec"]["nodeName"], container_id(pod, container).rpartition("/")[2]
        template = "{{.info.pid}}"
        inspect = ["crictl", "inspect", "--output", "go-template", "--template", template, identity]
        return run(["docker", "exec", node, *inspect]).strip()


class NamedCluster(HeldCluster):
    """The user's own cluster: nothing of its nodes or its control plane is touched."""

    provider = Provider.NAMED

    @classmethod
    def of_context(cls, context: str) -> "NamedCluster":
        """The cluster behind a context of the user's kubeconfig (KUBECONFIG, or the usual file)."""
        text = run(["kubectl", "config", "view", "--raw", "--minify", "--flatten", "--context", context])
        folder = Path(tempfile.mkdtemp(prefix="dartes-tests-"))
        kubeconfig = folder / "kubeconfig"
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(text)
        return cls(kubeconfig, context)

    def ensure_images(self) -> Mapping[str, str]:
        registry = os.environ.get(REGISTRY_VARIABLE)
        if not registry:
            raise NotHereError(
                f"images: push them to a registry that the cluster reaches and name it in {REGISTRY_VARIABLE}"
            )
        return {target: f"{registry.rstrip('/')}/{image_name(target, __version__)}" for target in TARGETS}
