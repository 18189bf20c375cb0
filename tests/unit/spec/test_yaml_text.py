"""YAML 1.2's core schema, and texts that come back as they were."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dartes.spec.yaml_text import core_scalar, read_yaml, write_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("-1.5E+2", -150.0),
        ("012", 12),
        ("0o17", 15),
        ("0xff", 255),
        ("-7", -7),
        ("true", True),
        ("False", False),
        ("yes", "yes"),
        ("on", "on"),
        ("null", None),
        ("~", None),
        ("", None),
        ("1_000", "1_000"),
        ("2001-01-01", "2001-01-01"),
        ("12:30", "12:30"),
        ("1e", "1e"),
        (".", "."),
        ("-.inf", -math.inf),
    ],
)
def test_a_plain_scalar_means_what_the_core_schema_says(text: str, value: object) -> None:
    meaning = core_scalar(text)
    assert meaning == value
    assert type(meaning) is type(value)


def test_a_quoted_scalar_is_a_text() -> None:
    assert read_yaml("a: '1'\nb: \"true\"\nc: |\n  1\n").value == {"a": "1", "b": "true", "c": "1\n"}


def test_lines_are_those_of_the_fields() -> None:
    document = read_yaml("a: 1\nb:\n  - c: 2\n    d: &x {e: 1}\n  - *x\n")
    assert document.line_of(("a",)) == 1
    assert document.line_of(("b",)) == 2
    assert document.line_of(("b", 0, "d", "e")) == 4
    assert document.line_of(("b", 1)) == 5
    assert document.line_of(("b", 0, "missing", "deeper")) == 3


def test_an_alias_stands_for_its_anchor() -> None:
    assert read_yaml("a: &x {b: [1]}\nc: *x\n").value == {"a": {"b": [1]}, "c": {"b": [1]}}


_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    | st.from_regex(r"[-+]?[0-9.]{1,4}(e[0-9])?|true|~|null|0x1f|[|>&*!%@`]", fullmatch=True),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(value=st.dictionaries(st.sampled_from(["a", "b", "1", "true"]), _values, max_size=3))
def test_whatever_is_written_is_read_back(value: dict[str, object]) -> None:
    assert read_yaml(write_yaml(value)).value == value  # type: ignore[arg-type]
