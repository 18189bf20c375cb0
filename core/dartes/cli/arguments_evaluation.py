"""Arguments of the commands about evaluations and data: `evaluate`, `samples` and `data`."""

import argparse
from pathlib import Path

from dartes.cli.arguments_parts import (
    Parser,
    add_command,
    add_folder,
    add_iteration,
    iteration,
    not_negative,
    positive,
)


def add_evaluate(commands: "argparse._SubParsersAction[Parser]") -> None:
    evaluate = add_command(
        commands,
        "evaluate",
        "the evaluation sets of a job on any checkpoint",
        "DIR is a run folder, whose weights after some iteration are rebuilt and evaluated on the sets of "
        "its job; the answers are those of the run's own evaluation. Or it is a model folder, as exported or "
        "from the hub, evaluated on the sets of --job.",
    )
    evaluate.add_argument("folder", type=Path, metavar="DIR", help="run folder, or model folder with --job")
    evaluate.add_argument("--job", type=Path, metavar="JOB", help="job file whose sets are taken")
    add_iteration(evaluate)
    evaluate.add_argument(
        "--set",
        action="append",
        default=[],
        dest="sets",
        metavar="NAME",
        help="evaluation set or holdout; may be given several times (default: all)",
    )
    evaluate.add_argument("--json", action="store_true", help="one JSON object, by set")
    evaluate.add_argument("--output", type=Path, metavar="FILE", help="also write the JSON object here")


def add_samples(commands: "argparse._SubParsersAction[Parser]") -> None:
    samples = add_command(
        commands,
        "samples",
        "answers of a run's evaluations, to be read",
        "Shows what evaluation.logCompletions has kept: prompt, answer, verdict and why. Works while the run "
        "goes on. What could steer a terminal is shown as an escape.",
    )
    add_folder(samples)
    samples.add_argument(
        "--set",
        action="append",
        default=[],
        dest="sets",
        metavar="NAME",
        help="evaluation set or holdout; may be given several times (default: all)",
    )
    samples.add_argument(
        "--iteration",
        type=iteration,
        metavar="K",
        help="evaluation after K iterations; Last, or Best by the first evaluation set (default: Last)",
    )
    which = samples.add_mutually_exclusive_group()
    which.add_argument("--failed", action="store_true", help="only answers that did not pass")
    which.add_argument("--passed", action="store_true", help="only answers that passed")
    samples.add_argument(
        "--count", type=positive, default=10, metavar="N", help="at most so many of each set (default: 10)"
    )
    samples.add_argument("--json", action="store_true", help="one JSON object per answer")


def add_data(commands: "argparse._SubParsersAction[Parser]") -> None:
    data = commands.add_parser("data", help="what the model is asked, and how answers are graded")
    actions = data.add_subparsers(title="commands", metavar="COMMAND", required=True)
    show = actions.add_parser(
        "show",
        help="problems of a job as rendered prompts, and the grade of an answer",
        description="Prints the first problems as the model is asked them, with their reference answers. "
        "With --answer it grades that text as an answer to one problem, by the job's own grader, with its "
        "reasons.",
    )
    show.set_defaults(command="data show")
    show.add_argument("job", type=Path, metavar="JOB", help="job file (YAML)")
    show.add_argument("--set", metavar="NAME", help="evaluation set or holdout (default: training)")
    show.add_argument(
        "--stage", type=not_negative, metavar="N", help="training stage, counted from 0 (default: 0)"
    )
    show.add_argument(
        "--count",
        type=positive,
        metavar="N",
        help="problems to show, of a mix from each part in turn (default: 3, and one of each part at least)",
    )
    show.add_argument(
        "--row",
        type=not_negative,
        metavar="I",
        help="show this one, counted from 0; in a mix, rows run on from one part to the next "
        "(default: from the first)",
    )
    answer = show.add_mutually_exclusive_group()
    answer.add_argument("--answer", metavar="TEXT", help="grade this answer to the (first) problem")
    answer.add_argument("--answer-file", type=Path, metavar="FILE", help="as --answer, from a file")
