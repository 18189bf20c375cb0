"""The trained weights that one process serves: all of a model, or one tensor-parallel rank's part of it.

Drives `ServedMemory` over stretches, whatever memory that is. Knows checkpoint names and flat indices; no
engine, no journal and no other rank.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Final

from dartes.checkpoint import PIECE_ELEMENTS, for_each_piece
from dartes.checkpoint.safetensors_layout import write_at
from dartes.journal.replay import WeightSource
from dartes.noise import tensor_id
from dartes.noise.reference import UpdateRow
from dartes_worker.weights.memory import ServedMemory
from dartes_worker.weights.stretch import Stretch

Parts = dict[str, int]
"""D of the owned elements of each checkpoint tensor, modulo 2**64; tensors without any are absent."""

_READ_ELEMENTS: Final = 4 * PIECE_ELEMENTS
"""Elements read from a file at a time where a stretch takes columns: 16 MiB of float32."""


class Shard:
    """Master and served weights of one process.

    Parameters
    ----------
    memories
        The served tensors, by the name that stretches call `target`.
    stretches
        What lies where. Two of them never overlap in the served tensors.
    threads
        Pieces worked on at once, on the host; changes no bit.
    in_pieces
        Whether the memory takes one row of bounded length at a time (the host), or whole stretches (a device,
        where each call is a kernel launch).
    """

    def __init__(
        self,
        memories: Mapping[str, ServedMemory],
        stretches: Sequence[Stretch],
        threads: int = 1,
        *,
        in_pieces: bool = True,
    ) -> None:
        self._memories = memories
        self._stretches = tuple(stretches)
        self._threads = threads if in_pieces else 1
        self._in_pieces = in_pieces
        self._keys = {stretch.name: tensor_id(stretch.name) for stretch in stretches}

    def load(self, source: WeightSource) -> None:
        """Read the master from a checkpoint or a snapshot."""
        for stretch in self._stretches:
            memory = self._memories[stretch.target]
            for part in _readable(stretch):
                hull = (part.rows - 1) * part.source_step + part.length
                values = source.read_f32(part.name, part.start, hull)
                for row in range(part.rows):
                    first = row * part.source_step
                    offset = part.offset + row * part.target_step
                    memory.fill(offset, values[first : first + part.length])

    def write(self, seed: int, sigma: float) -> None:
        """Serve a member, or with sigma 0 the parent. No sequence may be running meanwhile."""
        self._each(
            lambda stretch: self._memories[stretch.target].write(
                stretch, self._keys[stretch.name], seed, sigma
            ),
            self._stretches,
        )

    def update(self, rows: Sequence[UpdateRow]) -> None:
        """Apply consecutive iterations in one pass over the master."""
        self._each(
            lambda stretch: self._memories[stretch.target].update(stretch, self._keys[stretch.name], rows),
            self._stretches,
        )

    def digest(self) -> Parts:
        """D of the master."""
        return self._digests(lambda memory, stretch, key: memory.digest(stretch, key))

    def digest_rounded(self) -> Parts:
        """D that the served tensors have once the parent is written."""
        return self._digests(lambda memory, stretch, key: memory.digest_rounded(stretch, key))

    def digest_served(self) -> Parts:
        """D of what the engine reads now."""
        return self._digests(lambda memory, stretch, key: memory.digest_served(stretch, key))

    def copies_agree(self) -> bool:
        """Whether what others own is served here as the master here rounds; True where there is no such."""
        copies = [stretch for stretch in self._stretches if not stretch.owned]
        rounded = self._digests(lambda memory, stretch, key: memory.digest_rounded(stretch, key), copies)
        return rounded == self._digests(
            lambda memory, stretch, key: memory.digest_served(stretch, key), copies
        )

    def write_values(self, file: Path, offsets: Mapping[str, int]) -> None:
        """Write the owned elements of the master into a snapshot under way, see `write_snapshot_with`."""
        with file.open("r+b", buffering=0) as opened:
            for stretch in self._stretches:
                if not stretch.owned:
                    continue
                for piece in stretch.pieces(PIECE_ELEMENTS):
                    values = self._memories[piece.target].read(piece.offset, piece.length)
                    write_at(opened.fileno(), offsets[piece.name] + 4 * piece.start, values)

    def _digests(
        self,
        digest: Callable[[ServedMemory, Stretch, int], int],
        stretches: Sequence[Stretch] | None = None,
    ) -> Parts:
        totals: Parts = {}
        lock = Lock()

        def work(stretch: Stretch) -> None:
            value = digest(self._memories[stretch.target], stretch, self._keys[stretch.name])
            with lock:
                totals[stretch.name] = (totals.get(stretch.name, 0) + value) % 2**64

        owned = [stretch for stretch in self._stretches if stretch.owned]
        self._each(work, owned if stretches is None else stretches)
        return totals

    def _each(self, work: Callable[[Stretch], None], stretches: Sequence[Stretch]) -> None:
        if not self._in_pieces:
            for stretch in stretches:
                work(stretch)
            return
        pieces = (piece for stretch in stretches for piece in stretch.pieces(PIECE_ELEMENTS))
        for_each_piece(work, pieces, self._threads)


def _readable(stretch: Stretch) -> Sequence[Stretch]:
    """Cut a stretch so that what has to be read for a part is bounded."""
    if stretch.rows == 1:
        return list(stretch.pieces(_READ_ELEMENTS))
    together = max(1, _READ_ELEMENTS // max(stretch.source_step, stretch.length))
    if together == 1:
        return [part for row in range(stretch.rows) for part in stretch.row(row).pieces(_READ_ELEMENTS)]
    return [
        stretch.rows_from(first, min(together, stretch.rows - first))
        for first in range(0, stretch.rows, together)
    ]


def totals(shards: Sequence[Parts], names: Sequence[str]) -> dict[str, int]:
    """Add up what the ranks own; a tensor that none owns has D = 0."""
    return {name: sum(parts.get(name, 0) for parts in shards) % 2**64 for name in names}
