"""A request that fails is sent again in the same pass, a few times, and never where the server wants time."""

import pytest

from dartes_operator.api import Api, ApiRefusalError, ApiUnavailableError
from dartes_operator.plan.types import Kind

from .kit import JOB_UID, NAMESPACE, FakeServer, owned, with_server

POD = owned("Pod", "sums-worker-0")
HALF_A_MINUTE = {"Retry-After": "30"}
NOW = {"Retry-After": "0"}


def test_a_request_is_sent_again_until_the_server_takes_it() -> None:
    server = FakeServer()
    server.refuse("POST", "pods", 429, headers=NOW, times=1)
    server.refuse("POST", "pods", 500, headers=NOW, times=1)

    async def scenario(api: Api) -> None:
        assert (await api.create(POD))["metadata"]["name"] == "sums-worker-0"

    with_server(server, scenario, pauses=(0.0, 0.0))
    assert len(server.calls) == 3


def test_a_server_that_goes_on_failing_is_asked_no_more_than_the_pauses_allow() -> None:
    server = FakeServer()
    server.refuse("GET", "pods", 503, "away", headers=NOW)

    async def scenario(api: Api) -> None:
        with pytest.raises(ApiUnavailableError, match="503 away"):
            await api.get(Kind.POD, NAMESPACE, "sums-worker-0")

    with_server(server, scenario, pauses=(0.0, 0.0))
    assert len(server.calls) == 3


def test_a_server_that_wants_more_time_than_a_pass_should_take_is_not_asked_again() -> None:
    server = FakeServer()
    server.refuse("GET", "pods", 429, headers=HALF_A_MINUTE)

    async def scenario(api: Api) -> None:
        with pytest.raises(ApiUnavailableError) as failure:
            await api.get(Kind.POD, NAMESPACE, "sums-worker-0")
        assert failure.value.retry_after == 30

    with_server(server, scenario, pauses=(0.0, 0.0))
    assert len(server.calls) == 1


def test_a_refusal_is_an_answer() -> None:
    server = FakeServer()
    server.refuse("POST", "pods", 422)

    async def scenario(api: Api) -> None:
        with pytest.raises(ApiRefusalError):
            await api.create(POD)

    with_server(server, scenario, pauses=(0.0, 0.0))
    assert len(server.calls) == 1


def test_a_deletion_counts_as_done_where_the_name_is_another_objects() -> None:
    server = FakeServer()
    server.put("pods", {**POD, "metadata": {**POD["metadata"], "uid": "new"}})

    async def scenario(api: Api) -> None:
        assert await api.delete(Kind.POD, NAMESPACE, "sums-worker-0", JOB_UID) is None

    with_server(server, scenario)
    assert len(server.objects) == 1


def test_a_deletion_that_meets_any_other_conflict_does_not_count_as_done() -> None:
    server = FakeServer()
    server.put("pods", {**POD, "metadata": {**POD["metadata"], "uid": "uid"}})
    server.refuse("DELETE", "pods", 409, "it has been modified", reason="Conflict", times=1)

    async def scenario(api: Api) -> None:
        with pytest.raises(ApiUnavailableError, match="modified"):
            await api.delete(Kind.POD, NAMESPACE, "sums-worker-0", "uid")
        await api.delete(Kind.POD, NAMESPACE, "sums-worker-0", "uid")

    with_server(server, scenario)
    assert not server.objects
