"""A pass over the weights on this CPU: one member written, one update applied, beside the memory's own speed.

A model of 135 M elements (random weights) by the kernels for CPUs, as a worker runs them: pieces of it on all
cores at once. In turn with them, in the same run: a copy of the same weights, and the noise alone, added to
one small piece of the weights again and again, so that the memory has no part in it. A pass is limited by
whichever of the two is slower; the row says which.

Usage: python -m bench.kernels [ELEMENTS]
"""

import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from bench.common import Figure, Row, report
from dartes.checkpoint import PIECE_ELEMENTS
from dartes.noise import ServedDtype, kernel
from dartes.noise.reference import UpdateRow

ELEMENTS = 134_515_008
"""Trained elements of SmolLM2-135M."""

MEMBERS = 30
WRITE_ROUNDS = 8
UPDATE_ROUNDS = 2
SIGMA = 1e-3
ALONE = 1 << 18
"""Elements of the piece that stays in a core's cache, and large enough that a call costs nothing."""

OF_ITS_LIMIT = 0.8
"""Least share of the limit, the memory's or the arithmetic's, that a pass must reach."""


def in_turn(actions: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Best seconds that each action returns over rounds in which they take turns, after one warm-up."""
    best = dict.fromkeys(actions, float("inf"))
    for number in range(rounds + 1):
        for name, action in actions.items():
            taken = action()
            if number:
                best[name] = min(best[name], taken)
    return best


def measure(elements: int, pool: ThreadPoolExecutor) -> tuple[dict[str, float], dict[str, float]]:
    """Best seconds for passes over `elements` and for updates by MEMBERS members, by action."""
    generator = np.random.default_rng(0)
    master = generator.standard_normal(elements, dtype=np.float32) * np.float32(0.02)
    out: NDArray[np.uint16] = np.ones(elements, dtype=np.uint16)
    other = np.ones(elements, dtype=np.float32)
    row: UpdateRow = (
        generator.integers(0, 2**64, MEMBERS, dtype=np.uint64),
        (generator.standard_normal(MEMBERS) * 1e-6).astype(np.float32),
    )
    pieces = [
        slice(first, min(first + PIECE_ELEMENTS, elements)) for first in range(0, elements, PIECE_ELEMENTS)
    ]

    def each(work: Callable[[slice], object]) -> float:
        """Do the pieces on all cores; processor seconds per core, without what else the machine runs."""

        def timed(piece: slice) -> float:
            start = time.thread_time()
            work(piece)
            return time.thread_time() - start

        return sum(pool.map(timed, pieces)) / (os.cpu_count() or 1)

    def copy(piece: slice) -> None:
        np.copyto(other[piece], master[piece])

    def write(piece: slice) -> None:
        kernel.write_member(master[piece], out[piece], ServedDtype.BFLOAT16, 1, 2, piece.start, SIGMA)

    def write_alone(piece: slice) -> None:
        small, into = master[:ALONE].copy(), np.empty(ALONE, dtype=np.uint16)
        for first in range(piece.start, piece.stop, ALONE):
            count = min(ALONE, piece.stop - first)
            kernel.write_member(small[:count], into[:count], ServedDtype.BFLOAT16, 1, 2, first, SIGMA)

    def update(piece: slice) -> None:
        kernel.apply_updates(master[piece], 2, piece.start, [row])

    def update_alone(piece: slice) -> None:
        small = master[:ALONE].copy()
        for first in range(piece.start, piece.stop, ALONE):
            kernel.apply_updates(small[: min(ALONE, piece.stop - first)], 2, first, [row])

    written = in_turn(
        {"copy": lambda: each(copy), "pass": lambda: each(write), "alone": lambda: each(write_alone)},
        WRITE_ROUNDS,
    )
    updated = in_turn(
        {"copy": lambda: each(copy), "pass": lambda: each(update), "alone": lambda: each(update_alone)},
        UPDATE_ROUNDS,
    )
    return written, updated


def row_of(what: str, seconds: dict[str, float], elements: int, nbytes: int) -> Row:
    """One pass beside its two limits; `nbytes` are read and written per element."""
    bandwidth = 8 * elements / seconds["copy"]
    memory_limit = bandwidth / nbytes
    arithmetic_limit = elements / seconds["alone"]
    rate = elements / seconds["pass"]
    return {
        "what": what,
        "s": seconds["pass"],
        "M elements/s": rate / 1e6,
        "GB/s": nbytes * rate / 1e9,
        "copy GB/s": bandwidth / 1e9,
        "share of bandwidth": rate / memory_limit,
        "noise alone, M elements/s": arithmetic_limit / 1e6,
        "limit": "memory" if memory_limit < arithmetic_limit else "arithmetic",
        "share of limit": rate / min(memory_limit, arithmetic_limit),
    }


def main(elements: int) -> bool:
    """Measure, report, and say whether both passes reach what they should of their limit."""
    threads = os.cpu_count() or 1
    with ThreadPoolExecutor(threads) as pool:
        written, updated = measure(elements, pool)
    rows = [
        row_of("write one member to bfloat16", written, elements, 6),
        row_of(f"update by {MEMBERS} members", updated, elements, 8),
    ]
    figures = [
        Figure(
            str(row["what"]),
            f">= {OF_ITS_LIMIT:.0%} of the slower of memory and arithmetic",
            f"{row['share of limit']:.0%} ({row['limit']}); {row['share of bandwidth']:.0%} of the bandwidth",
            float(row["share of limit"] or 0) >= OF_ITS_LIMIT,
        )
        for row in rows
    ]
    meta = {
        "elements": elements,
        "threads": threads,
        "noise values per second in the update": round(MEMBERS * elements / updated["pass"]),
        "seconds": "processor time per core, best of rounds in which copy, pass and noise alone take turns",
    }
    report("kernels", rows, meta, figures)
    return all(figure.reached for figure in figures)


if __name__ == "__main__":
    sys.exit(0 if main(int(sys.argv[1]) if len(sys.argv) > 1 else ELEMENTS) else 1)
