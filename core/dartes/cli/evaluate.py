"""`dartes evaluate`: the evaluation sets of a job on an iteration of a run, or on a model folder.

Hands over to the worker package, which has the engine, and says what its answers amount to.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dartes.checkpoint import PROVENANCE_FILE, open_checkpoint
from dartes.cli.export import prepare_export
from dartes.cli.words import sample_words, share_words
from dartes.destinations.choice import Choice, Wanted
from dartes.errors import ConfigurationError, ExitCode, TransientError
from dartes.evaluation import Answered, first_evaluations, stored_evaluation
from dartes.report.evaluations import is_holdout, point_of
from dartes.rewards.digest import job_reward_digest
from dartes.spec import EvaluationSet, JobSpec, LoadedJob, load_job
from dartes.state import NoStateError, RunFolder, RunReader, StoredEvaluation
from dartes.tasks.rules import grading_rules


@dataclass(frozen=True)
class Request:
    """What a worker is asked to evaluate: sets `names` of the job in a file, on the model in a folder."""

    model: Path
    job: Path
    iteration: int
    names: tuple[str, ...]
    threads: int


Answer = Callable[[Request, Path], None]
"""Writes a worker's answers to a file; raises as `ask_worker` does."""


@dataclass(frozen=True)
class Found:
    """Evaluations of one checkpoint.

    `compared` names the sets for which there was a base model to win over; `note` is a sentence about the
    chosen iteration.
    """

    evaluations: tuple[StoredEvaluation, ...]
    compared: frozenset[str] = frozenset()
    note: str | None = None


class EvaluationFailedError(ConfigurationError):
    """The worker has said on standard error what is wrong; only its exit code is passed on."""

    def __init__(self, code: int) -> None:
        super().__init__("the evaluation failed; the reason is above")
        self.exit_code = ExitCode(code) if code in tuple(ExitCode) else ExitCode.BUG


def evaluate_run(
    folder: RunFolder, wanted: Wanted, names: Sequence[str], answer: Answer | None = None
) -> Found:
    """Evaluate an iteration of a run on sets of its job (all, if none is named).

    The weights are rebuilt as an export does, in a temporary folder.

    Raises
    ------
    ConfigurationError
        No run here, an unknown set or iteration, or the base model isn't there.
    TransientError
        The disk is full, or the hub can't be reached.
    """
    prepared = prepare_export(folder, wanted, None)
    job = load_job(folder.job)
    sets = chosen_sets(job.job.spec, names)
    base = _first_evaluations(folder)
    with tempfile.TemporaryDirectory(prefix="dartes-evaluate-") as temporary:
        model = Path(temporary) / "model"
        prepared.write(model)
        evaluations = _evaluate(
            model, folder.job, job.job.spec, prepared.iteration, sets, base, answer or ask_worker
        )
    compared = frozenset(name for name, first in base.items() if first.iteration == 0)
    notes = [prepared.note, _reward_note(folder, job)]
    return Found(tuple(evaluations), compared, "; ".join(note for note in notes if note) or None)


def evaluate_folder(
    model: Path, job_file: Path | None, names: Sequence[str], answer: Answer | None = None
) -> Found:
    """Evaluate the model in a folder on sets of a job (all, if none is named).

    Sets whose passes are wins over the base model have none here: their mean score counts.

    Raises
    ------
    ConfigurationError
        No model here, no job given, or an unknown set.
    """
    open_checkpoint(model)
    if job_file is None:
        raise ConfigurationError(
            f"{model}: is a model folder, which does not say what to evaluate it on; give --job JOB.yaml, "
            "whose evaluation sets are taken"
        )
    job: LoadedJob = load_job(job_file)
    sets = chosen_sets(job.job.spec, names)
    iteration = exported_iteration(model)
    return Found(tuple(_evaluate(model, job_file, job.job.spec, iteration, sets, {}, answer or ask_worker)))


def _reward_note(folder: RunFolder, job: LoadedJob) -> str | None:
    """Says where the job's own reward is another than the run had: grades then differ, answers do not."""
    with RunReader.open(folder) as reader:
        recorded = reader.meta_text("reward_digest")
    now = job_reward_digest(job.job.spec, job.base_dir) or ""
    if recorded is None or recorded == now:
        return None
    return "the reward has changed since the run: these are the run's answers, graded by the present one"


def is_run(folder: Path) -> bool:
    """Whether a folder is a run's, rather than a model's."""
    return RunFolder(folder).job.is_file()


def chosen_sets(spec: JobSpec, names: Sequence[str]) -> list[EvaluationSet]:
    """The named sets and holdouts of a job, each once, in the job's order; all where none is named.

    Raises
    ------
    ConfigurationError
        A set that the job does not have (names those it has), or it has none.
    """
    known = {one.name: one for one in spec.evaluation.all_sets}
    if not known:
        raise ConfigurationError(
            "spec.evaluation.sets: the job has no evaluation set; add one, or give another --job"
        )
    for name in names:
        if name not in known:
            raise ConfigurationError(
                f"--set {name}: the job has no such evaluation set (it has: {', '.join(known)})"
            )
    return [one for name, one in known.items() if not names or name in names]


def exported_iteration(model: Path) -> int:
    """How many iterations a folder that `dartes` exported holds; 0 for any other model."""
    try:
        provenance = json.loads((model / PROVENANCE_FILE).read_text(encoding="utf-8"))
        iteration = provenance["iteration"]
    except (OSError, ValueError, KeyError, TypeError):
        return 0
    return iteration if isinstance(iteration, int) and iteration >= 0 else 0


def report(found: Found) -> dict[str, Any]:
    """The evaluations as a JSON object by set: what `point_of` says, and whether it is a holdout.

    Accuracies are null where passes are wins over a base model and there is none to compare with.
    """
    points = {}
    for evaluation in found.evaluations:
        point = {**point_of(evaluation), "holdout": is_holdout(evaluation)}
        if evaluation.beside["against_base"] and evaluation.set_name not in found.compared:
            unknown = ("accuracy", "passed", "interval95", "pass_at_k", "maj_at_k", "maj_interval95")
            point.update(dict.fromkeys(unknown))
            point.pop("no_base", None)  # a model folder says nothing of when the set was added
        points[evaluation.set_name] = point
    return points


def report_lines(points: dict[str, Any]) -> list[str]:
    """A report for people, a line per set."""
    return [_line(name, point) for name, point in points.items()]


def ask_worker(request: Request, answers: Path) -> None:
    """Let a worker process answer.

    Raises
    ------
    EvaluationFailedError
        It has said what is wrong.
    """
    command = [sys.executable, "-m", "dartes_worker.evaluate_model", str(request.model)]
    command += ["--job", str(request.job), "--iteration", str(request.iteration), "--answers", str(answers)]
    for name in request.names:
        command += ["--set", name]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(request.threads),
        "TOKENIZERS_PARALLELISM": "false",
    }
    code = subprocess.run(command, env=environment, check=False).returncode
    if code != ExitCode.DONE:
        raise EvaluationFailedError(code)


def _evaluate(
    model: Path,
    job_file: Path,
    spec: JobSpec,
    iteration: int,
    sets: Sequence[EvaluationSet],
    base: dict[str, StoredEvaluation],
    answer: Answer,
) -> list[StoredEvaluation]:
    request = Request(model, job_file, iteration, tuple(one.name for one in sets), spec.workers.threads)
    holdouts = {one.name for one in spec.evaluation.holdouts}
    with tempfile.TemporaryDirectory(prefix="dartes-answers-") as temporary:
        file = Path(temporary) / "answers.npz"
        answer(request, file)
        return [
            stored_evaluation(
                read_answers(file, one.name),
                iteration=iteration,
                name=one.name,
                samples=one.samples,
                holdout=one.name in holdouts,
                against_base=grading_rules(spec.task_of(one)).against_parent,
                first=first if (first := base.get(one.name)) and first.iteration < iteration else None,
            )
            for one in sets
        ]


def read_answers(file: Path, name: str) -> Answered:
    """A set's answers from the file that a worker wrote; raises TransientError where it is not whole."""
    try:
        with np.load(file, allow_pickle=False) as arrays:
            own = {kind: arrays[f"{name}/{kind}"] for kind in ("passed", "truncated", "scores", "auxiliary")}
            passed = own["passed"].astype(np.bool_)
            scores = own["scores"].astype(np.float32)
            return Answered(
                passed=passed,
                truncated=own["truncated"].astype(np.bool_),
                scores=scores,
                auxiliary=own["auxiliary"].astype(np.float32),
                keys=arrays[f"{name}/keys"].astype(np.uint64),
                scores_differ=not np.array_equal(scores, passed.astype(np.float32)),
                generated_tokens=int(arrays[f"{name}/generated_tokens"]),
            )
    except (OSError, ValueError, KeyError) as error:
        raise TransientError(f"the worker's answers to {name} can't be read ({error}); try again") from error


def _first_evaluations(folder: RunFolder) -> dict[str, StoredEvaluation]:
    try:
        with RunReader.open(folder) as reader:
            return first_evaluations(reader.evaluations())
    except NoStateError:
        return {}


def _line(name: str, point: dict[str, Any]) -> str:
    kind = f"{name} (holdout)" if point["holdout"] else name
    details = [f"{point['problems']} problems"]
    if point["accuracy"] is None:
        head = f"mean score {point['mean_score']:.4g}, without a base model to compare with"
    else:
        head = share_words(point)
        details[0] += sample_words(point)
    details.append(f"{100 * point['truncated_share']:.1f} % cut off")
    details.append(f"{point['mean_length']:.0f} tokens on average")
    details.append(f"format {100 * point['format_share']:.1f} %")
    return f"{kind}: {head} after {point['iteration']} iterations ({', '.join(details)})"


def evaluate(target: Path, job_file: Path | None, wanted: Wanted | None, names: Sequence[str]) -> Found:
    """Evaluate a run folder or a model folder, whichever `target` is; raises as their functions do."""
    if is_run(target):
        if job_file is not None:
            raise ConfigurationError(f"--job: {target} is a run folder, whose own job is taken; leave it out")
        return evaluate_run(RunFolder(target), Choice.LAST if wanted is None else wanted, names)
    if wanted is not None:
        raise ConfigurationError(f"--iteration: {target} is no run folder, and a model is of one iteration")
    return evaluate_folder(target, job_file, names)
