"""The conditions of a job: set by policies, never removed, and dated only when a status flips."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from dartes_operator.plan.times import parse_time, write_time

MOST_MESSAGE = 1024
# The end of a job is told in the words of the pod that ended it.
MOST_LAST_MESSAGE = 2048
MOST_REASON = 63

# The reason of Progressing that says: all iterations are committed, and only the export is still to be done.
TRAINED = "Trained"


class Condition(StrEnum):
    """The types, in the order in which they are shown."""

    ACCEPTED = "Accepted"
    QUOTA_RESERVED = "QuotaReserved"
    RESOURCES_READY = "ResourcesReady"
    COORDINATOR_READY = "CoordinatorReady"
    WORKERS_READY = "WorkersReady"
    WORKERS_SCALED = "WorkersScaled"
    PROGRESSING = "Progressing"
    CHECKPOINT_HEALTHY = "CheckpointHealthy"
    REPLICAS_CONSISTENT = "ReplicasConsistent"
    SUSPENDED = "Suspended"
    COMPLETE = "Complete"
    FAILED = "Failed"


TERMINAL = (Condition.COMPLETE, Condition.FAILED)
_HOLDING_UP = (
    Condition.ACCEPTED,
    Condition.RESOURCES_READY,
    Condition.QUOTA_RESERVED,
    # Before the pods: a coordinator that finds its volume full is not ready for that very reason.
    Condition.CHECKPOINT_HEALTHY,
    Condition.COORDINATOR_READY,
    Condition.WORKERS_READY,
    Condition.PROGRESSING,
)
_ORDER = {kind.value: position for position, kind in enumerate(Condition)}


class Conditions:
    """The conditions of one pass, begun with those of the status as written."""

    def __init__(self, before: Iterable[Mapping[str, Any]], now: datetime, generation: int) -> None:
        self._before = {entry["type"]: dict(entry) for entry in before}
        self._now = {kind: dict(entry) for kind, entry in self._before.items()}
        self._time = write_time(now)
        self._generation = generation

    def set(self, kind: Condition, status: bool, reason: str, message: str = "") -> None:
        """Set one; a terminal condition that is true stays as it is."""
        if kind in TERMINAL and self.was(kind):
            return
        text = "True" if status else "False"
        old = self._before.get(kind.value)
        flipped = old is None or old.get("status") != text
        self._now[kind.value] = {
            "type": kind.value,
            "status": text,
            "reason": reason[:MOST_REASON],
            "message": message[: MOST_LAST_MESSAGE if kind in TERMINAL else MOST_MESSAGE],
            "lastTransitionTime": self._time if flipped or old is None else old.get("lastTransitionTime"),
            "observedGeneration": self._generation,
        }

    def take(self, entry: Mapping[str, Any]) -> None:
        """Set one as another pass has it; the date is still that of the last flip as written."""
        self.set(
            Condition(entry["type"]), entry["status"] == "True", entry["reason"], entry.get("message", "")
        )

    def was(self, kind: Condition) -> bool:
        """Whether it was true in the status as written."""
        return self._before.get(kind.value, {}).get("status") == "True"

    def holds(self, kind: Condition) -> bool:
        """Whether it is true now."""
        return self._now.get(kind.value, {}).get("status") == "True"

    def reason_before(self, kind: Condition) -> str:
        """The reason in the status as written, empty where there is none."""
        return str(self._before.get(kind.value, {}).get("reason", ""))

    def message_before(self, kind: Condition) -> str:
        """The message in the status as written, empty where there is none."""
        return str(self._before.get(kind.value, {}).get("message", ""))

    def reason(self, kind: Condition) -> str:
        """The reason as it is now, empty where there is none."""
        return str(self._now.get(kind.value, {}).get("reason", ""))

    def message(self, kind: Condition) -> str:
        """The message as it is now, empty where there is none."""
        return str(self._now.get(kind.value, {}).get("message", ""))

    def since(self, kind: Condition) -> datetime | None:
        """When the status last flipped, as it is now."""
        return parse_time(self._now.get(kind.value, {}).get("lastTransitionTime"))

    def since_before(self, kind: Condition) -> datetime | None:
        """When the status last flipped, as it is written."""
        return parse_time(self._before.get(kind.value, {}).get("lastTransitionTime"))

    def changed(self) -> bool:
        """Whether anything but an observed generation differs from the status as written."""
        return {kind: _core(entry) for kind, entry in self._now.items()} != {
            kind: _core(entry) for kind, entry in self._before.items()
        }

    def summary(self) -> str:
        """Why the job is where it is, in one line: its end, or the first thing that holds it up."""
        for kind in (*TERMINAL, *_HOLDING_UP):
            entry = self._now.get(kind.value, {})
            if entry.get("status") == ("True" if kind in TERMINAL else "False") and entry["message"]:
                return f"{entry['reason']}: {entry['message']}"[:MOST_MESSAGE]
        return ""

    @property
    def trained(self) -> bool:
        """Whether training is over, though the job may not be."""
        return self.reason(Condition.PROGRESSING) == TRAINED

    def entries(self) -> list[dict[str, Any]]:
        """All of them, in their order."""
        return sorted(self._now.values(), key=lambda entry: _ORDER.get(entry["type"], len(_ORDER)))


def _core(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    return entry.get("status"), entry.get("reason"), entry.get("message")
