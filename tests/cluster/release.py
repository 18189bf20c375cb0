"""The chart installed in a held cluster: one operator under exactly the chart's rights; handles to disturb.

Tests get a `Release`; what may be done to nodes is the held cluster's to know.
"""

import json
import signal
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from .held import HeldCluster
from .jobs import Api, until

CHART = Path(__file__).resolve().parents[2] / "charts" / "dartes"
NAME = "dartes"
NAMESPACE = "dartes-system"
OPERATOR = "deployment/dartes"
INSTALL_SECONDS = 120.0


class Release:
    """An installed chart."""

    def __init__(self, cluster: HeldCluster) -> None:
        self.cluster = cluster

    def install(self, *options: str) -> None:
        """Install the chart as a new user would and wait until the operator is ready."""
        self.cluster.helm(
            "upgrade", "--install", NAME, str(CHART), "--namespace", NAMESPACE, "--create-namespace",
            # The definition may be of another test and of no release.
            "--take-ownership", "--force-conflicts",
            "--set", "image.registry=", *options, "--wait", "--timeout", f"{INSTALL_SECONDS:.0f}s",
            seconds=INSTALL_SECONDS + 10,
        )  # fmt: skip

    def uninstall(self) -> None:
        """Remove the release; jobs and CRD stay."""
        self.cluster.helm("uninstall", NAME, "--namespace", NAMESPACE, "--wait")

    @cached_property
    def api(self) -> Api:
        """The API server, as the administrator."""
        return Api(self.cluster.kubeconfig, self.cluster.context)

    @property
    def kubectl_command(self) -> list[str]:
        """The words before a kubectl command's own."""
        return self.cluster.kubectl_command

    def kubectl(self, *words: str, stdin: str | None = None, seconds: float = 120.0) -> str:
        """kubectl's standard output."""
        return self.cluster.kubectl(*words, input=stdin, seconds=seconds)

    def scale_operator(self, replicas: int) -> None:
        """Take the operator away, or bring it back; waits until that is so."""
        self.kubectl("scale", OPERATOR, f"--replicas={replicas}", "-n", NAMESPACE)
        selector = "app.kubernetes.io/component=operator"
        if replicas:
            self.kubectl("rollout", "status", OPERATOR, "-n", NAMESPACE, "--timeout=60s")
        else:
            until(lambda: not self.api.pods(NAMESPACE, selector), "the operator is gone", 60)

    def operator_log(self) -> str:
        """What the operator has logged."""
        return self.kubectl("logs", OPERATOR, "-n", NAMESPACE, "--tail=-1")

    def kill_container(self, pod: Mapping[str, Any], container: str) -> None:
        """SIGKILL to a container's first process, from outside."""
        self.cluster.signal_container(dict(pod), container, signal.SIGKILL)

    def container_runs(self, pod: Mapping[str, Any], container: str) -> bool:
        """Whether a container's first process is there, as its node sees it."""
        return self.cluster.container_runs(dict(pod), container)

    def container_log(self, pod: Mapping[str, Any], container: str) -> str:
        """What a container printed, as its node keeps it."""
        return self.cluster.container_log(dict(pod), container)

    def advertise(self, resource: str, count: int) -> None:
        """Let every node advertise an extended resource."""
        nodes = json.loads(self.kubectl("get", "nodes", "-o", "json"))["items"]
        resources = {resource: str(count)}
        for node in nodes:
            self.cluster.request(
                "PATCH",
                f"/api/v1/nodes/{node['metadata']['name']}/status",
                {"status": {"capacity": resources, "allocatable": resources}},
            )
