"""The operator's pages, metrics and log lines."""

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator

import aiohttp
import pytest

from dartes_operator import logs
from dartes_operator.http import Pages
from dartes_operator.kinds import Key
from dartes_operator.metrics import Metrics


def pages(trouble: str | None, ready: bool) -> dict[str, tuple[int, str]]:
    """What every page answers."""

    async def main() -> dict[str, tuple[int, str]]:
        served = Pages(Metrics(), lambda: trouble, lambda: ready)
        port = await served.start("127.0.0.1", 0)
        answers: dict[str, tuple[int, str]] = {}
        async with aiohttp.ClientSession() as session:
            for page in ("healthz", "readyz", "metrics"):
                async with session.get(f"http://127.0.0.1:{port}/{page}") as answer:
                    answers[page] = (answer.status, await answer.text())
        await served.stop()
        return answers

    return asyncio.run(main())


def test_a_well_operator_says_so() -> None:
    answers = pages(None, ready=True)
    assert answers["healthz"] == (200, "ok\n")
    assert answers["readyz"] == (200, "ok\n")


def test_an_operator_that_no_longer_works_fails_its_probe_and_says_why() -> None:
    why = "no listing was tried for 900 s"
    assert pages(why, ready=True)["healthz"] == (503, f"{why}\n")


def test_an_operator_is_not_ready_before_the_first_listing() -> None:
    assert pages(None, ready=False)["readyz"][0] == 503


def test_metrics_bear_the_names_that_are_promised() -> None:
    metrics = Metrics()
    metrics.observe_with(lambda: 3, lambda: {"Pod": 1.5}, lambda: {"Running": 2})
    metrics.reconciles.labels(result="success").inc()
    metrics.api_requests.labels(code="200", verb="GET").inc()
    text = metrics.text().decode()
    for line in (
        'dartes_reconcile_total{result="success"} 1.0',
        "dartes_reconcile_seconds_count 0.0",
        "dartes_queue_depth 3.0",
        'dartes_watch_age_seconds{kind="Pod"} 1.5',
        'dartes_api_requests_total{code="200",verb="GET"} 1.0',
        'dartes_jobs{phase="Running"} 2.0',
        "dartes_disruptions_total 0.0",
    ):
        assert line in text


@pytest.fixture
def restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, captured = root.handlers[:], root.level, logging.getLogger("py.warnings").handlers[:]
    levels = {name: logging.getLogger(name).level for name in logs.QUIET}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(bool(captured))
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)


@pytest.mark.usefixtures("restored_logging")
def test_a_line_about_a_job_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(os.environ, "DARTES_LOG_FORMAT", "json")
    logs.set_up(logging.INFO)
    logging.getLogger("somewhere").info("before")
    with logs.speak_of(Key("team", "sums")):
        logging.getLogger("somewhere").info("within")
    logging.getLogger("kopf.objects").info("chatter")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["message"] for line in lines] == ["before", "within"]
    assert "job" not in lines[0]
    assert (lines[1]["namespace"], lines[1]["job"], lines[1]["role"]) == ("team", "sums", "operator")


@pytest.mark.usefixtures("restored_logging")
def test_a_line_for_people_names_the_job_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(os.environ, "DARTES_LOG_FORMAT", "text")
    logs.set_up(logging.INFO)
    with logs.speak_of(Key("team", "sums")):
        logging.getLogger("somewhere").info("within")
    assert capsys.readouterr().err.endswith("INFO operator within [team/sums]\n")


def test_the_operator_does_without_numpy() -> None:
    # It would be a tenth of its memory, and nothing that it decides needs an array.
    program = "import sys, dartes_operator.app; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
