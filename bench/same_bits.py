"""Does a run end with the same bits, whatever happens to it? The built-in task, disturbed in every way.

Prints a table and writes `bench/results/same_bits.json`; exit code 1 where any run differs from the
undisturbed one. The disturbances are those of `tests/integration`, on the built-in model with greedy answers,
and again with the test engine whose answers hash their group and the weights.

Usage: python -m bench.same_bits
"""

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from tokenizers import Tokenizer

from bench.common import Row, report
from dartes.builtin import builtin_model
from tests.integration.harness import EngineHook, run_to_end
from tests.integration.outcome import Identity, byte_count, group_counts, identity, summary_of
from tests.integration.variants import (
    FAULT_POINTS,
    Stage,
    Variant,
    coordinator_killed_at,
    coordinator_killed_at_random,
    everything_killed,
    slices,
    worker_killed,
    workers,
)

ITERATIONS: Final = 8
MEMBERS: Final = 8
BATCH: Final = 64
SLICES: Final = 4
KILLS: Final = 10
HEX_SHOWN: Final = 16

SPEC: Final[dict[str, Any]] = {
    "model": {"source": "builtin://addition", "dtype": "Float32"},
    "dataset": {"source": "builtin://addition", "split": "train", "maxProblems": 1000},
    "task": {"kind": "addition"},
    "generation": {"maxNewTokens": 8, "tokenBudget": 224},
    "es": {
        "populationSize": MEMBERS,
        "sigma": 0.003,
        "learningRate": 0.003,
        "batchSize": BATCH,
        "iterations": ITERATIONS,
        "seed": 1,
    },
    "evaluation": {
        "everyIterations": 4,
        "sets": [
            {
                "name": "held-out",
                "dataset": {"source": "builtin://addition", "split": "test", "maxProblems": 128},
            }
        ],
    },
    "checkpoint": {"weights": {"everyIterations": 3}},
    "workers": {"replicas": 2, "gpusPerWorker": 0},
}

VARIANTS: Final[Sequence[Variant]] = (
    workers(1),
    workers(4),
    slices(SLICES),
    worker_killed(),
    *(coordinator_killed_at(point, seed=seed) for seed, point in enumerate(FAULT_POINTS)),
    coordinator_killed_at_random(KILLS, seed=1),
    everything_killed(),
)


def main() -> int:
    """Play everything; 0 where all runs agree."""
    started = time.monotonic()
    tokenizer = Tokenizer.from_file(str(builtin_model("addition") / "tokenizer.json"))
    rows: list[Row] = []
    references: dict[str, dict[str, str]] = {}
    fewest_groups = sys.maxsize
    with tempfile.TemporaryDirectory() as root:
        for name, engine, count_tokens in (
            ("transformers", EngineHook.REAL, lambda text: len(tokenizer.encode(text).ids)),
            ("hashing", EngineHook.HASHING, byte_count),
        ):
            stage = Stage(SPEC, engine, Path(root) / name, groups=0)
            folder = stage.root / "reference"
            workers(2).play(stage, folder)
            reference = identity(folder)
            references[name] = asdict(reference)
            rows.append(row_of(name, "undisturbed: 2 workers, 1 slice", reference, reference))
            counts = group_counts(folder, count_tokens)
            fewest_groups = min(fewest_groups, *counts)
            rows += played(replace(stage, groups=MEMBERS * sum(counts)), name, reference)
        control = misgrouped(stage) != reference
    differing = sum(not row["equal"] for row in rows)
    reached = differing == 0 and control and fewest_groups >= SLICES
    report(
        "same_bits",
        rows,
        {
            "job": f"built-in task, {ITERATIONS} iterations, {MEMBERS} members, batch {BATCH}",
            "fewest groups in a batch": f"{fewest_groups} (at least {SLICES}, so that no slice is empty)",
            "to reach": "every run equal to the undisturbed one of its engine",
            "control": f"answers grouped in another way {'differ' if control else 'are THE SAME'}",
            "differing": differing,
            "reached": reached,
            "reference": references,
            "seconds": round(time.monotonic() - started, 1),
        },
    )
    return 0 if reached else 1


def played(stage: Stage, engine: str, reference: Identity) -> Iterator[Row]:
    """A row for each variant; one that fails is a row too."""
    for number, variant in enumerate(VARIANTS):
        folder = stage.root / f"run-{number}"
        try:
            variant.play(stage, folder)
            yield row_of(
                engine, variant.name, identity(folder), reference, summary_of(folder)["incarnations"]
            )
        except AssertionError as error:
            print(f"{engine}, {variant.name}: {error}", file=sys.stderr)
            yield {"engine": engine, "variant": variant.name, "equal": False}


def misgrouped(stage: Stage) -> Identity:
    """What comes out where the hashing engine is given other groups: the comparison must notice."""
    folder = stage.root / "misgrouped"
    run_to_end(stage.job(folder.name), folder, engine=EngineHook.MISGROUPING)
    return identity(folder)


def row_of(engine: str, variant: str, found: Identity, reference: Identity, coordinators: int = 1) -> Row:
    """One line of the table; digests are cut for people, compared whole."""
    row: Row = {
        "engine": engine,
        "variant": variant,
        "coordinators": coordinators,
        "journal hash": found.journal_hash[:HEX_SHOWN],
        "difficulty state": found.difficulty_digest[:HEX_SHOWN],
        "weight digest": found.weight_digest[:HEX_SHOWN],
        "equal": found == reference,
    }
    print(f"{engine}: {variant}: {'equal' if row['equal'] else 'DIFFERS'}", file=sys.stderr, flush=True)
    return row


if __name__ == "__main__":
    sys.exit(main())
