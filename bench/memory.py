"""What training costs a worker in memory: its peak, above the same engine serving the same model untrained.

Both are fresh processes on the same prompts. The one that serves loads the engine and answers. The other
lives a worker's life without a coordinator: it imports what a worker imports, is equipped by the job, loads
the master, checks what the engine reads, writes members, answers and grades, applies updates, attests and
writes a snapshot. The peak is the kernel's (VmHWM); graders are processes of their own and not in it.

Usage: python -m bench.memory [--smollm2 MODEL_DIR]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.common import Figure, Row, all_reached, report
from bench.runs_support import ADDITION, NO_MODEL, add_model_option, changed_job
from dartes.checkpoint import open_checkpoint
from dartes.ids import Iteration
from dartes.journal import JournalRow
from dartes.noise import ServedDtype
from dartes.spec import load_job

ALLOWED_ABOVE_MASTER: Final = 64 * 2**20
MIB: Final = 2**20
MEMBERS: Final = 2
UPDATES: Final = 2
SEED: Final = 1
SIGMA: Final = 1e-3


class Life(StrEnum):
    """What a measured process does."""

    SERVE = "serve"
    WORK = "work"


@dataclass(frozen=True)
class Case:
    """A model in a served format. `asked` is how a figure names it."""

    asked: str
    served: str
    prompts: int
    new_tokens: int
    model: Path | None = None
    """None = the built-in model."""


# In the measured processes ---------------------------------------------------------------------------


class Peaks:
    """This process's peak memory after each step of its life."""

    def __init__(self) -> None:
        self.by_step: dict[str, int] = {}

    def mark(self, step: str) -> None:
        """Note the peak so far."""
        self.by_step[step] = peak_bytes()


def peak_bytes() -> int:
    """VmHWM of this process."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no VmHWM")


def serve(job: Path) -> Mapping[str, int]:
    """Load the engine and answer the prompts; nothing is trained."""
    from dartes.data import load_dataset
    from dartes.model_source import resolve_model
    from dartes.tasks.registry import task_named
    from dartes_worker.engines.base import GenerationLimits
    from dartes_worker.engines.registry import engine_for
    from dartes_worker.groups import generation_groups

    peaks = Peaks()
    peaks.mark("import")
    loaded = load_job(job)
    spec = loaded.job.spec
    dataset = load_dataset(spec.dataset, loaded.base_dir)
    task = task_named(spec.task.kind).from_spec(spec.task)
    folder = resolve_model(spec.model.source, spec.model.revision, loaded.base_dir)
    served = ServedDtype(spec.served_type.lower())
    engine = engine_for(spec)(folder, open_checkpoint(folder), served, 1, "cpu")
    peaks.mark("load engine")
    tokens = engine.encode([task.prompt(row) for row in dataset.rows[: spec.es.batch_size]])
    limits = GenerationLimits(spec.generation.max_new_tokens)
    groups = generation_groups([len(t) for t in tokens], limits.max_new_tokens, spec.generation.token_budget)
    for _ in range(MEMBERS):
        for group in groups:
            engine.generate([tokens[position] for position in group], limits, None)
    peaks.mark("generate")
    return peaks.by_step


def work(job: Path) -> Mapping[str, int]:
    """A worker's life, in the order in which it happens."""
    import dartes_worker.__main__  # noqa: F401 - all that a worker's process imports
    from dartes_worker.evaluate import Sampling
    from dartes_worker.master import MasterWeights
    from dartes_worker.setup import equip
    from dartes_worker.timing import Stopwatch

    peaks = Peaks()
    peaks.mark("import")
    loaded = load_job(job)
    spec = loaded.job.spec
    equipment = equip(spec, loaded.base_dir)
    peaks.mark("load engine")
    equipment.registration("worker-0")
    peaks.mark("base digest")
    master = MasterWeights.load(equipment.checkpoint, equipment.served, b"\0" * 32)
    peaks.mark("load master")
    segments = equipment.engine.segments()
    master.write(segments, 0, 0.0)
    if master.served_digest_expected().total != master.served_digest_of(segments).total:
        raise RuntimeError("the engine does not read what was written")
    master.digest()
    peaks.mark("write, digests")
    rows = range(spec.es.batch_size)
    for member in range(MEMBERS):
        master.write(segments, SEED + member, SIGMA)
        sampling = Sampling(SEED, 0, member)
        equipment.evaluator.answer(equipment.stages[0], rows, 0, 1, sampling, Stopwatch()).outcome()
    peaks.mark("generate")
    master.apply([_row(k, spec.es.population_size) for k in range(UPDATES)])
    master.digest()
    peaks.mark("update, attest")
    with tempfile.TemporaryDirectory() as scratch:
        master.write_snapshot(Path(scratch) / "snapshot.safetensors")
    peaks.mark("snapshot")
    equipment.close()
    return peaks.by_step


def _row(iteration: int, members: int) -> JournalRow:
    generator = np.random.default_rng(iteration)
    seeds = generator.integers(0, 2**64, members, dtype=np.uint64)
    coefficients = (generator.standard_normal(members) * 1e-5).astype(np.float32)
    return JournalRow(Iteration(iteration), 0, seeds, coefficients)


# In the measuring process ----------------------------------------------------------------------------


def peaks_of(life: Life, job: Path) -> dict[str, int]:
    """Peak bytes by step of a fresh process."""
    command = [sys.executable, "-m", "bench.memory", "--life", life, "--job", str(job)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(case: Case) -> tuple[list[Row], Figure]:
    """Both lives of a case."""
    changes: dict[str, Any] = {
        "evaluation.sets": [],
        "es.batchSize": case.prompts,
        "es.servedDtype": case.served,
        "generation.maxNewTokens": case.new_tokens,
    }
    if case.model is not None:
        changes["model.source"] = str(case.model.absolute())
    name = f"{case.asked}, served {case.served}"
    with tempfile.TemporaryDirectory() as scratch:
        job = changed_job(ADDITION, changes, Path(scratch) / "job.yaml")
        peaks_of(Life.WORK, job)  # compiled kernels are on disk from now on, as on any machine in use
        serving, working = peaks_of(Life.SERVE, job), peaks_of(Life.WORK, job)
    rows: list[Row] = [
        {"case": name, "process": life, "peak MiB until": step, "MiB": round(peak / MIB, 1)}
        for life, peaks in ((Life.SERVE, serving), (Life.WORK, working))
        for step, peak in peaks.items()
    ]
    loaded = open_checkpoint(case.model or _builtin())
    master = 4 * sum(info.count for info in loaded.trainable)
    above = max(working.values()) - max(serving.values())
    rows.append({"case": name, "process": "difference", "MiB": round(above / MIB, 1)})
    return rows, figure_of(case, master, above)


def figure_of(case: Case, master: int, above: int | None) -> Figure:
    """The figure of a case; None where there is no model to measure it with."""
    allowed = master + ALLOWED_ABOVE_MASTER
    return Figure(
        f"{case.asked}, served {case.served}: a worker's peak above serving alone",
        f"<= fp32 master + 64 MiB = {allowed / MIB:.1f} MiB" if master else "<= fp32 master + 64 MiB",
        NO_MODEL if above is None else f"{above / MIB:.1f} MiB",
        None if above is None else above <= allowed,
    )


def _builtin() -> Path:
    from dartes.builtin import builtin_model

    return builtin_model("addition")


def main() -> int:
    """Measure, print and write; 1 if a figure is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.memory", description=__doc__)
    add_model_option(parser)
    parser.add_argument("--life", type=Life, choices=list(Life), help=argparse.SUPPRESS)
    parser.add_argument("--job", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.life is not None:
        print(json.dumps(serve(options.job) if options.life is Life.SERVE else work(options.job)))
        return 0
    cases: Sequence[Case] = [
        Case("built-in model", "Float32", prompts=128, new_tokens=8),
        Case("SmolLM2-135M", "Float32", prompts=16, new_tokens=4, model=options.smollm2),
        Case("SmolLM2-135M", "BFloat16", prompts=16, new_tokens=4, model=options.smollm2),
    ]
    rows: list[Row] = []
    figures: list[Figure] = []
    for case in cases:
        if case.asked != "built-in model" and case.model is None:
            figures.append(figure_of(case, 0, None))
            continue
        measured, figure = measure(case)
        rows += measured
        figures.append(figure)
    meta = {
        "members written": MEMBERS,
        "updates": UPDATES,
        "prompts and new tokens": {f"{c.asked}, {c.served}": [c.prompts, c.new_tokens] for c in cases},
        "threads": 1,
        "peak": "VmHWM of a fresh process, kernels compiled before",
    }
    report("memory", rows, meta, figures)
    return 0 if all_reached(figures) else 1


if __name__ == "__main__":
    sys.exit(main())
