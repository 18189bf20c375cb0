"""What is seen of pods, jobs and logs: nothing is lost over broken watches and pods that are gone."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.chaos import observer as module
from tests.chaos.observer import LogReader, Observer
from tests.waiting import until

from .kit import pod


class Answers:
    """An API server for one resource: lists and watches as they are scripted, then watches that wait."""

    def __init__(self, *script: Any) -> None:
        self._script = list(script)
        self.asked: list[str | None] = []
        self.over = False

    def __call__(self, *_where: str, **how: Any) -> Any:
        self.asked.append(how.get("resource_version") if how.get("watch") else "list")
        if not self._script:
            self.over = True
            return SimpleNamespace(
                stream=lambda **_: iter(()), data=b'{"items":[],"metadata":{"resourceVersion":"0"}}'
            )
        now = self._script.pop(0)
        if isinstance(now, Exception):
            raise now
        return now


def listed(*items: dict[str, Any], revision: str = "5") -> Any:
    return SimpleNamespace(data=json.dumps({"items": items, "metadata": {"resourceVersion": revision}}))


def watched(*events: tuple[str, dict[str, Any]]) -> Any:
    text = "".join(json.dumps({"type": kind, "object": item}) + "\n" for kind, item in events).encode()

    def stream(**_: Any) -> Iterator[bytes]:
        # In pieces that end anywhere, as they come from a socket.
        yield from (text[place : place + 50] for place in range(0, len(text), 50))

    return SimpleNamespace(stream=stream)


def job(revision: int, **status: Any) -> dict[str, Any]:
    metadata = {"uid": "j", "name": "red", "namespace": "a", "resourceVersion": str(revision)}
    env = [{"name": "DARTES_FAULT", "value": "after-commit:1@2,after-commit:1@4"}]
    return {"metadata": metadata, "spec": {"coordinator": {"env": env}}, "status": status}


def _is_blind(observer: Observer) -> bool:
    return len(observer.blind()) == 2


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Answers, Answers], Observer]]:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    made: list[Observer] = []

    def begin(pods: Answers, jobs: Answers) -> Observer:
        api = SimpleNamespace(
            core=SimpleNamespace(list_namespaced_pod=pods),
            custom=SimpleNamespace(list_namespaced_custom_object=jobs),
        )
        observer = Observer(cast("Any", api), ["a"])
        made.append(observer)
        observer.start()
        until(lambda: pods.over and jobs.over, "everything scripted has been asked", 10)
        return observer

    yield begin
    for each in made:
        each.stop()
        until(partial(_is_blind, each), "both threads' ends", 10)


def test_pods_are_followed_from_a_list_through_watches(look: Callable[..., Observer]) -> None:
    first, second = pod("a" * 16), pod("b" * 16, index="1")
    pods = Answers(
        listed(first, revision="5"),
        watched(("ADDED", second)),
        watched(("DELETED", second)),
    )
    lives = look(pods, Answers()).lives.by_uid
    assert lives["b" * 16].gone
    assert not lives["a" * 16].uncertain
    assert pods.asked[:3] == ["list", "5", second["metadata"]["resourceVersion"]]


def test_a_watch_that_breaks_goes_on_where_it_was(look: Callable[..., Observer]) -> None:
    pods = Answers(listed(), watched(("ADDED", pod("a" * 16))), OSError("gone"), watched())
    observer = look(pods, Answers())
    assert pods.asked.count("list") == 1
    assert not observer.lives.by_uid["a" * 16].uncertain


def test_after_an_expired_watch_all_is_listed_again(look: Callable[..., Observer]) -> None:
    said = {"kind": "Status", "code": 410}
    pods = Answers(listed(pod("a" * 16)), watched(("ERROR", said)), listed())
    observer = look(pods, Answers())
    assert pods.asked[:3] == ["list", "5", "list"]
    assert observer.lives.by_uid["a" * 16].gone
    assert observer.lives.by_uid["a" * 16].uncertain


def test_each_write_of_a_status_is_kept_once(look: Callable[..., Observer]) -> None:
    one, two = job(6, phase="Running"), job(8, phase="Suspended")
    jobs = Answers(
        listed(job(5)),
        watched(("MODIFIED", one), ("MODIFIED", {**one, "spec": {}}), ("MODIFIED", two)),
        watched(("DELETED", two)),
    )
    story = look(Answers(), jobs).stories["j"]
    assert [(write.revision, write.status["phase"]) for write in story.writes] == [
        (6, "Running"),
        (8, "Suspended"),
    ]
    assert not any(write.after_gap for write in story.writes)
    assert story.is_gone
    assert story.planned_strikes == 2


def test_a_write_after_an_unseen_while_is_marked(look: Callable[..., Observer]) -> None:
    said = {"kind": "Status", "code": 410}
    jobs = Answers(listed(job(5, phase="Pending")), watched(("ERROR", said)), listed(job(9, phase="Running")))
    story = look(Answers(), jobs).stories["j"]
    assert [write.after_gap for write in story.writes] == [False, True]


def test_the_log_of_a_pod_is_read_to_its_end_though_the_pod_is_gone(tmp_path: Path) -> None:
    nodes, copies = tmp_path / "nodes", tmp_path / "copies"
    folder = nodes / "node1" / "logs" / "ns_red-worker-0_uid" / "worker"
    folder.mkdir(parents=True)
    reader = LogReader(nodes, ["ns"], copies)
    reader.start()
    try:
        with (folder / "0.log").open("w", encoding="utf-8") as log:
            log.write("2026-01-01T12:00:00Z stderr F first\n2026-01-01T12:00:0")
            log.flush()
            until(lambda: reader.count == 1, "the first line", 10)
            log.write("1Z stderr F second\n")
            log.flush()
            shutil.rmtree(nodes / "node1")
            log.write("2026-01-01T12:00:02Z stderr F Traceback (most recent call last):\n")
        until(lambda: reader.count == 3, "all lines", 10)
    finally:
        reader.stop()
    lines = reader.take()
    assert [line.message[:6] for line in lines] == ["first", "second", "Traceb"]
    assert [(line.role, line.pod) for line in lines[:1]] == [("worker", "red-worker-0")]
    assert reader.take() == []
    (kept,) = copies.iterdir()
    assert kept.read_text(encoding="utf-8").count("\n") == 3


def test_logs_of_other_namespaces_are_none_of_ours(tmp_path: Path) -> None:
    for namespace in ("ns", "other"):
        folder = tmp_path / "nodes" / "node1" / "logs" / f"{namespace}_pod_uid" / "worker"
        folder.mkdir(parents=True)
        (folder / "0.log").write_text(f"2026-01-01T12:00:00Z stderr F of {namespace}\n", encoding="utf-8")
    reader = LogReader(tmp_path / "nodes", ["ns"], tmp_path / "copies")
    reader.start()
    try:
        until(lambda: reader.count, "a line", 10)
    finally:
        reader.stop()
    assert [line.message for line in reader.take()] == ["of ns"]


def test_a_folder_that_goes_while_it_is_looked_through_ends_no_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("going", "staying"):
        folder = tmp_path / "nodes" / "node1" / "logs" / f"ns_{name}_uid" / "worker"
        folder.mkdir(parents=True)
        (folder / "0.log").write_text(f"2026-01-01T12:00:00Z stderr F of {name}\n", encoding="utf-8")
    scan, failed = os.scandir, []

    def going(path: Any = ".") -> Any:
        if "_going_" in str(path):
            failed.append(path)
            raise FileNotFoundError(path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", going)
    reader = LogReader(tmp_path / "nodes", ["ns"], tmp_path / "copies")
    reader.start()
    try:
        until(lambda: reader.count, "the line of the one that stays", 10)
        assert failed
        assert reader.blind() == []
    finally:
        reader.stop()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_has_ended_is_told(look: Callable[..., Observer]) -> None:
    broken = listed({"metadata": {"name": "without a uid"}})
    observer = look(Answers(), Answers())
    assert observer.blind() == []
    pods = Answers(broken)
    api = SimpleNamespace(core=SimpleNamespace(list_namespaced_pod=pods), custom=SimpleNamespace())
    blind = Observer(cast("Any", api), ["a"])
    blind.start()
    until(lambda: "nobody looks at pods a any more" in blind.blind(), "the end of a thread", 10)
