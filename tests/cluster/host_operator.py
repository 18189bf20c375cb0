"""An operator as a process of the host, from the present sources: killed and back within a moment.

All of the chart but its Deployment is in the cluster, and the process has the Deployment's settings and the
service account's token; so its rights are the chart's. Between it and the API server stands a proxy. A pod
would take seconds to come back, and longer after some restarts.
"""

import json
import multiprocessing
import re
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from testcluster.machinery import Machinery

from .fault_proxy import FaultProxy
from .held import HeldCluster
from .operator_process import become_operator
from .release import CHART, NAME
from .releases import JOBS_ON_KWOK

STOP_SECONDS: Final = 15.0
_OF_GRPC: Final = re.compile(r"[IWE]\d{4} [\d:.]+ ")


class HostOperator:
    """An operator that looks after one namespace, whose jobs go to fake nodes."""

    def __init__(self, cluster: HeldCluster, namespace: str, proxy: FaultProxy, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.log_file = folder / "operator.log"
        self.starts = 0
        self.home = cluster.make_namespace("system")
        """The namespace that the chart would be installed in."""
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([become_operator.__module__])
        self._process: ForkServerProcess | None = None
        self._environment = self._install(namespace)
        self._environment["KUBECONFIG"] = str(self._kubeconfig(proxy))

    def start(self) -> None:
        """Start it; returns at once."""
        self.starts += 1
        arguments = (self._environment, str(self.log_file))
        self._process = self._context.Process(target=become_operator, args=arguments, daemon=True)
        self._process.start()

    def kill(self) -> None:
        """SIGKILL: it gets no chance to say or write anything; nothing where it doesn't run."""
        if self._process is None:
            return
        self._process.kill()
        self._process.join()
        self._process = None

    def restart(self) -> None:
        """Kill it, and start another at once."""
        self.kill()
        self.start()

    def stop(self) -> None:
        """As a node stops it; nothing where it doesn't run."""
        if self._process is None:
            return
        self._process.terminate()
        self._process.join(STOP_SECONDS)
        assert self._process.exitcode == 0, f"exit code {self._process.exitcode}: {self.log()[-3000:]}"
        self._process = None

    @property
    def lives(self) -> bool:
        """Whether it has been started and has not ended."""
        return self._process is not None and self._process.is_alive()

    def log(self) -> str:
        """What all of them have logged, one JSON object a line."""
        return self.log_file.read_text() if self.log_file.exists() else ""

    def errors(self) -> list[str]:
        """What they have logged as errors, and lines that are no log lines, such as a traceback's.

        gRPC's own lines, of coordinators that can't be reached, are neither: nobody listens on fake nodes.
        """
        found = []
        for line in self.log().splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                if not _OF_GRPC.match(line):
                    found.append(line)
                continue
            if entry.get("level") in ("ERROR", "CRITICAL"):
                found.append(str(entry.get("message")))
        return found

    def _install(self, namespace: str) -> dict[str, str]:
        """Create what the chart has but its Deployment; returns the variables of that."""
        words = (
            "template",
            NAME,
            str(CHART),
            "--namespace",
            self.home,
            f"--set=watch.namespaces[0]={namespace}",
        )
        options = ("--set=crds.create=false", "--set=rbac.aggregate=false", *JOBS_ON_KWOK)
        rendered = self.cluster.helm(*words, *options, "--no-hooks")
        objects: list[dict[str, Any]] = [each for each in YAML(typ="safe").load_all(rendered) if each]
        deployment = next(each for each in objects if each["kind"] == "Deployment")
        objects.remove(deployment)
        self.cluster.kubectl("apply", "-f", "-", input="\n---\n".join(map(json.dumps, objects)))
        pod = deployment["spec"]["template"]["spec"]
        self._account = pod["serviceAccountName"]
        given = {each["name"]: each.get("value", "") for each in pod["containers"][0]["env"]}
        settings = {name: value for name, value in given.items() if name.startswith("DARTES_")}
        return {**settings, "DARTES_HTTP": "127.0.0.1:0", "POD_NAMESPACE": self.home}

    def _kubeconfig(self, proxy: FaultProxy) -> Path:
        token = self.cluster.kubectl("create", "token", self._account, "-n", self.home).strip()
        host, port = proxy.url
        authority = str(Machinery.from_environment().paths.pki / "ca.crt")
        server = {"server": f"https://{host}:{port}", "certificate-authority": authority}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "it",
            "clusters": [{"name": "it", "cluster": server}],
            "users": [{"name": "it", "user": {"token": token}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        }
        path = self.folder / "kubeconfig"
        path.write_text(json.dumps(document))
        return path
