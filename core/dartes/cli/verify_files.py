"""What `dartes verify` compares in the files beside the store: journal, metrics and summary.

Each function yields a sentence per difference. Only complete runs must have whole files: one that is under
way, or whose store does not make sense, is compared as far as both sides go.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dartes.difficulty import AlgorithmSettings
from dartes.journal import JournalError, JournalHeader, read_good_prefix
from dartes.report.summary import summarise
from dartes.spec import load_job
from dartes.state import RunFolder, RunReader

TOLERANCE = 1e-9
"""Metrics are means for people, not bits: another machine may add in another order."""


def journal_findings(
    folder: RunFolder, header: JournalHeader, hashes: Sequence[bytes], complete: bool
) -> Iterator[str]:
    """Compare `journal.dartes` with the header and the hashes (header first) that the store leads to."""
    try:
        good = read_good_prefix(folder.journal)
    except JournalError as error:
        yield str(error)
        return
    if good.journal.header.hash() != header.hash():
        yield f"{folder.journal}: its header is of another run than the store"
        return
    if good.lost is not None:
        yield good.lost
    shared = min(len(good.journal.rows), len(hashes) - 1)
    for iteration in range(shared):
        if good.journal.hashes[iteration] != hashes[iteration + 1]:
            yield f"{folder.journal}: iteration {iteration} is another row than the store's"
            return
    if complete and good.lost is None and len(good.journal.rows) != len(hashes) - 1:
        yield f"{folder.journal}: {len(good.journal.rows)} iterations, the store has {len(hashes) - 1}"


def metrics_findings(
    folder: RunFolder, expected: Sequence[Mapping[str, Any]], complete: bool
) -> Iterator[str]:
    """Compare `metrics.jsonl`, line by line, with what the store leads to."""
    try:
        lines = folder.metrics.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        yield f"{folder.metrics}: can't be read ({error})"
        return
    for number, (line, wanted) in enumerate(zip(lines, expected, strict=False), start=1):
        difference = _difference(line, wanted)
        if difference is not None:
            yield f"{folder.metrics}: line {number} (iteration {wanted['iteration']}): {difference}"
    if complete and len(lines) != len(expected):
        yield f"{folder.metrics}: {len(lines)} lines, the store has {len(expected)} iterations"


def summary_findings(folder: RunFolder, reader: RunReader, settings: AlgorithmSettings) -> Iterator[str]:
    """Compare `summary.json`, which a finished run has, with what the store leads to."""
    if reader.meta_text("status") != "done":
        return
    try:
        text = folder.summary.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        yield f"{folder.summary}: can't be read ({error})"
        return
    sets = load_job(folder.job).job.spec.evaluation.sets
    first_set = sets[0].name if sets else None
    expected = summarise(reader, reader.meta_text("name") or "", settings, first_set)
    difference = _difference(text, expected)
    if difference is not None:
        yield f"{folder.summary}: {difference}"


def _difference(text: str, expected: Mapping[str, Any]) -> str | None:
    """The first key at which a JSON object is another one, in words."""
    try:
        found = json.loads(text)
    except ValueError as error:
        return f"not JSON ({error})"
    if not isinstance(found, dict):
        return "not an object"
    for key in (*expected, *(key for key in found if key not in expected)):
        if not _alike(found.get(key), expected.get(key)):
            return f"{key} is {_short(found.get(key))}, the store gives {_short(expected.get(key))}"
    return None


def _alike(found: Any, expected: Any) -> bool:
    if isinstance(expected, Mapping):
        return (
            isinstance(found, dict)
            and found.keys() == expected.keys()
            and all(_alike(found[key], expected[key]) for key in expected)
        )
    if isinstance(expected, list):
        return isinstance(found, list) and len(found) == len(expected) and all(map(_alike, found, expected))
    if isinstance(expected, float) and isinstance(found, int | float):
        return math.isclose(found, expected, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return type(found) is type(expected) and bool(found == expected)


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
