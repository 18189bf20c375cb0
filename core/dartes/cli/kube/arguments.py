"""What can be typed after `kubectl dartes`: commands, options and their help. Imports nothing slow."""

import argparse
from pathlib import Path

import dartes
from dartes.cli.arguments_parts import Parser, add_dtype, add_iteration, not_negative

_EPILOG = """\
Cluster and namespace are those of the kubeconfig's current context unless told otherwise. Everything is done
by the kubectl on the PATH, with your rights.

exit codes: 0 done; 64 something in the job, the command or your rights is wrong (the message says what);
75 the cluster can't be reached or is busy, try again; 76 interrupted.
"""


def command_line() -> argparse.ArgumentParser:
    """The parser; its result names a `command`."""
    parser = Parser(
        prog="kubectl dartes",
        description="A DartESJob in a cluster: where it stands, what it logs, the model it trained, and what "
        "to hand on when something is wrong.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"kubectl-dartes {dartes.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    status = _command(
        commands,
        "status",
        "where a job stands, what is wrong, what to do",
        "Shows progress, workers, losses, the conditions that are not as they should be with their reasons, "
        "the pods, the newest events, and what to do next.",
    )
    status.add_argument(
        "--json", action="store_true", help="one JSON object with the same keys in every phase"
    )
    status.add_argument(
        "--watch",
        "-w",
        action="store_true",
        help="show it again whenever it changes, until the job has ended",
    )

    logs = _command(
        commands,
        "logs",
        "what the job's pods log, readable",
        "Shows the log of the coordinator, of one worker or of all pods. JSON lines are shown as time, "
        "level, pod and message; lines of another form as they are.",
    )
    who = logs.add_mutually_exclusive_group()
    who.add_argument(
        "--worker", type=not_negative, metavar="I", help="of worker I (default: the coordinator)"
    )
    who.add_argument("--all", action="store_true", help="of all pods, each line with its pod's name")
    logs.add_argument("--follow", "-f", action="store_true", help="go on as long as the pod lives")
    logs.add_argument(
        "--previous",
        "-p",
        action="store_true",
        help="of the last pod of that role that failed, where it is kept",
    )
    logs.add_argument("--raw", action="store_true", help="the lines as they were logged, in JSON")
    logs.add_argument("--tail", type=not_negative, metavar="N", help="only the last N lines (default: all)")
    logs.add_argument("--since", metavar="D", help="only what is newer than D, such as 90s, 10m or 2h")

    export = _command(
        commands,
        "export",
        "write the fine-tuned model in the hub's layout",
        "Copies the journal (under 1 MB) out of the cluster and rebuilds the weights here from the base "
        "model, bit for bit as `dartes export` does. Works while the job runs and after it has ended.",
    )
    export.add_argument(
        "--output", type=Path, required=True, metavar="MODEL_DIR", help="new or empty folder for the model"
    )
    add_iteration(export)
    add_dtype(export)
    export.add_argument(
        "--model",
        type=Path,
        metavar="PATH",
        help="folder of the base model (default: model.source of the job)",
    )
    export.add_argument(
        "--remote", action="store_true", help="build it in the cluster and copy the finished model"
    )

    report = _command(
        commands,
        "report-bug",
        "one archive for a bug report, without secrets",
        "Writes one .tar.gz with the job's objects, events, logs and metrics, the operator's, and versions. "
        "Secrets are never read; values that are named as secrets, or look like tokens, are removed.",
        all_jobs=True,
    )
    report.add_argument(
        "--output",
        "-o",
        type=Path,
        default=Path("dartes-report.tar.gz"),
        metavar="FILE",
        help="new file for the archive (default: %(default)s)",
    )
    report.add_argument(
        "--operator-namespace",
        metavar="NS",
        help="namespace of the operator (default: all are searched, where you may)",
    )
    return parser


def _command(
    commands: "argparse._SubParsersAction[Parser]",
    name: str,
    summary: str,
    description: str,
    *,
    all_jobs: bool = False,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=summary, description=description)
    parser.set_defaults(command=name)
    if all_jobs:
        parser.add_argument(
            "name", nargs="?", metavar="NAME", help="name of the job (default: all of the namespace)"
        )
    else:
        parser.add_argument("name", metavar="NAME", help="name of the job (kubectl get dej lists them)")
    parser.add_argument(
        "--namespace", "-n", metavar="NS", help="namespace of the job (default: the context's)"
    )
    parser.add_argument("--context", metavar="C", help="context of the kubeconfig (default: the current one)")
    parser.add_argument("--kubeconfig", metavar="F", help="kubeconfig file (default: as kubectl finds it)")
    return parser
