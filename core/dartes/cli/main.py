"""The command `dartes`: calls the function of a command and maps its errors to exit codes.

Each command imports what it needs itself, so that none waits for what others need.
"""

import argparse
import errno
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from dartes.cli.arguments import command_line
from dartes.cli.words import printable
from dartes.errors import ConfigurationError, DartesError, ExitCode

EXTRA_OF_MODULE: Final[Mapping[str, str]] = {
    "huggingface_hub": "worker",
    "matplotlib": "cli",
    "numba": "cli",
    "rich": "cli",
}
"""What a command needs beyond the plain distribution, and the extra that holds it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code. SystemExit after help and wrong usage, as argparse does."""
    options = command_line().parse_args(arguments)
    try:
        code = _COMMANDS[options.command](options)
        sys.stdout.flush()  # a reader that has gone is noticed here, not in the interpreter's last breath
    except DartesError as error:
        return _failed(str(error), error.exit_code)
    except KeyboardInterrupt:
        print(options.interrupted, file=sys.stderr)  # noqa: T201
        return ExitCode.DRAINED
    except BrokenPipeError:
        silence_output()
        return ExitCode.DONE  # `dartes journal DIR | head`
    except ModuleNotFoundError as error:
        words = lacking_extra(error)
        if words is None:
            raise
        return _failed(words, ExitCode.CONFIGURATION)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            return _failed(f"the disk is full ({error}); free some space and try again", ExitCode.TRANSIENT)
        if error.filename is None:
            raise
        return _failed(f"{error.filename}: {error.strerror}", ExitCode.CONFIGURATION)
    return code


def _run(options: argparse.Namespace) -> int:
    from dartes.cli.run import run

    run(
        options.job,
        options.workdir,
        options.workers,
        options.port,
        options.export,
        options.from_iteration,
    )
    return ExitCode.DONE


def _validate(options: argparse.Namespace) -> int:
    from dartes.cli.validate import validate

    return _show(validate(options.job))


def _status(options: argparse.Namespace) -> int:
    from dartes.cli.status import status_lines, status_of
    from dartes.state import RunFolder

    status = status_of(RunFolder(options.folder))
    if options.json:
        return _print([json.dumps(status, allow_nan=False)])
    return _show(status_lines(status))


def _journal(options: argparse.Namespace) -> int:
    from dartes.cli.journal import journal_json, journal_lines
    from dartes.state import RunFolder

    make, output = (journal_json, _print) if options.json else (journal_lines, _show)
    for line in make(RunFolder(options.folder)):
        output([line])
    return ExitCode.DONE


def _verify(options: argparse.Namespace) -> int:
    from dartes.cli.verify import verify
    from dartes.state import RunFolder

    return _show(verify(RunFolder(options.folder)))


def _export(options: argparse.Namespace) -> int:
    from dartes.cli.export import exported_line, prepare_export
    from dartes.destinations.choice import wanted_of
    from dartes.noise import ServedDtype
    from dartes.state import RunFolder

    dtype = None if options.dtype is None else ServedDtype(options.dtype.lower())
    prepared = prepare_export(RunFolder(options.folder), wanted_of(options.iteration), dtype)
    notes = [] if prepared.note is None else [prepared.note]
    return _show([*notes, exported_line(prepared.write(options.output))])


def _evaluate(options: argparse.Namespace) -> int:
    from dartes.cli.evaluate import evaluate, report, report_lines
    from dartes.destinations.choice import wanted_of
    from dartes.report.summary import write_json

    wanted = None if options.iteration is None else wanted_of(options.iteration)
    found = evaluate(options.folder, options.job, wanted, options.sets)
    points = report(found)
    if options.output is not None:
        write_json(options.output, points)
    notes = [] if found.note is None else [found.note]
    if options.json:
        return _print([json.dumps(points, allow_nan=False)])
    return _show([*notes, *report_lines(points)])


def _plan(options: argparse.Namespace) -> int:
    from dartes.cli.plan import Asked, plan, plan_json, plan_lines
    from dartes.plan.model_shape import ModelShape

    sizes = [getattr(options, name) for name in ("parameters", "layers", "heads", "kv_heads", "head_size")]
    if any(sizes) and not all(sizes):
        raise ConfigurationError(
            "--parameters, --layers, --heads, --kv-heads and --head-size describe a model together: "
            "give all five"
        )
    asked = Asked(
        gpu=options.gpu,
        workers=options.workers,
        gpu_price=options.gpu_price,
        prompt_tokens=options.prompt_tokens,
        answer_tokens=options.answer_tokens,
        shape=ModelShape(*sizes) if all(sizes) else None,
    )
    found = plan(options.job, asked)
    if options.json:
        return _print([json.dumps(plan_json(found), allow_nan=False)])
    return _show(list(plan_lines(found)))


def _samples(options: argparse.Namespace) -> int:
    from dartes.cli.samples import sample_json, sample_lines, samples
    from dartes.destinations.choice import wanted_of
    from dartes.state import RunFolder

    passed = True if options.passed else False if options.failed else None
    wanted = wanted_of(options.iteration)
    found = samples(RunFolder(options.folder), options.sets, wanted, passed, options.count)
    return _print(list(sample_json(found))) if options.json else _show(list(sample_lines(found)))


def _data_show(options: argparse.Namespace) -> int:
    from dartes.cli.data import read_answer, show

    answer = options.answer if options.answer_file is None else read_answer(options.answer_file)
    for line in show(options.job, options.set, options.stage, options.count, options.row, answer):
        _show([line])
    return ExitCode.DONE


def _probe(options: argparse.Namespace) -> int:
    from dartes.cli.probe import probe

    return probe(options.job, options.sigmas, options.members, options.json)


def _show(lines: Sequence[str]) -> int:
    """Print lines for people; what they hold of data, models and services can't steer the terminal."""
    return _print([printable(line) for line in lines])


def _print(lines: Sequence[str]) -> int:
    for line in lines:
        print(line)  # noqa: T201 - the command's output
    return ExitCode.DONE


def _failed(message: str, code: ExitCode) -> int:
    print(f"error: {printable(message)}", file=sys.stderr)  # noqa: T201
    return code


def lacking_extra(error: ModuleNotFoundError) -> str | None:
    """The error with the extra to install; None where no extra holds the module, which makes it a bug."""
    extra = EXTRA_OF_MODULE.get((error.name or "").partition(".")[0])
    return None if extra is None else f"{error}; install the extra with pip install '.[{extra}]' in a clone"


def silence_output() -> None:
    """Let what is still buffered go nowhere: the interpreter flushes once more when it ends."""
    descriptor = os.open(os.devnull, os.O_WRONLY)
    os.dup2(descriptor, sys.stdout.fileno())
    os.close(descriptor)


_COMMANDS: Final[Mapping[str, Callable[[argparse.Namespace], int]]] = {
    "run": _run,
    "validate": _validate,
    "status": _status,
    "journal": _journal,
    "verify": _verify,
    "export": _export,
    "evaluate": _evaluate,
    "samples": _samples,
    "data show": _data_show,
    "plan": _plan,
    "probe": _probe,
}


if __name__ == "__main__":
    sys.exit(main())
