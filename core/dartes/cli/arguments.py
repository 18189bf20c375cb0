"""What can be typed after `dartes`: commands, options, their bounds and their help.

Imports nothing of the project but exit codes, so that `--help` and wrong usage answer at once.
"""

import argparse
from pathlib import Path

import dartes
from dartes.cli.arguments_evaluation import add_data, add_evaluate, add_samples
from dartes.cli.arguments_parts import (
    Parser,
    add_command,
    add_dtype,
    add_folder,
    add_iteration,
    not_negative,
    port,
    positive,
    several,
    sigmas,
)
from dartes.cli.arguments_plan import add_plan

_EPILOG = """\
A job file is run with `dartes run JOB`; everything about the run is then in its folder DIR, and the same
command continues it after an interruption.

exit codes: 0 done; 64 something in the job, its data or the command is wrong (the message says what);
75 stopped for a reason outside, the same command goes on; 76 interrupted, the same command goes on;
1 a bug, or differences found by `verify`.
"""


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

    run = add_command(
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
        "--workers", type=positive, metavar="N", help="number of workers (default: spec.workers.replicas)"
    )
    run.add_argument(
        "--port", type=port, default=0, metavar="N", help="port of the coordinator (default: a free one)"
    )
    run.add_argument(
        "--from-iteration",
        type=not_negative,
        metavar="K",
        help="go back to the state after K iterations first; what came later is set aside in the folder",
    )
    run.add_argument("--export", type=Path, metavar="MODEL_DIR", help="write the model here at the end")
    run.set_defaults(
        interrupted="interrupted; everything committed is kept, the same command resumes the run"
    )

    validate = add_command(
        commands,
        "validate",
        "check a job file, its data and its model, every error at once",
        "Trains nothing. Reads the fields of the job file first; where they are right, all of the data, the "
        "rewards and, where the model is a local folder, what is in it. It fetches data sets from the hub, "
        "and no models. Whether a prompt is too long for the model or memory suffices is found by a run.",
    )
    validate.add_argument("job", type=Path, metavar="JOB", help="job file (YAML)")

    status = add_command(
        commands,
        "status",
        "where a run stands; works while it runs",
        "Asks the coordinator while the run goes on, else reads what is committed. Never waits for the run.",
    )
    add_folder(status)
    status.add_argument(
        "--json", action="store_true", help="one JSON object with the same keys in every phase"
    )

    journal = add_command(
        commands,
        "journal",
        "what decided each iteration, recomputed from the stored bits",
        "One line per iteration. With --json one object per iteration: seeds, problems with their source, "
        "pass rows (hex, least significant bit first), scores (null where they equal the passes), history "
        "before (null = never visited) and after, weights, raw and weighted fitness, coefficients, what is "
        "in the replay buffer afterwards, and the row hash.",
    )
    add_folder(journal)
    journal.add_argument("--json", action="store_true", help="one JSON object per iteration, with everything")

    verify = add_command(
        commands,
        "verify",
        "recompute everything from the bits and compare every hash and digest",
        "Recomputes batches, difficulty and coefficients, rebuilds the weights from base model and journal, "
        "and compares journal, metrics, summary, attestations and snapshots. Names every difference, and "
        "then exits 1.",
    )
    add_folder(verify)

    export = add_command(
        commands,
        "export",
        "write the fine-tuned model in the hub's layout",
        "Rebuilds the weights from base model and journal, and from the nearest snapshot where there is one.",
    )
    add_folder(export)
    export.add_argument(
        "--output", type=Path, required=True, metavar="MODEL_DIR", help="new or empty folder for the model"
    )
    add_iteration(export)
    add_dtype(export)

    add_evaluate(commands)
    add_samples(commands)
    add_data(commands)
    add_plan(commands)

    probe = add_command(
        commands,
        "probe",
        "fitness of one batch for several sigmas, to choose sigma",
        "Answers the job's first batch with the model itself and with the same few members at each sigma.",
    )
    probe.add_argument("job", type=Path, metavar="JOB", help="job file (YAML)")
    probe.add_argument(
        "--sigmas",
        type=sigmas,
        metavar="S,S,...",
        help="comma-separated (default: es.sigma times 1/8, 1/4, 1/2, 1, 2, 4, 8)",
    )
    probe.add_argument(
        "--members", type=several, default=8, metavar="N", help="members per sigma, at least 2 (default: 8)"
    )
    probe.add_argument(
        "--json", action="store_true", help="one JSON object per sigma; sigma 0 is the model itself"
    )
    return parser
