"""`summary.json`: what a run achieved, what it cost and what identifies its result."""

import json
import os
from pathlib import Path
from typing import Any

from dartes.difficulty import AlgorithmSettings
from dartes.state import RunReader


def summarise(reader: RunReader, name: str, settings: AlgorithmSettings) -> dict[str, Any]:
    """The summary of what is committed so far, as a JSON object.

    `evaluations` has, per set, the accuracy of the base model and of the newest evaluated weights with their
    binomial 95 % intervals (Wilson score), and every value in between. Seconds by part are sums over workers.
    """
    iterations = list(reader.iterations())
    evaluations: dict[str, Any] = {}
    for stored in reader.evaluations():
        passed, count = int(stored.passed.sum()), len(stored.passed)
        point = {
            "iteration": stored.iteration,
            "accuracy": stored.accuracy,
            "passed": passed,
            "problems": count,
            "interval95": list(wilson_interval(passed, count)),
        }
        entry = evaluations.setdefault(stored.set_name, {"before": None, "after": None, "all": []})
        entry["all"].append(point)
        entry["after"] = point
        if stored.iteration == 0:
            entry["before"] = point
    parts: dict[str, float] = {}
    totals = {"generated_tokens": 0, "prompt_tokens": 0, "wire_bytes": 0}
    for it in iterations:
        for part, value in it.beside["seconds_by_part"].items():
            parts[part] = parts.get(part, 0.0) + value
        for key in totals:
            totals[key] += int(it.beside[key])
    last = reader.last_row_hash()
    return {
        "name": name,
        "status": reader.meta_text("status") or "running",
        "iterations": len(iterations),
        "members": settings.population_size * len(iterations),
        "evaluations": evaluations,
        "seconds": sum(float(it.beside["seconds"]) for it in iterations),
        "seconds_by_part": parts,
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


def wilson_interval(passed: int, count: int, z: float = 1.959963984540054) -> tuple[float, float]:
    """The Wilson score interval of a share (Wilson 1927); z = 1.96 gives 95 %."""
    if count == 0:
        return 0.0, 1.0
    share = passed / count
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * ((share * (1 - share) / count + z * z / (4 * count * count)) ** 0.5)
    return max(0.0, centre - half), min(1.0, centre + half)
