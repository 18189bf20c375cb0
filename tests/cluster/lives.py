"""Lives of one job under an operator whose API server has faults: their steps, their ends, compared.

A step is whatever the operator asks of the API server that changes something, and reading certificates; so
the list of steps is not written down anywhere but comes out of an undisturbed life.
"""

import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .fault_proxy import WRITES, Fault, FaultProxy, Request, proxied
from .held import HeldCluster, NotHereError
from .host_operator import HostOperator
from .job_life import Life
from .jobs import Api, Job
from .kwok_jobs import Kwok
from .lacking import lacking

JOBS: Final = "dartesjobs"
STATUS: Final = f"{JOBS}/status"
_ATTEMPT: Final = re.compile(r"(-worker-\d+)-\d+$")
_APPLIED: Final = ("networkpolicies", "poddisruptionbudgets", "services")


def step_of(request: Request) -> str | None:
    """What a request is a step of, the same in every life; None for one that is no step.

    A status is told apart by its phase and the reasons of its conditions, an event by its reason.
    """
    if request.verb == "get" and request.resource == "secrets":
        return f"get secrets {request.name}"
    if request.verb not in WRITES:
        return None
    what: Any = request.name
    if request.resource == "configmaps":
        what = "of the run"
    elif request.resource == "events":
        what = request.document.get("reason", "again")
    elif request.resource == STATUS:
        status = request.document.get("status", {})
        reasons = sorted(f"{each['type']}={each.get('reason')}" for each in status.get("conditions") or ())
        what = f"{status.get('phase', '')} {','.join(reasons)}".strip() or "numbers"
    verb = "rehearse" if "dryRun" in request.query else request.verb
    return f"{verb} {request.resource} {what}"


def of_any_attempt(step: str) -> str:
    """A step without the attempt in a worker's name, which depends on when the one before it went."""
    return _ATTEMPT.sub(r"\1", step)


def is_of_status(step: str) -> bool:
    """Whether a step writes the status: which ones there are depends on what came together in a pass."""
    return f" {STATUS} " in step


def is_of_event(step: str) -> bool:
    """Whether a step writes an event, which is at most once."""
    return " events " in step


def action_of(step: str) -> str | None:
    """The plan's action that a step belongs to; None for status, events and the job itself."""
    verb, resource, *_ = step.split()
    if resource == "secrets":
        return {"get": "ReadCertificates", "delete": "Delete"}.get(verb, "IssueCertificates")
    if verb == "rehearse" or resource in ("events", JOBS, STATUS):
        return None
    if verb == "delete":
        return "Delete"
    if resource in _APPLIED:
        return "Apply"
    return "Create" if verb == "create" else "Patch"


@dataclass(frozen=True)
class Course:
    """One life: what there was at its end, its steps in their order, and how often what was made."""

    end: dict[str, Any]
    steps: tuple[str, ...]
    made: Counter[str]


class Lives:
    """Lives of one job after another in one namespace, all under the same operator."""

    def __init__(self, namespace: str, operator: HostOperator, proxy: FaultProxy, kwok: Kwok) -> None:
        self.api = Api(kwok.cluster.kubeconfig, kwok.cluster.context)
        self.namespace = namespace
        self.operator = operator
        self.proxy = proxy
        self.kwok = kwok
        self._undisturbed: dict[bool, Course] = {}

    def begin(self) -> Life:
        """A job that has just been created."""
        return Life.begin(self.kwok, self.api, self.namespace)

    def clear(self) -> None:
        """No faults, and no job that a test has left behind."""
        self.proxy.heal()
        left = Life(self.kwok, Job(self.api, self.namespace, Life.name))
        if left.job.exists():
            left.leave_early()

    def live(self, *faults: Fault, full: bool = False, like: Course | None = None) -> Course:
        """One life from its beginning to its end, with faults as long as it lasts."""
        began = time.monotonic()
        for fault in faults:
            self.proxy.inject(fault)
        life = self.begin()
        (life.full if full else life.short)()
        end = life.end(like.end if like else None)
        life.leave()
        self.proxy.heal()
        return self._course(end, began)

    def undisturbed(self, *, full: bool = False) -> Course:
        """A life without faults; lived once."""
        if full not in self._undisturbed:
            self.proxy.heal()
            self._undisturbed[full] = self.live(full=full)
        return self._undisturbed[full]

    def _course(self, end: dict[str, Any], began: float) -> Course:
        records = [each for each in self.proxy.records if each.time >= began]
        steps = [step for each in records if (step := step_of(each.request))]
        created = [step_of(each.request) or "" for each in records if each.code == 201]
        made = [step for step in created if step.startswith("create ") and not is_of_event(step)]
        return Course(end, tuple(dict.fromkeys(steps)), Counter(map(of_any_attempt, made)))


def assert_same(disturbed: Course, plain: Course) -> None:
    """The same end, and nothing made more often than without disturbance."""
    other = {name: (disturbed.end[name], value) for name, value in plain.end.items()
             if disturbed.end[name] != value}  # fmt: skip
    assert not other, f"another end, with what it is without disturbance: {other}"
    more = {step: times for step, times in disturbed.made.items() if times > plain.made[step]}
    assert not more, f"made more often than without disturbance: {more}"


@contextmanager
def lives_under(namespace: str, kwok: Kwok, folder: Path, proxy: FaultProxy) -> Iterator[Lives]:
    """Lives in a namespace, under an operator of its own that is a process of the host."""
    operator = HostOperator(kwok.cluster, namespace, proxy, folder)
    operator.start()
    try:
        yield Lives(namespace, operator, proxy, kwok)
        proxy.heal()
        operator.stop()
    finally:
        operator.kill()
        kwok.cluster.delete_namespace(operator.home)


@contextmanager
def proxy_before(cluster: HeldCluster) -> Iterator[tuple[FaultProxy, tuple[str, ...]]]:
    """A proxy and the chart's options that lead to it; the test is skipped where there can be none."""
    try:
        proxy, options = proxied(cluster)
    except NotHereError as error:
        lacking(str(error))
    try:
        yield proxy, options
    finally:
        proxy.stop()
