"""Kueue: a queue that holds pods back until a quota has room for them. Its own chart, from its Go module.

Its image is its one program. It runs on the first node and looks only at namespaces with the label below, so
that whatever else is created in the cluster never waits for it.
"""

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from ..api import ApiError
from ..commands import ClusterError, read, run, wait_for, write
from ..containerd import ctl, load
from ..machinery import Machinery
from ..nodes import home_of
from ..oci import single_file_layer, write_archive

NAME: Final = "kueue"
MODULE: Final = "sigs.k8s.io/kueue"
NAMESPACE: Final = "kueue-system"
MANAGER: Final = "kueue-controller-manager"
"""The Deployment's name, as the chart has it."""
NAMESPACE_LABEL: Final = "kueue.x-k8s.io/managed-namespace"
"""Pods in namespaces where this is `true` are Kueue's; all others never reach it."""
IMAGE: Final = "localhost/dartes-kueue"
TAG: Final = "1"
NODE: Final = "node1"
READY_SECONDS: Final = 120.0
FLAVORS: Final = "/apis/kueue.x-k8s.io/v1beta2/resourceflavors"

CONFIGURATION: Final[dict[str, Any]] = {
    "apiVersion": "config.kueue.x-k8s.io/v1beta2",
    "kind": "Configuration",
    "health": {"healthProbeBindAddress": ":8081"},
    "metrics": {"bindAddress": ":8443"},
    "webhook": {"port": 9443},
    # There is one, and waiting for a lease would be most of its start.
    "leaderElection": {"leaderElect": False},
    "clientConnection": {"qps": 50, "burst": 100},
    "integrations": {"frameworks": ["pod"]},
    "managedJobsNamespaceSelector": {"matchLabels": {NAMESPACE_LABEL: "true"}},
}
"""What a platform team sets for jobs that are plain pods; all else is Kueue's default."""

VALUES: Final[dict[str, Any]] = {
    "controllerManager": {
        "manager": {
            "image": {"repository": IMAGE, "tag": TAG, "pullPolicy": "Never"},
            "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        },
        # The chart takes the probe's period from its delay.
        "readinessProbe": {"initialDelaySeconds": 1},
        "nodeSelector": {"kubernetes.io/hostname": NODE},
    },
    "managerConfig": {"controllerManagerConfigYaml": json.dumps(CONFIGURATION)},
}


def start(machinery: Machinery) -> None:
    """Install Kueue and wait until it answers; nothing where it does."""
    program = machinery.paths.bin / NAME
    if not program.exists():
        raise ClusterError(f"not built: {NAME}; run `python -m testcluster build {NAME}` first")
    api = machinery.api()

    def judges() -> bool:
        # Its webhooks judge this; a pod that is ready may still wait for kube-proxy.
        body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "a"}}
        return bool(api.request("POST", f"{FLAVORS}?dryRun=All", body))

    with suppress(ApiError):
        if judges():
            return
    load_image(machinery, program)
    values = write(machinery.paths.state / "kueue-values.json", VALUES)
    helm = [f"{machinery.paths.bin}/helm", "--kubeconfig", f"{machinery.paths.admin_kubeconfig}"]
    install = ["upgrade", "--install", NAME, f"{chart(machinery)}", "--values", f"{values}"]
    where = ["--namespace", NAMESPACE, "--create-namespace"]
    run([*helm, *install, *where, "--wait", "--timeout", f"{READY_SECONDS:.0f}s"])
    wait_for("answer of Kueue's webhooks", judges, READY_SECONDS)


def load_image(machinery: Machinery, program: Path) -> None:
    """Make an image of the program, and load it on the node where it is to run."""
    archive = machinery.paths.cache / "extras" / "kueue.tar"
    stamp = archive.with_suffix(".made")
    built = read(machinery.paths.cache / f"{NAME}.built")
    if not archive.exists() or read(stamp) != built:
        archive.parent.mkdir(parents=True, exist_ok=True)
        config = {"Entrypoint": ["/manager"], "User": "65532:65532", "Env": ["PATH=/"]}
        write_archive(archive, f"{IMAGE}:{TAG}", single_file_layer(program, "manager"), config)
        write(stamp, built)
    home = home_of(machinery, NODE)
    mark = home / "kueue-image"
    if read(mark) != built or f"{IMAGE}:{TAG}" not in ctl(machinery, home, "images", "ls", "-q"):
        load(machinery, home, archive)
        write(mark, built)


def chart(machinery: Machinery) -> Path:
    """A copy of the chart in the module's source, which Go keeps read-only and may forget."""
    folder = machinery.paths.cache / "extras" / "kueue-chart"
    stamp = folder.with_suffix(".made")
    built = read(machinery.paths.cache / f"{NAME}.built")
    if folder.exists() and read(stamp) == built:
        return folder
    module = machinery.paths.modules / NAME
    source = json.loads(run(["go", "-C", module, "mod", "download", "-json", MODULE]))["Dir"]
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(Path(source) / "charts" / NAME, folder, copy_function=shutil.copyfile)
    write(stamp, built)
    return folder
