"""How chaos asks an API server that is away, and what it takes for an answer."""

from http import HTTPStatus

import pytest
import urllib3
from kubernetes.client.exceptions import ApiException

from tests.chaos.world import accepting, patient
from tests.cluster.held import CommandFailedError


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.chaos.world.time.sleep", lambda _: None)


class Asked:
    """Fails as it is told, then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.times = 0

    def __call__(self) -> str:
        self.times += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(),
        urllib3.exceptions.ProtocolError(),
        ApiException(status=500),
        ApiException(status=503),
        ApiException(status=429),
        ApiException(status=0),
        CommandFailedError(["GET"], "no", 503),
    ],
)
def test_an_api_server_that_is_away_is_asked_again(error: Exception) -> None:
    ask = Asked(error, error)
    assert patient(ask) == "answer"
    assert ask.times == 3


@pytest.mark.parametrize("error", [ApiException(status=404), CommandFailedError(["GET"], "no", 409)])
def test_a_no_is_an_answer(error: Exception) -> None:
    ask = Asked(error)
    with pytest.raises(type(error)):
        patient(ask)
    assert ask.times == 1


def test_patience_ends() -> None:
    with pytest.raises(ConnectionRefusedError):
        patient(Asked(*[ConnectionRefusedError()] * 3), seconds=-1.0)


def test_a_no_that_says_that_it_is_done_already_is_accepted_and_no_other() -> None:
    with accepting(HTTPStatus.CONFLICT):
        raise ApiException(status=409)
    with accepting(HTTPStatus.NOT_FOUND):
        raise CommandFailedError(["DELETE"], "gone", 404)
    with pytest.raises(ApiException), accepting(HTTPStatus.CONFLICT):
        raise ApiException(status=404)
