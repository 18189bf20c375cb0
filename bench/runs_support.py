"""Real runs for benchmarks: an example's job with some fields changed, `dartes run` as a process, its result.

Everything goes through the product's own code; nothing here knows what a run should come out as.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dartes.spec import load_job
from dartes.spec.dump import resolved_fields
from dartes.state import RunFolder, RunReader

ROOT: Final = Path(__file__).resolve().parents[1]
ADDITION: Final = ROOT / "examples" / "addition.yaml"
SMOLLM2_JOB: Final = ROOT / "examples" / "smollm2-arithmetic.yaml"
SMOLLM2_MODEL: Final = ROOT / "runs" / "models" / "smollm2-135m-instruct"
"""Where `make example-smollm2` puts the model."""
NO_MODEL: Final = "not measured: no model (make example-smollm2 fetches it)"


@dataclass(frozen=True)
class FinishedRun:
    """What a finished run left behind."""

    folder: RunFolder
    summary: Mapping[str, Any]
    beside: Sequence[Mapping[str, Any]]
    """Per iteration, what the coordinator noted beside the result: seconds, seconds by part, bytes."""

    def accuracy(self, set_name: str) -> dict[int, float]:
        """Iterations done -> accuracy on an evaluation set."""
        points = self.summary["evaluations"][set_name]["all"]
        return {int(point["iteration"]): float(point["accuracy"]) for point in points}


def changed_job(example: Path, changes: Mapping[str, Any], output: Path) -> Path:
    """Write an example's job with fields replaced, every default filled in and local paths absolute.

    `changes` maps dotted paths under `spec` to values, such as `dart.replay.enabled` to False.
    """
    loaded = load_job(example)
    document: dict[str, Any] = json.loads(json.dumps(resolved_fields(loaded.job, loaded.base_dir)))
    for path, value in changes.items():
        *parents, last = path.split(".")
        inner = document["spec"]
        for name in parents:
            inner = inner.setdefault(name, {})
        inner[last] = value
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(document, indent=1), encoding="utf-8")  # JSON is YAML
    return output


def run_job(job: Path, folder: Path, workers: int) -> FinishedRun:
    """`dartes run` to its end; RuntimeError with what it printed where it fails."""
    command = [sys.executable, "-m", "dartes.cli.main", "run", str(job)]
    command += ["--workdir", str(folder), "--workers", str(workers)]
    done = subprocess.run(
        command,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return finished_run(RunFolder(folder))


def finished_run(folder: RunFolder) -> FinishedRun:
    """What lies in the folder of a finished run."""
    with RunReader.open(folder) as reader:
        beside = [stored.beside for stored in reader.iterations()]
    summary = json.loads(folder.summary.read_text(encoding="utf-8"))
    return FinishedRun(folder, summary, beside)


def add_model_option(parser: argparse.ArgumentParser) -> None:
    """`--smollm2 MODEL_DIR`: by default where the example puts it, if it is there."""
    parser.add_argument(
        "--smollm2",
        type=Path,
        metavar="MODEL_DIR",
        default=SMOLLM2_MODEL if SMOLLM2_MODEL.is_dir() else None,
        help="folder of SmolLM2-135M-Instruct (default: the one that `make example-smollm2` fetched)",
    )
