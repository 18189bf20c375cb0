"""The timings of `bench.gpu_check`: a write and an update beside a copy within the device's memory."""

import time
from collections.abc import Callable
from statistics import median

import numpy as np
import torch

from dartes.noise import ServedDtype
from dartes_worker.kernels.update import apply_updates, packed
from dartes_worker.kernels.write import write_member
from dartes_worker.weights.stretch import Stretch

ELEMENTS = 1 << 28
MEMBERS = 30
ROUNDS = 10


def seconds(action: Callable[[], object]) -> float:
    """Median time of an action on the current device, after one that compiles and warms up."""
    action()
    times = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        action()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return median(times)


def measured(device: torch.device) -> str:
    """Elements per second, and bytes per second as a share of what a copy moves; nothing is asked of them."""
    master = torch.randn(ELEMENTS, device=device) * 0.02
    other = torch.empty_like(master)
    out = torch.empty(ELEMENTS, dtype=torch.bfloat16, device=device)
    part = Stretch("c", "s", 0, 0, ELEMENTS)
    generator = np.random.default_rng(1)
    row = (
        generator.integers(0, 2**64, MEMBERS, dtype=np.uint64),
        (generator.standard_normal(MEMBERS) * 1e-6).astype(np.float32),
    )
    rows = packed([row], device)
    copy = 8 * ELEMENTS / seconds(lambda: other.copy_(master))
    write = ELEMENTS / seconds(lambda: write_member(master, out, ServedDtype.BFLOAT16, part, 1, 2, 1e-3))
    update = ELEMENTS / seconds(lambda: apply_updates(master, part, 1, rows))
    return (
        f"copy {copy / 1e9:.0f} GB/s; write to bfloat16 {write / 1e9:.1f} G elements/s = "
        f"{6 * write / copy:.0%} of the copy's bytes/s; update of {MEMBERS} members {update / 1e9:.2f} G "
        f"elements/s = {8 * update / copy:.0%}, {MEMBERS * update / 1e9:.0f} G noise values/s"
    )
