"""docs/install.md says what the chart does: its table holds every value with its default."""

import json
import re
from collections.abc import Iterator

from .rendering import CHART, ROOT, Object, strict_documents

ROW = re.compile(r"^\| `(?P<key>[A-Za-z.]+)` \| (?:`(?P<default>[^`]*)`)? ?\|", re.MULTILINE)


def leaves(values: Object, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every value by its dotted path, with its default as the table writes it."""
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value if isinstance(value, str) else json.dumps(value)


def test_the_table_of_values_is_complete_and_its_defaults_are_right() -> None:
    page = (ROOT / "docs" / "install.md").read_text().partition("## Values")[2]
    (values,) = strict_documents((CHART / "values.yaml").read_text())
    assert {row["key"]: row["default"] or "" for row in ROW.finditer(page)} == dict(leaves(values))
