"""`summary.json`: what a run achieved, what it cost and what identifies its result."""

import json
import os
from pathlib import Path
from typing import Any

from dartes.difficulty import AlgorithmSettings
from dartes.report.evaluations import best_iteration, evaluation_entries
from dartes.state import RunReader


def summarise(
    reader: RunReader, name: str, settings: AlgorithmSettings, first_set: str | None
) -> dict[str, Any]:
    """The summary of what is committed so far, as a JSON object.

    `evaluations` and `holdouts` have, per set, what `evaluation_entries` says: the base model, the newest
    and the best evaluated weights, every value in between, and the change. `best` names the iteration with
    the highest accuracy on `first_set`, null without an evaluation. Seconds by part are sums over workers;
    `tail_seconds` and `alone_seconds` are shares of `generate` in which few of a batch's sequences were left,
    and one.
    """
    iterations = list(reader.iterations())
    stored = reader.evaluations()
    evaluations, holdouts = evaluation_entries(stored, first_set)
    parts: dict[str, float] = {}
    tail = {"tail_seconds": 0.0, "alone_seconds": 0.0}
    totals = {"generated_tokens": 0, "prompt_tokens": 0, "wire_bytes": 0}
    for it in iterations:
        for part, value in it.beside["seconds_by_part"].items():
            parts[part] = parts.get(part, 0.0) + value
        for key in totals:
            totals[key] += int(it.beside[key])
        for share in tail:  # stores of earlier versions have none
            tail[share] += float(it.beside.get(share, 0.0))
    last = reader.last_row_hash()
    return {
        "name": name,
        "status": reader.meta_text("status") or "running",
        "iterations": len(iterations),
        "members": settings.population_size * len(iterations),
        "best": best_iteration(stored, first_set),
        "evaluations": evaluations,
        "holdouts": holdouts,
        "seconds": sum(float(it.beside["seconds"]) for it in iterations),
        "seconds_by_part": parts,
        **tail,
        **totals,
        "nondeterministic_reports": sum(int(it.beside["nondeterministic_reports"]) for it in iterations),
        "journal_hash": None if last is None else last.hex(),
        "weight_digest": reader.meta_text("weight_digest"),
        "base_digest": reader.meta_text("base_digest"),
        "engine_fingerprints": json.loads(reader.meta_text("fingerprints") or "[]"),
        "incarnations": int(reader.meta_text("starts") or 0),
    }


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write JSON to a temporary file, then rename: a reader sees the old one or the new one."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    os.replace(partial, path)  # noqa: PTH105 - the atomic rename is the point
