"""Schema and models take the same values: each field is tried with values at and beyond its bounds.

Kubernetes' own types are left out: the models carry them as they are.
"""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from pydantic import ValidationError

from dartes.spec import DartESJob
from dartes.spec.base import CORE_TYPE_KEY, RULE_ERROR
from dartes.spec.crd import definition
from dartes.spec.fields import entry_paths
from dartes.spec.messages import KEY_MARK
from dartes.spec.source import SOURCE_ERROR

from .conftest import changed
from .structural_kit import Node, complaints, defaulted, nodes

pytestmark = pytest.mark.slow  # not for `make test-fast`

DEFINITION: Any = definition()
SCHEMA: Node = DEFINITION["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
CORE = tuple(f".{entry.text}" for entry in entry_paths().values() if CORE_TYPE_KEY in entry.schema)
# The same models as spec.dataset and spec.task.
AGAIN = (
    ".spec.evaluation.sets[].dataset.",
    ".spec.evaluation.sets[].task.",
    ".spec.evaluation.holdouts[].",
    ".spec.dataset.stages[].task.",
    ".spec.dataset.mix[].task.",
)
PATHS = [
    where
    for where, _ in nodes(SCHEMA)
    if where.startswith(".spec.") and "{}" not in where and not where.startswith((*CORE, *AGAIN))
]
NODES = dict(nodes(SCHEMA))
# What the server checks by a rule in CEL and not by the schema alone.
BY_RULE = {RULE_ERROR, SOURCE_ERROR, "dartes_iteration"}
SAMPLES: tuple[Any, ...] = (
    *(True, False, 0, 1, -1, 2.5, 1.0, 1e-12, 1e300, 2**31, 2**63 - 1, 2**63, "", "x", " ", "0", "1"),
    *("500m", "20Gi", "-1Gi", "1.5", "lots", "None", "none", "Float32", "float32", "Best", "Last", "best"),
    *("python", "module:function", "a" * 63, "a" * 64, "a" * 1025, "x" * 20_000, "hf://a/b", "ftp://x"),
    *([], {}, ["x"], [""], [1], ["x"] * 17, [{}], {"a": "b"}, {"a": 1}, {"a": []}, {"a": ["b"]}),
    *({"name": "x"}, {"name": ""}, {"claimName": "x"}, {"source": "x"}, {"kind": "addition"}, {"": "x"}),
    *({f"k{n}": "v" for n in range(40)}, {"a" * 400: "b"}, {"unknown": 1}),
)


def samples(node: Node) -> Iterator[Any]:
    yield from SAMPLES
    for bound in ("minimum", "maximum"):
        if bound in node:
            yield from (node[bound] - 1, node[bound], node[bound] + 1)
    for bound in ("minLength", "maxLength"):
        if bound in node:
            yield from ("a" * (node[bound] - 1), "a" * node[bound], "a" * (node[bound] + 1))
    yield from node.get("enum", ())


def with_value(path: str, value: Any) -> Any:
    """The small job with a value at a path, and one item in each list on the way to it."""
    data: Any = deepcopy(changed({}))
    place: Any = data
    *parents, last = path.replace("[]", ".[]").strip(".").split(".")
    for name, following in zip(parents, [*parents[1:], last], strict=True):
        fresh: Any = [] if following == "[]" else {}
        if name == "[]":
            place.append(fresh)
            place = fresh
        else:
            if not isinstance(place.get(name), type(fresh)):
                place[name] = fresh
            place = place[name]
    if last == "[]":
        place.append(value)
    else:
        place[last] = value
    return data


def errors_of(data: Any) -> list[Any]:
    try:
        DartESJob.model_validate(data)
    except ValidationError as error:
        return list(error.errors())
    return []


@pytest.mark.parametrize("path", PATHS)
def test_schema_and_model_take_the_same_values(path: str) -> None:
    for value in samples(NODES[path]):
        data = with_value(path, value)
        refused = list(complaints(SCHEMA, defaulted(SCHEMA, data)))
        errors = errors_of(data)
        beyond = [e for e in errors if e["type"] not in BY_RULE and KEY_MARK not in e["loc"]]
        assert bool(refused) == bool(beyond) or (refused and not beyond and errors), (
            f"{value!r}: schema {refused}, model {beyond}"
        )


def test_the_comparison_sees_both_verdicts() -> None:
    verdicts = {bool(errors_of(with_value(".spec.es.sigma", value))) for value in samples({})}
    assert verdicts == {True, False}
