"""Writing status: the difference and nothing else, never over a newer state, never too much."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dartes_operator.api import Api
from dartes_operator.cache import Cache
from dartes_operator.kinds import Key
from dartes_operator.metrics import Metrics
from dartes_operator.status_writer import MAX_BYTES, StaleJobError, StatusWriter, difference, within_bounds

from .kit import NAMESPACE, FakeServer, job, merge, with_server

PREFIX = "/apis/dartes.dev/v1alpha1"

parts = st.recursive(
    st.integers(0, 3) | st.text("ab", max_size=2) | st.lists(st.integers(0, 2), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("pqr"), inner, max_size=3),
    max_leaves=8,
)
statuses = st.dictionaries(st.sampled_from("xyz"), parts, max_size=3)


@given(statuses, statuses)
def test_the_difference_turns_the_old_into_the_new(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert merge(old, difference(old, new)) == new


@given(statuses)
def test_there_is_no_difference_where_nothing_has_changed(status: dict[str, Any]) -> None:
    assert difference(status, status) == {}


def test_an_unset_value_and_a_missing_one_are_the_same_and_tuples_are_lists() -> None:
    assert difference({"a": [1]}, {"a": (1,), "b": None, "c": {}}) == {"c": {}}
    assert difference({"a": 1}, {"a": None}) == {"a": None}
    assert difference({}, {"a": [{"b": None, "c": 1}]}) == {"a": [{"c": 1}]}


class Scene:
    """A job in the API server and in the cache, and a writer with a clock."""

    def __init__(self, status: dict[str, Any]) -> None:
        self.server = FakeServer()
        self.job = self.server.put("dartesjobs", job(status=status), PREFIX)
        self.cache = Cache()
        self.cache.put(self.job)
        self.metrics = Metrics()
        self.now = 0.0

    def write(self, *statuses: dict[str, Any], seconds: float = 0.0) -> dict[str, Any]:
        """Write these one after the other, the clock going on in between; the job as it is in the end."""

        async def scenario(api: Api) -> None:
            writer = StatusWriter(api, self.cache, self.metrics, lambda: self.now)
            present: Any = self.job
            for status in statuses:
                present = await writer.write(present, status)
                self.now += seconds

        with_server(self.server, scenario)
        return self.server.objects[f"{PREFIX}/namespaces/{NAMESPACE}/dartesjobs/sums"]

    @property
    def patches(self) -> list[Any]:
        return [call.body["status"] for call in self.server.calls if call.method == "PATCH"]


def test_only_what_has_changed_is_sent_and_the_cache_knows_it_at_once() -> None:
    scene = Scene({"phase": "Pending", "workers": {"ready": 0, "desired": 2}})
    scene.write({"phase": "Pending", "workers": {"ready": 1, "desired": 2}})
    assert scene.patches == [{"workers": {"ready": 1}}]
    cached = scene.cache.get("DartESJob", NAMESPACE, "sums")
    assert cached is not None
    assert cached["status"]["workers"]["ready"] == 1


def test_nothing_is_sent_where_nothing_has_changed() -> None:
    scene = Scene({"phase": "Pending"})
    scene.write({"phase": "Pending"})
    assert scene.server.calls == []


def test_progress_alone_is_written_every_ten_seconds_at_most() -> None:
    scene = Scene({})
    scene.write(*({"progress": {"iteration": i}} for i in range(11)), seconds=2.0)
    assert [patch["progress"]["iteration"] for patch in scene.patches] == [0, 5, 10]


def test_numbers_of_pods_alone_are_written_every_ten_seconds_at_most_and_none_is_lost() -> None:
    scene = Scene({"workers": {"ready": 0, "desired": 64}})
    scene.write(*({"workers": {"ready": i, "desired": 64}} for i in range(1, 23)), seconds=1.0)
    assert [patch["workers"]["ready"] for patch in scene.patches] == [1, 11, 21]


def test_the_writer_says_when_to_come_again_for_numbers_that_it_holds_back() -> None:
    scene = Scene({"workers": {"ready": 0}})
    key = Key(NAMESPACE, "sums")
    said: list[float | None] = []

    async def scenario(api: Api) -> None:
        writer = StatusWriter(api, scene.cache, scene.metrics, lambda: scene.now)
        present: Any = scene.job
        for scene.now, ready in ((0.0, 1), (4.0, 2), (10.0, 2), (11.0, 2)):
            present = await writer.write(present, {"workers": {"ready": ready}})
            said.append(writer.held_back(key))

    with_server(scene.server, scenario)
    assert said == [None, 6.0, None, None]


def waiting(words: str, reason: str = "Unschedulable", kind: str = "WorkersReady") -> dict[str, Any]:
    conditions = [
        {"type": "Accepted", "status": "True", "reason": "Accepted", "message": ""},
        {"type": kind, "status": "False", "reason": reason, "message": words},
    ]
    return {"conditions": conditions, "message": f"{reason}: {words}", "workers": {"ready": 0}}


def test_what_is_said_of_one_of_many_waiting_pods_is_written_every_ten_seconds_at_most() -> None:
    scene = Scene(waiting("worker-0: no room"))
    scene.write(*(waiting(f"worker-{i}: no room") for i in range(1, 23)), seconds=1.0)
    assert [patch["message"].split()[1] for patch in scene.patches] == [
        "worker-1:",
        "worker-11:",
        "worker-21:",
    ]


@pytest.mark.parametrize(
    "next_one",
    [
        waiting("worker-2: no image", reason="ImagePullBackOff"),
        waiting("the spec is wrong", kind="Accepted"),
        {**waiting("worker-2: no room"), "phase": "Running"},
        {**waiting("worker-2: no room"), "workers": {"ready": 0, "desired": 3}},
    ],
)
def test_another_reason_why_pods_wait_is_written_at_once(next_one: dict[str, Any]) -> None:
    scene = Scene(waiting("worker-0: no room"))
    scene.write(waiting("worker-1: no room"), next_one, seconds=1.0)
    assert len(scene.patches) == 2


@pytest.mark.parametrize("more", [{"phase": "Running"}, {"workers": {"ready": 2, "desired": 3}}])
def test_numbers_of_pods_go_along_with_whatever_is_written_at_once(more: dict[str, Any]) -> None:
    scene = Scene({"workers": {"ready": 0, "desired": 2}})
    scene.write(
        {"workers": {"ready": 1, "desired": 2}},
        {"workers": {"ready": 2, "desired": 2}, **more},
        seconds=1.0,
    )
    assert (
        scene.server.objects[f"{PREFIX}/namespaces/{NAMESPACE}/dartesjobs/sums"]["status"]["workers"]["ready"]
        == 2
    )


def test_what_matters_is_written_at_once_and_takes_progress_along() -> None:
    scene = Scene({})
    scene.write({"progress": {"iteration": 1}}, {"progress": {"iteration": 2}, "phase": "Succeeded"})
    assert scene.patches[-1] == {"progress": {"iteration": 2}, "phase": "Succeeded"}


def test_a_plan_made_on_an_old_state_is_refused_and_the_present_state_learned() -> None:
    scene = Scene({"phase": "Running"})
    stale = {**scene.job, "metadata": dict(scene.job["metadata"])}
    scene.server.put("dartesjobs", job(status={"phase": "Succeeded"}), PREFIX)
    scene.job = stale
    with pytest.raises(StaleJobError):
        scene.write({"phase": "Running", "message": "late"})
    cached = scene.cache.get("DartESJob", NAMESPACE, "sums")
    assert cached is not None
    assert cached["status"] == {"phase": "Succeeded"}


def test_a_successor_of_that_name_does_not_get_its_predecessors_status() -> None:
    scene = Scene({})
    scene.server.put("dartesjobs", job(uid="uid-of-the-successor"), PREFIX)
    with pytest.raises(StaleJobError):
        scene.write({"phase": "Failed"})
    assert "status" not in scene.server.objects[f"{PREFIX}/namespaces/{NAMESPACE}/dartesjobs/sums"]


def test_the_status_of_a_job_that_is_gone_makes_the_cache_forget_it() -> None:
    scene = Scene({})
    scene.server.objects.clear()

    async def scenario(api: Api) -> None:
        writer = StatusWriter(api, scene.cache, scene.metrics, lambda: 0.0)
        with pytest.raises(StaleJobError):
            await writer.write(scene.job, {"phase": "Failed"})

    with_server(scene.server, scenario)
    assert scene.cache.get("DartESJob", NAMESPACE, "sums") is None


def test_disruptions_are_counted_once() -> None:
    scene = Scene({"failures": {"disruptions": 2}})
    scene.write({"failures": {"disruptions": 4}}, {"failures": {"disruptions": 4}, "phase": "Running"})
    assert "dartes_disruptions_total 2.0" in scene.metrics.text().decode()


def test_messages_are_cut_where_the_status_would_grow_past_its_bound() -> None:
    conditions = [{"type": f"T{i}", "message": "m" * 4000} for i in range(8)]
    cut = within_bounds({"conditions": conditions, "lastFailure": {"message": "f" * 2048, "exitCode": 1}})
    assert {len(condition["message"]) for condition in cut["conditions"]} == {512}
    assert cut["lastFailure"]["exitCode"] == 1


def test_a_status_that_is_too_large_even_so_is_refused() -> None:
    with pytest.raises(ValueError, match=f"{MAX_BYTES} are allowed"):
        within_bounds({"failures": {"counted": ["u" * 36] * 1000}})
