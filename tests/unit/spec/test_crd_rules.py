"""The CRD's rules cover all that the models say of changes and between fields."""

import re
from typing import Any

import pytest

from dartes.spec import (
    base,
    checkpoint,
    dart,
    dataset,
    es,
    evaluation,
    export,
    generation,
    job,
    model,
    policies,
    roles,
    task,
)
from dartes.spec.base import UPWARDS_KEY, SpecModel
from dartes.spec.crd import definition
from dartes.spec.crd.convert import spec_node
from dartes.spec.crd.mutability import mutability_rules
from dartes.spec.crd.rules import BETWEEN_FIELDS
from dartes.spec.fields import FieldEntry, entries

from .structural_kit import nodes

MODULES = (
    *(base, checkpoint, dart, dataset, es, evaluation, export, generation, job, model, policies, roles, task),
)
RULES = {rule.field: rule for rule in mutability_rules(spec_node())}
FIELDS = [entry for entry in entries() if entry.path[0] == "spec" and not entry.is_object]
DEFINITION: Any = definition()
SCHEMA = DEFINITION["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def rules_over(entry: FieldEntry) -> list[str]:
    return [field for field in RULES if f"{entry.text}.".replace("[].", ".").startswith(f"{field}.")]


def test_every_model_with_rules_has_them_in_the_schema_too() -> None:
    with_rules = {
        found.__name__
        for module in MODULES
        for found in vars(module).values()
        if isinstance(found, type) and issubclass(found, SpecModel) and "rules" in vars(found)
    }
    # Those of a pod's placement are about Kubernetes' own types, which carry theirs.
    assert with_rules - {"SpecModel", "PodPlacement"} == set(BETWEEN_FIELDS)


def test_every_rule_stands_in_the_schema() -> None:
    written = {rule["rule"] for _, node in nodes(SCHEMA) for rule in node.get("x-kubernetes-validations", ())}
    for rules in BETWEEN_FIELDS.values():
        assert {rule.expression for rule in rules} <= written
    assert {rule.expression for rule in RULES.values()} <= written


@pytest.mark.parametrize("entry", FIELDS, ids=lambda entry: entry.text)
def test_a_field_that_may_not_change_freely_is_under_one_rule_and_no_other_is(entry: FieldEntry) -> None:
    if entry.mutability == "M" or entry.name == "podTemplate":
        assert rules_over(entry) == []
        return
    (field,) = rules_over(entry)
    assert ("oldSelf.spec.suspend" in RULES[field].expression) == (entry.mutability == "S")


def test_what_may_only_grow_is_compared_by_size() -> None:
    growing = {entry.text for entry in FIELDS if entry.schema.get(UPWARDS_KEY)}
    assert growing == {"spec.es.iterations", "spec.es.epochs"}
    for field, rule in RULES.items():
        assert (f"self.{field} > oldSelf.{field}" in rule.expression) == (field in growing)


def test_presence_is_compared_on_both_sides_wherever_a_field_may_be_missing() -> None:
    present = {where for where, node in nodes(SCHEMA) if "default" in node}
    required = {f"{where}.{name}" for where, node in nodes(SCHEMA) for name in node.get("required", ())}
    for field, rule in RULES.items():
        both_sides = f"has(self.{field}) == has(oldSelf.{field})"
        assert (both_sides in rule.expression) == (f".{field}" not in present | required)


def test_no_rule_binds_before_the_job_has_started() -> None:
    for rule in RULES.values():
        assert rule.expression.startswith("!has(oldSelf.status) || !has(oldSelf.status.startTime) || ")


def test_every_message_says_what_to_write_instead() -> None:
    for where, node in nodes(SCHEMA):
        for rule in node.get("x-kubernetes-validations", ()):
            assert re.search(r"\b(write|set|lower|remove|give|use|mount|needs)\b", rule["message"]), where
            assert len(rule["message"]) <= 250, where
