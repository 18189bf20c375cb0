"""How much of an iteration is not spent generating, and on what.

Over whole iterations of real runs: `1 - sum(generate) / (workers x wall clock)`, without the first iteration
(start, compilation) and without evaluations. The wall clock runs from commit to commit, so nothing falls
between. Beside it what noise and updates must cost, `(N / W + N) x d / rate` seconds per worker, with the
kernel's rates measured in the same run on one core.

Usage: python -m bench.overhead [--smollm2 MODEL_DIR] [--smollm2-job JOB] [--only demo|smollm2]
"""

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.common import Figure, Row, all_reached, report
from bench.runs_support import (
    ADDITION,
    NO_MODEL,
    SMOLLM2_JOB,
    FinishedRun,
    add_model_option,
    changed_job,
    run_job,
)
from dartes.checkpoint import open_checkpoint
from dartes.model_source import resolve_model
from dartes.noise import ServedDtype, kernel
from dartes.spec import JobSpec, load_job

WORKERS: Final = 2
WARM_UP: Final = 1
"""Iterations at the start that do not count: engines warm up, kernels are compiled or loaded."""
KERNEL_ELEMENTS: Final = 1 << 23
ROUNDS: Final = 5
WORKER_PARTS: Final = ("generate", "write", "update", "grade", "wire", "idle", "other")


@dataclass(frozen=True)
class Case:
    """One job whose overhead is measured."""

    name: str
    asked: float
    job: Path
    iterations: int
    model: Path | None = None


@dataclass(frozen=True)
class Rates:
    """Noise values per second of one core: written members, and terms of an update."""

    write: float
    update: float


def kernel_rates(members: int, served: ServedDtype) -> Rates:
    """Measured on one thread, in its processor time, best of a few rounds."""
    generator = np.random.default_rng(0)
    master = generator.standard_normal(KERNEL_ELEMENTS, dtype=np.float32)
    out = np.empty(KERNEL_ELEMENTS, dtype=served.storage)
    seeds = generator.integers(0, 2**64, members, dtype=np.uint64)
    coefficients = np.full(members, 1e-5, dtype=np.float32)
    part = master[: KERNEL_ELEMENTS // 8]
    write = _seconds(lambda: kernel.write_member(master, out, served, 1, 2, 0, 1e-3))
    update = _seconds(lambda: kernel.apply_updates(part, 2, 0, [(seeds, coefficients)]))
    return Rates(KERNEL_ELEMENTS / write, members * part.size / update)


def _seconds(work: Callable[[], object]) -> float:
    work()  # loads the compiled kernel
    best = math.inf
    for _ in range(ROUNDS):
        start = time.thread_time()
        work()
        best = min(best, time.thread_time() - start)
    return best


def steady(run: FinishedRun) -> list[Mapping[str, Any]]:
    """What was noted of the iterations that count; RuntimeError where a worker came or went in them."""
    counted = list(run.beside[WARM_UP:])
    if any(it["workers"] != WORKERS or it["reissued"] for it in counted):
        raise RuntimeError(f"{run.folder.path}: a worker was lost during the measurement")
    return counted


def shares(iterations: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Share of the workers' wall clock by part; what no report accounts for is `unreported`."""
    wall = WORKERS * sum(float(it["seconds"]) for it in iterations)
    parts = {
        part: sum(float(it["seconds_by_part"].get(part, 0.0)) for it in iterations) / wall
        for part in WORKER_PARTS
    }
    return {**parts, "unreported": 1.0 - sum(parts.values())}


def commit_share(iterations: Sequence[Mapping[str, Any]]) -> float | None:
    """Share of the wall clock in which the coordinator committed; it lies within `wire` and `idle`.

    An iteration states the seconds of the commit before it, so the first of a process states none.
    """
    timed = [it for it in iterations if it.get("commit_seconds") is not None]
    if not timed:
        return None
    committing = math.fsum(float(it["commit_seconds"]) for it in timed)
    return committing / sum(float(it["seconds"]) for it in timed)


def measure(case: Case) -> tuple[list[Row], dict[str, object], Figure]:
    """Run a case without evaluation; its rows, settings and figure."""
    with tempfile.TemporaryDirectory() as scratch:
        changes: dict[str, Any] = {"evaluation.sets": [], "es.iterations": case.iterations, "es.epochs": None}
        if case.model is not None:
            changes["model.source"] = str(case.model.absolute())
        job = changed_job(case.job, changes, Path(scratch) / "job.yaml")
        loaded = load_job(job)
        spec = loaded.job.spec
        count = _parameters(spec, loaded.base_dir)
        iterations = steady(run_job(job, Path(scratch) / "run", WORKERS))
    rates = kernel_rates(spec.es.population_size, ServedDtype(spec.served_type.lower()))
    split, commit = shares(iterations), commit_share(iterations)
    overhead = 1.0 - split["generate"]
    seconds = sum(float(it["seconds"]) for it in iterations) / len(iterations)
    rows: list[Row] = [
        {"case": case.name, "part": part, "% of the workers' time": round(100 * share, 2)}
        for part, share in split.items()
    ]
    rows.append({"case": case.name, "part": "all but generate", "% of the workers' time": 100 * overhead})
    if commit is not None:
        within = "commit (within wire and idle)"
        rows.append({"case": case.name, "part": within, "% of the workers' time": 100 * commit})
    write, update = predicted(spec.es.population_size, count, rates)
    rows += [
        {"case": case.name, "part": part, "seconds per worker and iteration": value}
        for part, value in (
            ("iteration", seconds),
            ("write, measured", split["write"] * seconds),
            ("write, N / W x d / rate", write),
            ("update (with digest), measured", split["update"] * seconds),
            ("update, N x d / rate", update),
        )
    ]
    meta: dict[str, object] = {
        "job": case.job.name,
        "iterations counted": len(iterations),
        "workers W": WORKERS,
        "members N": spec.es.population_size,
        "batch B": spec.es.batch_size,
        "max new tokens": spec.generation.max_new_tokens,
        "parameters d": count,
        "served": str(spec.served_type),
        "generated tokens per iteration": sum(it["generated_tokens"] for it in iterations) / len(iterations),
        "write rate, values/s per core": rates.write,
        "update rate, values/s per core": rates.update,
        "formula's share": (write + update) / seconds,
        "evaluation": "none",
    }
    return rows, meta, figure_of(case, overhead)


def predicted(members: int, count: int, rates: Rates) -> tuple[float, float]:
    """Seconds that one worker must spend per iteration on writing its members and on the update."""
    return members / WORKERS * count / rates.write, members * count / rates.update


def figure_of(case: Case, overhead: float | None) -> Figure:
    """The figure of a case; None where there is no model to measure it with."""
    return Figure(
        f"{case.name}: share of the time not spent generating",
        f"<= {100 * case.asked:.0f} %",
        NO_MODEL if overhead is None else f"{100 * overhead:.1f} %",
        None if overhead is None else overhead <= case.asked,
    )


def _parameters(spec: JobSpec, base_dir: Path) -> int:
    folder = resolve_model(spec.model.source, spec.model.revision, base_dir)
    return sum(info.count for info in open_checkpoint(folder).trainable)


def cases(options: argparse.Namespace) -> list[Case]:
    """What was asked for."""
    found = [
        Case("demo", 0.15, ADDITION, options.iterations),
        Case("SmolLM2", 0.12, options.smollm2_job, options.smollm2_iterations, options.smollm2),
    ]
    return [case for case in found if options.only in (None, case.name.lower())]


def main() -> int:
    """Measure, print and write; 1 if a figure is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.overhead", description=__doc__)
    add_model_option(parser)
    parser.add_argument("--smollm2-job", type=Path, default=SMOLLM2_JOB)
    parser.add_argument("--iterations", type=int, default=20, help="of the demo; the first does not count")
    parser.add_argument("--smollm2-iterations", type=int, default=4, help="the first does not count")
    parser.add_argument("--only", choices=["demo", "smollm2"])
    options = parser.parse_args()
    rows: list[Row] = []
    meta: dict[str, object] = {}
    figures: list[Figure] = []
    for case in cases(options):
        if case.job == options.smollm2_job and (case.model is None or not case.job.is_file()):
            figures.append(figure_of(case, None))
            continue
        measured, settings, figure = measure(case)
        rows += measured
        meta[case.name] = settings
        figures.append(figure)
    report("overhead", rows, meta, figures)
    return 0 if all_reached(figures) else 1


if __name__ == "__main__":
    sys.exit(main())
