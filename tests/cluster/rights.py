"""One right of an operator taken away, and where its want is told: in a condition, an event or the log.

Knows how to read and write the rules of a Role, and who says `cannot VERB resource "RESOURCE"`; what makes an
operator use a right is for the tests.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .jobs import Job, until
from .kwok_jobs import Kwok
from .release import Release

ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles/{name}"


@dataclass(frozen=True, order=True)
class Right:
    """One verb on one resource; a subresource is written after a slash."""

    verb: str
    resource: str
    group: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}"

    @property
    def words(self) -> str:
        """What the API server says to whoever lacks it."""
        return f'cannot {self.verb} resource "{self.resource}"'


def rights_in(rules: Iterable[Any]) -> Iterator[Right]:
    """Each right that the rules of a Role give."""
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield Right(verb, resource, group)


def rules_of(rights: Iterable[Right]) -> list[Any]:
    """The rules of a Role that gives these rights."""
    return [
        {"apiGroups": [each.group], "resources": [each.resource], "verbs": [each.verb]} for each in rights
    ]


def messages(log: str) -> list[str]:
    """What an operator's log says, line by line; quotes are as they were said, however often escaped."""
    lines = [line for line in log.splitlines() if line.startswith("{")]
    return [str(json.loads(line)["message"]).replace("\\", "") for line in lines]


@dataclass(frozen=True)
class Scene:
    """A namespace with the operator's Role in it, one job, and what may be done to that."""

    release: Release
    kwok: Kwok
    namespace: str

    @property
    def role(self) -> str:
        """The path of the operator's Role in this namespace."""
        name = f"{self.release.namespace}-{self.release.name}"
        return ROLES.format(namespace=self.namespace, name=name)

    @property
    def job(self) -> Job:
        """The job of this scene."""
        return Job(self.release.api, self.namespace, "sums")

    def rights(self) -> list[Right]:
        """What the operator may do here."""
        return sorted(rights_in(self.release.cluster.request("GET", self.role)["rules"]))

    def give(self, rights: Iterable[Right]) -> None:
        """Let the operator do this here, and nothing else."""
        self.release.cluster.request("PATCH", self.role, {"rules": rules_of(rights)})

    def delete(self, kind: str, name: str) -> None:
        """Delete an object of the job, without waiting for its end."""
        self.release.kubectl("delete", kind, name, "-n", self.namespace, "--wait=false")

    def hide(self, kind: str, name: str) -> None:
        """Take off an object the label by which the operator's watch and listings find it."""
        label = "app.kubernetes.io/managed-by-"
        self.release.kubectl("label", kind, name, label, "-n", self.namespace)

    def told(self, words: str, log: Sequence[str]) -> list[str]:
        """Where these words stand: conditions, events, and the operator's log about this namespace."""
        status = self.job.status if self.job.exists() else {}
        found = [
            f"condition {each['type']}={each['status']} {each['reason']}"
            for each in status.get("conditions", [])
            if words in each.get("message", "")
        ]
        for event in self.job.events():
            found += [f"event {event['reason']}"] if words in event["message"] else []
        logged = any(words in message and self.namespace in message for message in log)
        return [*found, *(["log"] if logged else [])]

    def wait_until_running(self) -> None:
        """Wait for the coordinator and both workers, and for the operator to have told so."""
        self.job.wait_ready("worker", 2)
        self.job.wait_condition("WorkersReady", seconds=30)

    def settle(self) -> None:
        """Wait until the operator has acted on the spec as it is."""
        job = self.job
        until(
            lambda: job.status.get("observedGeneration") == job.get()["metadata"]["generation"],
            f"{self.namespace}: the spec is followed",
            30.0,
        )
