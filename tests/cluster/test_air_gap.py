"""docs/air-gap.md word by word: images by digest from a registry with a password, a model on a claim."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from testcluster.paths import Paths

from .held import ROOT, HeldCluster, program
from .jobs import Api, Job, until
from .lacking import lacking
from .provider import Provider
from .registry import Registry

pytestmark = [pytest.mark.full, pytest.mark.timeout(900), pytest.mark.usefixtures("alone", "definition")]

PAGE = ROOT / "docs" / "air-gap.md"
SECONDS = 600.0
REGISTRIES = """\
unqualified-search-registries = []
[[registry]]
location = "{address}"
insecure = true
"""


@dataclass(frozen=True)
class Followed:
    """What came of following the page."""

    registry: Registry
    job: Job
    system: str
    said: str


def commands() -> str:
    """The page's commands, one block after the other."""
    blocks = re.findall(r"^```\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return "\n".join(["set -euo pipefail", *blocks])


def adapted(text: str, names: Mapping[str, str]) -> str:
    """The commands with other names in them; each must occur."""
    for theirs, ours in names.items():
        assert theirs in text, f"{theirs} is not on the page any more"
        text = text.replace(theirs, ours)
    return text


@pytest.fixture(scope="module")
def followed(
    cluster: HeldCluster, images: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Followed]:
    """The page, followed from its first command to its last."""
    if cluster.provider is not Provider.OWN:
        lacking("nodes elsewhere can't reach a registry on this host")
    folder = tmp_path_factory.mktemp("air-gap")
    system, team = cluster.make_namespace("system"), cluster.make_namespace("team")
    archives = sorted(Paths.from_environment().images.glob("dartes*.tar"))
    with Registry(archives) as registry:
        name = f"dartes-{system.rpartition('-')[2]}"
        script = adapted(
            commands(),
            {
                "registry.build.example.com": registry.address,
                "registry.example.com": registry.address,
                # They are there already, so that PodSecurity holds in them.
                "kubectl create namespace dartes-system": ":",
                "kubectl create namespace team-a": ":",
                "dartes-system": system,
                "team-a": team,
                "helm install dartes": f"helm install {name} --set crds.create=false "
                f"--set rbac.aggregate=false --set watch.namespaces='{{{team}}}'",
            },
        )
        (folder / "charts").symlink_to(ROOT / "charts")
        shutil.copytree(ROOT / "core" / "dartes" / "builtin" / "addition", folder / "model")
        (folder / "password.txt").write_text(registry.password)
        settings = folder / ".config" / "containers"
        settings.mkdir(parents=True)
        (settings / "registries.conf").write_text(REGISTRIES.format(address=registry.address))
        said = follow(cluster, script, folder)
        api = Api(cluster.kubeconfig, cluster.context)
        yield Followed(registry, Job(api, team, "inside"), system, said)
        cluster.helm("uninstall", name, "--namespace", system, "--wait")
        for namespace in (team, system):
            cluster.delete_namespace(namespace)


def follow(cluster: HeldCluster, script: str, folder: Path) -> str:
    """Run the commands as a person would, with this cluster as the current one."""
    programs = Path(program("kubectl")).parent
    environment = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "KUBECONFIG": str(cluster.kubeconfig),
        "REGISTRY_AUTH_FILE": str(folder / "auth.json"),
    }
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def test_the_job_completes_with_the_model_of_the_claim(followed: Followed) -> None:
    assert "dartesjob.dartes.dev/inside condition met" in followed.said
    assert followed.job.status["progress"]["iteration"] == 2


def test_every_pod_runs_an_image_of_the_mirror_by_its_digest(followed: Followed) -> None:
    pods = followed.job.api.pods(followed.job.namespace, "") + followed.job.api.pods(followed.system, "")
    images = {container["image"] for pod in pods for container in pod["spec"]["containers"]}
    assert len(images) == 3, "operator, coordinator, worker"
    by_digest = rf"{re.escape(followed.registry.address)}/mirror/dartes/[a-z]+@sha256:[0-9a-f]{{64}}"
    assert [image for image in images if not re.fullmatch(by_digest, image)] == []
    asked_for = {f"{followed.registry.address}/{name}" for name in followed.registry.store.asked_for}
    assert images <= asked_for, "the nodes have asked the registry for each"


def test_without_the_secret_nothing_is_pulled(followed: Followed, cluster: HeldCluster) -> None:
    (operator,) = {name for name in followed.registry.store.asked_for if "mirror/dartes/operator@" in name}
    namespace = followed.job.namespace
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stranger"},
        "spec": {
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "stranger",
                    "image": f"{followed.registry.address}/{operator}",
                    "imagePullPolicy": "Always",
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }
    cluster.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(manifest))

    def words() -> str:
        (pod,) = [p for p in followed.job.api.pods(namespace, "") if p["metadata"]["name"] == "stranger"]
        (status,) = pod["status"].get("containerStatuses") or [{}]
        return str(status.get("state", {}).get("waiting", {}).get("message") or "")

    until(lambda: "no basic auth credentials" in words(), "the pull is refused in the kubelet's words", 60)
