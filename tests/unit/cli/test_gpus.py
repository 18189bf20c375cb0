"""Local workers share the machine's GPUs out between them."""

from pathlib import Path

import pytest

from dartes.cli.gpus import VISIBLE, gpus_of_worker, visible_gpus


@pytest.mark.parametrize(
    ("index", "each", "visible", "found"),
    [
        (0, 1, ["0", "1"], "0"),
        (1, 1, ["0", "1"], "1"),
        (2, 1, ["0", "1"], "0"),
        (1, 2, ["0", "1", "2", "3"], "2,3"),
        (0, 2, ["5"], "5"),
        (3, 0, ["0"], None),
        (0, 1, [], None),
    ],
)
def test_each_worker_gets_the_next_ones(index: int, each: int, visible: list[str], found: str | None) -> None:
    assert gpus_of_worker(index, each, visible).get(VISIBLE) == found


def test_what_the_environment_allows_counts_before_what_the_driver_has(tmp_path: Path) -> None:
    for name in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / name).mkdir()
    assert visible_gpus({}, tmp_path) == ["0", "1"]
    assert visible_gpus({VISIBLE: "1, GPU-7"}, tmp_path) == ["1", "GPU-7"]
    assert visible_gpus({VISIBLE: ""}, tmp_path) == []
    assert visible_gpus({}, tmp_path / "none") == []
