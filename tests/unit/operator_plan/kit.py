"""A small cluster for plans: it keeps objects, carries plans out as the operator does, moves pods along.

Whatever a plan must never do (make a thing twice, delete what isn't there, count a pod twice) fails at once.
"""

import copy
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from dartes.spec.crd.status import status_node
from dartes_operator.plan.conclude import conclude
from dartes_operator.plan.plan import plan
from dartes_operator.plan.times import parse_time, write_time
from dartes_operator.plan.types import (
    Action,
    Apply,
    Create,
    Defaults,
    Delete,
    Event,
    IssueCertificates,
    Observed,
    Patch,
    Plan,
    Progress,
    ReadCertificates,
    Refused,
    TlsState,
    Trouble,
)

UID = "0f9a4c1e-6f7b-4b6e-9d57-3a2b1c0d9e8f"
START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
DEFAULTS = Defaults(
    coordinator_image="dartes/coordinator:1",
    worker_image="dartes/worker:1",
    vllm_image="dartes/worker-vllm:1",
    operator_namespace="dartes-system",
)
Key = tuple[str, str]


def job(name: str = "addition", **spec: Any) -> dict[str, Any]:
    """A DartESJob as the API server gives it; two workers without GPUs."""
    base: dict[str, Any] = {
        "model": {"source": "builtin://addition", "dtype": "Float32"},
        "dataset": {"source": "builtin://addition", "maxProblems": 1000},
        "task": {"kind": "addition"},
        "es": {"populationSize": 32, "batchSize": 128, "iterations": 20},
        "workers": {"replicas": 2, "gpusPerWorker": 0},
    }
    return {
        "apiVersion": "dartes.dev/v1alpha1",
        "kind": "DartESJob",
        "metadata": {
            "name": name,
            "namespace": "lab",
            "uid": UID,
            "generation": 1,
            "creationTimestamp": write_time(START),
        },
        "spec": merged(base, spec),
    }


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Maps merged at every depth; None removes a key."""
    result = dict(base)
    for key, value in changes.items():
        old = result.get(key)
        if value is None:
            result.pop(key, None)
        else:
            both = isinstance(value, Mapping) and isinstance(old, Mapping)
            result[key] = merged(old, value) if both and old is not None else copy.deepcopy(value)
    return result


SCHEMA = status_node()
_KINDS: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


def fits(value: Any, schema: Mapping[str, Any], path: str = "status") -> None:
    """Fail where the API server would refuse a value, or drop it for want of a field."""
    assert isinstance(value, _KINDS[schema["type"]]), f"{path} is {value!r}"
    assert schema["type"] in ("boolean", "object", "array") or not isinstance(value, bool)
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        for key, inner in value.items():
            other = schema.get("additionalProperties")
            assert key in properties or other, f"{path}.{key} is not in the schema"
            fits(inner, properties.get(key, other), f"{path}.{key}")
        assert set(schema.get("required", ())) <= set(value), path
    elif isinstance(value, list):
        assert len(value) <= schema["maxItems"], path
        for inner in value:
            fits(inner, schema["items"], path)
    elif isinstance(value, str):
        assert schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 10_000), path
        assert value in schema.get("enum", [value]), path
        if schema.get("format") == "date-time":
            assert parse_time(value) is not None, path
    elif "minimum" in schema:
        assert value >= schema["minimum"], path


@dataclass
class Cluster:
    """One job's part of a cluster, and a clock that passes when told."""

    job: dict[str, Any] = field(default_factory=job)
    now: datetime = START
    defaults: Defaults = DEFAULTS
    objects: dict[Key, dict[str, Any]] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    foreign_secrets: tuple[str, ...] = ()
    claim_users: tuple[str, ...] = ()
    progress: Progress | None = None
    events: list[Event] = field(default_factory=list)
    requests: int = 0
    status_writes: int = 0
    job_deleted: bool = False
    refuse: dict[str, tuple[Trouble, str]] = field(default_factory=dict)
    last: Plan | None = None
    refused: list[Refused] = field(default_factory=list)
    accounted: set[str] = field(default_factory=set)
    departed: list[dict[str, Any]] = field(default_factory=list)
    _serial: int = 0

    # What the API server and the operator do.

    @property
    def status(self) -> dict[str, Any]:
        """The job's status as written."""
        status: dict[str, Any] = self.job.get("status", {})
        return status

    def condition(self, kind: str) -> dict[str, Any]:
        """A condition as written, empty where there is none."""
        return next((entry for entry in self.status.get("conditions", ()) if entry["type"] == kind), {})

    def observe(self, *, tls: bool = False) -> Observed:
        """All that the operator sees."""
        of = self._of
        claim_name = self.job["spec"].get("checkpoint", {}).get("volume", {}).get("claimName")
        claim_name = claim_name or f"{self.job['metadata']['name']}-checkpoint"
        return Observed(
            pods=tuple(of("Pod")),
            departed=tuple(self.departed),
            config_maps=tuple(of("ConfigMap")),
            service=self.objects.get(("Service", f"{self.job['metadata']['name']}-coordinator")),
            claim=self.objects.get(("PersistentVolumeClaim", claim_name)),
            claim_users=self.claim_users,
            tls=TlsState(dict(self.secrets), self.foreign_secrets) if tls else None,
            progress=self.progress,
        )

    def plan(self) -> Plan:
        """What the plan is now, with the Secrets read where it asks for them; nothing is carried out."""
        found = plan(self.job, self.observe(), self.now, self.defaults)
        if any(isinstance(action, ReadCertificates) for action in found.actions):
            assert found.actions == (ReadCertificates(),)
            found = plan(self.job, self.observe(tls=True), self.now, self.defaults)
            assert not any(isinstance(action, ReadCertificates) for action in found.actions)
        return found

    def step(self) -> Plan:
        """One pass of the operator."""
        found = self.plan()
        self.departed = [pod for pod in self.departed if pod["metadata"]["uid"] not in found.settled]
        if found.status_first:
            self._write(found.status)
            self.departed = [pod for pod in self.departed if pod["metadata"]["uid"] not in found.counted]
        self.refused = self._execute(found.actions)
        found = conclude(found, self.refused)
        self._write(found.status)
        self.events.extend(found.events)
        self.requests += len(found.events)
        self.job_deleted = self.job_deleted or found.delete_job
        self.last = found
        return found

    def settle(self, most: int = 40) -> None:
        """Pass after pass until nothing changes."""
        for _ in range(most):
            writes = self.status_writes
            found = self.step()
            if self.status_writes == writes and (self.refused or not found.actions):
                return
        raise AssertionError("the plan reaches no fixpoint")

    def _of(self, kind: str) -> Sequence[dict[str, Any]]:
        return [value for (found, _), value in sorted(self.objects.items()) if found == kind]

    def _write(self, status: Mapping[str, Any]) -> None:
        before = set(self.status.get("failures", {}).get("counted", ()))
        counted = status.get("failures", {}).get("counted", ())
        assert len(set(counted)) == len(counted)
        for uid in set(counted) - before:
            assert uid not in self.accounted, f"{uid} is counted twice"
            self.accounted.add(uid)
        fits(status, SCHEMA)
        if any((entry["type"], entry["status"]) == ("Suspended", "True") for entry in status["conditions"]):
            assert not self.pods("coordinator"), "the job is called suspended, and its coordinator works"
        if status != self.status:
            self.job["status"] = copy.deepcopy(dict(status))
            self.status_writes += 1
            self.requests += 1

    def crash(self, actions: int) -> None:
        """The operator ends after so many actions, before the status is written (unless it comes first)."""
        found = self.plan()
        if found.status_first:
            self._write(found.status)
        self._execute(found.actions[:actions])
        self.departed.clear()

    def _execute(self, actions: Sequence[Action]) -> list[Refused]:
        refused = []
        made: str | None = None
        for action in actions:
            if isinstance(action, IssueCertificates):
                self._serial += 1
                made = hashlib.sha256(str(self._serial).encode()).hexdigest()[:10]
                self.secrets = dict.fromkeys(action.metadata, made)
                self.requests += 3
                continue
            self.requests += 1
            trouble = self._carry_out(action, made)
            if trouble is not None:
                refused.append(Refused(action, *trouble))
        return refused

    def _carry_out(self, action: Action, mark: str | None) -> tuple[Trouble, str] | None:
        if isinstance(action, Create):
            return self._create(action, mark)
        if isinstance(action, Apply):
            key = (action.manifest["kind"], action.manifest["metadata"]["name"])
            refusal = self._refusal(*key)
            if refusal is not None:
                return refusal
            self.objects[key] = {**copy.deepcopy(dict(action.manifest)), "status": {}}
        elif isinstance(action, Patch):
            found = self.objects[(action.kind.value, action.name)]
            assert found["metadata"]["uid"] == action.patch["metadata"]["uid"]
            found["metadata"] = merged(found["metadata"], action.patch["metadata"])
        elif isinstance(action, Delete):
            self._delete(action)
        return None

    def _create(self, action: Create, mark: str | None) -> tuple[Trouble, str] | None:
        manifest = copy.deepcopy(dict(action.manifest))
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        refusal = self._refusal(kind, name)
        if refusal is not None:
            return refusal
        there = self.objects.get((kind, name))
        if there is not None:
            owners = there["metadata"].get("ownerReferences") or [{}]
            if owners[0].get("uid") != UID:
                return Trouble.NAME_CONFLICT, f'{kind} "{name}" already exists'
            if "deletionTimestamp" in there["metadata"]:
                return Trouble.TERMINATING, "being deleted"
            raise AssertionError(f"{kind} {name} is made twice")
        self._serial += 1
        manifest["metadata"]["uid"] = f"{self._serial:08x}-6f7b-4b6e-9d57-3a2b1c0d9e8f"
        manifest["metadata"]["creationTimestamp"] = write_time(self.now)
        if action.stamp_authority:
            assert mark is not None
            manifest["metadata"]["annotations"]["dartes.dev/authority"] = mark
        if kind == "Pod":
            self._may_make(manifest)
            manifest["status"] = {"phase": "Pending"}
            if "kueue.x-k8s.io/queue-name" in manifest["metadata"]["labels"]:
                manifest["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
        self.objects[(kind, name)] = manifest
        return None

    def _refusal(self, kind: str, name: str) -> tuple[Trouble, str] | None:
        return next((why for prefix, why in self.refuse.items() if f"{kind}/{name}".startswith(prefix)), None)

    def _delete(self, action: Delete) -> None:
        key = (action.kind.value, action.name)
        found = self.objects.get(key)
        if action.uid is None:
            self.objects.pop(key, None)
            return
        assert found is not None, f"{key} is deleted and isn't there"
        assert found["metadata"]["uid"] == action.uid
        assert action.kind.value != "PersistentVolumeClaim"
        if action.kind.value == "Pod":
            self._may_delete(found)
        ended = action.kind.value == "Pod" and found["status"]["phase"] in ("Succeeded", "Failed")
        if action.kind.value != "Pod" or ended or action.grace_seconds == 0:
            gone = self.objects.pop(key)
            if action.kind.value == "Pod":
                self.departed.append(gone)
        else:
            assert "deletionTimestamp" not in found["metadata"], f"{action.name} is deleted twice"
            self.delete_pod(action.name, grace=action.grace_seconds)

    def _may_make(self, manifest: Mapping[str, Any]) -> None:
        """A slot gets a pod only where nobody works in it and what was there is accounted for."""
        labels = manifest["metadata"]["labels"]
        keys = ("dartes.dev/role", "dartes.dev/worker-index")
        if labels[keys[0]] != "worker":
            assert not self.pods(labels[keys[0]]), "there is one of that name"
        for pod in self.pods().values():
            if all(pod["metadata"]["labels"].get(key) == labels.get(key) for key in keys):
                assert self._is_accounted(pod), f"{pod['metadata']['name']} is replaced before it is counted"

    def _may_delete(self, pod: Mapping[str, Any]) -> None:
        """While a job runs, a pod goes only once its end, or that it is our doing, is written down."""
        going = self.condition("Suspended").get("reason") in ("Suspending", "Suspended")
        over = any(self.condition(kind).get("status") == "True" for kind in ("Complete", "Failed"))
        trained = self.condition("Progressing").get("reason") == "Trained"
        assert going or over or trained or self._is_accounted(pod), f"{pod['metadata']['name']} isn't counted"

    def _is_accounted(self, pod: Mapping[str, Any]) -> bool:
        counted = self.status.get("failures", {}).get("counted", ())
        return pod["metadata"]["uid"][:13] in counted or pod["status"]["phase"] == "Succeeded"

    # What nodes and people do.

    def pods(self, role: str | None = None) -> dict[str, dict[str, Any]]:
        """Pods by name."""
        return {
            name: pod
            for (kind, name), pod in self.objects.items()
            if kind == "Pod" and (role is None or pod["metadata"]["labels"]["dartes.dev/role"] == role)
        }

    def pod(self, name: str) -> dict[str, Any]:
        """A pod by name."""
        return self.objects[("Pod", name)]

    def pass_by(self, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)

    def start_pod(self, name: str, *, ready: bool = True) -> None:
        """A node takes the pod and starts it."""
        pod = self.pod(name)
        pod["spec"]["nodeName"] = "node-1"
        time = write_time(self.now)
        pod["status"] = {
            "phase": "Running",
            "startTime": time,
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": time},
                {"type": "PodReadyToStartContainers", "status": "True", "lastTransitionTime": time},
                {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": time},
            ],
            "containerStatuses": [{"name": self._container(pod), "state": {"running": {"startedAt": time}}}],
        }

    def start_all(self) -> None:
        """Every pending pod starts and becomes ready."""
        for name, pod in self.pods().items():
            if pod["status"]["phase"] == "Pending" and "deletionTimestamp" not in pod["metadata"]:
                self.start_pod(name)

    def wait_pod(self, name: str, reason: str, message: str) -> None:
        """The kubelet can't start the pod's container."""
        pod = self.pod(name)
        pod["spec"]["nodeName"] = "node-1"
        waiting = {"waiting": {"reason": reason, "message": message}}
        pod["status"]["containerStatuses"] = [{"name": self._container(pod), "state": waiting}]

    def end_pod(self, name: str, code: int, *, message: str = "", reason: str = "") -> None:
        """The pod's process ends."""
        pod = self.pod(name)
        terminated = {"exitCode": code, "finishedAt": write_time(self.now), "message": message}
        terminated["reason"] = reason or ("Completed" if code == 0 else "Error")
        pod["status"]["phase"] = "Succeeded" if code == 0 else "Failed"
        pod["status"]["containerStatuses"] = [
            {"name": self._container(pod), "state": {"terminated": terminated}}
        ]
        for entry in pod["status"].get("conditions", ()):
            if entry["type"] == "Ready":
                entry["status"] = "False"

    def delete_pod(self, name: str, *, grace: int | None = None) -> None:
        """Somebody deletes the pod; it is on its way out."""
        pod = self.pod(name)
        seconds = pod["spec"]["terminationGracePeriodSeconds"] if grace is None else grace
        pod["metadata"]["deletionTimestamp"] = write_time(self.now + timedelta(seconds=seconds))

    def vanish(self, name: str) -> None:
        """The pod object is gone, and nobody looked since this was its state."""
        self.departed.append(self.objects.pop(("Pod", name)))

    def leave_all(self) -> None:
        """Every pod that was told to go is gone."""
        for name, pod in self.pods().items():
            if "deletionTimestamp" in pod["metadata"]:
                self.vanish(name)

    def disrupt(self, name: str, *, reason: str = "EvictionByEvictionAPI") -> None:
        """The platform takes the pod: it ends as drained, with the mark of a disruption."""
        self.end_pod(name, 76)
        self.pod(name)["status"].setdefault("conditions", []).append(
            {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "evicted"}
        )

    def edit(self, **spec: Any) -> None:
        """A user edits the spec."""
        self.job["spec"] = merged(self.job["spec"], spec)
        self.job["metadata"]["generation"] += 1

    def advance(self, iteration: int, **changes: Any) -> None:
        """The coordinator tells of an iteration."""
        base = self.progress or Progress(
            time=self.now,
            phase="PHASE_RUNNING",
            message="",
            incarnation=1,
            iteration=0,
            total_iterations=20,
            epoch=0,
            train_pass_rate=0.5,
            eval_accuracy=None,
            replay_buffer_size=3,
            last_iteration_seconds=2.0,
            estimated_remaining_seconds=30.0,
            workers_connected=2,
            workers_caught_up=2,
            journal_hash="aa",
            weight_digest="bb",
        )
        self.progress = replace(base, time=self.now, iteration=iteration, **changes)

    @staticmethod
    def _container(pod: Mapping[str, Any]) -> str:
        return str(pod["metadata"]["labels"]["dartes.dev/role"])

    def event_reasons(self) -> list[str]:
        """Reasons of all events, in order."""
        return [event.reason for event in self.events]


def running(**spec: Any) -> Cluster:
    """A cluster whose job runs, with every pod ready."""
    cluster = Cluster(job(**spec))
    cluster.settle()
    cluster.pass_by(2)
    cluster.start_all()
    cluster.settle()
    assert cluster.status["phase"] == "Running"
    return cluster


FINAL_WORDS = (
    '{"iteration":20,"totalIterations":20,"epoch":2,"journalHash":"aa","weightDigest":"bb",'
    '"trainPassRate":0.9,"evalAccuracy":0.97,"incarnation":1}'
)
