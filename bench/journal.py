"""How small a journal is and how fast it is replayed: 1,000 iterations x 40 members on a 64 Ki-element slice.

Prints a table and writes `bench/results/journal.json`. Replay is the noise kernel at work, so `torch`'s
normal generator is timed beside it in the same run, on one thread; bits are compared with live updates.
Rates are per second of processor time; that of all cores is measured with all of them at work.

Usage: python -m bench.journal
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from bench.common import Row, report
from dartes.ids import Iteration
from dartes.journal import JournalHeader, JournalRow, read_journal, replay_onto, write_journal
from dartes.noise import NOISE_VERSION

ITERATIONS: Final = 1000
MEMBERS: Final = 40
ELEMENTS: Final = 2**16
NAME: Final = "model.embed_tokens.weight"
MODELS: Final = {"135 M": 135e6, "1.5 B": 1.5e9, "7 B": 7e9}


def journal_rows() -> list[JournalRow]:
    """Random seeds and coefficients of the size that a real run has (alpha 0.0005, N 40)."""
    generator = np.random.default_rng(0)
    rows = []
    for k in range(ITERATIONS):
        seeds = generator.integers(0, 2**64, MEMBERS, dtype=np.uint64)
        coefficients = (generator.standard_normal(MEMBERS) * (0.0005 / MEMBERS)).astype(np.float32)
        rows.append(JournalRow(Iteration(k), 0, seeds, coefficients))
    return rows


def journal_header() -> JournalHeader:
    """A header with the tensor table of a 7 B model (339 tensors)."""
    parts = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"]
    parts += ["mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "input_layernorm", "post_attention_layernorm"]
    biases = ["self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"]
    per_layer = [f"{part}.weight" for part in parts] + biases
    names = [f"model.layers.{layer}.{part}" for layer in range(28) for part in per_layer]
    names += [NAME, "model.norm.weight", "lm_head.weight"]
    return JournalHeader(
        noise_version=NOISE_VERSION,
        run_seed=0,
        algorithm_digest="0" * 64,
        algorithm_fields={f"es.field{k}": 0.001 for k in range(40)},
        base_digest="0" * 64,
        data_digest="0" * 64,
        tensors=tuple((name, (18944, 3584)) for name in sorted(names)),
    )


def base_slice() -> NDArray[np.float32]:
    """Weights of the usual size, std 0.02."""
    return np.random.default_rng(1).standard_normal(ELEMENTS, dtype=np.float32) * np.float32(0.02)


def seconds(work: Callable[[], None]) -> float:
    """Processor time of this thread in one call, which a busy machine hardly disturbs."""
    start = time.thread_time()
    work()
    return time.thread_time() - start


def torch_rate(add: bool, members: int = 400) -> float:
    """Noise values per second of `torch`'s normal on one thread, alone or with scale and add."""
    torch.set_num_threads(1)
    noise = torch.empty(ELEMENTS)
    weights = torch.zeros(ELEMENTS)
    generator = torch.Generator()

    def work() -> None:
        for member in range(members):
            generator.manual_seed(member)
            noise.normal_(generator=generator)
            if add:
                weights.add_(noise, alpha=1e-5)

    return members * ELEMENTS / min(seconds(work) for _ in range(3))


def all_cores_rate(rows: list[JournalRow], cores: int) -> float:
    """Noise values per second with a slice per core, all replayed at once: the sum of the cores' rates."""
    slices = [{NAME: base_slice()} for _ in range(cores)]
    with ThreadPoolExecutor(cores) as pool:
        times = list(pool.map(lambda tensors: seconds(lambda: replay_onto(tensors, rows)), slices))
    return sum(len(rows) * MEMBERS * ELEMENTS / spent for spent in times)


def duration(value: float) -> str:
    """Seconds in the unit that a person would use."""
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if value >= size:
            return f"{value / size:.1f} {unit}"
    return f"{value:.1f} s"


def main() -> int:
    """Measure, print and write; 1 if the journal is too large or a bit differs."""
    rows = journal_rows()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.dartes"
        write_seconds = seconds(lambda: _discard(write_journal(path, journal_header(), rows)))
        size = path.stat().st_size
        read_seconds = seconds(lambda: _discard(read_journal(path)))
    replayed, live = {NAME: base_slice()}, {NAME: base_slice()}
    replay_onto({NAME: base_slice()}, rows[:1])  # compiles, and fills the table

    torch_normal = torch_rate(add=False)
    values = ITERATIONS * MEMBERS * ELEMENTS
    rate = values / seconds(lambda: replay_onto(replayed, rows))
    torch_added = torch_rate(add=True)

    def one_at_a_time() -> None:
        for row in rows:
            replay_onto(live, [row])

    live_rate = values / seconds(one_at_a_time)
    cores = len(os.sched_getaffinity(0))
    together = all_cores_rate(rows[:200], cores)
    equal = replayed[NAME].tobytes() == live[NAME].tobytes()
    changed = replayed[NAME].tobytes() != base_slice().tobytes()

    table: list[Row] = [
        {"what": f"journal, {ITERATIONS} x {MEMBERS}", "value": f"{size:,} bytes (limit 1,000,000)"},
        {"what": "write, read and verify it", "value": f"{write_seconds:.3f} s, {read_seconds:.3f} s"},
        {"what": "replay, all rows in one pass, 1 core", "value": f"{rate / 1e6:.0f} M noise values/s"},
        {"what": "live, one iteration at a time, 1 core", "value": f"{live_rate / 1e6:.0f} M noise values/s"},
        {"what": f"replay, {cores} cores", "value": f"{together / 1e6:.0f} M noise values/s"},
        {"what": "torch normal, 1 core", "value": f"{torch_normal / 1e6:.0f} M noise values/s"},
        {"what": "torch normal + scale + add, 1 core", "value": f"{torch_added / 1e6:.0f} M noise values/s"},
        {"what": "replay / torch normal", "value": f"{rate / torch_normal:.2f}"},
        {"what": "replay / torch normal + scale + add", "value": f"{rate / torch_added:.2f}"},
        {"what": "bits equal to the live ones", "value": "yes" if equal and changed else "NO"},
    ]
    projected = {}
    for model, parameters in MODELS.items():
        total = ITERATIONS * MEMBERS * parameters
        projected[model] = {"one_core_s": total / rate, "all_cores_s": total / together}
        text = f"{duration(total / rate)} on 1 core, {duration(total / together)} on {cores}"
        table.append({"what": f"projected replay, {model} parameters", "value": text})
    meta = {
        "iterations": ITERATIONS,
        "members": MEMBERS,
        "elements": ELEMENTS,
        "journal_bytes": size,
        "replay_values_per_s": rate,
        "live_values_per_s": live_rate,
        "all_cores_values_per_s": together,
        "cores": cores,
        "torch_normal_values_per_s": torch_normal,
        "torch_normal_scale_add_values_per_s": torch_added,
        "bits_equal": equal and changed,
        "projected": projected,
    }
    report("journal", table, meta)
    return 0 if equal and changed and size < 1_000_000 else 1


def _discard(_: object) -> None:
    """Timed for its work, not for its result."""


if __name__ == "__main__":
    sys.exit(main())
