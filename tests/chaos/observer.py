"""Looks on while a run goes: watches of pods and jobs, and every container's log, in threads of their own.

It asks the API server directly, never through the proxy that the operator has to live with, and it judges
nothing: what it sees goes into `Lives`, `Story` and `Line`.
"""

import json
import threading
import time
from collections.abc import Callable, Collection, Iterator
from glob import glob
from pathlib import Path
from typing import Any, TextIO

import urllib3
from kubernetes.client.exceptions import ApiException

from tests.cluster.jobs import GROUP, PLURAL, VERSION, Api

from .budgets import Story, Write
from .log_lines import Line, read_line
from .pods import Lives
from .specs import planned_strikes

WATCH_SECONDS = 120
LOOK_SECONDS = 0.25
SETTLING_SECONDS = 4.0
"""A write is judged once what it may speak of has surely been seen, too."""

Trouble = (ApiException, urllib3.exceptions.HTTPError, OSError, ValueError)
"""What a request may end with while the API server is away."""


class Observer:
    """Started for some namespaces; `lock` is held while anything that it has noted is read."""

    def __init__(self, api: Api, namespaces: Collection[str]) -> None:
        self.lock = threading.RLock()
        self.lives = Lives()
        self.stories: dict[str, Story] = {}
        self._arrivals: dict[str, list[float]] = {}
        self._stop = threading.Event()
        self._api = api
        self._threads = [
            threading.Thread(target=target, args=(namespace,), name=f"{name} {namespace}", daemon=True)
            for namespace in namespaces
            for name, target in (("pods", self._watch_pods), ("jobs", self._watch_jobs))
        ]

    def start(self) -> None:
        """Begin to look."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Look no more; a watch that waits is left to its end."""
        self._stop.set()

    def blind(self) -> list[str]:
        """Which of its eyes are shut: a thread that a bug has ended sees no violation any more."""
        return [
            f"nobody looks at {thread.name} any more" for thread in self._threads if not thread.is_alive()
        ]

    def settled(self, story: Story) -> int:
        """How many writes of a job have been seen for long enough to be judged."""
        before = time.monotonic() - SETTLING_SECONDS
        return sum(arrival <= before for arrival in self._arrivals[story.uid])

    def _watch_pods(self, namespace: str) -> None:
        def take_list(items: list[dict[str, Any]]) -> None:
            self.lives.saw_list(namespace, items)

        self._follow(
            lambda **how: self._api.core.list_namespaced_pod(namespace, _preload_content=False, **how),
            take_list,
            self.lives.saw_event,
        )

    def _watch_jobs(self, namespace: str) -> None:
        def take_list(items: list[dict[str, Any]]) -> None:
            there = {item["metadata"]["uid"] for item in items}
            for story in self.stories.values():
                story.is_gone |= story.namespace == namespace and story.uid not in there
            for item in items:
                self._saw_job(item, after_gap=True)

        def take_event(kind: str, item: dict[str, Any]) -> None:
            self._saw_job(item, after_gap=False)
            self.stories[item["metadata"]["uid"]].is_gone = kind == "DELETED"

        self._follow(
            lambda **how: self._api.custom.list_namespaced_custom_object(
                GROUP, VERSION, namespace, PLURAL, _preload_content=False, **how
            ),
            take_list,
            take_event,
        )

    def _saw_job(self, job: dict[str, Any], *, after_gap: bool) -> None:
        meta = job["metadata"]
        story = self.stories.get(meta["uid"])
        if story is None:
            story = Story(meta["uid"], meta["name"], meta["namespace"], planned_strikes(job))
            self.stories[story.uid], self._arrivals[story.uid] = story, []
        status = job.get("status") or {}
        last = story.writes[-1].status if story.writes else {}
        if status != last:
            size = len(json.dumps(status, separators=(",", ":")))
            story.writes.append(Write(int(meta["resourceVersion"]), size, status, after_gap and bool(last)))
            self._arrivals[story.uid].append(time.monotonic())

    def _follow(
        self,
        ask: Callable[..., Any],
        take_list: Callable[[list[dict[str, Any]]], None],
        take_event: Callable[[str, dict[str, Any]], None],
    ) -> None:
        revision: str | None = None
        while not self._stop.is_set():
            try:
                if revision is None:
                    listed = json.loads(ask().data)
                    with self.lock:
                        take_list(listed["items"])
                    revision = listed["metadata"]["resourceVersion"]
                answer = ask(watch=True, resource_version=revision, timeout_seconds=WATCH_SECONDS)
                for event in _events(answer):
                    if event["type"] == "ERROR":
                        revision = None
                        break
                    with self.lock:
                        take_event(event["type"], event["object"])
                    revision = event["object"]["metadata"]["resourceVersion"]
            except Trouble as error:
                if isinstance(error, ApiException) and error.status == 410:
                    revision = None
                self._stop.wait(LOOK_SECONDS)


def _events(answer: Any) -> Iterator[dict[str, Any]]:
    rest = b""
    for part in answer.stream(amt=None, decode_content=False):
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            if line.strip():
                yield json.loads(line)


class LogReader:
    """Reads the logs that the nodes of a cluster of our own keep, to the last line of pods that are gone."""

    def __init__(self, nodes: Path, namespaces: Collection[str], copies: Path) -> None:
        self._nodes = nodes
        self._prefixes = tuple(f"{namespace}_" for namespace in namespaces)
        self._copies = copies
        self._open: dict[Path, TextIO] = {}
        self._rests: dict[Path, str] = {}
        self._new: list[Line] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, name="logs", daemon=True)
        self.count = 0

    def start(self) -> None:
        """Begin to read."""
        self._copies.mkdir(parents=True, exist_ok=True)
        self._thread.start()

    def stop(self) -> None:
        """Read no more."""
        self._stop.set()
        self._thread.join()
        for file in self._open.values():
            file.close()

    def blind(self) -> list[str]:
        """As the observer's: a line where nobody reads any more."""
        return [] if self._thread.is_alive() else ["nobody reads the logs any more"]

    def take(self) -> list[Line]:
        """The lines since the last time."""
        with self._lock:
            new, self._new = self._new, []
        return new

    def _read(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            # Not Path.glob, which fails where a folder goes while it is looked through.
            for name in glob(str(self._nodes / "*/logs/*/*/*.log")):  # noqa: PTH207
                path = Path(name)
                if path not in self._open and path.parts[-3].startswith(self._prefixes):
                    try:
                        self._open[path] = path.open(encoding="utf-8", errors="replace")
                    except FileNotFoundError:
                        continue
            for path, file in list(self._open.items()):
                # Before the last read: what is written afterwards goes to another file.
                is_left = not path.exists()
                self._take_in(path, file.read())
                if is_left:
                    file.close()
                    del self._open[path]

    def _take_in(self, path: Path, text: str) -> None:
        *lines, self._rests[path] = (self._rests.get(path, "") + text).split("\n")
        if not lines:
            return
        container, pod = path.parts[-2], path.parts[-3].split("_")[1]
        read = [line for text in lines if (line := read_line(container, pod, text)) is not None]
        with self._lock:
            self._new += read
            self.count += len(read)
        with (self._copies / f"{path.parts[-3]}.{container}.log").open("a", encoding="utf-8") as copy:
            copy.write("".join(f"{line}\n" for line in lines))
