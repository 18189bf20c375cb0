"""A reward service: asked in batches, patiently, bounded; whatever it does wrong, no score is made up."""

import http.server
import json
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dartes.errors import ConfigurationError, DrainedError
from dartes.rewards.service import (
    FIRST_WAIT_SECONDS,
    INPUTS_PER_REQUEST,
    LONGEST_WAIT_SECONDS,
    REFUSALS_BEFORE_GIVING_UP,
    ServiceScorer,
    read_scores,
    request_body,
)
from dartes.rewards.service_http import (
    ANSWER_LIMIT,
    RefusedByServiceError,
    ServiceError,
    check_url,
    post_json,
)
from dartes.tasks.base import Message

FIELD = "task.options.rewardService"


class Service:
    """A real HTTP server; `answer` makes a status, headers and a body of a request's inputs."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.answer: Callable[[list[Any]], tuple[int, dict[str, str], bytes]] = lambda inputs: (
            200,
            {},
            json.dumps({"scores": [len(entry["completion"]) for entry in inputs]}).encode(),
        )
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                service.requests.append(asked)
                service.paths.append(self.path)
                status, headers, body = service.answer(asked["inputs"])
                self.send_response(status)
                for name, value in ({"Content-Length": str(len(body))} | headers).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                return None

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/score?v=1"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def says(self, status: int, body: bytes, **headers: str) -> None:
        self.answer = lambda _: (status, headers, body)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def service() -> Iterator[Service]:
    running = Service()
    yield running
    running.close()


def raw_server(answer: Callable[[socket.socket], None]) -> tuple[str, threading.Thread]:
    """Takes one connection and does with it what it is told."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listening.accept()
        with connection, listening:
            connection.recv(65_536)
            answer(connection)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return f"http://127.0.0.1:{listening.getsockname()[1]}", thread


class Script:
    """An exchange that fails so often and so, then answers; what a sleep would have taken is written down."""

    def __init__(self, *outcomes: ServiceError | bytes) -> None:
        self._outcomes = list(outcomes)
        self.waits: list[float] = []
        self.troubles: list[str] = []

    def __call__(self, _url: str, _body: bytes, _seconds: float, /) -> bytes:
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, ServiceError):
            raise outcome
        return outcome

    def scorer(self) -> ServiceScorer:
        return ServiceScorer(
            FIELD, "http://rewards/", 5.0, self.troubles.append, sleep=self.waits.append, exchange=self
        )


def test_answers_are_scored_in_batches_and_in_order(service: Service) -> None:
    scorer = ServiceScorer(FIELD, service.url, 5.0, pytest.fail)
    texts = ["x" * (n % 7) for n in range(INPUTS_PER_REQUEST + 3)]
    assert scorer.scores(["p"] * len(texts), texts) == [float(len(text)) for text in texts]
    assert [len(request["inputs"]) for request in service.requests] == [INPUTS_PER_REQUEST, 3]
    assert service.paths == ["/score?v=1"] * 2
    scorer.close()


def test_a_request_has_chats_as_turns_and_texts_as_a_users() -> None:
    chat = (Message("system", "Be kind."), Message("user", "Hello"))
    assert request_body([chat, "Hi"], ["Good day", "Hm"]) == [
        {
            "prompt": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello"}],
            "completion": "Good day",
        },
        {"prompt": [{"role": "user", "content": "Hi"}], "completion": "Hm"},
    ]


def test_a_service_that_is_away_is_waited_for_and_told_of() -> None:
    script = Script(*[ServiceError("connection refused")] * 9, b'{"scores": [1.5]}')
    assert script.scorer().scores(["p"], ["a"]) == [1.5]
    assert script.waits == [0.5, 1, 2, 4, 8, 16, LONGEST_WAIT_SECONDS, 30, 30]
    assert [text.partition("refused")[2] for text in script.troubles[:-1]] == [
        f", tried {tries} times; it is asked again until it answers" for tries in (3, 4, 8)
    ]
    assert script.troubles[0].startswith(
        "rewards are unavailable: reward service http://rewards/: connection"
    )
    assert script.troubles[-1] == ""


def test_a_process_that_ends_waits_for_no_service() -> None:
    script = Script(*[ServiceError("connection refused")] * 3)
    scorer = ServiceScorer(FIELD, "http://rewards/", 5.0, pytest.fail, sleep=lambda _: True, exchange=script)
    with pytest.raises(DrainedError, match="stopped while reward service http://rewards/ was waited for"):
        scorer.scores(["p"], ["a"])


def test_a_short_hiccup_is_no_trouble() -> None:
    script = Script(ServiceError("reset"), ServiceError("reset"), b'{"scores": [0]}')
    assert script.scorer().scores(["p"], ["a"]) == [0.0]
    assert script.waits == [FIRST_WAIT_SECONDS, 2 * FIRST_WAIT_SECONDS]
    assert script.troubles == []


def test_nonsense_is_never_a_score_and_asked_about_for_ever() -> None:
    script = Script(*[b'{"scores": [NaN]}'] * 40, b'{"scores": [2]}')
    assert script.scorer().scores(["p"], ["a"]) == [2.0]
    assert "it gave the score nan, which is no finite number, tried 32 times" in script.troubles[-2]


def test_a_refusal_by_a_service_that_never_answered_ends_the_job() -> None:
    refusal = RefusedByServiceError("it answers 404 Not Found")
    script = Script(*[refusal] * REFUSALS_BEFORE_GIVING_UP)
    with pytest.raises(ConfigurationError) as caught:
        script.scorer().scores(["p"], ["a"])
    assert str(caught.value) == (
        "task.options.rewardService = 'http://rewards/': it answers 404 Not Found, 8 times in a row, and it "
        "has never answered otherwise; correct the address, or what serves it"
    )


def test_a_refusal_by_a_service_that_did_answer_is_waited_out() -> None:
    refusals = [RefusedByServiceError("it answers 404 Not Found")] * (2 * REFUSALS_BEFORE_GIVING_UP)
    script = Script(b'{"scores": [1]}', *refusals, b'{"scores": [2]}')
    scorer = script.scorer()
    assert [scorer.scores(["p"], ["a"]), scorer.scores(["p"], ["b"])] == [[1.0], [2.0]]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "is not JSON"),
        (b"<html>", "is not JSON"),
        (b"\xff", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[1, 2]", 'is no object with a list "scores"'),
        (b'{"scores": 1}', 'is no object with a list "scores"'),
        (b'{"score": [1, 2]}', 'is no object with a list "scores"'),
        (b'{"scores": [1]}', "gave 1 scores for 2 answers"),
        (b'{"scores": [1, 2, 3]}', "gave 3 scores for 2 answers"),
        (b'{"scores": [1, null]}', "gave the score null, which is no number"),
        (b'{"scores": [1, "2"]}', 'gave the score "2", which is no number'),
        (b'{"scores": [1, true]}', "gave the score true, which is no number"),
        (b'{"scores": [1, NaN]}', "which is no finite number"),
        (b'{"scores": [Infinity, 1]}', "which is no finite number"),
        (b'{"scores": [1e39, 1]}', "which is no finite number"),
        pytest.param(b'{"scores": [1, %s]}' % (b"9" * 401), "which is no finite number", id="401 digits"),
        pytest.param(b'{"scores": [1, %s]}' % (b"9" * 5000), "is not JSON", id="5000 digits"),
    ],
)
def test_only_so_many_finite_numbers_are_an_answer(body: bytes, why: str) -> None:
    with pytest.raises(ServiceError, match=why):
        read_scores(body, 2)


def test_a_redirect_is_not_followed(service: Service) -> None:
    service.says(307, b"", Location="http://elsewhere.example/")
    with pytest.raises(RefusedByServiceError, match="307 Temporary Redirect to http://elsewhere"):
        post_json(service.url, b'{"inputs": []}', 5.0)
    assert len(service.requests) == 1


def test_where_a_redirect_leads_cannot_steer_a_terminal(service: Service) -> None:
    service.says(302, b"", Location="http://x/\x1b[2J")
    with pytest.raises(RefusedByServiceError) as caught:
        post_json(service.url, b'{"inputs": []}', 5.0)
    assert "302 Found to 'http://x/\\x1b[2J', which" in str(caught.value)


@pytest.mark.parametrize(
    ("status", "refused"),
    [
        (400, True),
        (401, True),
        (404, True),
        (422, True),
        (408, False),
        (429, False),
        (500, False),
        (503, False),
    ],
)
def test_statuses_that_may_heal_are_told_from_those_that_do_not(
    service: Service, status: int, refused: bool
) -> None:
    service.says(status, b"")
    with pytest.raises(ServiceError, match=f"it answers {status} ") as caught:
        post_json(service.url, b'{"inputs": []}', 5.0)
    assert isinstance(caught.value, RefusedByServiceError) == refused


def test_an_endless_answer_is_cut_off(service: Service) -> None:
    service.says(200, b"1" * (ANSWER_LIMIT + 10))
    with pytest.raises(ServiceError, match=r"longer than 4,194,304 bytes"):
        post_json(service.url, b'{"inputs": []}', 5.0)


def test_an_answer_that_breaks_off_is_none(service: Service) -> None:
    service.answer = lambda _: (200, {"Content-Length": "1000"}, b'{"scores": [1]}')
    with pytest.raises(ServiceError, match="too early|breaks off"):
        post_json(service.url, b'{"inputs": []}', 5.0)


def test_a_service_that_is_not_there_is_refused_by_the_system() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(ServiceError, match="connection refused"):
        post_json(f"http://127.0.0.1:{port}/", b"{}", 5.0)


def test_a_host_that_does_not_exist_is_named() -> None:
    with pytest.raises(ServiceError, match=r"there is no host rewards\.invalid"):
        post_json("http://rewards.invalid/", b"{}", 5.0)


def test_what_speaks_no_http_is_said_so() -> None:
    url, thread = raw_server(lambda connection: connection.sendall(b"SSH-2.0-hello\r\n"))
    with pytest.raises(ServiceError, match="not HTTP"):
        post_json(url, b"{}", 5.0)
    thread.join(5)


@pytest.mark.parametrize(
    "start", [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n"]
)
def test_a_service_that_drips_has_no_more_time_than_one_that_is_silent(start: bytes) -> None:
    hung_up = threading.Event()

    def drip(connection: socket.socket) -> None:
        try:
            connection.sendall(start)
            while not hung_up.wait(0.01):
                connection.sendall(b"x")
        except OSError:
            hung_up.set()

    url, thread = raw_server(drip)
    with pytest.raises(ServiceError, match=r"no answer within 0\.2 s"):
        post_json(url, b"{}", 0.2)
    thread.join(5)
    assert hung_up.is_set()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "rewards",
        "ftp://x/",
        "http://",
        "http:///score",
        "http://x:0/",
        "http://x:99999/",
        "http://x/ä",
        "http://x/ y",
    ],
)
def test_an_address_that_is_none_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"task\.options\.rewardService"):
        check_url(FIELD, url)


def test_an_address_holds_no_password() -> None:
    with pytest.raises(ConfigurationError, match="must not hold a user name or password") as caught:
        check_url(FIELD, "https://me:secret@rewards/")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["http://localhost:8000/score", "https://rewards.ns.svc/", "http://[::1]:80/a?b=c"]
)
def test_good_addresses_are_taken(url: str) -> None:
    assert check_url(FIELD, url) == url
