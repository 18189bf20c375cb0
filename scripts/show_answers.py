"""Show what the base model of a job and fine-tuned models answer to the same held-out problems.

Uses the job's own prompts, limits, greedy decoding and grader, and changes nothing on disk.

    python scripts/show_answers.py examples/smollm2-arithmetic.yaml runs/smollm2/model --count 3
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dartes.checkpoint import open_checkpoint
from dartes.data import Dataset, load_dataset
from dartes.errors import ConfigurationError, DartesError, ExitCode
from dartes.model_source import resolve_model
from dartes.noise import ServedDtype
from dartes.spec import JobSpec, TaskSpec, load_job
from dartes.tasks.base import Prompt, Row, Task, check_rows
from dartes.tasks.registry import task_named
from dartes_worker.engines.base import Generation, GenerationLimits
from dartes_worker.engines.registry import engine_for
from dartes_worker.groups import generation_groups


def held_out(spec: JobSpec, base_dir: Path, name: str | None) -> tuple[Dataset, TaskSpec]:
    """Return the evaluation set called ``name``, by default the first; ConfigurationError without one."""
    sets = {s.name: s for s in spec.evaluation.sets}
    if not sets:
        raise ConfigurationError("spec.evaluation.sets: the job has no evaluation set to show answers of")
    chosen = next(iter(sets)) if name is None else name
    if chosen not in sets:
        raise ConfigurationError(f"--set {chosen}: must be one of {', '.join(sets)}")
    return load_dataset(sets[chosen].dataset, base_dir), sets[chosen].task or spec.task


def answers(spec: JobSpec, folder: Path, prompts: Sequence[Prompt]) -> list[Generation]:
    """Answer ``prompts`` greedily with the model of ``folder``, in the order given."""
    limits = GenerationLimits(spec.generation.max_new_tokens, stop=tuple(spec.generation.stop))
    served = ServedDtype(spec.served_type.lower())
    load = engine_for(spec)
    engine = load(folder, open_checkpoint(folder), served, spec.workers.threads, "cpu")
    try:
        tokens = engine.encode(prompts)
        groups = generation_groups(
            [len(t) for t in tokens], limits.max_new_tokens, spec.generation.token_budget
        )
        made: dict[int, Generation] = {}
        for group in groups:
            made.update(zip(group, engine.generate([tokens[p] for p in group], limits, None), strict=True))
    finally:
        engine.close()
    return [made[position] for position in range(len(prompts))]


def prompt_lines(prompt: Prompt) -> list[str]:
    """Return the prompt as it is read: a line per message, or the raw text."""
    if isinstance(prompt, str):
        return [f"prompt: {prompt!r}"]
    return [f"{message.role}: {message.content!r}" for message in prompt]


def show(task: Task, rows: Sequence[Row], made: dict[str, list[Generation]]) -> None:
    """Print each problem's prompt, then a line per model: the answer and its grade."""
    width = max(map(len, made))
    for number, row in enumerate(rows):
        print("\n".join(prompt_lines(task.prompt(row))))
        for name, generations in made.items():
            answer = generations[number]
            grade = task.grade(row, answer.text)
            cut = " (cut at the token limit)" if answer.truncated else ""
            verdict = "passed" if grade.passed else f"failed: {grade.reason}"
            print(f"  {name:<{width}}  {answer.text!r}{cut}  {verdict}")
        print()
    for name, generations in made.items():
        passed = sum(task.grade(row, g.text).passed for row, g in zip(rows, generations, strict=True))
        print(f"{name:<{width}}  {passed} of {len(rows)} passed")


def run(options: argparse.Namespace) -> None:
    """Load job and data, answer with the base model and each model named, and print."""
    loaded = load_job(options.job)
    spec = loaded.job.spec
    dataset, task_spec = held_out(spec, loaded.base_dir, options.set)
    task = task_named(task_spec.kind).from_spec(task_spec)
    rows = [dataset.rows[row] for row in range(min(options.count, len(dataset.rows)))]
    check_rows(task, rows, dataset.description)
    prompts = [task.prompt(row) for row in rows]
    base = resolve_model(spec.model.source, spec.model.revision, loaded.base_dir)
    folders = {"base model": base}
    folders.update({str(m): m for m in options.models if m.resolve() != base.resolve()})
    show(task, rows, {name: answers(spec, folder, prompts) for name, folder in folders.items()})


def main(arguments: list[str]) -> int:
    """Parse the arguments and show; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("job", type=Path, help="job file (YAML)")
    parser.add_argument("models", type=Path, nargs="+", help="model folders, as `dartes export` writes them")
    parser.add_argument("--count", type=int, default=3, help="number of problems (default: 3)")
    parser.add_argument("--set", help="name of the evaluation set (default: the job's first)")
    options = parser.parse_args(arguments)
    if options.count < 1:
        parser.error("--count must be at least 1")
    try:
        run(options)
    except DartesError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return ExitCode.DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
