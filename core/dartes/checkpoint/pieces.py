"""Cut tensors into bounded pieces and work through them, on one thread or several.

Every result of this project is defined per element, so neither the cut nor the order of the pieces can
change a bit; this module relies on that and knows nothing else.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Final, TypeVar

Item = TypeVar("Item")

PIECE_ELEMENTS: Final = 2**20
"""Elements per piece: 4 MiB of float32, so that a piece per core stays near the 64 MiB of one temporary."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Elements `start` to `start + count` of a tensor's flat order."""

    name: str
    start: int
    count: int


def pieces(sizes: Iterable[tuple[str, int]], limit: int = PIECE_ELEMENTS) -> Iterator[Piece]:
    """Cut tensors, given as (name, number of elements), into pieces of at most `limit` elements."""
    for name, size in sizes:
        for start in range(0, size, limit):
            yield Piece(name, start, min(limit, size - start))


def for_each_piece(work: Callable[[Item], None], items: Iterable[Item], threads: int = 1) -> None:
    """Call `work` on every piece, at most `threads` at once; the first exception is raised."""
    if threads <= 1:
        for item in items:
            work(item)
        return
    running: set[Future[None]] = set()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                running.add(pool.submit(work, item))
                if len(running) > threads:
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        future.result()
            for future in running:
                future.result()
        finally:
            for future in running:
                future.cancel()
