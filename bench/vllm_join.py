"""How long a worker that joins at iteration 1,000 takes to catch up, beside a plain re-read of the weights.

The worker has its engine; what it lacks is the weights. It loads the newest snapshot, applies the iterations
committed since, serves the parent, checks what the engine reads and attests. A plain re-read does the same
with the base model's files and no iterations; so does a worker without snapshots, with every iteration there
has been: some of them are measured, and the time is stated per iteration. It uses all of the machine.

Usage: python -m bench.vllm_join [--smollm2 MODEL_DIR] [--quick]
"""

import argparse
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.common import Figure, Row, report
from bench.runs_support import NO_MODEL, add_model_option
from bench.vllm_support import MIB, SERVED, Load, Worker, taking_turns, write_job
from dartes.checkpoint import open_checkpoint
from dartes.ids import Iteration
from dartes.journal import JournalRow

ITERATION: Final = 1_000
SNAPSHOT: Final = 950
FROM_THE_START: Final = 20
"""Iterations applied to the base model; without snapshots it would be all of them."""
MEMBERS: Final = 30
ALPHA: Final = 5e-4


@dataclass(frozen=True)
class Steps:
    """Seconds of getting hold of weights at some iteration."""

    read: float
    apply: float
    serve: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.read + self.apply + self.serve


def rows_between(first: int, end: int) -> list[JournalRow]:
    """Committed iterations of 30 members each, with coefficients of the size that a real run has."""
    rows = []
    for iteration in range(first, end):
        generator = np.random.default_rng(iteration)
        seeds = generator.integers(0, 2**64, MEMBERS, dtype=np.uint64)
        coefficients = (generator.standard_normal(MEMBERS) * (ALPHA / MEMBERS)).astype(np.float32)
        rows.append(JournalRow(Iteration(iteration), 0, seeds, coefficients))
    return rows


def open_joining(job: Path, load: Load, since: int, start: int) -> dict[str, Callable[[], Any]]:
    """A worker without weights, and a snapshot `since` iterations ago.

    "reread" takes the base model as it is, "start" applies `start` iterations to it, "join" applies `since`
    iterations to the snapshot.
    """
    from dartes_worker.master import MasterWeights, Version

    worker = Worker(job, load, base=False)
    replica, path = worker.replica, job.parent / "snapshot.safetensors"
    master = MasterWeights.load(worker.equipment.checkpoint, worker.equipment.served, b"\0" * 32)
    master.version = Version(Iteration(ITERATION - since), b"\1" * 32)
    master.write_snapshot(path)
    del master

    def steps(load_weights: Callable[[], object], rows: Sequence[JournalRow]) -> Steps:
        replica.discard()
        clock = [time.perf_counter()]
        load_weights()
        clock.append(time.perf_counter())
        replica.apply(rows)
        clock.append(time.perf_counter())
        replica.write(0, 0.0)
        expected, found = replica.served_digests()
        replica.digest()
        clock.append(time.perf_counter())
        if expected.total != found.total:
            raise RuntimeError("the engine does not read what was written")
        return Steps(*(after - before for before, after in itertools.pairwise(clock)))

    def base(rows: Sequence[JournalRow]) -> Steps:
        return steps(lambda: replica.load_base(b"\0" * 32), rows)

    base(rows_between(0, 1))  # kernels are compiled and files are in the page cache from now on
    return {
        "reread": lambda: base([]),
        "join": lambda: steps(
            lambda: replica.load_snapshot(path), rows_between(ITERATION - since, ITERATION)
        ),
        "start": lambda: base(rows_between(0, start)),
    }


def rows_of(found: Mapping[str, Steps], since: int, start: int) -> list[Row]:
    """Seconds by step."""
    names = {
        "reread": "plain re-read",
        "join": f"join: snapshot and {since} iterations",
        "start": f"base model and {start} iterations",
    }
    plain = found["reread"].total
    return [
        {
            "what": names[name],
            "read, s": one.read,
            "apply, s": one.apply,
            "serve and attest, s": one.serve,
            "all, s": one.total,
            "times a re-read": one.total / plain,
        }
        for name, one in found.items()
    ]


def measured_of(found: Mapping[str, Steps], since: int, start: int) -> str:
    """The figure in words; nothing was asked for."""
    plain, joined = found["reread"].total, found["join"]
    each = found["start"].apply / start
    return (
        f"{joined.total:.1f} s with a snapshot {since} iterations old, {joined.total / plain:.1f} re-reads, "
        f"{joined.apply:.1f} s of it applying; without snapshots {each:.2f} s per iteration there has been"
    )


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="python -m bench.vllm_join", description=__doc__)
    add_model_option(parser)
    parser.add_argument("--quick", action="store_true", help="a snapshot 2 iterations old, and 1 iteration")
    options = parser.parse_args()
    what = f"a worker that joins at iteration {ITERATION:,}: time beside a plain re-read of the weights"
    if options.smollm2 is None:
        report("vllm_join", [], {}, [Figure(what, "stated", NO_MODEL, None)])
        return 0
    since, start = (2, 1) if options.quick else (ITERATION - SNAPSHOT, FROM_THE_START)
    load, threads = Load(options.smollm2, 2, 2), os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as scratch:
        job = write_job(load, "VLLM", Path(scratch) / "job.yaml", threads)
        with taking_turns((open_joining, job, load, since, start)) as (worker,):
            found: dict[str, Steps] = {name: worker.ask(name) for name in ("reread", "join", "start")}
    size = open_checkpoint(load.model).parameter_count
    meta = {
        "model": "SmolLM2-135M-Instruct",
        "served": SERVED,
        "population": MEMBERS,
        "master MiB": round(4 * size / MIB),
        "noise values per second of applying, million": round(
            MEMBERS * size * since / found["join"].apply / 1e6
        ),
        "threads": threads,
    }
    figure = Figure(what, "stated", measured_of(found, since, start), None)
    report("vllm_join", rows_of(found, since, start), meta, [figure])
    return 0


if __name__ == "__main__":
    sys.exit(main())
