"""What the API server refuses of a job, at creation and as a change, and the words it finds for it.

Every rule of the definition is tried with values that break it and values that don't; whatever the server
refuses, `dartes validate` refuses too.
"""

from pathlib import Path
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from dartes.spec import DartESJob, InvalidJobError, load_job, parse_job_text
from dartes.spec.crd.rules import BETWEEN_FIELDS
from dartes.spec.yaml_text import read_yaml, write_yaml

from .broken_jobs import BROKEN, BROKEN_INSIDE, RIGHT
from .held import HeldCluster
from .stored_jobs import SMALL, Jobs, apply_definition, merged, nested, refusals, with_fields

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def jobs(cluster: HeldCluster, module_namespace: str) -> Jobs:
    """The jobs of a namespace of a cluster that has the present definition."""
    apply_definition(cluster.client)
    return Jobs(cluster.client, module_namespace)


@pytest.fixture(scope="module")
def stored(jobs: Jobs) -> str:
    """Name of a stored job that has not started."""
    jobs.create(SMALL, "stored", dry=False)
    return "stored"


def refused(jobs: Jobs, changes: dict[str, Any], name: str = "tried") -> dict[str, list[str]]:
    """What the server has against the small job with some fields changed."""
    with pytest.raises(ApiException) as raised:
        jobs.create(with_fields(SMALL, changes), name)
    return refusals(raised.value)


@pytest.mark.parametrize(("field", "changes", "words"), BROKEN + BROKEN_INSIDE)
def test_what_breaks_a_rule_is_refused_with_the_field_and_the_way_out(
    jobs: Jobs, field: str, changes: dict[str, Any], words: str
) -> None:
    found = refused(jobs, changes)
    assert any(words in message for message in found.get(field, ())), found


@pytest.mark.parametrize(("field", "changes", "words"), BROKEN)
def test_a_change_that_breaks_a_rule_is_refused_too(
    jobs: Jobs, stored: str, field: str, changes: dict[str, Any], words: str
) -> None:
    patches = [nested(path, value) for path, value in changes.items()]
    # A merge patch leaves what it doesn't name: where a whole part is given, the rest has to go by name.
    gone = [
        nested(f"{path}.{name}", None)
        for path, value in changes.items()
        if path in SMALL and isinstance(value, dict)
        for name in SMALL[path]
        if name not in value
    ]
    patch = merged([*patches, *gone])
    with pytest.raises(ApiException) as raised:
        jobs.patch(stored, patch)
    assert any(words in message for message in refusals(raised.value).get(field, ())), raised.value.body


@pytest.mark.parametrize(("field", "changes", "words"), BROKEN)
def test_a_job_file_with_the_same_mistake_is_refused_locally(
    field: str, changes: dict[str, Any], words: str
) -> None:
    data: dict[str, Any] = {
        "apiVersion": "dartes.dev/v1alpha1",
        "kind": "DartESJob",
        "metadata": {"name": "tried"},
        "spec": with_fields(SMALL, changes),
    }
    with pytest.raises(InvalidJobError):
        parse_job_text(write_yaml(data), "job.yaml", Path())


def test_every_rule_between_fields_has_a_value_that_breaks_it() -> None:
    tried = [words for _, _, words in BROKEN]
    for rules in BETWEEN_FIELDS.values():
        for rule in rules:
            assert any(words in rule.message for words in tried), rule.message


@pytest.mark.parametrize(
    ("name", "accepted"),
    [
        ("a", True),
        ("addition", True),
        ("a-1", True),
        ("a" * 40, True),
        ("a" * 41, False),
        ("1a", False),
        ("a.b", False),
        ("a-", False),
    ],
)
def test_a_name_leaves_room_for_those_of_the_pods(jobs: Jobs, name: str, accepted: bool) -> None:
    if accepted:
        assert jobs.create(SMALL, name)["metadata"]["name"] == name
    else:
        words = (
            "a job's name has at most 40 characters, lower-case letters, digits and dashes, beginning with"
        )
        assert any(words in message for message in refused(jobs, {}, name)["metadata.name"])


@pytest.mark.parametrize("changes", RIGHT)
def test_what_keeps_the_rules_is_taken_by_server_and_model_alike(jobs: Jobs, changes: dict[str, Any]) -> None:
    spec = with_fields(SMALL, changes)
    made = jobs.create(spec, strict=True)
    given = {"apiVersion": made["apiVersion"], "kind": made["kind"], "metadata": {"name": "tried"}}
    filled = DartESJob.model_validate({**given, "spec": made["spec"]})
    assert filled == DartESJob.model_validate({**given, "spec": spec})


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_examples_are_taken_as_they_are_and_filled_in_as_the_models_do(jobs: Jobs, example: Path) -> None:
    data: Any = read_yaml(example.read_text()).value
    made = jobs.create(data["spec"], strict=True)
    filled = DartESJob.model_validate({**data, "spec": made["spec"]})
    assert filled == load_job(example).job
    # Nothing was left to fill in but what means "not set".
    whole = filled.model_dump(mode="json", by_alias=True, exclude_none=True)["spec"]
    assert _without_empty(whole) == _without_empty(made["spec"])


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        parts = {key: _without_empty(inner) for key, inner in value.items()}
        return {key: inner for key, inner in parts.items() if inner not in ({}, [], "")}
    if isinstance(value, list):
        return [_without_empty(inner) for inner in value]
    return value


def test_an_unknown_field_is_refused_by_strict_validation_which_kubectl_asks_for(jobs: Jobs) -> None:
    with pytest.raises(ApiException) as raised:
        jobs.create(with_fields(SMALL, {"es.populationsize": 3}), strict=True)
    assert 'unknown field \\"spec.es.populationsize\\"' in raised.value.body


def test_null_means_not_set(jobs: Jobs) -> None:
    spec = {**with_fields(SMALL, {}), "dart": None, "suspend": None}
    assert jobs.create(spec)["spec"]["dart"]["emaDecay"] == 0.7
