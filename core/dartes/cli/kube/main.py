"""The program `kubectl-dartes`, which kubectl runs for `kubectl dartes`.

Calls the function of a command and maps its errors to exit codes.
"""

import argparse
import errno
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from dartes.cli.kube.arguments import command_line
from dartes.cli.kube.kubectl import Kubectl, Target
from dartes.cli.main import lacking_extra, silence_output
from dartes.cli.words import printable
from dartes.errors import ConfigurationError, DartesError, ExitCode


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code. SystemExit after help and wrong usage, as argparse does."""
    options = command_line().parse_args(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        target = Target(options.namespace, options.context, options.kubeconfig)
        code = _COMMANDS[options.command](Kubectl(target), options)
        sys.stdout.flush()
    except DartesError as error:
        return _failed(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _interrupted(options)
    except BrokenPipeError:
        silence_output()
        return ExitCode.DONE
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


def _status(kubectl: Kubectl, options: argparse.Namespace) -> int:
    from dartes.cli.kube.status import show, watch

    (watch if options.watch else show)(kubectl, options.name, options.json)
    return ExitCode.DONE


def _logs(kubectl: Kubectl, options: argparse.Namespace) -> int:
    from dartes.cli.kube.logs import Asked, log_lines

    asked = Asked(
        worker=options.worker,
        everyone=options.all,
        follow=options.follow,
        previous=options.previous,
        raw=options.raw,
        tail=options.tail,
        since=options.since,
    )
    if asked.everyone and asked.previous:
        raise ConfigurationError("--previous is of one pod; leave --all out, or name a worker with --worker")
    for line in log_lines(kubectl, options.name, asked):
        print(line, flush=asked.follow)  # noqa: T201 - the command's output
    return ExitCode.DONE


def _export(kubectl: Kubectl, options: argparse.Namespace) -> int:
    from dartes.cli.kube.export import Asked, export_job

    asked = Asked(options.output, options.iteration, options.dtype, options.model, options.remote)
    for line in export_job(kubectl, options.name, asked, _say):
        print(line)  # noqa: T201 - the command's output
    return ExitCode.DONE


def _report_bug(kubectl: Kubectl, options: argparse.Namespace) -> int:
    from dartes.cli.kube.report import Asked, report_bug

    for line in report_bug(kubectl, options.name, Asked(options.output, options.operator_namespace), _say):
        print(printable(line))  # noqa: T201 - the command's output
    return ExitCode.DONE


def _say(text: str) -> None:
    print(printable(text), file=sys.stderr, flush=True)  # noqa: T201


def _failed(message: str, code: ExitCode) -> int:
    _say(f"error: {message}")
    return code


def _interrupted(options: argparse.Namespace) -> int:
    """Ctrl-C is how following and watching end; of what writes files it is an interruption."""
    if options.command in ("export", "report-bug"):
        return _failed(
            "interrupted; nothing is left behind, neither here nor in the cluster", ExitCode.DRAINED
        )
    return ExitCode.DONE


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


_COMMANDS: Final[Mapping[str, Callable[[Kubectl, argparse.Namespace], int]]] = {
    "status": _status,
    "logs": _logs,
    "export": _export,
    "report-bug": _report_bug,
}


if __name__ == "__main__":
    sys.exit(main())
