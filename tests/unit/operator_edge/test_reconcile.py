"""The loop for one job: in which order things happen, and what becomes of failures."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web

from dartes_operator.api import Api
from dartes_operator.cache import Cache
from dartes_operator.events import EventWriter
from dartes_operator.executor import Executor
from dartes_operator.kinds import Key
from dartes_operator.metrics import Metrics
from dartes_operator.plan.types import (
    Create,
    Defaults,
    Delete,
    Event,
    IssueCertificates,
    Kind,
    Manifest,
    Observed,
    Plan,
    ReadCertificates,
)
from dartes_operator.queue import AWAY_CAP_SECONDS, WorkQueue
from dartes_operator.reconcile import RESYNC_SECONDS, Reconciler
from dartes_operator.status_writer import StatusWriter

from .kit import NAMESPACE, Call, FakeServer, job, owned, with_server

KEY = Key(NAMESPACE, "sums")
TIME = datetime(2030, 1, 1, tzinfo=UTC)
PREFIX = "/apis/dartes.dev/v1alpha1"
POD = owned("Pod", "sums-worker-0", labels={"dartes.dev/role": "worker"})
DEFAULTS = Defaults("c", "w", "v", "dartes-system")

Decide = Callable[[Manifest, Observed], Plan]


class Scene:
    """A job in the API server, a planner that the test is, and one hand of the queue."""

    def __init__(self, decide: Decide, status: dict[str, Any] | None = None, **more: Any) -> None:
        self.decide = decide
        self.server = FakeServer()
        self.cache = Cache()
        self.cache.put(self.server.put("dartesjobs", job(status=status or {}, **more), PREFIX))
        self.metrics = Metrics()
        self.now = 0.0
        self.queue = WorkQueue(lambda: self.now, lambda: 1.0)
        self.seen: list[Observed] = []
        self.ensured: list[Key] = []
        self.trusting = True

    def _plan(self, manifest: Manifest, observed: Observed, now: datetime, defaults: Defaults) -> Plan:
        assert (now, defaults) == (self._wall(), DEFAULTS)
        self.seen.append(observed)
        return self.decide(manifest, observed)

    async def _ensure(self, key: Key, manifest: Manifest) -> None:
        self.ensured.append(key)
        self.cache.distrust(manifest)
        if self.trusting:
            self.cache.trust(manifest)

    def _wall(self) -> datetime:
        return TIME + timedelta(seconds=self.now)

    def passes(self, count: int = 1, after: Mapping[int, Callable[[], None]] | None = None) -> None:
        """Let one hand make so many passes, each as soon as it is due, and do something after some."""

        async def scenario(api: Api) -> None:
            reconciler = Reconciler(
                api,
                self.cache,
                self.queue,
                Executor(api, self.cache, lambda: self.now),
                StatusWriter(api, self.cache, self.metrics, lambda: self.now),
                EventWriter(api, "pod", lambda: self.now, lambda: TIME),
                self.metrics,
                DEFAULTS,
                self._wall,
                lambda: 0.5,
                self._ensure,
                self._plan,
            )
            self.queue.add(KEY)
            for index in range(count):
                self.now += self.queue.next_due() or 0.0
                await reconciler.work_once()
                (after or {}).get(index, lambda: None)()

        with_server(self.server, scenario)

    @property
    def requests(self) -> list[str]:
        """What was asked of the API server, such as `POST sums-worker-0`."""
        return [f"{call.method} {call.name}" for call in self.server.calls]

    def results(self) -> dict[str, float]:
        """Passes by result."""
        found = self.metrics.reconciles.collect()
        return {
            sample.labels["result"]: sample.value
            for family in found
            for sample in family.samples
            if sample.name.endswith("_total")
        }


def deciding(plan: Plan) -> Decide:
    return lambda _job, _observed: plan


def test_what_must_not_be_lost_is_written_before_anything_is_done() -> None:
    scene = Scene(deciding(Plan({"phase": "Running"}, (Create(POD),), status_first=True)))
    scene.passes()
    assert scene.requests == ["PATCH status", "POST sums-worker-0"]


def test_otherwise_the_status_tells_what_came_of_the_actions() -> None:
    scene = Scene(deciding(Plan({"phase": "Running"}, (Create(POD),), status_first=False)))
    scene.passes()
    assert scene.requests == ["POST sums-worker-0", "PATCH status"]


def test_events_come_after_the_status_that_they_tell_of() -> None:
    event = Event("Normal", "WorkersCreated", "1 pod")
    scene = Scene(deciding(Plan({"phase": "Running"}, (), (event,))))
    scene.passes()
    assert scene.requests[0] == "PATCH status"
    assert scene.requests[1].startswith("POST sums.")


def test_no_event_is_written_where_the_status_was_not() -> None:
    scene = Scene(deciding(Plan({"phase": "Running"}, (), (Event("Normal", "Accepted", "yes"),))))
    scene.server.refuse("PATCH", "status", 500)
    scene.passes()
    assert scene.requests == ["PATCH status"]
    assert scene.results() == {"unavailable": 1.0}


def test_a_missing_right_is_told_on_the_job_though_its_status_can_not_be_written() -> None:
    words = 'dartesjobs.dartes.dev "sums" is forbidden: User "op" cannot patch resource "dartesjobs/status"'
    scene = Scene(deciding(Plan({"phase": "Running"})))
    scene.server.refuse("PATCH", "status", 403, words)
    scene.passes()
    (event,) = [call.body for call in scene.server.calls if call.method == "POST"]
    assert (event["type"], event["reason"]) == ("Warning", "Forbidden")
    assert words in event["message"]
    assert scene.results() == {"refused": 1.0}


def test_no_event_speaks_of_rights_where_something_else_was_refused() -> None:
    scene = Scene(deciding(Plan({"phase": "Running"})))
    scene.server.refuse("PATCH", "status", 422, "status.phase: no such phase")
    scene.passes()
    assert scene.requests == ["PATCH status"]


def test_a_pass_that_changes_nothing_asks_the_api_server_nothing() -> None:
    scene = Scene(deciding(Plan({"phase": "Running"})), {"phase": "Running"})
    scene.passes(3)
    assert scene.requests == []


def test_certificates_are_read_where_the_plan_asks_and_it_plans_again_with_them() -> None:
    def decide(_: Manifest, observed: Observed) -> Plan:
        return Plan({}, (ReadCertificates(),)) if observed.tls is None else Plan({})

    scene = Scene(decide)
    scene.passes()
    assert [observed.tls is None for observed in scene.seen] == [True, False]
    assert [call.method for call in scene.server.calls] == ["GET"] * 3


def test_what_one_pass_made_the_next_one_sees_without_a_watch() -> None:
    def decide(_: Manifest, observed: Observed) -> Plan:
        return Plan({}, () if observed.pods else (Create(POD),), requeue_after=0)

    scene = Scene(decide)
    scene.passes(3)
    assert scene.requests == ["POST sums-worker-0"]


def test_planning_again_at_once_is_not_held_back() -> None:
    scene = Scene(deciding(Plan({}, requeue_after=0)))
    scene.passes(2)
    assert scene.now < 0.5


def test_numbers_of_pods_that_were_held_back_are_written_when_their_time_has_come() -> None:
    ready = iter((1, 2, 2))
    scene = Scene(lambda _job, _observed: Plan({"workers": {"ready": next(ready)}}, requeue_after=300))
    scene.passes(3, after={0: lambda: scene.queue.add(KEY)})
    assert [call.body["status"]["workers"]["ready"] for call in scene.server.calls] == [1, 2]
    assert scene.now == pytest.approx(10.0, abs=1.0)


def test_a_job_that_asks_for_nothing_is_looked_at_again_within_minutes() -> None:
    scene = Scene(deciding(Plan({})))
    scene.passes()
    assert scene.queue.next_due() == pytest.approx(RESYNC_SECONDS)


def test_a_job_that_is_gone_is_forgotten() -> None:
    scene = Scene(deciding(Plan({})))
    scene.cache.remove(scene.server.objects[f"{PREFIX}/namespaces/{NAMESPACE}/dartesjobs/sums"])
    scene.passes()
    assert scene.seen == []
    assert scene.queue.next_due() is None


def test_an_old_state_is_planned_again_on_the_new_one() -> None:
    planned: list[Any] = []

    def decide(manifest: Manifest, _: Observed) -> Plan:
        planned.append(manifest["spec"])
        return Plan({"phase": "Running"})

    scene = Scene(decide)
    scene.server.put("dartesjobs", job(spec={"suspend": True}, version=0), PREFIX)
    scene.passes(2)
    assert planned == [{}, {"suspend": True}]
    assert scene.results() == {"stale": 1.0, "success": 1.0}


def test_conflicts_one_after_another_are_answered_with_growing_pauses() -> None:
    scene = Scene(deciding(Plan({"phase": "Running"})))
    scene.server.refuse("PATCH", "status", 409, reason="Conflict", times=4)
    pauses: list[float] = []
    scene.passes(4, {index: lambda: pauses.append(scene.queue.next_due() or 0.0) for index in range(4)})
    assert pauses == sorted(pauses)
    assert pauses[0] < 1.0 < pauses[-1]


@pytest.mark.parametrize(
    ("headers", "most"),
    [({"Retry-After": "1"}, AWAY_CAP_SECONDS), ({"Retry-After": "40"}, 60.0), ({}, AWAY_CAP_SECONDS)],
)
def test_a_server_that_is_busy_or_away_is_asked_again_later_and_later_up_to_a_bound(
    headers: dict[str, str], most: float
) -> None:
    scene = Scene(deciding(Plan({"phase": "Running"})))
    scene.server.refuse("PATCH", "status", 429 if headers else 503, headers=headers, times=9)
    pauses: list[float] = []
    scene.passes(9, {index: lambda: pauses.append(scene.queue.next_due() or 0.0) for index in range(9)})
    assert pauses == sorted(pauses)
    assert pauses[-1] == pytest.approx(most)
    assert min(pauses) >= float(headers.get("Retry-After", 0))


def test_a_pass_that_makes_something_before_it_fails_is_not_punished() -> None:
    pods = [owned("Pod", f"sums-worker-{index}", labels={"dartes.dev/role": "worker"}) for index in range(4)]
    made = iter(pods)
    scene = Scene(lambda *_: Plan({"phase": "Running"}, (Create(next(made)),), status_first=False, time=TIME))
    scene.server.refuse("PATCH", "status", 503, times=9)
    pauses: list[float] = []
    scene.passes(4, {index: lambda: pauses.append(scene.queue.next_due() or 0.0) for index in range(4)})
    assert pauses == [1.0, 1.0, 1.0, 1.0]


def test_an_error_is_tried_again_later_and_later() -> None:
    scene = Scene(deciding(Plan({"phase": "Running"})))
    scene.server.refuse("PATCH", "status", 503, times=3)
    scene.passes(4)
    assert scene.results() == {"unavailable": 3.0, "success": 1.0}
    assert scene.now >= 0.5 + 1.0 + 2.0


def test_a_bug_in_the_plan_of_one_job_does_not_end_the_hand() -> None:
    calls = iter([True, False])

    def decide(_: Manifest, __: Observed) -> Plan:
        if next(calls):
            raise KeyError("spec")
        return Plan({})

    scene = Scene(decide)
    scene.passes(2)
    assert scene.results() == {"bug": 1.0, "success": 1.0}


def test_a_refused_action_is_in_the_status_with_the_servers_words() -> None:
    plan = Plan({"phase": "Pending"}, (Create(POD),), status_first=False, time=TIME)
    scene = Scene(deciding(plan))
    scene.server.refuse("POST", "pods", 403, 'pods "p" is forbidden: exceeded quota: small')
    scene.passes()
    status = scene.server.objects[f"{PREFIX}/namespaces/{NAMESPACE}/dartesjobs/sums"]["status"]
    assert "exceeded quota: small" in str(status["conditions"])


def test_nothing_more_is_tried_in_a_namespace_that_is_going() -> None:
    scene = Scene(deciding(Plan({}, (Create(POD),))))
    scene.server.refuse("POST", "pods", 403, causes=("NamespaceTerminating",))
    scene.passes()
    assert scene.results() == {"namespace-going": 1.0}
    assert scene.queue.next_due() is None


def test_a_job_whose_time_to_live_has_passed_is_deleted_by_its_uid() -> None:
    scene = Scene(deciding(Plan({}, delete_job=True)))
    scene.passes()
    deletion = scene.server.calls[-1]
    assert (deletion.method, deletion.name) == ("DELETE", "sums")
    assert deletion.body["preconditions"] == {"uid": job()["metadata"]["uid"]}


def test_a_deletion_waits_for_the_count_to_be_written() -> None:
    plan = Plan({"failures": {"worker": 1}}, (Delete(Kind.POD, "sums-worker-0", "u"),), status_first=True)
    scene = Scene(deciding(plan))
    scene.server.refuse("PATCH", "status", 500)
    scene.passes()
    assert "DELETE sums-worker-0" not in scene.requests


def test_a_claim_of_the_users_own_is_looked_up_since_no_watch_tells_of_it() -> None:
    scene = Scene(deciding(Plan({}, requeue_after=1)), spec={"checkpoint": {"volume": {"claimName": "mine"}}})
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "mine", "namespace": NAMESPACE}}
    scene.passes(3)
    assert scene.requests == ["GET mine"]
    scene.server.put("persistentvolumeclaims", claim)
    scene = Scene(deciding(Plan({}, requeue_after=1)), spec={"checkpoint": {"volume": {"claimName": "mine"}}})
    scene.server.put("persistentvolumeclaims", claim)
    scene.passes(3)
    assert [observed.claim is not None for observed in scene.seen] == [True] * 3
    assert scene.requests == ["GET mine"]


def test_a_claim_of_the_users_own_is_seen_as_it_is_within_half_a_minute() -> None:
    scene = Scene(
        deciding(Plan({}, requeue_after=10)), spec={"checkpoint": {"volume": {"claimName": "mine"}}}
    )
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "mine", "namespace": NAMESPACE}}
    going = scene.server.put("persistentvolumeclaims", claim)
    going["metadata"]["deletionTimestamp"] = "then"

    def gone() -> None:
        scene.server.objects = {p: o for p, o in scene.server.objects.items() if o is not going}

    scene.passes(6, after={2: gone})
    assert [observed.claim is not None for observed in scene.seen] == [True] * 3 + [False] * 3
    assert scene.requests == ["GET mine"] * 2


@pytest.mark.parametrize("name", ["../../../apis/x", "a/b", "..", ".", "Mine", "mine?x=1", "-a"])
def test_what_can_be_no_name_is_never_asked_for(name: str) -> None:
    scene = Scene(deciding(Plan({})), spec={"checkpoint": {"resumeFrom": {"claimName": name}}})
    scene.passes()
    assert len(scene.seen) == 1
    assert scene.requests == []


def test_pods_and_certificates_of_one_plan_belong_together() -> None:
    roles = {"worker": owned("Secret", "sums-tls-worker")["metadata"]}
    plan = Plan({}, (IssueCertificates(roles, ()), Create(POD, stamp_authority=True)))
    scene = Scene(deciding(plan))
    scene.passes()
    pod = scene.cache.get("Pod", NAMESPACE, "sums-worker-0")
    secret = scene.server.objects[f"/api/v1/namespaces/{NAMESPACE}/secrets/sums-tls-worker"]
    assert pod is not None
    assert pod["metadata"]["annotations"] == secret["metadata"]["annotations"]


def test_a_job_of_a_namespace_that_is_left_out_is_left_alone() -> None:
    scene = Scene(deciding(Plan({"phase": "Running"}, (Create(POD),))))
    scene.cache.left_out = frozenset({NAMESPACE})
    scene.passes()
    assert scene.requests == []
    assert scene.seen == []


class OlderDefinition(FakeServer):
    """A server whose definition of the job lacks `policyHash`."""

    def _patch(self, call: Call) -> web.Response:
        (call.body.get("status") or {}).pop("policyHash", None)
        return super()._patch(call)


def test_a_status_field_that_the_definition_lacks_is_not_written_in_each_pass(
    caplog: pytest.LogCaptureFixture,
) -> None:
    known: list[Any] = []

    def decide(manifest: Manifest, _: Observed) -> Plan:
        known.append(manifest["status"].get("policyHash"))
        return Plan({"phase": "Running", "policyHash": "aa" if len(known) < 4 else "bb"})

    scene = Scene(decide)
    scene.server = OlderDefinition(objects=scene.server.objects, version=scene.server.version)
    scene.passes(5)
    assert known == [None, "aa", "aa", "aa", "bb"]
    assert scene.requests == ["PATCH status"] * 2
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [
        "the definition of DartESJob is too old for this operator: no policyHash"
    ]


def test_a_pod_that_is_gone_is_shown_until_a_plan_has_settled_it_and_then_before_anything_can_fail() -> None:
    settled = frozenset({"uid-gone"})
    plans = iter([Plan({}, requeue_after=1), Plan({"phase": "Running"}, settled=settled), Plan({})])
    scene = Scene(lambda _job, _observed: next(plans))
    gone = owned("Pod", "sums-worker-0", labels={"dartes.dev/role": "worker"})
    gone["metadata"]["uid"] = "uid-gone"
    scene.cache.trust(job())
    scene.cache.put(gone)
    scene.cache.remove(gone)
    scene.server.refuse("PATCH", "status", 500)
    scene.passes(3)
    assert [len(observed.departed) for observed in scene.seen] == [1, 1, 0]


def test_a_job_is_ensured_once_before_anything_is_planned_for_it() -> None:
    scene = Scene(deciding(Plan({}, requeue_after=1)), status={"phase": "Running"})
    scene.passes(3)
    assert scene.ensured == [KEY]
    assert len(scene.seen) == 3


def test_a_job_that_is_over_needs_no_new_lists() -> None:
    over = {"conditions": [{"type": "Failed", "status": "True"}]}
    scene = Scene(deciding(Plan(over, requeue_after=1)), status=over)
    scene.passes()
    assert scene.ensured == []
    assert len(scene.seen) == 1


def test_nothing_is_planned_for_a_job_that_cannot_be_trusted() -> None:
    scene = Scene(deciding(Plan({}, requeue_after=1)), status={"phase": "Running"})
    scene.trusting = False
    scene.passes(2)
    assert scene.ensured == [KEY, KEY]
    assert scene.seen == []
    assert scene.results() == {"stale": 2.0}


def test_a_job_whose_status_somebody_else_has_written_is_ensured_again_before_the_next_plan() -> None:
    def another_writes() -> None:
        scene.cache.put(scene.server.put("dartesjobs", job(status={"phase": "Restarting"}), PREFIX))

    scene = Scene(lambda _job, _observed: Plan({"phase": "Running"}, requeue_after=1))
    scene.passes(3, {1: another_writes})
    assert scene.ensured == [KEY, KEY]
    assert len(scene.seen) == 3
