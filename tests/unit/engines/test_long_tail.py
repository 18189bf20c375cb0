"""How long the last sequences ran alone: the steps count that began with few sequences left."""

from collections.abc import Iterator

from dartes_worker.engines.vllm.tail import LongTail


def ticking(*times: float) -> Iterator[float]:
    yield from times


def test_steps_with_few_sequences_and_with_one_are_counted() -> None:
    clock = ticking(0, 1, 3, 6, 10)
    tail = LongTail(lambda: next(clock))
    tail.begin(8)
    tail.note(8)  # 1 s with all
    tail.note(2)  # 2 s with all
    tail.note(1)  # 3 s with 2 of 8: not yet few, a quarter is left
    tail.note(0)  # 4 s with one
    assert tail.take() == (4.0, 4.0)
    assert tail.take() == (0.0, 0.0)


def test_a_batch_of_one_has_no_tail() -> None:
    clock = ticking(0, 5)
    tail = LongTail(lambda: next(clock))
    tail.begin(1)
    tail.note(0)
    assert tail.take() == (0.0, 0.0)
