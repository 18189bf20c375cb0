"""`python -m dartes_worker.evaluate_model`: answer evaluation sets of a job with the model in a folder.

Blocks, sampling seeds and grades are those of a run, so the answers are too. What they amount to is the
caller's business: the answers go to a file, one array per set and kind.
"""

import argparse
import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dartes import logs
from dartes.checkpoint import open_checkpoint
from dartes.data import load_evaluation_set
from dartes.errors import ConfigurationError, DartesError, ExitCode
from dartes.evaluation import blocks
from dartes.rewards.opening import GraderContext
from dartes.spec import EvaluationSet, JobSpec, load_job
from dartes_worker.context import check_prompts, context_of
from dartes_worker.engines.base import GenerationLimits
from dartes_worker.engines.registry import engine_for
from dartes_worker.evaluate import Evaluator, Outcome, Sampling, answer_keys, block_of
from dartes_worker.kernel_memory import prepare_kernels
from dartes_worker.problems import Graders, ProblemSet, problem_set
from dartes_worker.setup import device_of, served_dtype
from dartes_worker.timing import Stopwatch
from dartes_worker.trouble import Trouble
from dartes_worker.weights.replica import replica_of

log = logging.getLogger(__name__)

Arrays = dict[str, NDArray[Any]]


def _say_nothing(text: str) -> None:
    del text


def evaluate_model(
    spec: JobSpec,
    base_dir: Path,
    model: Path,
    iteration: int,
    names: Iterable[str],
    tell: Callable[[str], object] = _say_nothing,
) -> dict[str, Arrays]:
    """Answer the sets `names` with the model in a folder; returns arrays by set and kind.

    Kinds are `passed`, `truncated`, `scores`, `auxiliary` and `keys` per answer, and `generated_tokens`.
    `iteration` is the one that sampled sets draw their seeds for; `tell` is told what is begun.

    Raises
    ------
    ConfigurationError
        The model or a data set can't be used, or a reward of the job's own is wrong.
    TransientError
        The hub can't be reached, or the memory does not suffice.
    """
    device = device_of(spec.workers)
    graders = Graders(GraderContext(base_dir=base_dir, device=device, on_trouble=Trouble().tell))
    try:
        chosen = {one.name: one for one in spec.evaluation.all_sets}
        sets = {name: _problems(spec, base_dir, chosen[name], graders) for name in names}
        return _answer(spec, model, iteration, sets, tell)
    finally:
        graders.close()


def _problems(spec: JobSpec, base_dir: Path, one: EvaluationSet, graders: Graders) -> ProblemSet:
    generation = spec.generation
    limits = GenerationLimits(
        generation.max_new_tokens,
        one.temperature,
        generation.top_p if one.temperature > 0 else 1.0,
        tuple(generation.stop),
    )
    data = [(load_evaluation_set(spec, one.name, base_dir), spec.task_of(one))]
    return problem_set(data, graders, limits, generation.token_budget, samples=one.samples)


def _answer(
    spec: JobSpec, model: Path, iteration: int, sets: Mapping[str, ProblemSet], tell: Callable[[str], object]
) -> dict[str, Arrays]:
    checkpoint = open_checkpoint(model)
    prepare_kernels()
    threads = spec.workers.threads
    engine = engine_for(spec)(model, checkpoint, served_dtype(spec), threads, device_of(spec.workers))
    context = context_of(engine, checkpoint.config)
    evaluator = Evaluator(engine, context)
    try:
        for name, problems in sets.items():
            for warning in (*problems.warnings, check_prompts(engine, problems, context, name)):
                if warning is not None:
                    log.warning("%s", warning)
        # As in a run: the weights go through the master, so that they are served in the same format.
        replica = replica_of(engine, checkpoint, served_dtype(spec), threads)
        replica.load_base(b"")
        replica.write(0, 0.0)
        found = {}
        for name, problems in sets.items():
            several = f" x {problems.samples} samples" if problems.samples > 1 else ""
            tell(f"evaluating {name}: {problems.size} problems{several}\n")
            found[name] = _answer_set(evaluator, problems, spec.es.seed, iteration, name)
        return found
    finally:
        evaluator.close()
        engine.close()


def _answer_set(
    evaluator: Evaluator, problems: ProblemSet, run_seed: int, iteration: int, name: str
) -> Arrays:
    watch = Stopwatch()
    outcomes = []
    for first, rows in blocks(problems.size, problems.samples):
        batch = block_of(problems, first, rows)
        sampling = Sampling.of_block(run_seed, iteration, name, first)
        outcomes.append(evaluator.answer(problems, batch, 0, 1, sampling, watch).outcome())
    return {
        "passed": np.concatenate([o.passed for o in outcomes]),
        "truncated": np.array([g.truncated for o in outcomes for g in o.generations], np.bool_),
        "scores": np.concatenate([_scores(o) for o in outcomes]),
        "auxiliary": np.concatenate([o.auxiliary for o in outcomes]),
        "keys": np.frombuffer(b"".join(answer_keys(o.grades) for o in outcomes), "<u8"),
        "generated_tokens": np.array(sum(g.token_count for o in outcomes for g in o.generations)),
    }


def _scores(outcome: Outcome) -> NDArray[np.float32]:
    return outcome.passed.astype(np.float32) if outcome.scores is None else outcome.scores


def main() -> int:
    """Evaluate and write; returns the exit code."""
    parser = argparse.ArgumentParser(prog="dartes evaluate", description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--job", type=Path, required=True)
    parser.add_argument("--iteration", type=int, required=True)
    parser.add_argument("--set", action="append", required=True, dest="sets")
    parser.add_argument("--answers", type=Path, required=True, help="file to write (NumPy .npz)")
    arguments = parser.parse_args()
    logs.set_up("evaluate", logging.WARNING)
    try:
        job = load_job(arguments.job)
        found = evaluate_model(
            job.job.spec,
            job.base_dir,
            arguments.model,
            arguments.iteration,
            arguments.sets,
            sys.stderr.write,
        )
        write_answers(arguments.answers, found)
    except DartesError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return ExitCode.DRAINED
    return ExitCode.DONE


def write_answers(path: Path, answers: Mapping[str, Arrays]) -> None:
    """Write the arrays of all sets, each under `SET/KIND`; raises ConfigurationError where that can't be."""
    arrays = {f"{name}/{kind}": array for name, own in answers.items() for kind, array in own.items()}
    try:
        with path.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
    except OSError as error:
        raise ConfigurationError(f"{path}: can't be written ({error.strerror})") from error


if __name__ == "__main__":
    sys.exit(main())
