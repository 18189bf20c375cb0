"""Scores from a reward service over HTTP: batches of answers out, numbers back, patience while it is away.

A service that does not answer, or answers nonsense, holds the iteration up for as long as it takes, and says
so; no score is ever made up. The exchange itself, bounded in time and size, is `service_http`'s.

The contract: POST of `{"inputs": [{"prompt": [{"role": ..., "content": ...}], "completion": "..."}]}`,
answered by 200 and `{"scores": [number, ...]}`, one finite number per input, in order.
"""

import json
import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from dartes.errors import ConfigurationError, DrainedError
from dartes.rewards.service_http import Exchange, RefusedByServiceError, ServiceError, post_json
from dartes.rewards.trouble import REWARDS_UNAVAILABLE
from dartes.tasks.base import Prompt
from dartes.tasks.instruction_prompts import messages_of

log = logging.getLogger(__name__)

INPUTS_PER_REQUEST = 64
FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 30.0
QUIET_TRIES = 3
"""So many failures in a row are nobody's trouble yet."""

REFUSALS_BEFORE_GIVING_UP = 8
"""Requests refused in a row by a service that has never answered well: about a minute and a half."""

LARGEST_SCORE = 3.0e38
"""Scores travel as 32-bit numbers."""


class Scorer(Protocol):
    """Scores answers; the same answer to the same prompt gets the same score in any company."""

    def scores(self, prompts: Sequence[Prompt], completions: Sequence[str]) -> list[float]:
        """One finite score per answer. Raises ConfigurationError where there never will be one."""
        ...

    def close(self) -> None:
        """Release what it holds; may be called twice."""
        ...


class ServiceScorer:
    """A `Scorer` behind HTTP.

    Parameters
    ----------
    field
        The job's setting that names it, for errors.
    url
        Where to post.
    seconds
        Time limit of one request with its answer.
    on_trouble
        Told why nothing goes on, and "" when it does again; the text changes only when there is news.
    sleep
        How to let some seconds pass; true where the waiting is to end for good.
    exchange
        Makes one request.
    """

    def __init__(
        self,
        field: str,
        url: str,
        seconds: float,
        on_trouble: Callable[[str], None],
        sleep: Callable[[float], object] = time.sleep,
        exchange: Exchange = post_json,
    ) -> None:
        self._field = field
        self._url = url
        self._seconds = seconds
        self._on_trouble = on_trouble
        self._sleep = sleep
        self._exchange = exchange
        self._has_answered = False

    def scores(self, prompts: Sequence[Prompt], completions: Sequence[str]) -> list[float]:
        """Ask until there is an answer; see `Scorer.scores`.

        Raises
        ------
        ConfigurationError
            The service refuses (3xx, or 4xx but 408, 425 and 429) again and again, and has never answered.
        """
        scores: list[float] = []
        for start in range(0, len(prompts), INPUTS_PER_REQUEST):
            end = start + INPUTS_PER_REQUEST
            scores += self._patiently(request_body(prompts[start:end], completions[start:end]))
        return scores

    def close(self) -> None:
        """Nothing is held between requests."""

    def _patiently(self, inputs: list[object]) -> list[float]:
        body = json.dumps({"inputs": inputs}).encode("ascii")
        tries = refusals = 0
        wait = FIRST_WAIT_SECONDS
        while True:
            try:
                scores = read_scores(self._exchange(self._url, body, self._seconds), len(inputs))
            except ServiceError as error:
                tries += 1
                refusals = refusals + 1 if isinstance(error, RefusedByServiceError) else 0
                if refusals >= REFUSALS_BEFORE_GIVING_UP and not self._has_answered:
                    raise ConfigurationError(
                        f"{self._field} = {self._url!r}: {error}, {refusals} times in a row, and it "
                        "has never answered otherwise; correct the address, or what serves it"
                    ) from error
                self._tell(error, tries)
                if self._sleep(wait):
                    raise DrainedError(f"stopped while reward service {self._url} was waited for") from error
                wait = min(LONGEST_WAIT_SECONDS, 2 * wait)
                continue
            self._has_answered = True
            if tries >= QUIET_TRIES:
                self._on_trouble("")
            return scores

    def _tell(self, error: ServiceError, tries: int) -> None:
        """Log the first failures; from `QUIET_TRIES` on it is trouble, told anew ever more rarely."""
        if tries < QUIET_TRIES:
            log.warning("reward service %s: %s (try %d)", self._url, error, tries)
        elif tries == QUIET_TRIES or not tries & (tries - 1):
            self._on_trouble(
                f"{REWARDS_UNAVAILABLE}: reward service {self._url}: {error}, tried {tries} times; "
                "it is asked again until it answers"
            )


def request_body(prompts: Sequence[Prompt], completions: Sequence[str]) -> list[object]:
    """The `inputs` of a request."""
    return [
        {
            "prompt": [{"role": turn.role, "content": turn.content} for turn in messages_of(prompt)],
            "completion": completion,
        }
        for prompt, completion in zip(prompts, completions, strict=True)
    ]


def read_scores(body: bytes, count: int) -> list[float]:
    """The scores in an answer's body; raises `ServiceError` for all but `count` finite numbers."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ServiceError(f"its answer is not JSON ({body[:40]!r})") from error
    scores = answer.get("scores") if isinstance(answer, dict) else None
    if not isinstance(scores, list):
        raise ServiceError('its answer is no object with a list "scores"')
    if len(scores) != count:
        raise ServiceError(f"it gave {len(scores)} scores for {count} answers")
    for value in scores:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ServiceError(f"it gave the score {json.dumps(value)[:40]}, which is no number")
        if not abs(value) <= LARGEST_SCORE:  # also false for NaN; a whole number may be too long for a float
            raise ServiceError(f"it gave the score {str(value)[:20]}, which is no finite number")
    return [float(value) for value in scores]
