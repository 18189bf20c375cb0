"""The command line of `dartes`: parses arguments, calls one function, maps errors to exit codes."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import dartes
from dartes.errors import DartesError, ExitCode
from dartes.state import RunFolder


class _Parser(argparse.ArgumentParser):
    """Wrong usage is the user's mistake, and exits like every other one."""

    def error(self, message: str) -> None:  # type: ignore[override]
        self.print_usage(sys.stderr)
        self.exit(ExitCode.CONFIGURATION, f"{self.prog}: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except DartesError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted; run the same command to resume", file=sys.stderr)  # noqa: T201
        return ExitCode.DRAINED
    except BrokenPipeError:
        return ExitCode.DONE  # `dartes journal DIR | head`


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="dartes",
        description="Fine-tune all parameters of a language model with forward passes only (DART-ES).",
    )
    parser.add_argument("--version", action="version", version=f"dartes {dartes.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    run = commands.add_parser("run", help="run a job on this machine, or resume it")
    run.add_argument("job", type=Path, help="job file (YAML), the same that a cluster takes")
    run.add_argument("--workdir", type=Path, help="run folder (default: runs/NAME); an old one is resumed")
    run.add_argument("--workers", type=_positive, help="number of workers (default: spec.workers.replicas)")
    run.add_argument("--port", type=int, default=0, help="port of the coordinator (default: a free one)")
    run.add_argument("--export", type=Path, metavar="MODEL_DIR", help="write the model here at the end")
    run.set_defaults(command=_run)

    validate = commands.add_parser("validate", help="check a job file and its data, every error at once")
    validate.add_argument("job", type=Path)
    validate.set_defaults(command=_validate)

    status = commands.add_parser("status", help="where a run stands; works while it runs")
    status.add_argument("folder", type=Path, metavar="DIR")
    status.add_argument("--json", action="store_true")
    status.set_defaults(command=_status)

    journal = commands.add_parser(
        "journal", help="what decided each iteration, recomputed from the stored bits"
    )
    journal.add_argument("folder", type=Path, metavar="DIR")
    journal.add_argument("--json", action="store_true", help="one JSON object per iteration, with everything")
    journal.set_defaults(command=_journal)

    verify = commands.add_parser("verify", help="recompute everything from the bits and compare every hash")
    verify.add_argument("folder", type=Path, metavar="DIR")
    verify.set_defaults(command=_verify)

    export = commands.add_parser("export", help="write the fine-tuned model in the hub's layout")
    export.add_argument("folder", type=Path, metavar="DIR")
    export.add_argument("--output", type=Path, required=True, metavar="MODEL_DIR")
    export.add_argument("--iteration", type=int, help="number of iterations to apply (default: all)")
    export.add_argument("--dtype", choices=["Float32", "BFloat16", "Float16"], help="default: as served")
    export.set_defaults(command=_export)

    probe = commands.add_parser("probe", help="fitness of one batch for several sigmas, to choose sigma")
    probe.add_argument("job", type=Path)
    probe.add_argument("--sigmas", type=_sigmas, help="comma-separated (default: 1/8 to 8 times es.sigma)")
    probe.add_argument("--members", type=_positive, default=8, help="members per sigma (default: 8)")
    probe.add_argument("--json", action="store_true")
    probe.set_defaults(command=_probe)
    return parser


def _run(options: argparse.Namespace) -> int:
    from dartes.cli.run import run

    run(options.job, options.workdir, options.workers, options.port, options.export)
    return ExitCode.DONE


def _validate(options: argparse.Namespace) -> int:
    from dartes.cli.validate import validate

    return _print(validate(options.job))


def _status(options: argparse.Namespace) -> int:
    from dartes.cli.status import status_lines, status_of

    status = status_of(RunFolder(options.folder))
    return _print([json.dumps(status)] if options.json else status_lines(status))


def _journal(options: argparse.Namespace) -> int:
    from dartes.cli.journal import journal_lines, journal_objects

    folder = RunFolder(options.folder)
    lines = map(json.dumps, journal_objects(folder)) if options.json else journal_lines(folder)
    for line in lines:
        _print([line])
    return ExitCode.DONE


def _verify(options: argparse.Namespace) -> int:
    from dartes.cli.verify import verify

    return _print(verify(RunFolder(options.folder)))


def _export(options: argparse.Namespace) -> int:
    from dartes.cli.export import export_run
    from dartes.noise import ServedDtype

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


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return value


def _sigmas(text: str) -> list[float]:
    values = [float(part) for part in text.split(",")]
    if not values or any(not 0 <= value < 1e3 for value in values):
        raise argparse.ArgumentTypeError(f"{text}: give sigmas such as 0.001,0.002")
    return values


if __name__ == "__main__":
    sys.exit(main())
