"""What commands share of their arguments: the parser itself, types with their bounds, common options.

Imports nothing of the project but exit codes, so that `--help` and wrong usage answer at once.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from dartes.errors import ExitCode


class Parser(argparse.ArgumentParser):
    """Wrong usage is the user's mistake, and exits like every other one."""

    def error(self, message: str) -> None:  # type: ignore[override]
        self.print_usage(sys.stderr)
        self.exit(ExitCode.CONFIGURATION, f"{self.prog}: {message}\n")


def add_command(
    commands: "argparse._SubParsersAction[Parser]",
    name: str,
    summary: str,
    description: str,
) -> argparse.ArgumentParser:
    """A command whose result names it."""
    parser = commands.add_parser(name, help=summary, description=description)
    parser.set_defaults(command=name)
    return parser


def add_iteration(parser: argparse.ArgumentParser) -> None:
    """`--iteration`, of all commands that rebuild weights."""
    parser.add_argument(
        "--iteration",
        type=iteration,
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


def iteration(text: str) -> int | str:
    """A number of iterations, `Best` or `Last`."""
    word = text.capitalize()
    if word in ("Best", "Last"):
        return word
    try:
        return not_negative(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, Best or Last") from None


def add_folder(parser: argparse.ArgumentParser) -> None:
    """`DIR`, of all commands that read a run."""
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


positive = _whole(1)
several = _whole(2)
not_negative = _whole(0)
port = _whole(0, 65535)


def sigmas(text: str) -> list[float]:
    """Numbers above 0 and at most 1, separated by commas."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or any(not 0 < value <= 1 for value in values):
        raise argparse.ArgumentTypeError(f"{text!r}: give numbers above 0 and at most 1, such as 0.001,0.002")
    return values
