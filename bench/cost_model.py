"""The cost model beside a run: predicted and measured seconds per iteration on this machine's CPU.

One worker, the built-in model with the Transformers and the VLLM engine; seconds are the median iteration's
without evaluation. Lengths are the run's own: what is judged is the arithmetic, not a guess of lengths.

Usage: python -m bench.cost_model
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from bench.common import Figure, Row, report
from bench.runs_support import changed_job
from dartes.cli.plan import Asked, plan

JOB: Final = Path(__file__).parents[1] / "examples" / "addition.yaml"
ITERATIONS: Final = 6
PROMPT_TOKENS: Final = 5


def measured(engine: str, scratch: Path) -> tuple[Path, float, float]:
    """Run a job; returns it, the median seconds of an iteration, and mean tokens of an answer."""
    changes: dict[str, Any] = {
        "es.iterations": ITERATIONS,
        "evaluation.sets": [],
        "workers.engine": engine,
        "workers.replicas": 1,
    }
    job = changed_job(JOB, changes, scratch / f"{engine}.yaml")
    folder = scratch / f"run-{engine}"
    command = [sys.executable, "-m", "dartes.cli.main", "run", str(job), "--workdir", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    answers = 32 * 128
    tokens = statistics.mean(line["generated_tokens"] for line in lines) / answers
    return job, statistics.median(line["seconds"] for line in lines[1:]), tokens


def main() -> int:
    """Measure, print and write."""
    argparse.ArgumentParser(prog="python -m bench.cost_model", description=__doc__).parse_args()
    rows: list[Row] = []
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        for engine in ("Transformers", "VLLM"):
            job, seconds, tokens = measured(engine, Path(folder))
            asked = Asked(prompt_tokens=PROMPT_TOKENS, answer_tokens=max(1, round(tokens)))
            predicted = plan(job, asked).iteration.seconds
            rows.append(
                {
                    "engine": engine,
                    "tokens of an answer": round(tokens, 2),
                    "predicted s": round(predicted, 2),
                    "measured s": round(seconds, 2),
                    "predicted / measured": round(predicted / seconds, 2),
                }
            )
            figures.append(
                Figure(
                    f"{engine}, built-in model: predicted beside measured seconds of an iteration",
                    "stated",
                    f"{predicted / seconds:.2f}",
                    None,
                )
            )
    report("cost_model", rows, {"iterations": ITERATIONS, "job": "examples/addition.yaml"}, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
