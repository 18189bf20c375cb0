"""`dartes samples`: answers of a run's evaluations, as text for people. Reads what was recorded."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from dartes.cli.folder import require_run
from dartes.cli.words import printable
from dartes.destinations.choice import Choice, Wanted
from dartes.errors import ConfigurationError
from dartes.report.evaluations import best_iteration
from dartes.spec import JobSpec, load_job
from dartes.state import RunFolder, RunReader, StoredCompletion

DEFAULT_COUNT = 10
"""Answers of each set that are shown unless told otherwise."""


@dataclass(frozen=True)
class Sample:
    """One recorded answer and where it belongs; `samples` is how many answers each problem got."""

    set_name: str
    iteration: int
    completion: StoredCompletion
    samples: int = 1


def samples(
    folder: RunFolder, names: Sequence[str], wanted: Wanted, passed: bool | None, count: int
) -> list[Sample]:
    """The recorded answers of an iteration's evaluation, at most `count` of each set, by row.

    Parameters
    ----------
    names
        Evaluation sets or holdouts; all, if none is named.
    passed
        Only those that passed, or that did not; None = all.

    Raises
    ------
    ConfigurationError
        No run here, an unknown set, or no answers of that iteration were kept (names the iterations).
    """
    require_run(folder)
    spec = load_job(folder.job).job.spec
    chosen = _sets(spec, names)
    several = {one.name: one.samples for one in spec.evaluation.all_sets}
    with RunReader.open(folder) as reader:
        kept = {name: reader.iterations_with_completions(name) for name in chosen}
        iteration = _iteration(reader, spec, wanted, kept)
        found = []
        for name in chosen:
            own = [c for c in reader.completions(iteration, name) if passed is None or c.passed == passed]
            found += [Sample(name, iteration, completion, several[name]) for completion in own[:count]]
    return found


def sample_lines(found: Sequence[Sample]) -> Iterator[str]:
    """For a terminal: what could steer it is escaped."""
    for sample in found:
        yield from _lines(sample)
        yield ""
    if not found:
        yield "no such answer was kept"


def sample_json(found: Sequence[Sample]) -> Iterator[str]:
    """One JSON object per line."""
    for sample in found:
        head = {"set": sample.set_name, "iteration": sample.iteration}
        yield json.dumps(head | asdict(sample.completion))


def _sets(spec: JobSpec, names: Sequence[str]) -> list[str]:
    known = [one.name for one in spec.evaluation.all_sets]
    for name in names:
        if name not in known:
            there = ", ".join(known) or "none"
            raise ConfigurationError(f"--set {name}: the job has no such evaluation set (it has: {there})")
    return [name for name in known if not names or name in names]


def _iteration(reader: RunReader, spec: JobSpec, wanted: Wanted, kept: dict[str, list[int]]) -> int:
    there = sorted({iteration for iterations in kept.values() for iteration in iterations})
    if not there:
        raise ConfigurationError(
            "no answers were kept: set evaluation.logCompletions in the job to the number of answers to keep "
            "of each evaluation"
        )
    if wanted is Choice.LAST:
        return there[-1]
    iteration = wanted
    if wanted is Choice.BEST:
        sets = spec.evaluation.sets
        best = best_iteration(reader.evaluations(), sets[0].name if sets else None)
        if best is None:
            raise ConfigurationError(
                "--iteration Best: the run has no evaluation to find it by; give a number"
            )
        iteration = best
    if iteration not in there:
        raise ConfigurationError(
            f"--iteration {iteration}: no answers are kept of it; there are: {', '.join(map(str, there))}"
        )
    assert isinstance(iteration, int)
    return iteration


def _lines(sample: Sample) -> Iterator[str]:
    completion = sample.completion
    verdict = "passed" if completion.passed else "failed"
    which = f", sample {completion.sample + 1} of {sample.samples}" if sample.samples > 1 else ""
    why = f": {printable(completion.reason)}" if completion.reason else ""
    yield (
        f"{sample.set_name}, row {completion.row}{which}, after iteration {sample.iteration}: {verdict}, "
        f"score {completion.score:.4g}{why}"
    )
    yield "  prompt"
    yield printable(completion.prompt, "    ")
    yield "  answer"
    yield printable(completion.text, "    ")
