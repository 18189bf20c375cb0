"""Several worker processes with one cache of the hub: one downloads, also where the first is killed."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..waiting import until
from .harness import HERE


class Readers:
    """Processes that want the model, and the hub that they download from."""

    def __init__(self, root: Path) -> None:
        self.cache, self.hub = root / "cache", root / "hub"
        self.hub.mkdir()
        self._started: list[subprocess.Popen[str]] = []

    def start(self, name: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, str(HERE / "pod_cache_reader.py"), str(self.cache), str(self.hub), name],
            stdout=subprocess.PIPE,
            stderr=(self.hub.parent / f"{name}.log").open("wb"),
            text=True,
        )
        self._started.append(process)
        return process

    def downloading(self) -> list[str]:
        return sorted(p.name.removeprefix("downloading-") for p in self.hub.glob("downloading-*"))

    def log(self, name: str) -> str:
        return (self.hub.parent / f"{name}.log").read_text()

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


@pytest.fixture
def readers(tmp_path: Path) -> Iterator[Readers]:
    made = Readers(tmp_path)
    yield made
    made.close()


def test_one_downloads_and_the_others_wait_for_it(readers: Readers) -> None:
    first = readers.start("a")
    until(readers.downloading, "the first one downloads")
    others = [readers.start(name) for name in ("b", "c")]
    for name in ("b", "c"):
        until(lambda name=name: "another worker is downloading org/tiny" in readers.log(name), name)  # type: ignore[misc]
    (readers.hub / "open").touch()
    said = [process.communicate(timeout=60)[0] for process in (first, *others)]
    assert said == ["whole, by a"] * 3
    assert readers.downloading() == ["a"]


def test_a_killed_downloader_leaves_no_lock_and_its_half_is_not_used(readers: Readers) -> None:
    first = readers.start("a")
    until(readers.downloading, "the first one downloads")
    second = readers.start("b")
    until(lambda: "another worker is downloading org/tiny" in readers.log("b"), "the second one waits")
    first.kill()
    until(lambda: readers.downloading() == ["a", "b"], "the second one downloads")
    (readers.hub / "open").touch()
    assert second.communicate(timeout=60)[0] == "whole, by b"
    assert readers.start("c").communicate(timeout=60)[0] == "whole, by b"
    assert readers.downloading() == ["a", "b"]
