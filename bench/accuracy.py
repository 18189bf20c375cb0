"""How well the built-in task is learnt: held-out accuracy of DART-ES and plain ES, several seeds each.

Every run is `dartes run` on the demo's job with the seed and the `dart` fields changed, so what is measured
is what a user gets. The order of runs alternates the variants.

Usage: python -m bench.accuracy [--seeds 1,2,3] [--iterations 30] [--ablations]
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench.common import Figure, Row, Value, all_reached, report
from bench.runs_support import ADDITION, changed_job, run_job

ASKED: Final = 0.965
JUDGED_AT: Final = 20
SET: Final = "held-out"
WORKERS: Final = 2
DART_ES: Final = "DART-ES"
PLAIN_ES: Final = "plain ES"
VARIANTS: Final[Mapping[str, Mapping[str, Any]]] = {DART_ES: {}, PLAIN_ES: {"dart.enabled": False}}
ABLATIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "reweighting only": {"dart.replay.enabled": False},
    "replay only": {"dart.reweighting": False},
    "without history": {"dart.history": False},
}

Curves = dict[str, list[dict[int, float]]]
"""Variant -> per seed, accuracy by number of iterations."""


def measure(
    variants: Mapping[str, Mapping[str, Any]], seeds: Sequence[int], iterations: int
) -> tuple[Curves, list[Row]]:
    """All runs; their curves and one row each."""
    curves: Curves = {name: [] for name in variants}
    rows: list[Row] = []
    for seed in seeds:
        for name, changes in variants.items():
            with tempfile.TemporaryDirectory() as scratch:
                fields = {**changes, "es.seed": seed, "es.iterations": iterations}
                job = changed_job(ADDITION, fields, Path(scratch) / "job.yaml")
                started = time.monotonic()
                run = run_job(job, Path(scratch) / "run", WORKERS)
                seconds = time.monotonic() - started
            curve = run.accuracy(SET)
            curves[name].append(curve)
            rows.append({"variant": name, "seed": seed, **percentages(curve), "seconds": round(seconds, 1)})
            print(rows[-1], flush=True)
    return curves, rows


def percentages(curve: Mapping[int, float]) -> dict[str, Value]:
    """Accuracy by iteration as columns, in percent."""
    return {f"iteration {at}": round(100 * value, 2) for at, value in sorted(curve.items())}


def mean_curve(curves: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """The mean over seeds at every iteration that was evaluated."""
    return {at: statistics.fmean(curve[at] for curve in curves) for at in curves[0]}


def main() -> int:
    """Measure, print and write; 1 if a figure is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.accuracy", description=__doc__)
    parser.add_argument("--seeds", default="1,2,3", help="comma-separated (default: 1,2,3)")
    parser.add_argument("--iterations", type=int, default=20, help="length of each run, 20 or more")
    parser.add_argument("--ablations", action="store_true", help="also each part of DART-ES alone")
    options = parser.parse_args()
    if options.iterations < JUDGED_AT:
        parser.error(f"--iterations {options.iterations}: must be at least {JUDGED_AT}")
    seeds = [int(seed) for seed in options.seeds.split(",")]
    variants = {**VARIANTS, **(ABLATIONS if options.ablations else {})}
    curves, rows = measure(variants, seeds, options.iterations)
    means = {name: mean_curve(of_variant) for name, of_variant in curves.items()}
    rows += [{"variant": f"{name}, mean", **percentages(means[name])} for name in variants]
    dart, plain = means[DART_ES][JUDGED_AT], means[PLAIN_ES][JUDGED_AT]
    figures = [
        Figure(
            f"{DART_ES}, mean of {len(seeds)} seeds after {JUDGED_AT} iterations",
            f">= {100 * ASKED:.1f} %",
            f"{100 * dart:.2f} %",
            dart >= ASKED,
        ),
        Figure(
            f"{DART_ES} above {PLAIN_ES} there",
            f"> {100 * plain:.2f} %",
            f"{100 * (dart - plain):+.2f} points",
            dart > plain,
        ),
    ]
    settings = {"job": ADDITION.name, "workers": WORKERS, "seeds": seeds, "held-out problems": 2048}
    report("accuracy", rows, settings, figures)
    return 0 if all_reached(figures) else 1


if __name__ == "__main__":
    sys.exit(main())
