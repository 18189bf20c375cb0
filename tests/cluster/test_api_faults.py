"""The operator before an API server that is slow, busy, broken, silent, forgetful or away: jobs don't notice.

A proxy stands between the two (`fault_proxy.py`). One operator is a pod that the chart's `extraEnv` points at
it; the others are processes of the host, killed and started at will. Pods run on fake nodes.
"""

import time
from collections.abc import Iterator

import pytest

from testcluster import control_plane, lifecycle
from testcluster.machinery import Machinery

from .fault_proxy import WRITES, Fault, FaultProxy, Kind
from .job_life import Life
from .jobs import uid, until
from .kwok_jobs import Kwok
from .lives import STATUS, Lives, assert_same, proxy_before
from .releases import Releases

pytestmark = pytest.mark.usefixtures("alone", "definition")
HALF_A_MINUTE = 30.0
SEVERAL = 4
"""Strikes at least in one life of what strikes by chance: it asks the server for some forty things."""

SOME = (
    Fault(Kind.SLOW, share=0.2, seconds=0.3),
    Fault(Kind.TOO_MANY, share=0.15, seconds=1.0),
    Fault(Kind.CONFLICT, share=0.15),
    Fault(Kind.BROKEN, share=0.15),
    Fault(Kind.DROPPED, share=0.15),
    Fault(Kind.LOST, share=0.15),
    Fault(Kind.HALF, share=0.15),
    Fault(Kind.EXPIRED, share=0.3),
)
"""A bad day: half of all writes fail, four of ten reads, and watches end early."""

CUT = Fault(Kind.DROPPED, verbs=("watch",), count=5)
"""Ends the watches that are open, so that others begin."""

STORMS = {
    "slow answers": (Fault(Kind.SLOW, seconds=1.0, share=0.5),),
    "too many requests": (Fault(Kind.TOO_MANY, seconds=2.0, share=0.3),),
    "conflicts": (Fault(Kind.CONFLICT, share=0.5),),
    "broken": (Fault(Kind.BROKEN, share=0.3),),
    "unauthorized": (Fault(Kind.UNAUTHORIZED, verbs=("get", "list", *WRITES), share=0.2),),
    "dropped connections": (Fault(Kind.DROPPED, share=0.3),),
    "lost answers": (Fault(Kind.LOST, share=0.4, verbs=WRITES),),
    "half answers": (Fault(Kind.HALF, share=0.3),),
    "watches that expire": (Fault(Kind.EXPIRED, share=0.5),),
    "watches that are gone at their start": (Fault(Kind.GONE, count=2), CUT),
    "errors within watches": (Fault(Kind.STREAM_ERROR, count=2),),
    "watches that are not let in": (Fault(Kind.UNAUTHORIZED, verbs=("watch",), count=1), CUT),
    "silent writes": (Fault(Kind.SILENT, verbs=WRITES, count=2),),
}
"""The first of each is what is meant."""


@pytest.fixture
def healed(lives: Lives) -> Iterator[FaultProxy]:
    """The proxy, without faults before and after."""
    lives.clear()
    yield lives.proxy
    lives.clear()


@pytest.mark.full
def test_an_operators_pod_brings_a_job_to_its_end_on_a_bad_day(
    releases: Releases, kwok: Kwok, namespace: str
) -> None:
    with proxy_before(releases.cluster) as (proxy, options):
        release = releases(namespace, options=options, kwok=True)
        for fault in SOME:
            proxy.inject(fault)
        life = Life.begin(kwok, release.api, namespace)
        life.short()
        end = life.end()
        proxy.heal()
        life.leave()
        pod = release.operator_pod()
        release.uninstall()
    assert end["phase"] == "Succeeded"
    assert set(end["failures"].values()) == {0}
    assert end["objects"]["pods"] == ["life-coordinator", "life-export", "life-worker-0", "life-worker-1"]
    assert sum(times for kind, times in proxy.struck.items() if kind is not Kind.SLOW) >= 10
    assert [each["restartCount"] for each in pod["status"]["containerStatuses"]] == [0]


@pytest.mark.full
@pytest.mark.parametrize("faults", STORMS.values(), ids=STORMS.keys())
def test_a_life_under_one_kind_of_fault_ends_as_one_without(
    lives: Lives, healed: FaultProxy, faults: tuple[Fault, ...]
) -> None:
    plain = lives.undisturbed()
    meant = faults[0]
    before = healed.struck[meant.kind]
    assert_same(lives.live(*faults, like=plain), plain)
    assert healed.struck[meant.kind] - before >= (meant.count or SEVERAL)
    assert lives.operator.lives


@pytest.mark.full
def test_retry_after_is_kept_to(lives: Lives, healed: FaultProxy) -> None:
    healed.inject(Fault(Kind.TOO_MANY, seconds=5.0, verbs=("create",), resources=("pods",), count=1,
                        match=lambda request: "dryRun" not in request.query))  # fmt: skip
    life = lives.begin()
    life.wait_running(2)
    asked = [
        each
        for each in healed.records
        if each.request.name == "life-coordinator" and each.request.verb == "create"
        and "dryRun" not in each.request.query
    ][-2:]  # fmt: skip
    assert [each.code for each in asked] == [429, 201]
    assert asked[1].time - asked[0].time >= 5.0
    life.leave_early()


@pytest.mark.full
def test_a_storm_of_conflicts_is_answered_with_pauses(lives: Lives, healed: FaultProxy) -> None:
    life = lives.begin()
    life.wait_running(2)
    before, began = healed.seen["patch", STATUS], time.monotonic()
    healed.inject(Fault(Kind.CONFLICT, resources=(STATUS,)))
    life.finish("worker", 1)
    until(lambda: healed.seen["patch", STATUS] - before >= 8, "eight tries", 120)
    # Without pauses these are 1.6 s: a pass each fifth of a second.
    assert time.monotonic() - began > 10
    healed.heal()
    life.wait_running(2)
    life.leave_early()


@pytest.mark.full
def test_what_a_silent_watch_keeps_back_is_seen_within_two_minutes(lives: Lives, healed: FaultProxy) -> None:
    life = lives.begin()
    life.wait_running(2)
    healed.inject(Fault(Kind.SILENT, verbs=("watch",)))
    healed.heal()
    life.finish("worker", 1)
    # A stream that brings nothing for 90 s is taken for dead.
    until(lambda: life.job.status["failures"].get("worker") == 1, "the failure is counted", 120)
    life.wait_running(2)
    life.leave_early()


@pytest.mark.full
def test_an_operator_that_is_shown_an_old_list_at_its_start_makes_nothing_twice(
    lives: Lives, healed: FaultProxy
) -> None:
    lives.operator.restart()
    until(lambda: healed.open_watches("pods"), "pods are watched, and there are none", 30)
    life = lives.begin()
    life.wait_running(2)
    before = {uid(pod) for role in ("coordinator", "worker") for pod in life.job.pods(role)}
    owned = ("pods", "services", "configmaps", "persistentvolumeclaims")
    healed.inject(Fault(Kind.STALE, resources=owned))
    healed.inject(Fault(Kind.SILENT, verbs=("watch",), resources=owned))
    lives.operator.restart()
    made, listed = healed.seen["create", "pods"], healed.seen["list", "pods"]
    until(lambda: healed.seen["list", "pods"] >= listed + 4, "it lists again, as the lists stay old", 30)
    assert healed.seen["create", "pods"] == made
    healed.heal()
    lives.operator.restart()
    life.wait_running(2)
    assert {uid(pod) for role in ("coordinator", "worker") for pod in life.job.pods(role)} == before
    assert set(life.end()["failures"].values()) <= {0}
    life.leave_early()


@pytest.mark.full
def test_pods_that_are_gone_and_an_old_list_at_the_start_shows_are_not_counted_anew(
    lives: Lives, healed: FaultProxy
) -> None:
    life = lives.begin()
    life.wait_running(2)
    lives.operator.restart()
    until(lambda: healed.open_watches("pods"), "pods are listed, all of them alive", 30)

    def lose_a_worker(count: int, workers: int = 2) -> None:
        victim = life.job.live("worker")[0]
        life.job.api.core.delete_namespaced_pod(victim["metadata"]["name"], life.job.namespace)
        until(lambda: life.job.status["failures"]["disruptions"] >= count, f"{count} are counted", 30)
        life.wait_running(workers)

    lose_a_worker(1)
    lose_a_worker(2)
    before = {uid(pod) for role in ("coordinator", "worker") for pod in life.job.pods(role)}
    healed.inject(Fault(Kind.STALE))
    listed = healed.seen["list", "pods"]
    lives.operator.restart()
    until(lambda: healed.seen["list", "pods"] >= listed + 4, "it lists again, as the lists stay old", 30)
    healed.heal()
    life.job.patch({"workers": {"replicas": 3}})
    life.wait_running(3)
    after = {uid(pod) for role in ("coordinator", "worker") for pod in life.job.pods(role)}
    assert before < after
    lose_a_worker(3, workers=3)
    assert life.job.status["failures"]["disruptions"] == 3
    life.leave_early()


@pytest.mark.full
def test_half_a_minute_without_an_answer_changes_nothing(lives: Lives, healed: FaultProxy) -> None:
    plain = lives.undisturbed()
    life = lives.begin()
    life.wait_running(2)
    # Watches still tell that there is something to do, so that the operator does ask.
    healed.inject(Fault(Kind.SILENT, verbs=("get", "list", *WRITES)))
    struck, began = healed.struck[Kind.SILENT], time.monotonic()
    life.end_training()
    # Each request is given up after 20 s.
    until(lambda: healed.struck[Kind.SILENT] >= struck + 2, "two in a row go unanswered", 60)
    until(lambda: time.monotonic() >= began + HALF_A_MINUTE, "half a minute", HALF_A_MINUTE + 5)
    assert life.job.status["phase"] == "Running"
    healed.heal()
    life.wait_export_and_finish()
    assert life.end(plain.end) == plain.end
    life.leave()


@pytest.mark.full
def test_an_api_server_that_is_restarted_changes_nothing(lives: Lives, healed: FaultProxy) -> None:
    machinery = Machinery.from_environment()
    plain = lives.undisturbed()
    life = lives.begin()
    life.wait_running(2)
    before = {uid(pod) for role in ("coordinator", "worker") for pod in life.job.pods(role)}
    options = lifecycle.running_options(machinery)
    assert options is not None
    control_plane.restart_api_server(machinery, options)
    life.wait_running(2)
    assert {uid(pod) for role in ("coordinator", "worker") for pod in life.job.pods(role)} == before
    life.finish_training()
    assert life.end(plain.end) == plain.end
    life.leave()
    assert lives.operator.lives
