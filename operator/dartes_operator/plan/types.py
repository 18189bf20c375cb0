"""What planning takes and gives: the observed objects of one job, and the actions, status and events decided.

Manifests are plain JSON objects, as the API server gives and takes them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

Manifest = Mapping[str, Any]


class Kind(StrEnum):
    """The kinds of object that a job owns."""

    POD = "Pod"
    SERVICE = "Service"
    CONFIG_MAP = "ConfigMap"
    SECRET = "Secret"
    CLAIM = "PersistentVolumeClaim"
    NETWORK_POLICY = "NetworkPolicy"
    DISRUPTION_BUDGET = "PodDisruptionBudget"


@dataclass(frozen=True)
class Defaults:
    """What the operator's own configuration adds to every job (Helm values `image` and `jobDefaults`)."""

    coordinator_image: str
    worker_image: str
    vllm_image: str
    operator_namespace: str
    pull_policy: str = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()
    tolerations: tuple[Manifest, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TlsState:
    """The three TLS Secrets as read from the API server: role -> the mark of the authority that signed it.

    A role is missing where there is no Secret. `foreign` names Secrets of that name with another owner.
    """

    marks: Mapping[str, str]
    foreign: tuple[str, ...] = ()


@dataclass(frozen=True)
class Progress:
    """The coordinator's answer to Control.Status, and when it was given."""

    time: datetime
    phase: str
    message: str
    incarnation: int
    iteration: int
    total_iterations: int
    epoch: int
    train_pass_rate: float
    eval_accuracy: float | None
    replay_buffer_size: int
    last_iteration_seconds: float
    estimated_remaining_seconds: float
    workers_connected: int
    workers_caught_up: int
    journal_hash: str
    weight_digest: str
    # The stage under way, from 0, and how many there are; 0 of an older coordinator.
    stage: int = 0
    stages: int = 0
    # What people should be told, of this incarnation of the coordinator.
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Observed:
    """All that exists of one job, as last seen.

    Lists hold only objects that carry the job's uid in their label `dartes.dev/job-uid`, but `claim`, which
    is whatever stands under the claim's name, and `service`, likewise.
    """

    pods: tuple[Manifest, ...] = ()
    # Pods that are gone, as last seen, until a plan has `settled` them.
    departed: tuple[Manifest, ...] = ()
    config_maps: tuple[Manifest, ...] = ()
    service: Manifest | None = None
    claim: Manifest | None = None
    # Names of other jobs of the namespace that use this job's claim and go before it: not finished, and
    # started already or created earlier (by time, then by name). So two jobs never wait for each other.
    claim_users: tuple[str, ...] = ()
    # None where the Secrets were not read in this pass; then they are taken to be as status says.
    tls: TlsState | None = None
    progress: Progress | None = None


@dataclass(frozen=True)
class Create:
    """POST a manifest, never apply; Secrets come as `IssueCertificates`.

    With `stamp_authority`, the pod comes with an `IssueCertificates` earlier in the same plan, and the mark
    of the authority made there is put on it as annotation `dartes.dev/authority`. Without it the plan has
    put the mark there itself.
    """

    manifest: Manifest
    stamp_authority: bool = False


@dataclass(frozen=True)
class Apply:
    """Server-side apply with field manager `dartes-operator`, of an object that this job made."""

    manifest: Manifest


@dataclass(frozen=True)
class Patch:
    """Send a JSON merge patch; its `metadata.uid` is the precondition that it is still the same object."""

    kind: Kind
    name: str
    patch: Manifest


@dataclass(frozen=True)
class Delete:
    """Delete an object by kind, name and uid (a precondition, so that a successor of that name is safe).

    Without a uid it is a deletion only where the object has this job's uid in its label, and nothing there
    is fine.
    """

    kind: Kind
    name: str
    uid: str | None
    grace_seconds: int | None = None


@dataclass(frozen=True)
class ReadCertificates:
    """Read the three TLS Secrets, then plan again with `Observed.tls` filled in."""


@dataclass(frozen=True)
class IssueCertificates:
    """Make a new authority and three leaves and write the three Secrets (create or replace ours)."""

    metadata: Mapping[str, Manifest]  # role -> metadata of its Secret
    dns_names: tuple[str, ...]


Action = Create | Apply | Patch | Delete | ReadCertificates | IssueCertificates


@dataclass(frozen=True)
class Event:
    """An event on the job, emitted after the status has been written."""

    type: str  # Normal or Warning
    reason: str
    message: str


@dataclass(frozen=True)
class Plan:
    """What to do now.

    `status` is the whole status as it should be (the edge writes the difference, and nothing where there is
    none). Actions are executed in order; `status` is written before them where `status_first`, so that a
    count is never lost by a deletion, and else after them.
    """

    status: Manifest
    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    status_first: bool = True
    requeue_after: float | None = None
    delete_job: bool = False
    # When the plan was made, and whether it is the one that starts the job; `conclude` needs them.
    time: datetime | None = None
    starting: bool = False
    # Uids of departed pods that are accounted for, as written, or do not matter: forget them at once.
    settled: frozenset[str] = frozenset()
    # Uids of departed pods that the status of this plan accounts for: forget them once it is written.
    counted: frozenset[str] = frozenset()
    # The status as written when the plan was made, so that a condition is dated by what was seen of it.
    before: Manifest | None = None


class Trouble(StrEnum):
    """Why an action was refused by the API server."""

    NAME_CONFLICT = "NameConflict"  # 409, an object of that name has another owner
    TERMINATING = "Terminating"  # 409, ours of that name is still going away
    QUOTA_EXCEEDED = "QuotaExceeded"  # 403 by a ResourceQuota or LimitRange
    INVALID = "PodTemplateInvalid"  # 422, or 403 by PodSecurity or another admission
    FORBIDDEN = "Forbidden"  # 403 for want of rights
    WEBHOOK_AWAY = "WebhookUnavailable"  # 500, an admission webhook doesn't answer


@dataclass(frozen=True)
class Refused:
    """One refused action with the API server's own words."""

    action: Action
    trouble: Trouble
    message: str
