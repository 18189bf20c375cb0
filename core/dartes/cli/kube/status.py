"""`kubectl dartes status`: asks for the job, its pods and newest events, and shows them, once or often."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from dartes.cli.kube.kubectl import Kubectl, NotFoundError
from dartes.cli.kube.names import KIND, RESOURCE, of_job
from dartes.cli.kube.objects import Manifest, Pod, in_order, items, pod_of
from dartes.cli.kube.view import FINISHED, status_lines, status_view
from dartes.cli.words import printable
from dartes.errors import ConfigurationError, TransientError

WATCH_SECONDS: Final = 5.0
PODS_ASKED: Final = 3
"""Of how many pods that are not ready the events are asked for: one request each."""

CLEAR: Final = "\x1b[H\x1b[2J"


class NoJobError(ConfigurationError):
    """There is no job of this name."""


def job_named(kubectl: Kubectl, name: str) -> Manifest:
    """The job; NoJobError where there is none of this name, else errors as `Kubectl.run`."""
    try:
        return kubectl.objects(RESOURCE, name)
    except NotFoundError as error:
        raise NoJobError(
            f"no DartESJob {name!r} in {kubectl.target.in_words()}; `kubectl get dej -A` lists all of them"
        ) from error


def pods_of(kubectl: Kubectl, name: str, role: str | None = None) -> list[Pod]:
    """The pods of a job, or those of one role, in their order."""
    return in_order([pod_of(item) for item in items(kubectl.objects("pods", "-l", of_job(name, role)))])


def status_of(kubectl: Kubectl, name: str) -> dict[str, Any]:
    """The status of a job as a JSON object; errors as `Kubectl.run`."""
    job = job_named(kubectl, name)
    pods = pods_of(kubectl, name)
    events = _events(kubectl, KIND, name)
    unwell = [pod for pod in pods if not pod.ready and not pod.ended]
    for pod in unwell[:PODS_ASKED]:
        events += _events(kubectl, "Pod", pod.name)
    return status_view(job, pods, events, datetime.now(UTC))


def show(kubectl: Kubectl, name: str, as_json: bool) -> None:
    """Print the status once."""
    view = status_of(kubectl, name)
    _print(_lines(view, as_json))


def watch(kubectl: Kubectl, name: str, as_json: bool, pause: Callable[[float], object] = time.sleep) -> None:
    """Print the status now and whenever it has changed, until the job has ended.

    Once it has been seen, a cluster that is away for a while doesn't end the watch.
    """
    terminal = sys.stdout.isatty() and not as_json
    shown: object = None
    while True:
        try:
            view = status_of(kubectl, name)
        except TransientError as error:
            if shown is None:
                raise
            print(f"error: {printable(str(error))}; asking again", file=sys.stderr, flush=True)  # noqa: T201
            pause(WATCH_SECONDS)
            continue
        essence = _essence(view)
        if terminal or essence != shown:
            shown = essence
            lines = _lines(view, as_json)
            _print([f"{CLEAR}{lines[0]}", *lines[1:]] if terminal else lines)
        if view["phase"] in FINISHED:
            return
        pause(WATCH_SECONDS)


def _events(kubectl: Kubectl, kind: str, name: str) -> list[Manifest]:
    selector = f"involvedObject.kind={kind},involvedObject.name={name}"
    try:
        return items(kubectl.objects("events", f"--field-selector={selector}"))
    except ConfigurationError:
        return []  # who may read jobs may not always read events; the conditions say the same


def _essence(view: Any) -> Any:
    """A view without what changes by time alone."""
    if isinstance(view, dict):
        return {key: _essence(value) for key, value in view.items() if not key.endswith("seconds")}
    return [_essence(item) for item in view] if isinstance(view, list) else view


def _lines(view: dict[str, Any], as_json: bool) -> list[str]:
    """A view as one JSON object, or for people: what comes out of the cluster may not steer a terminal."""
    if as_json:
        return [json.dumps(view, allow_nan=False)]
    return [printable(line) for line in status_lines(view)]


def _print(lines: list[str] | Iterator[str]) -> None:
    print("\n".join(lines), flush=True)  # noqa: T201 - the command's output
