"""`python -m dartes_worker.probe`: the fitness of one batch for several sigmas, to choose sigma.

The first batch of the job is answered by the parent and by the same few members at each sigma. Nothing is
updated and nothing is kept.
"""

import argparse
import json
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from dartes import logs
from dartes.difficulty import (
    AlgorithmSettings,
    DifficultyState,
    Results,
    draw_batch,
    judge,
    member_seeds,
    score,
)
from dartes.errors import ConfigurationError, DartesError, ExitCode
from dartes.ids import Iteration
from dartes.spec import load_job
from dartes_worker.agent import PARENT_MEMBER
from dartes_worker.evaluate import Outcome, Sampling
from dartes_worker.setup import Equipment, equip
from dartes_worker.timing import Stopwatch
from dartes_worker.weights.replica import replica_of

DEFAULT_FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


@dataclass(frozen=True)
class ProbeRow:
    """What members at one sigma earned on the batch; sigma 0 is the parent."""

    sigma: float
    members: int
    pass_rate: float
    fitness_mean: float
    fitness_std: float
    fitness_best: float
    informative_share: float
    """Problems that some members passed and some did not: only these tell members apart."""


def probe(equipment: Equipment, sigmas: Sequence[float], members: int) -> Iterator[ProbeRow]:
    """Yield a row for the parent, then one per sigma as it is measured."""
    settings = AlgorithmSettings.from_spec(equipment.spec)
    settings = replace(settings, population_size=members, antithetic=False)
    problems = equipment.stages[0]
    state = DifficultyState((tuple(len(part.dataset.rows) for part in problems.parts),))
    batch = draw_batch(settings, state, Iteration(0))
    if batch is None:
        raise ConfigurationError("spec.es: the job has no iteration to probe")
    replica = replica_of(
        equipment.engine, equipment.checkpoint, equipment.served, equipment.spec.workers.threads
    )
    replica.load_base(b"")
    seeds = member_seeds(settings, Iteration(0)).tolist()
    rows = batch.problems.tolist()
    watch = Stopwatch()

    def answer(seed: int, sigma: float, member: int) -> Outcome:
        replica.write(seed, sigma)
        sampling = Sampling(settings.seed, 0, member)
        return equipment.evaluator.answer(problems, rows, 0, 1, sampling, watch).outcome()

    parent = answer(0, 0.0, PARENT_MEMBER)
    parent_scores = parent.passed.astype(np.float32) if parent.scores is None else parent.scores
    for sigma in (0.0, *sigmas):
        if sigma == 0:
            outcomes = [parent]
        else:
            outcomes = [answer(seed, sigma, member) for member, seed in enumerate(seeds)]
        scores = [o.scores for o in outcomes if o.scores is not None]
        grades = Results(
            passed=np.stack([o.passed for o in outcomes]),
            scores=np.stack(scores) if scores else None,
            auxiliary=np.stack([o.auxiliary for o in outcomes]),
        )
        results = judge(settings, state, batch, grades, parent_scores)
        scored = score(replace(settings, population_size=len(outcomes)), state, batch, results)
        yield ProbeRow(
            sigma=sigma,
            members=len(outcomes),
            pass_rate=float(scored.pass_rates.mean()),
            fitness_mean=float(scored.raw.mean()),
            fitness_std=float(scored.raw.std()),
            fitness_best=float(scored.raw.max()),
            informative_share=float(np.mean((scored.pass_rates > 0) & (scored.pass_rates < 1))),
        )


def main() -> int:
    """Probe a job; returns the exit code."""
    parser = argparse.ArgumentParser(prog="dartes probe", description=__doc__)
    parser.add_argument("job", type=Path)
    parser.add_argument("--sigmas", help="comma-separated")
    parser.add_argument("--members", type=int, required=True)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    logs.set_up("probe", logging.WARNING)
    try:
        job = load_job(arguments.job)
        sigma = job.job.spec.es.sigma
        sigmas = (
            [float(s) for s in arguments.sigmas.split(",")]
            if arguments.sigmas
            else [sigma * factor for factor in DEFAULT_FACTORS]
        )
        equipment = equip(job.job.spec, job.base_dir)
        try:
            _print(probe(equipment, sigmas, arguments.members), sigma, arguments.json)
        finally:
            equipment.close()
    except DartesError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return ExitCode.DRAINED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # `dartes probe JOB | head`
    return ExitCode.DONE


def _print(rows: Iterator[ProbeRow], configured: float, as_json: bool) -> None:
    if not as_json:
        sys.stdout.write(
            "     sigma  pass rate  mean fitness  std over members      best  informative problems\n"
        )
    for row in rows:
        if as_json:
            sys.stdout.write(json.dumps(asdict(row)) + "\n")
        else:
            name = "parent" if row.sigma == 0 else f"{row.sigma:.3g}"
            mark = "  <- es.sigma" if row.sigma == configured else ""
            sys.stdout.write(
                f"{name:>10}  {row.pass_rate:9.3f}  {row.fitness_mean:12.4f}  {row.fitness_std:16.4f}  "
                f"{row.fitness_best:8.4f}  {100 * row.informative_share:18.1f} %{mark}\n"
            )
        sys.stdout.flush()
    if not as_json:
        sys.stdout.write(
            "Choose a sigma whose members differ clearly (std), with a mean not far below the parent's.\n"
        )


if __name__ == "__main__":
    sys.exit(main())
