"""Writes the CustomResourceDefinition to standard output, or checks a file against it.

`--check FILE` exits 1 where the file differs from the models; the size goes to standard error.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dartes.spec.crd.document import COMMAND, MOST_BYTES, manifest


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the definition, or check a file against it; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m dartes.spec.crd", description=__doc__)
    parser.add_argument("--check", type=Path, metavar="FILE", help="exit 1 where FILE is not up to date")
    options = parser.parse_args(arguments)
    made = manifest()
    size = len(made.encode())
    if size > MOST_BYTES:
        sys.stderr.write(f"the definition has {size} bytes; allowed: at most {MOST_BYTES}\n")
        return 1
    if options.check is None:
        sys.stdout.write(made)
        sys.stderr.write(f"{size} bytes\n")
        return 0
    try:
        current = options.check.read_text(encoding="utf-8")
    except OSError as error:
        sys.stderr.write(f"{options.check}: can't be read ({error.strerror}); make it with: {COMMAND}\n")
        return 1
    if current != made:
        sys.stderr.write(f"{options.check}: differs from the job model; make it anew with: {COMMAND}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
