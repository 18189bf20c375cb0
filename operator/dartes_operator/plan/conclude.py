"""Folds what the API server refused into the status: the plan as it turned out.

Pure: the refusals are given, with the server's own words. Nothing refused is charged to a budget.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from dartes_operator.plan.conditions import Condition, Conditions
from dartes_operator.plan.types import (
    Action,
    Apply,
    Create,
    Delete,
    Event,
    Kind,
    Patch,
    Plan,
    Refused,
    Trouble,
)
from dartes_operator.resources.identity import ROLE_LABEL, Role

_AGAIN_SECONDS: Final = {
    Trouble.TERMINATING: 1.0,
    Trouble.NAME_CONFLICT: 10.0,
    Trouble.QUOTA_EXCEEDED: 15.0,
    # Some of these heal by themselves: a service account or priority class that is made a little later.
    Trouble.INVALID: 30.0,
    Trouble.FORBIDDEN: 60.0,
    Trouble.WEBHOOK_AWAY: 10.0,
}
# Only these mean that the job has not begun: the spec may still be mended whole.
_UNDOES_START: Final = (Trouble.NAME_CONFLICT, Trouble.INVALID)
_CREATED_EVENTS: Final = {
    Role.COORDINATOR: ("CoordinatorCreated", "CoordinatorRestarted"),
    Role.WORKER: ("WorkersCreated",),
    Role.EXPORT: (),
}


def conclude(plan: Plan, refused: Sequence[Refused]) -> Plan:
    """The plan with the refusals in its conditions, without events of what didn't happen."""
    if not refused or plan.time is None:
        return plan
    status = copy.deepcopy(dict(plan.status))
    planned = status.pop("conditions", None) or ()
    before = plan.before or {}
    conditions = Conditions(before.get("conditions") or (), plan.time, _generation(planned))
    for entry in planned:
        conditions.take(entry)
    for refusal in refused:
        _TELL[refusal.trouble](conditions, refusal)
    base_refused = any(_role(refusal.action) is None for refusal in refused)
    if base_refused:
        # The rest of what the spec asks for was not made either: the next plan asks again for all of it.
        _restore(status, before, "observedGeneration")
        _restore(status, before, "policyHash")
    if plan.starting and (base_refused or any(entry.trouble in _UNDOES_START for entry in refused)):
        _restore(status, before, "startTime")
        status["phase"] = "Pending"
    status["conditions"] = conditions.entries()
    status["message"] = conditions.summary()
    again = min(_AGAIN_SECONDS[refusal.trouble] for refusal in refused)
    wait = again if plan.requeue_after is None else min(again, plan.requeue_after)
    if plan.requeue_after == 0 and any(_role(refusal.action) is not None for refusal in refused):
        # It would go on at once with more pods, to which the same would be said.
        wait = again
    events = _events(plan, refused, conditions, base_refused=base_refused)
    return replace(plan, status=status, events=events, requeue_after=wait)


def _generation(conditions: Sequence[Mapping[str, Any]]) -> int:
    return max((int(entry.get("observedGeneration", 0)) for entry in conditions), default=0)


def _restore(status: dict[str, Any], before: Mapping[str, Any], name: str) -> None:
    if name in before:
        status[name] = before[name]
    else:
        status.pop(name, None)


def _events(
    plan: Plan, refused: Sequence[Refused], conditions: Conditions, *, base_refused: bool
) -> tuple[Event, ...]:
    roles = {_role(refusal.action) for refusal in refused}
    dropped = {
        reason
        for role, reasons in _CREATED_EVENTS.items()
        if base_refused or role in roles
        for reason in reasons
    }
    events = [event for event in plan.events if event.reason not in dropped]
    if not conditions.holds(Condition.ACCEPTED):
        message = conditions.message(Condition.ACCEPTED)
        events = [event for event in events if event.reason != "Accepted"]
        if message != conditions.message_before(Condition.ACCEPTED):
            events.append(Event("Warning", conditions.reason(Condition.ACCEPTED), message))
    return tuple(events)


def _name_conflict(conditions: Conditions, entry: Refused) -> None:
    reason = "VolumeExists" if _kind(entry.action) == Kind.CLAIM.value else "NameConflict"
    conditions.set(
        Condition.RESOURCES_READY,
        False,
        reason,
        f"{_named(entry.action)} exists already and is not this job's; delete or rename it, or give the job "
        f"another name ({entry.message})",
    )


def _terminating(conditions: Conditions, entry: Refused) -> None:
    """It is on its way out; the next plan makes it."""


def _held_up(conditions: Conditions, entry: Refused) -> None:
    """What passes by itself, told where its pod is told of."""
    role, reason = _role(entry.action), entry.trouble.value
    if role is Role.COORDINATOR:
        conditions.set(Condition.COORDINATOR_READY, False, reason, entry.message)
    elif role is not Role.WORKER:
        conditions.set(Condition.RESOURCES_READY, False, reason, f"{_named(entry.action)}: {entry.message}")
    else:
        conditions.set(Condition.WORKERS_SCALED, False, reason, entry.message)
        if not conditions.holds(Condition.WORKERS_READY):
            conditions.set(Condition.WORKERS_READY, False, reason, entry.message)


def _invalid(conditions: Conditions, entry: Refused) -> None:
    message = f"{_named(entry.action)}: {entry.message}"
    if _kind(entry.action) == Kind.POD.value:
        conditions.set(Condition.ACCEPTED, False, "PodTemplateInvalid", message)
    else:
        conditions.set(Condition.RESOURCES_READY, False, "Invalid", message)


def _forbidden(conditions: Conditions, entry: Refused) -> None:
    conditions.set(
        Condition.RESOURCES_READY,
        False,
        "Forbidden",
        f"{_named(entry.action)}: the operator has not the rights ({entry.message})",
    )


_TELL: Mapping[Trouble, Callable[[Conditions, Refused], None]] = {
    Trouble.NAME_CONFLICT: _name_conflict,
    Trouble.TERMINATING: _terminating,
    Trouble.QUOTA_EXCEEDED: _held_up,
    Trouble.INVALID: _invalid,
    Trouble.FORBIDDEN: _forbidden,
    Trouble.WEBHOOK_AWAY: _held_up,
}


def _kind(action: Action) -> str:
    if isinstance(action, Create | Apply):
        return str(action.manifest["kind"])
    if isinstance(action, Patch | Delete):
        return action.kind.value
    return Kind.SECRET.value


def _named(action: Action) -> str:
    if isinstance(action, Create | Apply):
        return f"{action.manifest['kind']} {action.manifest['metadata']['name']}"
    if isinstance(action, Patch | Delete):
        return f"{action.kind.value} {action.name}"
    return "Secret of the job's certificates"


def _role(action: Action) -> Role | None:
    if not isinstance(action, Create) or action.manifest["kind"] != Kind.POD.value:
        return None
    return Role(action.manifest["metadata"]["labels"][ROLE_LABEL])
