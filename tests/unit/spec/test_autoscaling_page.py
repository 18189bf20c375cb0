"""What docs/autoscaling.md tells people to write is what the job's model and the definition take."""

import re
from pathlib import Path
from typing import Any

import pytest

from dartes.spec import load_job
from dartes.spec.yaml_text import read_yaml, write_yaml


def values(text: str) -> Any:
    """One YAML document as plain values."""
    return read_yaml(text).value


ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "autoscaling.md").read_text(encoding="utf-8")
DEFINITION = values((ROOT / "crds" / "dartesjobs.dartes.dev.yaml").read_text(encoding="utf-8"))
BLOCKS = [
    values(re.sub(rf"^{indent}", "", text, flags=re.MULTILINE))
    for indent, text in re.findall(r"^( *)```yaml\n(.*?)^ *```$", PAGE, flags=re.MULTILINE | re.DOTALL)
]
FRAGMENTS = [block for block in BLOCKS if "kind" not in block]
AUTOSCALERS = [block for block in BLOCKS if "kind" in block]


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Maps merged at every depth."""
    both = {
        key: merged(base[key], value) for key, value in changes.items() if isinstance(base.get(key), dict)
    }
    return {**base, **changes, **both}


def test_the_page_has_what_these_tests_look_at() -> None:
    assert [block["kind"] for block in AUTOSCALERS] == ["HorizontalPodAutoscaler", "ScaledObject"]
    assert len(FRAGMENTS) == 3


@pytest.mark.parametrize("fragment", FRAGMENTS, ids=lambda block: "-".join(block["spec"]))
def test_a_fragment_fits_into_a_job(fragment: dict[str, Any], tmp_path: Path) -> None:
    example = values((ROOT / "examples" / "addition.yaml").read_text(encoding="utf-8"))
    file = tmp_path / "job.yaml"
    file.write_text(write_yaml(merged(example, fragment)), encoding="utf-8")
    assert load_job(file).job.spec


@pytest.mark.parametrize("autoscaler", AUTOSCALERS, ids=lambda block: str(block["kind"]))
def test_an_autoscaler_points_at_the_definition_and_keeps_to_its_bounds(autoscaler: dict[str, Any]) -> None:
    (version,) = DEFINITION["spec"]["versions"]
    target = autoscaler["spec"]["scaleTargetRef"]
    assert target["apiVersion"] == f"{DEFINITION['spec']['group']}/{version['name']}"
    assert target["kind"] == DEFINITION["spec"]["names"]["kind"]
    path = version["subresources"]["scale"]["specReplicasPath"].strip(".").split(".")
    schema = version["schema"]["openAPIV3Schema"]
    for name in path:
        schema = schema["properties"][name]
    spec = autoscaler["spec"]
    least = spec.get("minReplicas", spec.get("minReplicaCount"))
    most = spec.get("maxReplicas", spec.get("maxReplicaCount"))
    assert schema["minimum"] <= least <= most <= schema["maximum"]
