"""What came out of a run: the digests that two runs of one job must share, and its summary.

Reads run folders only; difficulty state and batches are recomputed from the stored bits.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dartes.cli.recompute import retold
from dartes.data import load_dataset
from dartes.state import RunFolder
from dartes.tasks.registry import task_named
from dartes_worker.groups import generation_groups


@dataclass(frozen=True)
class Identity:
    """What two runs of one job must have in common, to the last bit."""

    journal_hash: str
    difficulty_digest: str
    weight_digest: str
    journal_file: str
    """SHA-256 of the portable journal."""
    evaluations: str
    """SHA-256 over the answers of all evaluations."""


def identity(folder: Path) -> Identity:
    """The identity of a finished run; the difficulty state is recomputed from the stored bits."""
    run_folder = RunFolder(folder)
    summary = json.loads(run_folder.summary.read_text(encoding="utf-8"))
    assert summary["status"] == "done", f"{folder}: not finished"
    with retold(run_folder) as run:
        state = run.new_state()
        hashes = [decision.row_hash.hex() for decision in run.decisions(state)]
        answers = [
            (e.iteration, e.set_name, e.passed.tobytes().hex(), e.truncated.tobytes().hex())
            for e in run.reader.evaluations()
        ]
    assert hashes[-1] == summary["journal_hash"]
    recorded = [json.loads(line) for line in run_folder.metrics.read_text(encoding="utf-8").splitlines()]
    assert [line["row_hash"] for line in recorded] == hashes, f"{folder}: metrics.jsonl has gaps or repeats"
    return Identity(
        journal_hash=summary["journal_hash"],
        difficulty_digest=state.digest(),
        weight_digest=summary["weight_digest"],
        journal_file=hashlib.sha256(run_folder.journal.read_bytes()).hexdigest(),
        evaluations=hashlib.sha256(repr(answers).encode()).hexdigest(),
    )


def byte_count(text: str) -> int:
    """Tokens of a prompt as the hashing engine counts them."""
    return len(text.encode())


def group_counts(folder: Path, count_tokens: Callable[[str], int] = byte_count) -> list[int]:
    """Generation groups of each iteration's batch, for tasks with raw prompts."""
    with retold(RunFolder(folder)) as run:
        rows = load_dataset(run.spec.dataset, folder).rows
        task, limits = task_named(run.spec.task.kind).from_spec(run.spec.task), run.spec.generation
        lengths = [count_tokens(str(task.prompt(row))) for row in rows]
        return [
            len(
                generation_groups(
                    [lengths[problem] for problem in decision.batch.problems],
                    limits.max_new_tokens,
                    limits.token_budget,
                )
            )
            for decision in run.decisions(run.new_state())
        ]


def summary_of(folder: Path) -> dict[str, Any]:
    """`summary.json` of a run."""
    summary: dict[str, Any] = json.loads(RunFolder(folder).summary.read_text(encoding="utf-8"))
    return summary
