"""Pieces cover every element once, and no failure of a piece is lost, on one thread or several."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dartes.checkpoint import Piece, for_each_piece, pieces


@given(sizes=st.lists(st.integers(0, 50), max_size=5), limit=st.integers(1, 20))
def test_pieces_cover_every_element_once_and_are_bounded(sizes: list[int], limit: int) -> None:
    named = [(f"t{k}", size) for k, size in enumerate(sizes)]
    cut = list(pieces(named, limit))
    assert all(0 < piece.count <= limit for piece in cut)
    covered = [(piece.name, piece.start + k) for piece in cut for k in range(piece.count)]
    assert covered == [(name, k) for name, size in named for k in range(size)]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_piece_is_worked_on_once(threads: int) -> None:
    seen: list[Piece] = []
    lock = threading.Lock()

    def work(piece: Piece) -> None:
        with lock:
            seen.append(piece)

    cut = list(pieces([("a", 100), ("b", 7)], 3))
    for_each_piece(work, cut, threads)
    assert sorted(seen, key=lambda piece: (piece.name, piece.start)) == cut


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("failing", [0, 10, 19])
def test_the_failure_of_any_piece_is_raised(threads: int, failing: int) -> None:
    def work(piece: Piece) -> None:
        if piece.start == failing:
            raise RuntimeError(f"piece {piece.start}")

    with pytest.raises(RuntimeError, match=f"piece {failing}"):
        for_each_piece(work, pieces([("a", 20)], 1), threads)
