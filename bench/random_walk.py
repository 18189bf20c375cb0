"""The random-walk law as a health check of the arithmetic: random rewards move the weights by chance alone.

With rewards that know nothing of the weights, `||theta_T - theta_0||^2 = alpha^2 T d / N` in expectation:
sum z_i^2 is N exactly, and the members' noise is independent. Lost updates push the ratio below 1, noise that
stays behind when members are served pushes it above, so members are written between the updates here.

Usage: python -m bench.random_walk [--iterations 200] [--seeds 1,2,3,4]
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from bench.common import Figure, Row, all_reached, report
from dartes.builtin import builtin_model
from dartes.checkpoint import Checkpoint, open_checkpoint
from dartes.difficulty import (
    AlgorithmSettings,
    Batch,
    DifficultyState,
    Results,
    advance,
    draw_batch,
    member_seeds,
    one_stage,
    score,
)
from dartes.ids import Iteration
from dartes.noise import ServedDtype
from dartes.state.history import journal_row
from dartes_worker.engines.base import Segment
from dartes_worker.master import MasterWeights

TOLERANCE: Final = 0.02
PROBLEMS: Final = 1000
WRITTEN: Final = 2
"""Members written into served weights between two updates; the law must hold all the same."""

Rewards = Callable[[np.random.Generator, int, Batch], Results]


def bernoulli(generator: np.random.Generator, members: int, batch: Batch) -> Results:
    """Every answer passes with probability one half."""
    return Results(passed=generator.random((members, batch.size)) < 0.5)


def gaussian(generator: np.random.Generator, members: int, batch: Batch) -> Results:
    """Primary scores are standard normal; passes are independent of them."""
    passed = generator.random((members, batch.size)) < 0.5
    scores = generator.standard_normal((members, batch.size), dtype=np.float32)
    return Results(passed=passed, scores=scores)


REWARDS: Final[Mapping[str, Rewards]] = {"Bernoulli(1/2) passes": bernoulli, "normal scores": gaussian}


def served_segments(checkpoint: Checkpoint, served: ServedDtype) -> list[Segment]:
    """Memory to write members into, as an engine has it."""
    return [
        Segment(info.name, 0, info.count, np.zeros(info.count, served.storage))
        for info in checkpoint.trainable
    ]


def walk(settings: AlgorithmSettings, rewards: Rewards, folder: Path) -> list[float]:
    """Ratio of the squared distance to the law's, after a quarter, half and all of the iterations."""
    checkpoint = open_checkpoint(folder)
    master = MasterWeights.load(checkpoint, ServedDtype.BFLOAT16, b"\0" * 32)
    segments = served_segments(checkpoint, ServedDtype.BFLOAT16)
    state = DifficultyState.new(PROBLEMS)
    generator = np.random.default_rng(settings.seed)
    total = settings.stages[0].iterations or 0
    stops = {total // 4, total // 2, total}
    per_iteration = settings.learning_rate**2 * parameters(checkpoint) / settings.population_size
    ratios = []
    for k in range(total):
        batch = draw_batch(settings, state, Iteration(k))
        assert batch is not None
        for seed in member_seeds(settings, Iteration(k))[:WRITTEN]:
            master.write(segments, int(seed), settings.sigma)
        scored = score(settings, state, batch, rewards(generator, settings.population_size, batch))
        master.apply([journal_row(settings, k, 0, scored)])
        advance(settings, state, batch, scored)
        if k + 1 in stops:
            ratios.append(master.squared_distance(checkpoint) / ((k + 1) * per_iteration))
    return ratios


def parameters(checkpoint: Checkpoint) -> int:
    """Number of trained elements."""
    return sum(info.count for info in checkpoint.trainable)


def main() -> int:
    """Measure, print and write; 1 if the ratio is off."""
    parser = argparse.ArgumentParser(prog="python -m bench.random_walk", description=__doc__)
    parser.add_argument("--iterations", type=int, default=200, help="updates per walk, 4 or more")
    parser.add_argument("--seeds", default="1,2,3,4", help="comma-separated, two or more")
    options = parser.parse_args()
    seeds = [int(seed) for seed in options.seeds.split(",")]
    folder = builtin_model("addition")
    rows: list[Row] = []
    ends: list[float] = []
    started = time.monotonic()
    for name, rewards in REWARDS.items():
        for seed in seeds:
            settings = AlgorithmSettings(
                population_size=32,
                sigma=0.003,
                learning_rate=0.003,
                batch_size=128,
                seed=seed,
                stages=one_stage(iterations=options.iterations),
            )
            quarter, half, end = walk(settings, rewards, folder)
            ends.append(end)
            rows.append({"rewards": name, "seed": seed, "ratio at T/4": quarter, "T/2": half, "T": end})
    mean = statistics.fmean(ends)
    error = statistics.stdev(ends) / len(ends) ** 0.5
    rows.append({"rewards": "mean", "T": mean})
    rows.append({"rewards": "standard error", "T": error})
    count = parameters(open_checkpoint(folder))
    meta = {
        "iterations T": options.iterations,
        "members N": settings.population_size,
        "parameters d": count,
        "learning rate alpha": settings.learning_rate,
        "members written between updates": WRITTEN,
        "ratio": mean,
        "standard error": error,
        "standard error expected of one walk": (2 / count) ** 0.5,
        "seconds": round(time.monotonic() - started, 1),
    }
    figures = [
        Figure(
            "squared distance / (alpha^2 T d / N)",
            f"1.00 +/- {TOLERANCE}",
            f"{mean:.4f} +/- {error:.4f}",
            abs(mean - 1) <= TOLERANCE and all(abs(end - 1) <= TOLERANCE for end in ends),
        )
    ]
    report("random_walk", rows, meta, figures)
    return 0 if all_reached(figures) else 1


if __name__ == "__main__":
    sys.exit(main())
