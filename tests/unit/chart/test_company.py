"""Which releases look for another operator before they install: those that make rights on the whole cluster.

Rendering asks no cluster, so a copy of the chart is rendered in which the answer to the look stands already.
"""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from .rendering import CHART, helm

LOOK = '(lookup "apps/v1" "Deployment" "" "")'
OTHER = {
    "metadata": {
        "name": "other",
        "namespace": "elsewhere",
        "labels": {
            "app.kubernetes.io/name": "dartes",
            "app.kubernetes.io/component": "operator",
            "app.kubernetes.io/instance": "other",
        },
    },
    "spec": {"replicas": 1},
}


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    """The chart as it is where another operator runs."""
    copy = tmp_path / "dartes"
    shutil.copytree(CHART, copy)
    alone = copy / "templates" / "_alone.tpl"
    text = alone.read_text(encoding="utf-8")
    assert text.count(LOOK) == 1
    alone.write_text(text.replace(LOOK, f"(fromJson `{json.dumps({'items': [OTHER]})}`)"))
    return copy


def rendered(chart: Path, *settings: str) -> subprocess.CompletedProcess[str]:
    """The chart, rendered with some settings."""
    words = [word for setting in ("crds.create=false", *settings) for word in ("--set", setting)]
    return helm("template", "dartes", str(chart), "--namespace", "dartes-system", *words)


def test_a_release_that_makes_rights_on_the_whole_cluster_stands_beside_no_other(chart: Path) -> None:
    done = rendered(chart)
    assert done.returncode != 0
    assert "Deployment other in namespace elsewhere" in done.stderr


@pytest.mark.parametrize("setting", ["rbac.create=false", "watch.namespaces={team-a}"])
def test_a_release_that_makes_no_such_rights_does_not_look(chart: Path, setting: str) -> None:
    done = rendered(chart, setting)
    assert done.returncode == 0, done.stderr
    assert "kind: Deployment" in done.stdout
