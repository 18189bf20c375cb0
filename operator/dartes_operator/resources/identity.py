"""Who a job is: its name, namespace and uid, and the names, labels and owner reference that follow from them.

Every builder starts from here, so that no name is spelt in two places.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dartes.spec.job import API_VERSION, KIND

MANAGED_BY = "dartes-operator"

NAME_LABEL = "app.kubernetes.io/name"
INSTANCE_LABEL = "app.kubernetes.io/instance"
COMPONENT_LABEL = "app.kubernetes.io/component"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
PART_OF_LABEL = "app.kubernetes.io/part-of"
JOB_NAME_LABEL = "dartes.dev/job-name"
JOB_UID_LABEL = "dartes.dev/job-uid"
ROLE_LABEL = "dartes.dev/role"
WORKER_INDEX_LABEL = "dartes.dev/worker-index"
RUN_ID_LABEL = "dartes.dev/run-id"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"

TEMPLATE_HASH_ANNOTATION = "dartes.dev/template-hash"
AUTHORITY_ANNOTATION = "dartes.dev/authority"
RECONCILE_ANNOTATION = "dartes.dev/reconcile"

RUN_COMPONENT = "run"


class Role(StrEnum):
    """What a pod does for its job."""

    COORDINATOR = "coordinator"
    WORKER = "worker"
    EXPORT = "export"


class TlsRole(StrEnum):
    """Who a TLS Secret is for."""

    COORDINATOR = "coordinator"
    WORKER = "worker"
    OPERATOR = "operator"


@dataclass(frozen=True)
class JobIdentity:
    """A job in its namespace."""

    name: str
    namespace: str
    uid: str

    @property
    def run_id(self) -> str:
        """The first eight characters of the job's uid, which name the run in labels and status."""
        return self.uid[:8]

    @property
    def coordinator(self) -> str:
        """Name of the coordinator's pod, Service, network policy and disruption budget."""
        return f"{self.name}-coordinator"

    @property
    def worker_policy(self) -> str:
        """Name of the workers' network policy."""
        return f"{self.name}-worker"

    @property
    def export(self) -> str:
        """Name of the export pod."""
        return f"{self.name}-export"

    def worker(self, index: int, attempt: int) -> str:
        """Name of a worker's pod; `attempt` is 0 unless the plain name is taken."""
        return f"{self.name}-worker-{index}" + (f"-{attempt}" if attempt else "")

    def run_config(self, template_hash: str) -> str:
        """Name of the run ConfigMap with this hash."""
        return f"{self.name}-run-{template_hash}"

    def tls_secret(self, role: TlsRole | Role) -> str:
        """Name of a role's TLS Secret."""
        return f"{self.name}-tls-{role.value}"

    @property
    def owner(self) -> dict[str, Any]:
        """The reference by which deleting the job deletes an object."""
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }

    def labels(self, component: str) -> dict[str, str]:
        """The labels of every object of the job."""
        return {
            NAME_LABEL: "dartes",
            INSTANCE_LABEL: self.name,
            COMPONENT_LABEL: component,
            MANAGED_BY_LABEL: MANAGED_BY,
            PART_OF_LABEL: "dartes",
            JOB_NAME_LABEL: self.name,
            JOB_UID_LABEL: self.uid,
        }

    def selector(self, *roles: Role) -> dict[str, Any]:
        """A label selector of this job's pods of some roles."""
        if len(roles) == 1:
            return {"matchLabels": {JOB_UID_LABEL: self.uid, ROLE_LABEL: roles[0].value}}
        return {
            "matchLabels": {JOB_UID_LABEL: self.uid},
            "matchExpressions": [
                {"key": ROLE_LABEL, "operator": "In", "values": [role.value for role in roles]}
            ],
        }

    def metadata(self, name: str, component: str, *, owned: bool = True) -> dict[str, Any]:
        """Name, namespace, labels and, unless the object outlives the job, the owner reference."""
        meta: dict[str, Any] = {
            "name": name,
            "namespace": self.namespace,
            "labels": self.labels(component),
        }
        if owned:
            meta["ownerReferences"] = [self.owner]
        return meta


def identity_of(job: Mapping[str, Any]) -> JobIdentity:
    """The identity of a DartESJob as the API server gives it."""
    meta = job["metadata"]
    return JobIdentity(name=meta["name"], namespace=meta["namespace"], uid=meta["uid"])
