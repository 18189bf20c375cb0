"""What training costs a worker with the vLLM engine in memory: its peak, above vLLM serving it untrained.

Both are fresh processes with as many prompts, plain weights and KV caches of the same size. The one that
serves is vLLM by itself. The other lives a worker's life without a coordinator: it is equipped by the job,
maps and loads the master, writes members, answers and grades, applies updates and attests them, and writes
a snapshot. The peak is the kernel's (VmHWM).

Usage: python -m bench.vllm_memory [--smollm2 MODEL_DIR]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench.common import Figure, Row, all_reached, report
from bench.memory import ALLOWED_ABOVE_MASTER, Life, Peaks
from bench.runs_support import NO_MODEL, add_model_option
from bench.vllm_support import (
    ENVIRONMENT,
    KV_BYTES,
    MIB,
    SERVED,
    Load,
    Worker,
    generate_alone,
    vllm_alone,
    write_job,
)
from dartes.checkpoint import open_checkpoint

PROMPTS: Final = 16
NEW_TOKENS: Final = 16
MEMBERS: Final = 2
UPDATES: Final = 2
COEFFICIENT: Final = 1e-5


def serve(load: Load) -> Mapping[str, int]:
    """Start vLLM and answer the prompts; nothing is trained."""
    peaks = Peaks()
    peaks.mark("import")
    llm = vllm_alone(load.model, plain=True)
    peaks.mark("load engine")
    tokens = [[1 + (7 * row + at) % 1000 for at in range(40)] for row in range(load.prompts)]
    for _ in range(MEMBERS):
        generate_alone(llm, tokens, load.new_tokens)
    peaks.mark("generate")
    return peaks.by_step


def work(job: Path, load: Load) -> Mapping[str, int]:
    """A worker's life, in the order in which it happens."""
    import dartes_worker.__main__  # noqa: F401 - all that a worker's process imports

    peaks = Peaks()
    peaks.mark("import")
    worker = Worker(job, load, base=False)
    peaks.mark("load engine, map weights")
    worker.load_base()
    peaks.mark("load master, write parent")
    expected, found = worker.replica.served_digests()
    if expected.total != found.total:
        raise RuntimeError("the engine does not read what was written")
    peaks.mark("digests")
    for member in range(MEMBERS):
        worker.member(member)
    peaks.mark("generate")
    for update in range(UPDATES):
        worker.update([update], [COEFFICIENT])
    peaks.mark("update, attest")
    with tempfile.TemporaryDirectory() as scratch:
        worker.replica.write_snapshot(Path(scratch) / "snapshot.safetensors")
    peaks.mark("snapshot")
    return peaks.by_step


def peaks_of(life: Life, job: Path, load: Load) -> dict[str, int]:
    """Peak bytes by step of a fresh process."""
    command = [sys.executable, "-m", "bench.vllm_memory", "--life", life, "--job", str(job)]
    command += ["--smollm2", str(load.model)]
    done = subprocess.run(
        command, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def rows_of(serving: Mapping[str, int], working: Mapping[str, int]) -> list[Row]:
    """Peaks by process and step, and the difference of the last ones."""
    rows: list[Row] = [
        {"process": life, "peak MiB until": step, "MiB": round(peak / MIB, 1)}
        for life, peaks in ((Life.SERVE, serving), (Life.WORK, working))
        for step, peak in peaks.items()
    ]
    above = max(working.values()) - max(serving.values())
    rows.append({"process": "difference", "MiB": round(above / MIB, 1)})
    return rows


def figure_of(allowed: int | None, above: int | None) -> Figure:
    """The figure; None where there is no model to measure it with."""
    return Figure(
        "SmolLM2-135M: a vLLM worker's peak above vLLM serving alone",
        "<= fp32 master + 64 MiB" + ("" if allowed is None else f" = {allowed / MIB:.1f} MiB"),
        NO_MODEL if above is None else f"{above / MIB:.1f} MiB",
        None if above is None or allowed is None else above <= allowed,
    )


def main() -> int:
    """Measure, print and write; 1 if the figure is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.vllm_memory", description=__doc__)
    add_model_option(parser)
    parser.add_argument("--life", type=Life, choices=list(Life), help=argparse.SUPPRESS)
    parser.add_argument("--job", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.smollm2 is None:
        report("vllm_memory", [], {}, [figure_of(None, None)])
        return 0
    load = Load(options.smollm2, PROMPTS, NEW_TOKENS)
    if options.life is not None:
        print(json.dumps(serve(load) if options.life is Life.SERVE else work(options.job, load)), flush=True)
        os._exit(0)  # engines' threads end with the process
    with tempfile.TemporaryDirectory() as scratch:
        job = write_job(load, "VLLM", Path(scratch) / "job.yaml")
        working = peaks_of(Life.WORK, job, load)
        serving = peaks_of(Life.SERVE, job, load)
    master = 4 * sum(info.count for info in open_checkpoint(load.model).trainable)
    above = max(working.values()) - max(serving.values())
    figure = figure_of(master + ALLOWED_ABOVE_MASTER, above)
    meta = {
        "model": f"SmolLM2-135M-Instruct, served {SERVED}",
        "prompts": PROMPTS,
        "new tokens": NEW_TOKENS,
        "KV cache MiB": KV_BYTES // MIB,
        "members written": MEMBERS,
        "updates": UPDATES,
        "peak": "VmHWM of a fresh process",
    }
    report("vllm_memory", rows_of(serving, working), meta, [figure])
    return 0 if all_reached([figure]) else 1


if __name__ == "__main__":
    sys.exit(main())
