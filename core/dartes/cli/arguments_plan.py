"""Arguments of `dartes plan`."""

import argparse
from pathlib import Path

from dartes.cli.arguments_parts import Parser, add_command, positive

_UNITS = {"k": 1e3, "m": 1e6, "b": 1e9}


def add_plan(commands: "argparse._SubParsersAction[Parser]") -> None:
    """`plan`."""
    plan = add_command(
        commands,
        "plan",
        "what a job will need and take: memory, placement, time, GPU hours",
        "Runs nothing and reads no weights: estimates by the formulas of docs/cost.md. The model is taken "
        "from its folder, or described by --parameters and the four sizes beside it.",
    )
    plan.add_argument("job", type=Path, metavar="JOB", help="job file (YAML)")
    plan.add_argument("--gpu", metavar="NAME", help="kind of GPU, such as A100-80, H100, L4")
    plan.add_argument("--workers", type=positive, metavar="N", help="(default: spec.workers.replicas)")
    plan.add_argument("--gpu-price", type=price, metavar="X", help="money per GPU and hour")
    plan.add_argument(
        "--prompt-tokens", type=positive, default=128, metavar="N", help="length of a prompt (default: 128)"
    )
    plan.add_argument(
        "--answer-tokens",
        type=positive,
        metavar="N",
        help="length of an answer (default: generation.maxNewTokens, the longest)",
    )
    plan.add_argument("--parameters", type=parameters, metavar="N", help="such as 7.6B")
    for name in ("layers", "heads", "kv-heads", "head-size"):
        plan.add_argument(f"--{name}", type=positive, metavar="N", help="of a model that is not here")
    plan.add_argument("--json", action="store_true", help="one JSON object")


def parameters(text: str) -> int:
    """A number of parameters, with K, M or B behind it or not."""
    unit = _UNITS.get(text[-1:].lower(), 1.0)
    try:
        number = float(text[:-1] if unit > 1 else text) * unit
    except ValueError:
        number = 0.0
    if not 1 <= number < 1e15:
        raise argparse.ArgumentTypeError(f"{text!r}: must be a number such as 135M or 7.6B")
    return int(number)


def price(text: str) -> float:
    """Money per GPU and hour."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r}: must be a number of at least 0")
    return number
