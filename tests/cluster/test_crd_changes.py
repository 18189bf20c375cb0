"""What of a job may change before its start, once it has started and while it is suspended.

No operator is needed: whether a job has started is what its status says.
"""

from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from dartes.spec.crd.convert import spec_node
from dartes.spec.crd.mutability import mutability_rules
from dartes.spec.fields import entry_paths
from dartes.spec.yaml_text import write_yaml

from .broken_jobs import SET, STAGE
from .changed_jobs import FREE, OTHER, RICH, WITHOUT_ANOTHER_VALUE
from .held import HeldCluster
from .stored_jobs import (
    SMALL,
    Jobs,
    Object,
    apply_definition,
    merged,
    nested,
    refusals,
    value_at,
    with_fields,
)

RULES = {rule.field: rule for rule in mutability_rules(spec_node())}
OPTIONAL = [
    path
    for path in OTHER
    if f"has(self.spec.{path})" in RULES[f"spec.{path}"].expression and path != "es.iterations"
]
SIMPLE = [path for path, value in FREE.items() if not isinstance(value, dict)]


@pytest.fixture(scope="module")
def jobs(cluster: HeldCluster, module_namespace: str) -> Jobs:
    """The jobs of a namespace of a cluster that has the present definition."""
    apply_definition(cluster.client)
    return Jobs(cluster.client, module_namespace)


@pytest.fixture(scope="module")
def stored(jobs: Jobs) -> dict[str, str]:
    """Names of stored jobs: `new` has not started, the others have, and some are suspended."""
    for name, spec in (("small", SMALL), ("rich", RICH)):
        for state in ("new", "started", "suspended"):
            jobs.create(with_fields(spec, {"suspend": state == "suspended"}), f"{state}-{name}", dry=False)
            if state != "new":
                jobs.patch_status(f"{state}-{name}", {"startTime": "2026-01-01T00:00:00Z"})
    return {
        "new": "new-rich",
        "started": "started-rich",
        "started-small": "started-small",
        "suspended": "suspended-rich",
        "suspended-small": "suspended-small",
    }


def says(error: ApiException, field: str) -> bool:
    """Whether the server found the words of a field's rule on changes."""
    return any(RULES[field].message in words for words in refusals(error).get(field, ()))


def refused_by_rule(jobs: Jobs, name: str, changes: dict[str, Any]) -> set[str]:
    """Change all of this at once; returns the paths that were refused, each in the words of its own rule."""
    with pytest.raises(ApiException) as raised:
        jobs.patch(name, merged(nested(path, value) for path, value in changes.items()))
    found = {field.removeprefix("spec.") for field in refusals(raised.value)}
    assert all(says(raised.value, f"spec.{path}") for path in found), raised.value.body
    return found


def mutability(path: str) -> str:
    """When a field may change, as the models say it."""
    return entry_paths()[("spec", *path.split("."))].mutability


def test_every_rule_on_changes_is_tried() -> None:
    assert {f"spec.{path}" for path in OTHER.keys() | WITHOUT_ANOTHER_VALUE} == set(RULES)


def test_before_the_start_everything_may_change(jobs: Jobs, stored: dict[str, str]) -> None:
    jobs.patch(stored["new"], merged(nested(path, value) for path, value in OTHER.items()))


def test_once_started_each_change_is_refused_and_the_message_says_what_to_do(
    jobs: Jobs, stored: dict[str, str]
) -> None:
    assert refused_by_rule(jobs, stored["started"], OTHER) == set(OTHER)


def test_once_started_a_field_may_neither_appear_nor_vanish(jobs: Jobs, stored: dict[str, str]) -> None:
    present = {path: value_at(RICH, path) for path in OPTIONAL}
    assert refused_by_rule(jobs, stored["started-small"], present) == set(OPTIONAL)
    assert refused_by_rule(jobs, stored["started"], dict.fromkeys(OPTIONAL)) == set(OPTIONAL)


def test_a_suspended_job_may_change_what_does_not_decide_its_result(
    jobs: Jobs, stored: dict[str, str]
) -> None:
    fixed = {path for path in OTHER if mutability(path) == "I"}
    assert {"es.sigma", "model.source", "checkpoint.volume", "workers.threads"} <= fixed
    assert refused_by_rule(jobs, stored["suspended"], OTHER) == fixed
    jobs.patch(stored["suspended"], merged(nested(path, OTHER[path]) for path in OTHER if path not in fixed))


def test_a_field_may_appear_and_vanish_while_a_job_is_suspended(jobs: Jobs, stored: dict[str, str]) -> None:
    free = [path for path in OPTIONAL if mutability(path) == "S"]
    jobs.patch(stored["suspended"], merged(nested(path, None) for path in free))
    jobs.patch(stored["suspended-small"], merged(nested(path, value_at(RICH, path)) for path in free))


def test_a_change_may_come_together_with_the_resumption(jobs: Jobs, stored: dict[str, str]) -> None:
    jobs.patch(stored["suspended"], {"suspend": False, "workers": {"image": "mine:2"}})


def test_a_change_may_not_come_together_with_the_suspension(jobs: Jobs, stored: dict[str, str]) -> None:
    with pytest.raises(ApiException) as raised:
        jobs.patch(stored["started"], {"suspend": True, "workers": {"image": "mine:2"}})
    assert list(refusals(raised.value)) == ["spec.workers.image"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"es": {"iterations": 19}}, "spec.es.iterations"),
        ({"es": {"iterations": None, "epochs": 5}}, "spec.es.epochs"),
    ],
)
def test_the_length_of_a_run_only_grows_and_keeps_its_unit(
    jobs: Jobs, stored: dict[str, str], changes: Object, field: str
) -> None:
    with pytest.raises(ApiException) as raised:
        jobs.patch(stored["suspended"], changes)
    assert says(raised.value, field)
    jobs.patch(stored["suspended"], {"es": {"iterations": 21}})


@pytest.mark.parametrize("state", ["started", "suspended"])
def test_what_is_free_may_change_at_any_time(jobs: Jobs, stored: dict[str, str], state: str) -> None:
    made = jobs.patch(stored[state], merged(nested(path, value) for path, value in FREE.items()))["spec"]
    assert {path: value_at(made, path) for path in SIMPLE} == {path: FREE[path] for path in SIMPLE}


def test_what_is_the_same_is_no_change(jobs: Jobs, stored: dict[str, str]) -> None:
    jobs.patch(stored["started"], RICH)


def test_several_changes_are_refused_at_once_each_by_its_field(jobs: Jobs, stored: dict[str, str]) -> None:
    with pytest.raises(ApiException) as raised:
        jobs.patch(stored["started"], {"es": {"sigma": 0.1, "seed": 5}, "queueName": "x", "suspend": True})
    assert sorted(refusals(raised.value)) == ["spec.es.seed", "spec.es.sigma", "spec.queueName"]


def test_the_largest_job_that_can_be_stored_stays_within_the_budget_of_the_rules(jobs: Jobs) -> None:
    texts: Object = {f"key-{n}": "x" * 200 for n in range(64)}
    role: Object = {
        "env": [{"name": f"A{n}", "value": "x" * 4_000} for n in range(64)],
        "annotations": texts,
        "affinity": {
            kind: {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "zone", "labelSelector": {"matchLabels": {f"k{n}": "x" * 60}}}
                    for n in range(16)
                ]
            }
            for kind in ("podAffinity", "podAntiAffinity")
        },
        "volumes": [
            {"name": f"v{n}", "csi": {"driver": "d", "volumeAttributes": texts_of(32)}} for n in range(32)
        ],
    }
    sets = [
        SET | {"name": f"s{n}", "task": {"kind": "addition", "prompt": "x" * 16_000, "options": texts}}
        for n in range(16)
    ]
    spec = with_fields(
        SMALL,
        {
            "dataset": {"stages": [STAGE | {"epochs": 1, "columns": texts_of(32)} for _ in range(16)]},
            "es": {},
            "task.system": "x" * 16_000,
            "evaluation.sets": sets,
            "coordinator": role,
            "workers": role,
        },
    )
    assert len(write_yaml(spec)) > 1_000_000
    jobs.create(spec, "large", dry=False)
    jobs.patch_status("large", {"startTime": "2026-01-01T00:00:00Z"})
    jobs.patch("large", {"workers": {"replicas": 3}})
    assert refused_by_rule(jobs, "large", {"coordinator.env": role["env"][:-1]}) == {"coordinator.env"}


def texts_of(count: int) -> dict[str, str]:
    return {f"key-{n}": "x" * 100 for n in range(count)}
