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
from .jobs import Api, is_live, until

CHART = Path(__file__).resolve().parents[2] / "charts" / "dartes"
NAME = "dartes"
NAMESPACE = "dartes-system"
INSTALL_SECONDS = 120.0


class Release:
    """An installed chart: by default the one of the whole cluster, under the name that the docs use."""

    def __init__(
        self, cluster: HeldCluster, name: str = NAME, namespace: str = NAMESPACE, chart: Path = CHART
    ) -> None:
        self.cluster = cluster
        self.name = name
        self.namespace = namespace
        self.chart = chart

    def install(self, *options: str) -> None:
        """Install or upgrade the chart as a new user would and wait until the operator is ready."""
        self.cluster.helm(
            "upgrade", "--install", self.name, str(self.chart),
            "--namespace", self.namespace, "--create-namespace",
            # The definition may be of another test and of no release.
            "--take-ownership", "--force-conflicts",
            "--set", "image.registry=", *options, "--wait", "--timeout", f"{INSTALL_SECONDS:.0f}s",
            seconds=INSTALL_SECONDS + 10,
        )  # fmt: skip

    def uninstall(self) -> None:
        """Remove the release; jobs and CRD stay."""
        self.cluster.helm("uninstall", self.name, "--namespace", self.namespace, "--wait")

    def is_installed(self) -> bool:
        """Whether there is a release of this name in its namespace."""
        said = self.cluster.helm("list", "--namespace", self.namespace, "--output", "json")
        return any(each["name"] == self.name for each in json.loads(said))

    @property
    def operator(self) -> str:
        """The operator's Deployment, as kubectl takes it."""
        return f"deployment/{self.name if 'dartes' in self.name else f'{self.name}-dartes'}"

    def operator_pod(self) -> dict[str, Any]:
        """The operator's pod that lives; AssertionError where there isn't exactly one."""
        pods = [pod for pod in self.api.pods(self.namespace, self.selector) if is_live(pod)]
        assert len(pods) == 1, f"{len(pods)} operator pods in {self.namespace}"
        return pods[0]

    @property
    def selector(self) -> str:
        """The labels of the operator's pod."""
        return f"app.kubernetes.io/component=operator,app.kubernetes.io/instance={self.name}"

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
        self.kubectl("scale", self.operator, f"--replicas={replicas}", "-n", self.namespace)
        if replicas:
            self.kubectl("rollout", "status", self.operator, "-n", self.namespace, "--timeout=60s")
        else:
            until(lambda: not self.api.pods(self.namespace, self.selector), "the operator is gone", 60)

    def operator_log(self) -> str:
        """What the operator has logged."""
        return self.kubectl("logs", self.operator, "-n", self.namespace, "--tail=-1")

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
