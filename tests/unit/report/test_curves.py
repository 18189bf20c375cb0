"""The picture of a run is a PNG with axes that say what they show."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from dartes.report.curves import draw_curves

POINT = {"iteration": 0, "accuracy": 0.6, "interval95": [0.5, 0.7]}
SUMMARY: dict[str, Any] = {
    "name": "tiny",
    "iterations": 3,
    "evaluations": {
        "held-out": {"all": [POINT, {"iteration": 3, "accuracy": 1.0, "interval95": [0.9, 1.0]}]},
        "other": {"all": [POINT]},
    },
}


@pytest.fixture
def metrics(tmp_path: Path) -> Path:
    """Three iterations."""
    path = tmp_path / "metrics.jsonl"
    lines = [
        {"iteration": k, "pass_rate": 0.5 + k / 10, "replay_buffer_size": k, "replayed": k} for k in range(3)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_every_curve_is_drawn_on_labelled_axes(
    metrics: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Figure] = []
    save = Figure.savefig

    def saved(figure: Figure, *arguments: Any, **options: Any) -> None:
        drawn.append(figure)
        save(figure, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", saved)
    draw_curves(metrics, SUMMARY, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG\r\n")
    top, bottom = drawn[0].axes
    assert (top.get_ylabel(), bottom.get_ylabel(), bottom.get_xlabel()) == (
        "share passed",
        "problems",
        "iteration",
    )
    assert top.get_title() == "tiny: 3 iterations"
    legend = top.get_legend()
    assert legend is not None
    names = [text.get_text() for text in legend.get_texts()]
    assert names == [
        "training pass rate (members)",
        "held-out (95 % interval)",
        "other (95 % interval)",
    ]
    assert np.array_equal(top.get_lines()[0].get_xdata(), [1, 2, 3]), (
        "after the first update it is iteration 1"
    )
    assert np.array_equal(bottom.get_lines()[1].get_ydata(), [0, 1, 2])


def test_a_run_without_evaluation_sets_has_a_picture_too(metrics: Path, tmp_path: Path) -> None:
    draw_curves(metrics, {**SUMMARY, "evaluations": {}}, tmp_path / "curves.png")
    first = (tmp_path / "curves.png").read_bytes()
    draw_curves(metrics, SUMMARY, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes() != first, "written anew each time"


def test_a_set_without_a_base_model_to_win_over_is_left_out(metrics: Path, tmp_path: Path) -> None:
    none = {"iteration": 3, "accuracy": None, "interval95": None}
    sets = {"chat": {"all": [none]}, "mixed": {"all": [POINT, none]}}
    draw_curves(metrics, {**SUMMARY, "evaluations": sets}, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG\r\n")
