"""The command line of `dartes`: parses arguments, calls one function, maps errors to exit codes.

Imports nothing heavy itself, so that `--help` and wrong usage answer at once.
"""

import argparse
import errno
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import dartes
from dartes.errors import DartesError, ExitCode

EXTRA_MODULES = frozenset({"huggingface_hub", "matplotlib", "numba", "rich"})
"""What a command needs beyond the plain distribution; an installation without extras lacks it."""

_EPILOG = """\
A job file is run with `dartes run JOB`; everything about the run is then in its folder DIR, and the same
command continues it after an interruption.

exit codes: 0 done; 64 something in the job, its data or the command is wrong (the message says what);
75 stopped for a reason outside, the same command goes on; 76 interrupted, the same command goes on;
1 a bug, or differences found by `verify`.
"""


class _Parser(argparse.ArgumentParser):
    """Wrong usage is the user's mistake, and exits like every other one."""

    def error(self, message: str) -> None:  # type: ignore[override]
        self.print_usage(sys.stderr)
        self.exit(ExitCode.CONFIGURATION, f"{self.prog}: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code. SystemExit after help and wrong usage, as argparse does."""
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        code = command(options)
        sys.stdout.flush()  # a reader that has gone is noticed here, not in the interpreter's last breath
    except DartesError as error:
        return _failed(str(error), error.exit_code)
    except KeyboardInterrupt:
        print(options.interrupted, file=sys.stderr)  # noqa: T201
        return ExitCode.DRAINED
    except BrokenPipeError:
        _silence_output()
        return ExitCode.DONE  # `dartes journal DIR | head`
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in EXTRA_MODULES:
            raise
        return _failed(f"{error}; install the extra with pip install 'dartes[cli]'", ExitCode.CONFIGURATION)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            return _failed(f"the disk is full ({error}); free some space and try again", ExitCode.TRANSIENT)
        if error.filename is None:
            raise
        return _failed(f"{error.filename}: {error.strerror}", ExitCode.CONFIGURATION)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
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
        _run,
        "run a job on this machine, or resume it",
        "Runs 1 coordinator and N workers as processes of this machine. A bar shows where it is on a terminal, "
        "elsewhere one line per iteration. The same command on the same folder continues a run.",
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
    run.set_defaults(interrupted="interrupted; everything committed is kept, the same command resumes the run")

    validate = _command(
        commands,
        "validate",
        _validate,
        "check a job file, its data and its model, every error at once",
        "Runs nothing. Reads the job file, every problem of its data sets and, where the model is a local "
        "folder, what is in it.",
    )
    validate.add_argument("job", type=Path, metavar="JOB", help="job file (YAML)")

    status = _command(
        commands,
        "status",
        _status,
        "where a run stands; works while it runs",
        "Asks the coordinator while the run goes on, else reads what is committed. Never waits for the run.",
    )
    _add_folder(status)
    status.add_argument("--json", action="store_true", help="one JSON object with the same keys in every phase")

    journal = _command(
        commands,
        "journal",
        _journal,
        "what decided each iteration, recomputed from the stored bits",
        "One line per iteration. With --json one object per iteration: seeds, problems with their source, pass "
        "rows (hex, least significant bit first), scores (null where they equal the passes), history before "
        "(null = never visited) and after, weights, raw and weighted fitness, coefficients, what is in the "
        "replay buffer afterwards, and the row hash.",
    )
    _add_folder(journal)
    journal.add_argument("--json", action="store_true", help="one JSON object per iteration, with everything")

    verify = _command(
        commands,
        "verify",
        _verify,
        "recompute everything from the bits and compare every hash and digest",
        "Recomputes batches, difficulty and coefficients, rebuilds the weights from base model and journal, and "
        "compares journal, metrics, summary, attestations and snapshots. Names every difference and then exits 1.",
    )
    _add_folder(verify)

    export = _command(
        commands,
        "export",
        _export,
        "write the fine-tuned model in the hub's layout",
        "Rebuilds the weights from base model and journal, and from the nearest snapshot where there is one.",
    )
    _add_folder(export)
    export.add_argument(
        "--output", type=Path, required=True, metavar="MODEL_DIR", help="new or empty folder for the model"
    )
    export.add_argument(
        "--iteration", type=_not_negative, metavar="K", help="number of iterations to apply (default: all)"
    )
    export.add_argument(
        "--dtype", choices=["Float32", "BFloat16", "Float16"], help="format of the weights (default: as served)"
    )

    probe = _command(
        commands,
        "probe",
        _probe,
        "fitness of one batch for several sigmas, to choose sigma",
        "Answers the job's first batch with the unperturbed model and with the same few members at each sigma.",
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
    probe.add_argument("--json", action="store_true", help="one JSON object per sigma; sigma 0 is the model itself")
    return parser


def _command(
    commands: "argparse._SubParsersAction[_Parser]",
    name: str,
    command: Callable[[argparse.Namespace], int],
    summary: str,
    description: str,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=summary, description=description)
    parser.set_defaults(command=command)
    return parser


def _add_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="DIR", help="run folder")


def _run(options: argparse.Namespace) -> int:
    from dartes.cli.run import run

    run(options.job, options.workdir, options.workers, options.port, options.export)
    return ExitCode.DONE


def _validate(options: argparse.Namespace) -> int:
    from dartes.cli.validate import validate

    return _print(validate(options.job))


def _status(options: argparse.Namespace) -> int:
    from dartes.cli.status import status_lines, status_of
    from dartes.state import RunFolder

    status = status_of(RunFolder(options.folder))
    return _print([json.dumps(status, allow_nan=False)] if options.json else status_lines(status))


def _journal(options: argparse.Namespace) -> int:
    from dartes.cli.journal import journal_json, journal_lines
    from dartes.state import RunFolder

    for line in (journal_json if options.json else journal_lines)(RunFolder(options.folder)):
        _print([line])
    return ExitCode.DONE


def _verify(options: argparse.Namespace) -> int:
    from dartes.cli.verify import verify
    from dartes.state import RunFolder

    return _print(verify(RunFolder(options.folder)))


def _export(options: argparse.Namespace) -> int:
    from dartes.cli.export import export_run
    from dartes.noise import ServedDtype
    from dartes.state import RunFolder

    dtype = None if options.dtype is None else ServedDtype(options.dtype.lower())
    done = export_run(RunFolder(options.folder), options.output, options.iteration, dtype)
    return _print(
        [f"{done.output}: the model after {done.iteration} iterations, weight digest {done.digest.total}"]
    )


def _probe(options: argparse.Namespace) -> int:
    from dartes.cli.probe import probe

    return probe(options.job, options.sigmas, options.members, options.json)


def _print(lines: Sequence[str]) -> int:
    for line in lines:
        print(line)  # noqa: T201 - the command's output
    return ExitCode.DONE


def _failed(message: str, code: ExitCode) -> int:
    print(f"error: {message}", file=sys.stderr)  # noqa: T201
    return code


def _silence_output() -> None:
    """Let what is still buffered go nowhere: the interpreter flushes once more when it ends."""
    descriptor = os.open(os.devnull, os.O_WRONLY)
    os.dup2(descriptor, sys.stdout.fileno())
    os.close(descriptor)


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
_not_negative = _whole(0)
_port = _whole(0, 65535)


def _sigmas(text: str) -> list[float]:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or any(not 0 < value <= 1 for value in values):
        raise argparse.ArgumentTypeError(
            f"{text!r}: give numbers above 0 and at most 1, such as 0.001,0.002 (the model itself is always shown)"
        )
    return values


if __name__ == "__main__":
    sys.exit(main())
