"""The life of one job on fake nodes, from its creation to its deletion, with all that may happen between.

The test plays the kubelet and the user. Each step waits for what must follow, with a deadline and whatever
happens to the operator meanwhile; what there is at the end is told without what differs from run to run.
"""

import contextlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from kubernetes.client.exceptions import ApiException

from .jobs import Job, Object, is_live, is_ready, until
from .kwok_jobs import Kwok, spec_on_kwok

WAIT_SECONDS: Final = 90.0
REST_SECONDS: Final = 30.0
AT_REST: Final = 5
"""Looks, a fifth of a second apart, that must all see the same."""
LAST_WORDS: Final = json.dumps(
    {
        "iteration": 20,
        "totalIterations": 20,
        "epoch": 2,
        "journalHash": "aa",
        "weightDigest": "bb",
        "trainPassRate": 0.9,
        "evalAccuracy": 0.97,
        "incarnation": 1,
    }
)
PATHS: Final = {
    "pods": "/api/v1",
    "services": "/api/v1",
    "configmaps": "/api/v1",
    "secrets": "/api/v1",
    "persistentvolumeclaims": "/api/v1",
    "networkpolicies": "/apis/networking.k8s.io/v1",
    "poddisruptionbudgets": "/apis/policy/v1",
}
"""What a job may own: plurals, and where the API server keeps them."""
_DIGEST: Final = re.compile(r"[0-9a-f]{8,}")


class Life:
    """One job, always of the same name, so that two lives can be compared."""

    name: Final = "life"

    def __init__(self, kwok: Kwok, job: Job) -> None:
        self.kwok = kwok
        self.job = job

    @classmethod
    def begin(cls, kwok: Kwok, api: Any, namespace: str, **changes: Any) -> "Life":
        """Create the job."""
        spec = spec_on_kwok(
            **{
                "disruptionBudget": "BlockVoluntary",
                "export": {"destination": "s3://nowhere/model"},
                "workers__scaleDown": {"drainSeconds": 1},
                **changes,
            }
        )
        return cls(kwok, Job.create(api, namespace, cls.name, spec))

    def short(self) -> None:
        """Start, run, end."""
        self.wait_running(2)
        self.finish_training()

    def full(self) -> None:
        """All that a plan has an action for."""
        self.wait_running(2)
        self.finish("worker", 1)
        self.wait(lambda status: _failures(status, "worker") == 1, "the failure is counted")
        self.wait_running(2)
        self.disrupt("worker")
        self.wait(lambda status: _failures(status, "disruptions") == 1, "the disruption is counted")
        self.wait_running(2)
        self.job.patch({"workers": {"replicas": 3}})
        self.wait_running(3)
        self.job.patch({"workers": {"replicas": 2}})
        self.wait_running(2)
        self.finish("coordinator", 1)
        self.wait(lambda status: _failures(status, "coordinator") == 1, "the failure is counted")
        self.wait_running(2)
        self.job.patch({"suspend": True})
        self.job.wait_condition("Suspended", seconds=WAIT_SECONDS)
        self.forget_certificates()
        self.job.patch({"suspend": False, "checkpoint": {"retentionPolicy": "Retain"}})
        self.wait_running(2)
        self.job.patch({"checkpoint": {"retentionPolicy": "Delete"}})
        self.finish_training()

    def wait_running(self, workers: int) -> None:
        """Wait until the coordinator and so many workers run, and the status says so."""

        def runs() -> bool:
            pods = [*self.job.pods("coordinator"), *self.job.pods("worker")]
            live = [pod for pod in pods if is_live(pod) and is_ready(pod)]
            of_workers = [pod for pod in live if pod["metadata"]["labels"]["dartes.dev/role"] == "worker"]
            return len(of_workers) == workers and len(live) == workers + 1 and self._says_so(workers)

        self._until(runs, f"a coordinator and {workers} workers run")

    def _says_so(self, workers: int) -> bool:
        status = self.job.status
        return status.get("phase") == "Running" and status.get("workers", {}).get("ready") == workers

    def finish(self, role: str, code: int, words: str = "") -> None:
        """A pod of a role ends by itself."""
        self.kwok.finish(self.job.live(role)[0], code, words)

    def disrupt(self, role: str) -> None:
        """A pod of a role is evicted."""
        self.kwok.disrupt(self.job.live(role)[0])

    def forget_certificates(self) -> None:
        """Somebody deletes a Secret of the job."""
        path = f"/api/v1/namespaces/{self.job.namespace}/secrets/{self.name}-tls-worker"
        self.kwok.cluster.request("DELETE", path)

    def finish_training(self) -> None:
        """Training is over; to the end of the job."""
        self.end_training()
        self.wait_export_and_finish()

    def end_training(self) -> None:
        """The coordinator has done its work, and the workers leave when they hear of it."""
        workers = self.job.live("worker")
        self.finish("coordinator", 0, LAST_WORDS)
        for pod in workers:
            self.kwok.finish(pod)

    def wait_export_and_finish(self) -> None:
        """Wait for the export's pod, let it end, and wait for the end of the job."""
        export = self._until(lambda: self.job.live("export"), "the export's pod is there")[0]
        self.kwok.finish(export, 0, json.dumps({"uri": "s3://nowhere/model", "digest": "cc"}))
        self.job.wait_condition("Complete", seconds=WAIT_SECONDS)

    def wait(self, condition: Callable[[Object], bool], what: str) -> None:
        """Wait for a status."""
        self._until(lambda: condition(self.job.status), what)

    def end(self, like: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """What there is of the job, without times and uids: once it is `like` another, else at rest.

        Numbers of pods are written ten seconds late where nothing else has changed.
        """
        seen: list[dict[str, Any]] = []

        def settled() -> bool:
            seen.append(self._snapshot())
            if like is not None:
                return seen[-1] == like
            return len(seen) > AT_REST and all(each == seen[-1] for each in seen[-AT_REST:])

        with contextlib.suppress(AssertionError):
            until(settled, f"{self.name} has come to rest", REST_SECONDS)
        return seen[-1]

    def leave(self) -> None:
        """Its time to live passes: wait until nothing is left of it."""
        self.job.patch({"ttlSecondsAfterFinished": 0})
        self._until(lambda: not self.job.exists() and not any(self.owned().values()), "all of it is gone")

    def leave_early(self) -> None:
        """Somebody deletes the job: wait until nothing is left of it."""
        self.job.delete()
        self._until(lambda: not self.job.exists() and not any(self.owned().values()), "all of it is gone")

    def owned(self) -> dict[str, list[Object]]:
        """Every object of the job, by plural."""
        found = {}
        for plural, prefix in PATHS.items():
            query = f"labelSelector=dartes.dev/job-name={self.name}"
            path = f"{prefix}/namespaces/{self.job.namespace}/{plural}?{query}"
            found[plural] = self.kwok.cluster.request("GET", path)["items"]
        return found

    def _snapshot(self) -> dict[str, Any]:
        status = self.job.status
        conditions = sorted((c["type"], c["status"], c.get("reason")) for c in status.get("conditions", []))
        failures = {name: value for name, value in status.get("failures", {}).items() if name != "counted"}
        workers = {name: value for name, value in status.get("workers", {}).items() if name != "selector"}
        progress = {k: v for k, v in status.get("progress", {}).items() if not k.endswith("Time")}
        return {
            "phase": status.get("phase"),
            "conditions": conditions,
            "failures": failures,
            "workers": workers,
            "progress": progress,
            "checkpoint": status.get("checkpoint", {}).get("digest"),
            "export": status.get("export", {}).get("uri"),
            "lastFailure": status.get("lastFailure", {}).get("role"),
            "objects": {
                plural: sorted(_DIGEST.sub("#", each["metadata"]["name"]) for each in found)
                for plural, found in self.owned().items()
            },
        }

    def _until(self, condition: Callable[[], Any], what: str) -> Any:
        def holds() -> Any:
            try:
                return condition()
            except ApiException as error:
                if error.status != 404:
                    raise
                return None

        try:
            return until(holds, f"{self.name}: {what}", WAIT_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.job.describe() if self.job.exists() else ''}") from None


def _failures(status: Object, kind: str) -> int:
    return int(status.get("failures", {}).get(kind, 0))
