"""Progress in plain lines and as a bar: what is new, once, in words."""

import io
import sys

import pytest

from dartes.cli.progress import (
    Bar,
    PlainLines,
    duration,
    new_evaluations,
    new_notes,
    progress_for_terminal,
)
from dartes.v1 import control_pb2 as wire


def status(iteration: int, **values: object) -> wire.StatusResponse:
    """A running coordinator's answer."""
    return wire.StatusResponse(
        phase=values.pop("phase", wire.PHASE_RUNNING),  # type: ignore[arg-type]
        iteration=iteration,
        total_iterations=20,
        train_pass_rate=0.5,
        replay_buffer_size=9,
        tokens_per_second=3162.6,
        estimated_remaining_seconds=187,
        **values,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (59.4, "59 s"),
        (59.6, "1:00 min"),
        (187.0, "3:07 min"),
        (3599.7, "1:00 h"),
        (8100.0, "2:15 h"),
        (360000.0, "100:00 h"),
    ],
)
def test_durations_are_read_as_people_write_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_plain_lines_say_what_is_new_once(capsys: pytest.CaptureFixture[str]) -> None:
    with PlainLines() as lines:
        lines.update(status(0, phase=wire.PHASE_WAITING_FOR_WORKERS))
        lines.update(status(0, phase=wire.PHASE_WAITING_FOR_WORKERS))
        score = wire.EvaluationScore(set_name="held-out", iteration=0, passed=1243, problems=2048)
        for iteration in (0, 1, 1, 3):
            lines.update(status(iteration, evaluations=[score]))
        lines.update(status(20, phase=wire.PHASE_FINISHING))
        lines.say("a note")
    assert capsys.readouterr().out.splitlines() == [
        "waiting for workers to load the model",
        "held-out: 60.7 % right after iteration 0 (1243 of 2048)",
        "iteration 1/20  pass rate 0.500  replay buffer 9  3,163 tokens/s  3:07 min left",
        "iteration 3/20  pass rate 0.500  replay buffer 9  3,163 tokens/s  3:07 min left",
        "last update committed; evaluating the final weights",
        "iteration 20/20  pass rate 0.500  replay buffer 9  3,163 tokens/s  3:07 min left",
        "a note",
    ]


def test_a_pause_and_its_reason_are_said_once_and_again_when_it_comes_back(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = PlainLines()
    for phase in (wire.PHASE_PAUSED, wire.PHASE_PAUSED, wire.PHASE_RUNNING, wire.PHASE_PAUSED):
        lines.update(status(0, phase=phase, message="the disk is full"))
    assert capsys.readouterr().out.splitlines() == ["paused: the disk is full"] * 2


def test_an_estimated_total_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    PlainLines().update(status(2, total_is_estimate=True))
    assert capsys.readouterr().out.startswith("iteration 2/~20  ")


def test_an_evaluation_is_new_once_per_set_and_iteration() -> None:
    shown: set[tuple[int, str]] = set()
    scores = [
        wire.EvaluationScore(set_name=name, iteration=iteration, passed=1, problems=2)
        for name, iteration in [("a", 0), ("b", 0), ("a", 10)]
    ]
    assert len(new_evaluations(status(10, evaluations=scores), shown)) == 3
    assert new_evaluations(status(10, evaluations=scores), shown) == []


def test_without_a_terminal_there_is_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert isinstance(progress_for_terminal(), PlainLines)


def test_a_terminal_gets_a_bar_with_everything_that_was_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with Bar() as bar:
        bar.say("a note [not markup] that is longer than the terminal is wide " + 12 * "/folder/name")
        bar.update(status(3, leases_done=16, leases_total=32))
    said = capsys.readouterr().out
    assert "a note [not markup]" in said
    assert 12 * "/folder/name" in said
    for part in ("iteration 3/20", "pass 0.500", "replay 9", "3,163 tok/s", "3:07 min left"):
        assert part in said


@pytest.mark.parametrize("terminal", [False, True])
def test_a_reason_cannot_steer_the_terminal(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.StringIO()
    monkeypatch.setattr(sys, "stdout", output)
    paused = status(0, phase=wire.PHASE_PAUSED, message="service says \u202e\x9b2J [/red]")
    with Bar() if terminal else PlainLines() as shown:
        shown.update(paused)
        shown.say("note: \u202e")
    assert "paused: service says \\u202e\\x9b2J [/red]" in output.getvalue()
    assert "note: \\u202e" in output.getvalue()
    assert "\u202e" not in output.getvalue()


def test_a_note_is_told_once_even_where_a_coordinator_that_restarted_says_it_again() -> None:
    shown: set[str] = set()
    assert new_notes(status(1, notes=["two prompts are too long"]), shown) == [
        "warning: two prompts are too long"
    ]
    again = status(2, notes=["two prompts are too long", "another reward"])
    assert new_notes(again, shown) == ["warning: another reward"]


def test_where_master_weights_lie_is_told_once_and_is_no_warning() -> None:
    shown: set[str] = set()
    told = wire.StatusResponse(placements=["master weights: device"])
    assert new_notes(told, shown) == ["master weights: device"]
    assert new_notes(told, shown) == []
