"""The definition of DartESJob inside the chart: the generated one, kept when the release goes."""

from .rendering import CHART, CRD_NAME, ROOT, render, strict_documents

GENERATED = ROOT / "crds" / f"{CRD_NAME}.yaml"
IN_CHART = CHART / "files" / f"{CRD_NAME}.yaml"


def test_the_chart_holds_the_generated_definition_byte_by_byte() -> None:
    assert IN_CHART.read_bytes() == GENERATED.read_bytes(), "run `make generate`"


def test_the_rendered_definition_is_the_generated_one_and_kept() -> None:
    rendered = render(definition=True).one("CustomResourceDefinition")
    (generated,) = strict_documents(IN_CHART.read_text())
    assert rendered["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    assert rendered == generated


def test_the_definition_can_be_left_to_go_with_the_release() -> None:
    (generated,) = strict_documents(IN_CHART.read_text())
    assert render({"crds.keep": False}, definition=True).one("CustomResourceDefinition") == generated


def test_the_definition_can_come_from_elsewhere() -> None:
    assert render({"crds.create": False}, definition=True).all("CustomResourceDefinition") == []
