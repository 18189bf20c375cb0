"""From whatever happens to a job, the plan comes to rest, makes nothing twice and counts every end once."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dartes_operator.plan.types import Create, Trouble

from .kit import FINAL_WORDS, Cluster, job

pytestmark = pytest.mark.slow

_PICK = st.integers(min_value=0, max_value=9)
_SPECS: tuple[dict[str, Any], ...] = (
    {},
    {"suspend": True},
    {"export": {"destination": "s3://bucket/model"}},
    {"checkpoint": {"retentionPolicy": "Delete"}},
    {"failurePolicy": {"coordinatorRestarts": 1, "workerFailures": 2, "maxDisruptions": 3}},
    {"networkPolicy": {"mode": "None"}, "disruptionBudget": "BlockVoluntary"},
    {"activeDeadlineSeconds": 120, "ttlSecondsAfterFinished": 60},
)


def _has_ended(pod: Mapping[str, Any]) -> bool:
    return pod["status"]["phase"] in ("Succeeded", "Failed") or "deletionTimestamp" in pod["metadata"]


class Life(RuleBasedStateMachine):
    """A job's life: pods start, end and vanish at random, people edit, the operator crashes."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.over = False

    @initialize(
        spec=st.sampled_from(_SPECS),
        workers=st.integers(min_value=1, max_value=3),
        runs=st.sampled_from((True, True, True, False)),
    )
    def apply(self, spec: dict[str, Any], workers: int, runs: bool) -> None:
        self.cluster = Cluster(job(workers={"replicas": workers}, **spec))
        if runs:
            self.cluster.settle()
            self.cluster.start_all()
            self.cluster.settle()

    def _pod(self, pick: int, *phases: str) -> str | None:
        names = [
            name
            for name, pod in sorted(self.cluster.pods().items())
            if pod["status"]["phase"] in phases and "deletionTimestamp" not in pod["metadata"]
        ]
        return names[pick % len(names)] if names else None

    @rule(passes=st.integers(min_value=1, max_value=3))
    def the_operator_works(self, passes: int) -> None:
        for _ in range(passes):
            self.cluster.step()

    @rule(actions=st.integers(min_value=0, max_value=6))
    def the_operator_crashes(self, actions: int) -> None:
        self.cluster.crash(actions)

    @rule(pick=_PICK)
    def a_pod_starts(self, pick: int) -> None:
        name = self._pod(pick, "Pending")
        if name is not None:
            self.cluster.start_pod(name)

    @rule()
    def all_pods_start(self) -> None:
        self.cluster.start_all()

    @rule(pick=_PICK, code=st.sampled_from((0, 1, 75, 76, 137)), out_of_memory=st.booleans())
    def a_pod_ends(self, pick: int, code: int, out_of_memory: bool) -> None:
        name = self._pod(pick, "Running")
        if name is not None and not (code == 0 and name.endswith("-coordinator")):
            reason = "OOMKilled" if out_of_memory and code == 137 else ""
            words = '{"uri":"s3://bucket/model"}' if name.endswith("-export") else "last words"
            self.cluster.end_pod(name, code, message=words, reason=reason)

    @rule(pick=_PICK)
    def a_pod_is_disrupted(self, pick: int) -> None:
        name = self._pod(pick, "Running")
        if name is not None:
            self.cluster.disrupt(name)

    @rule(pick=_PICK)
    def somebody_deletes_a_pod(self, pick: int) -> None:
        name = self._pod(pick, "Running", "Pending")
        if name is not None:
            self.cluster.delete_pod(name)

    @rule(pick=_PICK)
    def a_pod_object_vanishes(self, pick: int) -> None:
        names = sorted(self.cluster.pods())
        if names:
            self.cluster.vanish(names[pick % len(names)])

    @rule()
    def told_pods_leave(self) -> None:
        self.cluster.leave_all()

    @rule(seconds=st.sampled_from((1, 5, 61)))
    def time_passes(self, seconds: int) -> None:
        self.cluster.pass_by(seconds)

    @rule(iterations=st.integers(min_value=1, max_value=12))
    def iterations_are_committed(self, iterations: int) -> None:
        done = self.cluster.progress.iteration if self.cluster.progress else 0
        self.cluster.advance(done + iterations)

    @rule(workers=st.integers(min_value=1, max_value=4))
    def somebody_scales(self, workers: int) -> None:
        self.cluster.edit(workers={"replicas": workers})

    @rule(suspend=st.booleans())
    def somebody_suspends_or_resumes(self, suspend: bool) -> None:
        self.cluster.edit(suspend=suspend)

    @rule(policy=st.sampled_from(("Retain", "Delete")))
    def somebody_changes_the_retention(self, policy: str) -> None:
        self.cluster.edit(checkpoint={"retentionPolicy": policy})

    @rule(role=st.sampled_from(("coordinator", "worker", "operator")))
    def a_secret_is_lost(self, role: str) -> None:
        self.cluster.secrets.pop(role, None)

    @rule(prefix=st.sampled_from(("", "Pod/addition-worker", "Pod/addition-coordinator", "ConfigMap/")))
    def a_quota_fills_or_empties(self, prefix: str) -> None:
        self.cluster.refuse = {prefix: (Trouble.QUOTA_EXCEEDED, "exceeded quota")} if prefix else {}

    @rule(kind=st.sampled_from(("Service", "ConfigMap")))
    def somebody_deletes_an_object(self, kind: str) -> None:
        for key in [key for key in self.cluster.objects if key[0] == kind]:
            del self.cluster.objects[key]

    @rule(label=st.sampled_from(("blue", "green")))
    def somebody_edits_the_template(self, label: str) -> None:
        self.cluster.edit(workers={"podTemplate": {"metadata": {"labels": {"team": label}}}})

    @precondition(lambda self: self._pod(0, "Running") is not None)
    @rule(pick=_PICK)
    def the_run_is_done(self, pick: int) -> None:
        if pick:
            # Seldom: most of what can happen happens before the end.
            return
        coordinators = self.cluster.pods("coordinator")
        for name, pod in coordinators.items():
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]:
                self.cluster.end_pod(name, 0, message=FINAL_WORDS)

    @invariant()
    def the_end_is_the_end(self) -> None:
        terminal = {
            kind for kind in ("Complete", "Failed") if self.cluster.condition(kind).get("status") == "True"
        }
        assert len(terminal) <= 1
        assert terminal or not self.over
        self.over = bool(terminal)
        if self.over:
            assert not any(isinstance(action, Create) for action in self.cluster.plan().actions)

    @invariant()
    def status_stays_small(self) -> None:
        assert len(repr(self.cluster.status)) < 8_000

    def teardown(self) -> None:
        """Left alone, it comes to rest: as many workers as asked, or the end, or the suspension."""
        cluster = self.cluster
        cluster.refuse = {}
        for _ in range(12):
            cluster.settle()
            cluster.leave_all()
            cluster.start_all()
            cluster.pass_by(61)
        cluster.settle()
        assert cluster.plan().actions == ()
        present = {pod["metadata"]["uid"][:13] for pod in cluster.pods().values()}
        assert set(cluster.status.get("failures", {}).get("counted", ())) <= present
        live = {pod["metadata"]["uid"][:13] for pod in cluster.pods().values() if not _has_ended(pod)}
        assert not live & set(cluster.status.get("failures", {}).get("counted", ()))
        phase = cluster.status["phase"]
        if phase in ("Succeeded", "Failed", "Suspended"):
            assert not live
        elif phase != "Completing":
            assert phase == "Running"
            ready = [pod for pod in cluster.pods("worker").values() if pod["status"]["phase"] == "Running"]
            assert len(ready) == cluster.job["spec"]["workers"]["replicas"]
            indices = {pod["metadata"]["labels"]["dartes.dev/worker-index"] for pod in ready}
            assert len(indices) == len(ready)
            assert len(cluster.pods("coordinator")) == 1


TestLife = Life.TestCase
TestLife.settings = settings(
    max_examples=120, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
