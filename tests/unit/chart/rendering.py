"""Renders the chart with helm and reads what comes out; it knows nothing of what the chart should hold."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from testcluster.build import unpack_tools
from testcluster.commands import locked
from testcluster.paths import Paths

ROOT: Final = Path(__file__).resolve().parents[3]
CHART: Final = ROOT / "charts" / "dartes"
CRD_NAME: Final = "dartesjobs.dartes.dev"

Object = dict[str, Any]


def helm_program() -> Path:
    """The test cluster's helm, unpacked now where nobody has asked for it yet; ClusterError says why not."""
    paths = Paths.from_environment()
    program = paths.bin / "helm"
    if not program.exists():
        with locked(paths.lock):
            paths.bin.mkdir(parents=True, exist_ok=True)
            unpack_tools(paths)
    return program


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run helm without a cluster."""
    # A kubeconfig that doesn't exist: nothing here may depend on the clusters that a person knows.
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "KUBECONFIG": "/nonexistent"}
    return subprocess.run([str(helm_program()), *arguments], capture_output=True, text=True, env=environment)


def strict_documents(text: str) -> list[Object]:
    """All YAML documents of a text; a key that is given twice is an error."""
    return [document for document in YAML(typ="safe", pure=True).load_all(text) if document is not None]


@dataclass(frozen=True)
class Release:
    """The objects of a rendered release."""

    objects: list[Object]

    def all(self, kind: str) -> list[Object]:
        """Every object of a kind."""
        return [each for each in self.objects if each["kind"] == kind]

    def one(self, kind: str) -> Object:
        """The only object of a kind."""
        (found,) = self.all(kind)
        return found

    @property
    def container(self) -> Object:
        """The operator's container."""
        (found,) = self.one("Deployment")["spec"]["template"]["spec"]["containers"]
        return dict(found)

    @property
    def environment(self) -> dict[str, Any]:
        """The operator's environment, without what the API server fills in."""
        return {each["name"]: each["value"] for each in self.container["env"] if "value" in each}

    @property
    def rules(self) -> dict[tuple[str, str], set[str]]:
        """(API group, resource) -> verbs of the operator; every Role of the release must give the same."""
        roles = self.all("Role") or [
            role for role in self.all("ClusterRole") if role["metadata"]["name"] == "dartes-system-dartes"
        ]
        found = [_verbs(role) for role in roles]
        assert all(each == found[0] for each in found)
        return found[0]


def _verbs(role: Object) -> dict[tuple[str, str], set[str]]:
    verbs: dict[tuple[str, str], set[str]] = {}
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                verbs.setdefault((group, resource), set()).update(rule["verbs"])
    return verbs


def template(values: Mapping[str, Any], name: str = "dartes") -> subprocess.CompletedProcess[str]:
    """`helm template` with values by dotted path, as `--set-json` takes them."""
    settings = [
        word for path, value in values.items() for word in ("--set-json", f"{path}={json.dumps(value)}")
    ]
    return helm("template", name, str(CHART), "--namespace", "dartes-system", *settings)


def render(
    values: Mapping[str, Any] | None = None, *, name: str = "dartes", definition: bool = False
) -> Release:
    """The release with these values; AssertionError in helm's words where it is refused.

    It comes without the definition of DartESJob, which takes longer to read than all else together, unless
    `definition`.
    """
    done = template({**({} if definition else {"crds.create": False}), **(values or {})}, name)
    assert done.returncode == 0, done.stderr
    return Release(strict_documents(done.stdout))


def refusal(values: Mapping[str, Any]) -> str:
    """What helm says to values that it must refuse."""
    done = template(values)
    assert done.returncode != 0, f"helm took {values}"
    return done.stderr
