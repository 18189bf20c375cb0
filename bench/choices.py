"""How well a small real model learns a multiple-choice task: held-out accuracy along one run.

The run is `dartes run` on examples/smollm2-choices.yaml, half an hour on two cores. `--workdir` keeps its
folder, and goes on with one that is there.

Usage: python -m bench.choices [--smollm2 MODEL_DIR] [--workdir DIR]
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Final

from bench.common import Figure, Row, all_reached, report
from bench.runs_support import NO_MODEL, ROOT, add_model_option, changed_job, run_job

EXAMPLE: Final = ROOT / "examples" / "smollm2-choices.yaml"
SET: Final = "held-out"
WORKERS: Final = 2


def main() -> int:
    """Measure, print and write; 1 if a figure is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.choices", description=__doc__)
    add_model_option(parser)
    parser.add_argument("--workdir", type=Path, metavar="DIR", help="run folder to keep or to go on with")
    options = parser.parse_args()
    if options.smollm2 is None:
        parser.error(f"--smollm2: {NO_MODEL}")
    with tempfile.TemporaryDirectory() as scratch:
        fields = {"model.source": str(options.smollm2.resolve())}
        job = changed_job(EXAMPLE, fields, Path(scratch) / "job.yaml")
        run = run_job(job, options.workdir or Path(scratch) / "run", WORKERS)
    points = run.summary["evaluations"][SET]["all"]
    rows: list[Row] = [
        {
            "iterations": point["iteration"],
            "right": f"{100 * point['accuracy']:.1f} %",
            "95 % interval": " to ".join(f"{100 * bound:.1f}" for bound in point["interval95"]),
        }
        for point in points
    ]
    first, last = points[0], points[-1]
    figure = Figure(
        f"held-out accuracy at the end, above the base model's {100 * first['accuracy']:.1f} %",
        "intervals apart",
        f"{100 * last['accuracy']:.1f} %",
        last["interval95"][0] > first["interval95"][1],
    )
    report("choices", rows, {"job": EXAMPLE.name, "held-out problems": last["problems"]}, [figure])
    return 0 if all_reached([figure]) else 1


if __name__ == "__main__":
    sys.exit(main())
