"""What can be typed after `dartes`: commands, options, their bounds and their help.

Imports nothing of the project but exit codes, so that `--help` and wrong usage answer at once.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import dartes
from dartes.errors import ExitCode

_EPILOG = """\
A job file is run with `dartes run JOB`; everything about the run is then in its folder DIR, and the same
command continues it after an interruption.

exit codes: 0 done; 64 something in the job, its data or the command is wrong (the message says what);
75 stopped for a reason outside, the same command goes on; 76 interrupted, the same command goes on;
1 a bug, or differences found by `verify`.
"""


class Parser(argparse.ArgumentParser):
    """Wrong usage is the user's mistake, and exits like every other one."""

    def error(self, message: str) -> None:  # type: ignore[override]
        self.print_usage(sys.stderr)
        self.exit(ExitCode.CONFIGURATION, f"{self.prog}: {message}\n")


def command_line() -> argparse.ArgumentParser:
    """The parser; its result names a `command` and what to say where it is `interrupted`."""
    parser = Parser(
        prog="dartes",
        description="Fine-tune all parameters of a language model with forward passes only (DART-ES).",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"dartes {dartes.__version__}")
    parser.set_defaults(interrupted="interrupted")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    run = _command(
        commands,
        "run",
        "run a job on this machine, or resume it",
        "Runs 1 coordinator and N workers as processes of this machine. A bar on a terminal, elsewhere a "
        "line per iteration, shows where it is. The same command on the same folder continues a run.",
    )
    run.add_argument("job", type=Path, metavar="JOB", help="job file (YAML), the same that a cluster takes")
    run.add_argument(
        "--workdir", type=Path, metavar="DIR", help="run folder, new or to be resumed (default: runs/NAME)"
    )
    run.add_argument(
        "--workers", type=_positive, metavar="N", help="number of workers (default: spec.workers.replicas)"
    )
    run.add_argument(
        "--port", type=_port, default=0, metavar="N", help="port of the coordinator (default: a free one)"
    )
    run.add_argument("--export", type=Path, metavar="MODEL_DIR", help="write the model here at the end")
    run.set_defaults(
        interrupted="interrupted; everything committed is kept, the same command resumes the run"
    )

    validate = _command(
        commands,
        "validate",
        "check a job file, its data and its model, every error at once",
        "Runs nothing. Reads the job file, every problem of its data sets and, where the model is a local "
        "folder, what is in it.",
    )
    validate.add_argument("job", type=Path, metavar="JOB", help="job file (YAML)")

    status = _command(
        commands,
        "status",
        "where a run stands; works while it runs",
        "Asks the coordinator while the run goes on, else reads what is committed. Never waits for the run.",
    )
    _add_folder(status)
    status.add_argument(
        "--json", action="store_true", help="one JSON object with the same keys in every phase"
    )

    journal = _command(
        commands,
        "journal",
        "what decided each iteration, recomputed from the stored bits",
        "One line per iteration. With --json one object per iteration: seeds, problems with their source, "
        "pass rows (hex, least significant bit first), scores (null where they equal the passes), history "
        "before (null = never visited) and after, weights, raw and weighted fitness, coefficients, what is "
        "in the replay buffer afterwards, and the row hash.",
    )
    _add_folder(journal)
    journal.add_argument("--json", action="store_true", help="one JSON object per iteration, with everything")

    verify = _command(
        commands,
        "verify",
        "recompute everything from the bits and compare every hash and digest",
        "Recomputes batches, difficulty and coefficients, rebuilds the weights from base model and journal, "
        "and compares journal, metrics, summary, attestations and snapshots. Names every difference, and "
        "then exits 1.",
    )
    _add_folder(verify)

    export = _command(
        commands,
        "export",
        "write the fine-tuned model in the hub's layout",
        "Rebuilds the weights from base model and journal, and from the nearest snapshot where there is one.",
    )
    _add_folder(export)
    export.add_argument(
        "--output", type=Path, required=True, metavar="MODEL_DIR", help="new or empty folder for the model"
    )
    add_iteration(export)
    add_dtype(export)

    probe = _command(
        commands,
        "probe",
        "fitness of one batch for several sigmas, to choose sigma",
        "Answers the job's first batch with the model itself and with the same few members at each sigma.",
    )
    probe.add_argument("job", type=Path, metavar="JOB", help="job file (YAML)")
    probe.add_argument(
        "--sigmas",
        type=_sigmas,
        metavar="S,S,...",
        help="comma-separated (default: es.sigma times 1/8, 1/4, 1/2, 1, 2, 4, 8)",
    )
    probe.add_argument(
        "--members", type=_several, default=8, metavar="N", help="members per sigma, at least 2 (default: 8)"
    )
    probe.add_argument(
        "--json", action="store_true", help="one JSON object per sigma; sigma 0 is the model itself"
    )
    return parser


def _command(
    commands: "argparse._SubParsersAction[Parser]",
    name: str,
    summary: str,
    description: str,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=summary, description=description)
    parser.set_defaults(command=name)
    return parser


def add_iteration(parser: argparse.ArgumentParser) -> None:
    """`--iteration`, of all commands that export."""
    parser.add_argument(
        "--iteration",
        type=_iteration,
        metavar="K",
        help="number of iterations to apply; Last, or Best by the first evaluation set (default: Last, all)",
    )


def add_dtype(parser: argparse.ArgumentParser) -> None:
    """`--dtype`, of all commands that export."""
    parser.add_argument(
        "--dtype",
        choices=["Float32", "BFloat16", "Float16"],
        help="format of the weights (default: as served)",
    )


def _iteration(text: str) -> int | str:
    word = text.capitalize()
    if word in ("Best", "Last"):
        return word
    try:
        return not_negative(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, Best or Last") from None


def _add_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="DIR", help="run folder")


def _whole(least: int, most: int | None = None) -> Callable[[str], int]:
    allowed = f"at least {least}" if most is None else f"{least} to {most}"

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number; allowed: {allowed}") from None
        if value < least or (most is not None and value > most):
            raise argparse.ArgumentTypeError(f"{value} is out of bounds; allowed: {allowed}")
        return value

    return parse


_positive = _whole(1)
_several = _whole(2)
not_negative = _whole(0)
_port = _whole(0, 65535)


def _sigmas(text: str) -> list[float]:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or any(not 0 < value <= 1 for value in values):
        raise argparse.ArgumentTypeError(f"{text!r}: give numbers above 0 and at most 1, such as 0.001,0.002")
    return values
