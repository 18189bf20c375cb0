"""docs/capacity.md, word by word: its command prints what the page says, and its table is the plan's."""

import contextlib
import io
import json
import re
import shlex
from pathlib import Path

import pytest

from dartes.cli.main import main

PAGE = Path(__file__).resolve().parents[3] / "docs" / "capacity.md"
ROW = re.compile(r"^\| (\d+) \| (\d+) \| ([\d.]+) s \| ([\d.]+) \|$", re.MULTILINE)
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def blocks() -> list[tuple[str, str]]:
    """The page's code blocks, each with its language."""
    return BLOCK.findall(PAGE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def command(blocks: list[tuple[str, str]]) -> list[str]:
    """The words of the page's command after `dartes`."""
    (found,) = [text for kind, text in blocks if text.startswith("dartes plan job.yaml ")]
    return shlex.split(found)[1:]


def printed(words: list[str]) -> str:
    """What a command prints."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        assert main(words) == 0
    return output.getvalue()


def iteration(words: list[str]) -> float:
    """The seconds of one iteration by a plan."""
    return float(json.loads(printed([*words, "--json"]))["iteration_seconds"]["total"])


@pytest.fixture
def in_a_folder_with_the_job(
    blocks: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The page's job file, where its command expects it."""
    (job,) = [text for kind, text in blocks if kind == "yaml"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(job)
    return tmp_path


def test_the_command_prints_what_the_page_says(
    in_a_folder_with_the_job: Path, command: list[str], blocks: list[tuple[str, str]]
) -> None:
    assert printed(command) in [text for _, text in blocks]


def test_what_the_page_says_of_other_gpus_is_the_plans(
    in_a_folder_with_the_job: Path, command: list[str]
) -> None:
    page = PAGE.read_text(encoding="utf-8")
    small = json.loads(printed([*["L4" if word == "H100" else word for word in command], "--json"]))
    assert "`--gpu L4` puts the master weights into the host's memory and takes nine times as long" in page
    assert small["memory"]["master_placement"] == "Host"
    assert 8.5 <= small["iteration_seconds"]["total"] / iteration(command) < 9.5
    one = iteration([*command, "--workers", "30"])
    file = in_a_folder_with_the_job / "job.yaml"
    file.write_text(file.read_text().replace("replicas: 8", "replicas: 8\n    gpusPerWorker: 2"))
    two = iteration([*command, "--workers", "15"])
    assert f"15 workers of two GPUs take {two:.1f} s for an iteration and 30 of one {one:.1f} s" in page


def test_the_table_is_the_plans(in_a_folder_with_the_job: Path, command: list[str]) -> None:
    rows = ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert len(rows) == 8
    job = (in_a_folder_with_the_job / "job.yaml").read_text()
    for workers, slices, seconds, hours in rows:
        (in_a_folder_with_the_job / "job.yaml").write_text(
            job.replace("batchSize: 200", f"batchSize: 200\n    slicesPerMember: {slices}")
        )
        plan = json.loads(printed([*command, "--workers", workers, "--json"]))
        assert f"{plan['iteration_seconds']['total']:.1f}" == seconds, (workers, slices)
        assert f"{plan['gpu_hours_per_iteration'] * plan['iterations']:.1f}" == hours, (workers, slices)
