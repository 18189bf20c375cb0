"""Carrying out actions: what each answer of the API server means, and what is done next."""

from collections.abc import Sequence
from typing import Any

import pytest

from dartes_operator.api import Api, ApiUnavailableError
from dartes_operator.cache import Cache
from dartes_operator.executor import PODS_AT_ONCE, Executor, NamespaceGoingError, Outcome
from dartes_operator.kinds import Key
from dartes_operator.plan.types import (
    Action,
    Apply,
    Create,
    Delete,
    IssueCertificates,
    Kind,
    Patch,
    ReadCertificates,
    Trouble,
)

from .kit import JOB_UID, NAMESPACE, FakeServer, owned, with_server

KEY = Key(NAMESPACE, "sums")
PODS = "/api/v1/namespaces/team/pods"
QUOTA = 'pods "p" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2'
RIGHTS = (
    'pods is forbidden: User "system:serviceaccount:x:y" cannot create resource "pods" '
    'in API group "" in the namespace "team"'
)
SECURITY = 'pods "sums-worker-0" is forbidden: violates PodSecurity "restricted:latest": privileged'


def pod(index: int, **more: Any) -> dict[str, Any]:
    return owned("Pod", f"sums-worker-{index}", labels={"dartes.dev/role": "worker"}, **more)


COORDINATOR = owned("Pod", "sums-coordinator", labels={"dartes.dev/role": "coordinator"})
RUN = owned("ConfigMap", "sums-run-0123456789")
CLAIM = owned("PersistentVolumeClaim", "sums-checkpoint")
NEW_RUN = [Create(RUN), Create(CLAIM), Create(COORDINATOR), Create(pod(0)), Create(pod(1))]


def execute(server: FakeServer, actions: Sequence[Action], cache: Cache | None = None) -> Outcome:
    outcomes: list[Outcome] = []

    async def scenario(api: Api) -> None:
        executor = Executor(api, cache or Cache(), lambda: 0.0)
        outcomes.append(await executor.execute(KEY, JOB_UID, actions))

    with_server(server, scenario)
    return outcomes[0]


def troubles(outcome: Outcome) -> list[Trouble]:
    return [refused.trouble for refused in outcome.refused]


def test_a_created_pod_is_in_the_cache_before_any_watch_tells_of_it() -> None:
    cache = Cache()
    outcome = execute(FakeServer(), [Create(pod(0))], cache)
    assert outcome.refused == ()
    assert cache.get("Pod", NAMESPACE, "sums-worker-0") is not None


def test_a_pod_that_is_there_already_and_ours_is_no_trouble() -> None:
    server = FakeServer()
    server.put("pods", pod(0))
    cache = Cache()
    assert troubles(execute(server, [Create(pod(0))], cache)) == []
    assert cache.get("Pod", NAMESPACE, "sums-worker-0") is not None


@pytest.mark.parametrize("uid", [JOB_UID, "uid-of-a-predecessor"])
def test_a_pod_of_that_name_that_is_going_is_told_as_terminating(uid: str) -> None:
    server = FakeServer()
    server.put("pods", pod(0, uid=uid, deletionTimestamp="2030-01-01T00:00:00Z"))
    assert troubles(execute(server, [Create(pod(0))])) == [Trouble.TERMINATING]


@pytest.mark.parametrize("uid", ["uid-of-a-predecessor", "uid-of-something-else"])
def test_a_pod_of_that_name_with_another_owner_is_a_conflict(uid: str) -> None:
    server = FakeServer()
    server.put("pods", pod(0, uid=uid))
    outcome = execute(server, [Create(pod(0))])
    assert troubles(outcome) == [Trouble.NAME_CONFLICT]
    assert "sums-worker-0 exists and belongs to something else" in outcome.refused[0].message


def test_a_claim_is_ours_by_its_label_since_it_outlives_its_owner() -> None:
    claim = owned("PersistentVolumeClaim", "sums-checkpoint")
    del claim["metadata"]["ownerReferences"]
    server = FakeServer()
    server.put("persistentvolumeclaims", claim)
    assert troubles(execute(server, [Create(claim)])) == []
    claim["metadata"]["labels"]["dartes.dev/job-uid"] = "another"
    mine = owned("PersistentVolumeClaim", "sums-checkpoint")
    assert troubles(execute(server, [Create(mine)])) == [Trouble.NAME_CONFLICT]


@pytest.mark.parametrize(
    ("code", "message", "trouble"),
    [
        (403, QUOTA, Trouble.QUOTA_EXCEEDED),
        (
            403,
            'pods "p" is forbidden: maximum cpu usage per Container is 1, but limit is 4',
            Trouble.QUOTA_EXCEEDED,
        ),
        (403, RIGHTS, Trouble.FORBIDDEN),
        (403, 'pods "p" is forbidden: cannot set blockOwnerDeletion if an ownerReference', Trouble.FORBIDDEN),
        (403, SECURITY, Trouble.INVALID),
        (403, 'pods "p" is forbidden: no PriorityClass with name urgent was found', Trouble.INVALID),
        (422, 'Pod "p" is invalid: spec.containers[0].image: Required value', Trouble.INVALID),
        (400, "Pod in version v1 cannot be handled as a Pod", Trouble.INVALID),
    ],
)
def test_a_refusal_is_told_apart_by_the_servers_words(code: int, message: str, trouble: Trouble) -> None:
    server = FakeServer()
    server.refuse("POST", "pods", code, message)
    outcome = execute(server, [Create(pod(0))])
    assert troubles(outcome) == [trouble]
    assert outcome.refused[0].message == message


def test_a_limit_that_the_namespace_sets_is_no_mistake_of_the_job() -> None:
    """A LimitRange has given it to the container before the pod was checked."""
    words = 'Pod "p" is invalid: spec.containers[0].resources.requests: Invalid value: "1Gi": {}'
    server = FakeServer()
    server.refuse("POST", "pods", 422, words.format("must be less than or equal to memory limit of 768Mi"))
    own = {"memory": "768Mi"}
    for resources, trouble in (
        ({"requests": {"memory": "1Gi"}}, Trouble.QUOTA_EXCEEDED),
        ({"requests": {"memory": "1Gi"}, "limits": {"cpu": "1"}}, Trouble.QUOTA_EXCEEDED),
        ({"requests": {"memory": "1Gi"}, "limits": own}, Trouble.INVALID),
    ):
        asked = {**pod(0), "spec": {"containers": [{"name": "worker", "resources": resources}]}}
        assert troubles(execute(server, [Create(asked)])) == [trouble]


def test_a_quota_refusal_spares_the_api_server_the_other_thousand_pods() -> None:
    server = FakeServer()
    server.refuse("POST", "pods", 403, QUOTA)
    outcome = execute(server, [Create(pod(i)) for i in range(1000)])
    assert set(troubles(outcome)) == {Trouble.QUOTA_EXCEEDED}
    assert len(server.calls) <= 16


def test_whether_a_quota_has_room_by_now_is_asked_for_one_pod() -> None:
    server = FakeServer()
    server.refuse("POST", "pods", 403, QUOTA, times=17)
    workers = [Create(pod(i)) for i in range(20)]

    async def scenario(api: Api) -> None:
        executor = Executor(api, Cache(), lambda: 0.0)
        asked = []
        for _ in range(3):
            before = len(server.named("POST"))
            await executor.execute(KEY, JOB_UID, workers)
            asked.append(len(server.named("POST")) - before)
        assert asked == [16, 1, 20]

    with_server(server, scenario)


def test_workers_leave_the_room_in_a_quota_to_the_coordinator() -> None:
    server = FakeServer()
    server.refuse("POST", "sums-coordinator", 403, QUOTA)
    outcome = execute(server, [Create(COORDINATOR), Create(pod(0)), Create(pod(1))])
    assert server.named("POST") == ["sums-coordinator"]
    assert troubles(outcome) == [Trouble.QUOTA_EXCEEDED] * 2
    worker, coordinator = outcome.refused
    assert coordinator.message == QUOTA
    assert worker.action == Create(pod(0)), "nobody is told that workers were made"
    assert outcome.tried == (Create(COORDINATOR), Create(pod(0)))
    assert worker.message == f"not made, since sums-coordinator was refused: {QUOTA}"


def test_workers_come_after_their_coordinator() -> None:
    server = FakeServer()
    execute(server, [Create(COORDINATOR), Create(pod(0)), Create(pod(1))])
    assert server.named("POST")[0] == "sums-coordinator"
    assert len(server.objects) == 3


def test_a_coordinator_that_is_still_going_keeps_no_worker_waiting() -> None:
    server = FakeServer()
    server.put("pods", {**COORDINATOR, "metadata": {**COORDINATOR["metadata"], "deletionTimestamp": "then"}})
    outcome = execute(server, [Create(COORDINATOR), Create(pod(0))])
    assert troubles(outcome) == [Trouble.TERMINATING]
    assert f"{PODS}/sums-worker-0" in server.objects


def rehearsed(server: FakeServer) -> list[str]:
    return [call.name for call in server.calls if call.query.get("dryRun") == "All"]


def test_a_new_run_has_its_first_pods_judged_before_anything_is_made() -> None:
    server = FakeServer()
    assert execute(server, NEW_RUN).refused == ()
    assert rehearsed(server) == server.named("POST")[:2] == ["sums-coordinator", "sums-worker-0"]
    assert len(server.objects) == len(NEW_RUN)


def test_pods_of_a_run_that_goes_on_cost_no_rehearsal() -> None:
    server = FakeServer()
    execute(server, [Create(COORDINATOR), Create(pod(0))])
    assert rehearsed(server) == []


@pytest.mark.parametrize("bad", ["sums-coordinator", "sums-worker-0"])
def test_a_bad_pod_template_leaves_nothing_behind(bad: str) -> None:
    server = FakeServer()
    server.refuse("POST", bad, 422, "spec.priorityClassName: not found")
    old = server.put("configmaps", owned("ConfigMap", "sums-run-old"))
    outcome = execute(server, [*NEW_RUN, Delete(Kind.CONFIG_MAP, "sums-run-old", old["metadata"]["uid"])])
    assert server.objects == {}
    assert troubles(outcome) == [Trouble.INVALID] * 2, "neither kind of pod was made"
    assert outcome.refused[-1].action.manifest["metadata"]["name"] == bad  # type: ignore[union-attr]
    assert outcome.refused[-1].message == "spec.priorityClassName: not found"


def test_a_quota_that_is_full_now_does_not_stop_a_rehearsed_run() -> None:
    server = FakeServer()
    server.refuse("POST", "sums-coordinator", 403, QUOTA)
    assert Trouble.QUOTA_EXCEEDED in troubles(execute(server, NEW_RUN))
    assert {name.rsplit("/", 1)[1] for name in server.objects} == {"sums-run-0123456789", "sums-checkpoint"}


def test_a_webhook_that_takes_no_dry_run_does_not_stop_a_run() -> None:
    server = FakeServer()
    server.refuse("POST", "pods", 400, 'admission webhook "w" does not support dry run', times=2)
    assert execute(server, NEW_RUN).refused == ()
    assert len(server.objects) == len(NEW_RUN)


def test_one_taken_name_does_not_keep_other_pods_from_being_made() -> None:
    server = FakeServer()
    server.put("pods", pod(0, uid="another"))
    assert troubles(execute(server, [Create(pod(i)) for i in range(40)])) == [Trouble.NAME_CONFLICT]
    assert len(server.objects) == 40


@pytest.mark.parametrize("code", [500, 503, 504])
def test_a_failing_api_server_is_tried_again_by_the_queue(code: int) -> None:
    server = FakeServer()
    server.refuse("POST", "pods", code, "etcd is slow")
    with pytest.raises(ApiUnavailableError, match="etcd is slow"):
        execute(server, [Create(pod(0))])


def test_a_webhook_that_does_not_answer_is_named_and_not_asked_for_all_pods() -> None:
    server = FakeServer()
    words = 'Internal error occurred: failed calling webhook "mpod.kb.io": connection refused'
    server.refuse("POST", "pods", 500, words)
    outcome = execute(server, [Create(pod(i)) for i in range(200)])
    assert {entry.trouble for entry in outcome.refused} == {Trouble.WEBHOOK_AWAY}
    assert "mpod.kb.io" in outcome.refused[0].message
    assert len(outcome.refused) <= PODS_AT_ONCE


def test_a_busy_api_server_says_when_to_come_back() -> None:
    server = FakeServer()
    server.refuse("POST", "pods", 429, "too many requests", headers={"Retry-After": "7"})
    with pytest.raises(ApiUnavailableError) as caught:
        execute(server, [Create(pod(0))])
    assert caught.value.retry_after == 7.0


def test_a_conflict_over_the_quota_object_is_no_taken_name() -> None:
    server = FakeServer()
    server.refuse("POST", "pods", 409, "Operation cannot be fulfilled on resourcequotas", reason="Conflict")
    with pytest.raises(ApiUnavailableError, match="resourcequotas"):
        execute(server, [Create(pod(0))])


def test_nothing_is_tried_again_in_a_namespace_that_is_going() -> None:
    server = FakeServer()
    server.refuse("POST", "pods", 403, "is forbidden: unable to create", causes=("NamespaceTerminating",))
    with pytest.raises(NamespaceGoingError):
        execute(server, [Create(pod(0))])


def test_no_pod_is_made_once_something_it_needs_was_refused_but_deletions_go_on() -> None:
    server = FakeServer()
    server.put("pods", pod(7))
    claim = owned("PersistentVolumeClaim", "sums-checkpoint")
    server.put("persistentvolumeclaims", owned("PersistentVolumeClaim", "sums-checkpoint", uid="another"))
    outcome = execute(
        server, [Create(claim), Create(pod(0)), Delete(Kind.POD, "sums-worker-7", "uid-sums-worker-7")]
    )
    assert troubles(outcome) == [Trouble.NAME_CONFLICT]
    assert [type(action) for action in outcome.tried] == [Create, Delete]
    assert f"{PODS}/sums-worker-0" not in server.objects
    assert f"{PODS}/sums-worker-7" not in server.objects


def test_a_deletion_names_the_uid_so_that_a_successor_is_safe() -> None:
    server = FakeServer()
    server.put("pods", pod(0))
    assert troubles(execute(server, [Delete(Kind.POD, "sums-worker-0", "uid-of-the-old-one", 0)])) == []
    assert f"{PODS}/sums-worker-0" in server.objects
    assert server.calls[0].body["gracePeriodSeconds"] == 0


def test_deleting_what_is_gone_is_no_trouble() -> None:
    assert troubles(execute(FakeServer(), [Delete(Kind.POD, "sums-worker-0", "uid")])) == []


@pytest.mark.parametrize(("uid", "left"), [(JOB_UID, 0), ("another", 1)])
def test_an_unwatched_object_is_deleted_only_where_it_is_ours(uid: str, left: int) -> None:
    server = FakeServer()
    policy = owned("NetworkPolicy", "sums-worker", uid=uid)
    server.put("networkpolicies", policy, "/apis/networking.k8s.io/v1")
    execute(server, [Delete(Kind.NETWORK_POLICY, "sums-worker", None)])
    assert len(server.objects) == left


def test_applying_makes_the_object_with_one_request_and_the_same_again_with_none() -> None:
    policy = owned("NetworkPolicy", "sums-worker")
    server = FakeServer()

    async def scenario(api: Api) -> None:
        executor = Executor(api, Cache(), lambda: 0.0)
        for _ in range(3):
            assert (await executor.execute(KEY, JOB_UID, [Apply(policy)])).refused == ()

    with_server(server, scenario)
    assert [call.method for call in server.calls] == ["POST"]


def test_applying_what_was_just_made_costs_nothing() -> None:
    policy = owned("NetworkPolicy", "sums-worker")
    server = FakeServer()
    execute(server, [Create(policy), Apply(policy)])
    assert [call.method for call in server.calls] == ["POST"]


def test_a_start_that_is_cut_off_does_not_make_again_what_no_watch_shows() -> None:
    policies = [owned("NetworkPolicy", f"sums-{name}") for name in ("coordinator", "worker")]
    server = FakeServer()
    server.refuse("POST", "sums-worker", 503, times=1)

    async def scenario(api: Api) -> None:
        executor = Executor(api, Cache(), lambda: 0.0)
        actions = [Apply(policy) for policy in policies]
        with pytest.raises(ApiUnavailableError):
            await executor.execute(KEY, JOB_UID, actions)
        assert (await executor.execute(KEY, JOB_UID, actions)).refused == ()

    with_server(server, scenario)
    assert server.named("POST") == ["sums-coordinator", "sums-worker", "sums-worker"]


def test_what_was_found_to_be_there_already_is_still_set_as_asked() -> None:
    server = FakeServer()
    prefix = "/apis/networking.k8s.io/v1"
    older = {**owned("NetworkPolicy", "sums-worker"), "spec": {"egress": ["all"]}}
    server.put("networkpolicies", older, prefix)
    wanted = {**owned("NetworkPolicy", "sums-worker"), "spec": {"egress": []}}
    assert execute(server, [Create(wanted), Apply(wanted)]).refused == ()
    stored = server.objects[f"{prefix}/namespaces/{NAMESPACE}/networkpolicies/sums-worker"]
    assert stored["spec"] == {"egress": []}


def test_what_is_going_is_not_applied_to_but_waited_for() -> None:
    server = FakeServer()
    going = owned("NetworkPolicy", "sums-worker", deletionTimestamp="2030-01-01T00:00:00Z")
    server.put("networkpolicies", going, "/apis/networking.k8s.io/v1")
    assert troubles(execute(server, [Apply(owned("NetworkPolicy", "sums-worker"))])) == [Trouble.TERMINATING]
    assert "PATCH" not in {call.method for call in server.calls}


def test_what_somebody_else_deleted_first_is_made_again_when_it_is_asked_for_again() -> None:
    policy = owned("NetworkPolicy", "sums-worker")
    server = FakeServer()

    async def scenario(api: Api) -> None:
        executor = Executor(api, Cache(), lambda: 0.0)
        await executor.execute(KEY, JOB_UID, [Apply(policy)])
        server.objects.clear()
        await executor.execute(KEY, JOB_UID, [Delete(Kind.NETWORK_POLICY, "sums-worker", None)])
        await executor.execute(KEY, JOB_UID, [Apply(policy)])

    with_server(server, scenario)
    assert len(server.objects) == 1


def test_applying_again_after_a_while_restores_what_somebody_removed() -> None:
    policy = owned("NetworkPolicy", "sums-worker")
    server = FakeServer()
    time = [0.0]

    async def scenario(api: Api) -> None:
        executor = Executor(api, Cache(), lambda: time[0])
        await executor.execute(KEY, JOB_UID, [Apply(policy)])
        server.objects.clear()
        time[0] = 10_000.0
        await executor.execute(KEY, JOB_UID, [Apply(policy)])

    with_server(server, scenario)
    assert len(server.objects) == 1


def test_applying_to_ours_sets_its_fields_by_force() -> None:
    server = FakeServer()
    server.put("services", owned("Service", "sums-coordinator"))
    execute(server, [Apply({**owned("Service", "sums-coordinator"), "spec": {"ports": []}})])
    patch = server.calls[-1]
    assert (patch.method, patch.content_type) == ("PATCH", "application/apply-patch+yaml")
    assert patch.query == {"fieldManager": "dartes-operator", "force": "true"}


def test_applying_never_takes_an_object_from_another_owner() -> None:
    server = FakeServer()
    server.put("services", owned("Service", "sums-coordinator", uid="another"))
    assert troubles(execute(server, [Apply(owned("Service", "sums-coordinator"))])) == [Trouble.NAME_CONFLICT]
    assert "PATCH" not in {call.method for call in server.calls}


def test_a_patch_of_an_object_that_was_replaced_makes_the_plan_look_again() -> None:
    server = FakeServer()
    server.put("persistentvolumeclaims", owned("PersistentVolumeClaim", "sums-checkpoint"))
    patch = {"metadata": {"uid": "the-old-one", "ownerReferences": []}}
    with pytest.raises(ApiUnavailableError, match="another one now"):
        execute(server, [Patch(Kind.CLAIM, "sums-checkpoint", patch)])


def test_pods_that_come_with_new_certificates_carry_their_mark() -> None:
    server = FakeServer()
    roles = {
        role: owned("Secret", f"sums-tls-{role}")["metadata"]
        for role in ("coordinator", "worker", "operator")
    }
    outcome = execute(
        server, [IssueCertificates(roles, ("sums-coordinator",)), Create(pod(0), stamp_authority=True)]
    )
    assert outcome.refused == ()
    marks = {o["metadata"]["annotations"]["dartes.dev/authority"] for o in server.objects.values()}
    assert len(server.objects) == 4
    assert len(marks) == 1


def test_a_secret_of_somebody_else_is_left_alone_and_no_pod_starts() -> None:
    server = FakeServer()
    server.put("secrets", owned("Secret", "sums-tls-worker", uid="another"))
    roles = {role: owned("Secret", f"sums-tls-{role}")["metadata"] for role in ("worker",)}
    outcome = execute(server, [IssueCertificates(roles, ()), Create(pod(0), stamp_authority=True)])
    assert troubles(outcome) == [Trouble.NAME_CONFLICT]
    assert "sums-tls-worker" in outcome.refused[0].message
    assert server.named("POST") == ["sums-tls-worker"]
    assert "PATCH" not in {call.method for call in server.calls}


def test_reading_certificates_is_not_the_executors_business() -> None:
    with pytest.raises(TypeError, match="plans again"):
        execute(FakeServer(), [ReadCertificates()])


def test_requests_are_counted_by_verb_and_code() -> None:
    server = FakeServer()
    server.put("pods", pod(0))

    async def scenario(api: Api) -> None:
        await Executor(api, Cache(), lambda: 0.0).execute(KEY, JOB_UID, [Create(pod(0)), Create(pod(1))])

    text = with_server(server, scenario).text().decode()
    for code, verb in ((201, "POST"), (409, "POST"), (200, "GET")):
        assert f'dartes_api_requests_total{{code="{code}",verb="{verb}"}} 1.0' in text
