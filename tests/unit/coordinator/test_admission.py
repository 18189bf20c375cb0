"""Who may take part in a run."""

import json
from typing import Any

import pytest

from dartes.journal import JournalHeader
from dartes.v1 import population_pb2 as wire
from dartes_coordinator.admission import admit, engine_difference, engine_of, reward_of
from dartes_coordinator.errors import RefusedError

from .kit import BASE, plan, registration

RUN = plan()


def test_the_first_worker_fixes_the_header() -> None:
    header = JournalHeader.decode(admit(RUN, registration("w", RUN), None))
    assert (header.base_digest, header.data_digest, header.tensors) == (
        BASE,
        "train-digest",
        (("w", (2, 3)),),
    )
    assert header.run_seed == RUN.settings.seed


def test_the_order_in_which_a_worker_lists_tensors_does_not_matter() -> None:
    shapes = [wire.TensorShape(name=n, shape=[2]) for n in "ab"]
    first = admit(RUN, registration("w", RUN, tensors=shapes), None)
    assert admit(RUN, registration("v", RUN, tensors=shapes[::-1]), first) == first


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"base_digest": "other"}, "base model: digest other"),
        ({"tensors": [wire.TensorShape(name="w", shape=[3, 2])]}, "other tensors"),
        (
            {"data": [wire.DataDigest(name="train", digest="train-digest")]},
            "data set 'held-out': digest none",
        ),
        (
            {"data": [wire.DataDigest(name=n, digest="x") for n in ("train", "held-out")]},
            "data set 'train': digest x",
        ),
        ({"algorithm_digest": "other"}, "algorithm: digest other"),
        ({"noise_version": "99"}, "noise version '99'"),
        ({"protocol": 99}, "protocol 99"),
        ({"worker": ""}, "no name"),
        ({"fingerprint": "nonsense"}, "fingerprint"),
        ({"fingerprint": "[]"}, "fingerprint"),
    ],
)
def test_a_worker_that_differs_is_refused_by_name(changes: dict[str, Any], words: str) -> None:
    header = admit(RUN, registration("w", RUN), None)
    with pytest.raises(RefusedError) as caught:
        admit(RUN, registration("v", RUN, **changes), header)
    assert words in str(caught.value)


def test_everything_that_differs_is_named_at_once() -> None:
    header = admit(RUN, registration("w", RUN), None)
    wrong = registration("v", RUN, base_digest="b", algorithm_digest="a", noise_version="n", data=[])
    with pytest.raises(RefusedError) as caught:
        admit(RUN, wrong, header)
    for words in ("base model", "algorithm", "noise version", "'train'", "'held-out'", "worker v"):
        assert words in str(caught.value)


def test_a_run_of_another_noise_version_is_not_continued() -> None:
    header = json.loads(admit(RUN, registration("w", RUN), None))
    header["noise_version"] += 1
    old = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    with pytest.raises(RefusedError, match="noise version"):
        admit(RUN, registration("w", RUN), old)


def test_a_difference_of_engines_names_what_differs_the_engine_first() -> None:
    mine = '{"device": "a100", "engine": "vllm", "threads": 2, "versions": {"torch": "2", "vllm": "1"}}'
    other = '{"device": "cpu", "engine": "transformers", "threads": 2, "versions": {"torch": "2"}}'
    assert engine_difference(mine, other) == (
        "engine 'vllm', not 'transformers', device 'a100', not 'cpu', versions.vllm '1', not 'none'"
    )


def test_fingerprints_are_compared_in_canonical_form() -> None:
    first = engine_of(registration("w", RUN, fingerprint='{"b": 1, "a": 2}'))
    assert first == engine_of(registration("w", RUN, fingerprint='{"a":2,"b":1}'))
    assert engine_of(registration("w", RUN, fingerprint="")) == ""


def with_reward(worker: str, digest: str | None) -> wire.RegisterRequest:
    request = registration(worker, RUN)
    if digest is not None:
        request.data.append(wire.DataDigest(name="reward", digest=digest))
    return request


def test_the_first_worker_fixes_the_reward_source_without_a_word_in_the_header() -> None:
    assert admit(RUN, with_reward("w", "mine"), None) == admit(RUN, registration("w", RUN), None)
    assert reward_of(with_reward("w", "mine")) == "mine"
    assert reward_of(registration("w", RUN)) == ""


@pytest.mark.parametrize(("run", "theirs"), [("mine", "other"), ("mine", None), ("", "other")])
def test_a_worker_with_another_reward_source_is_refused_by_name(run: str, theirs: str | None) -> None:
    header = admit(RUN, registration("w", RUN), None)
    with pytest.raises(RefusedError, match="worker v cannot take part: reward source: digest"):
        admit(RUN, with_reward("v", theirs), header, run)


@pytest.mark.parametrize("digest", ["mine", None])
def test_a_worker_with_the_same_reward_source_takes_part(digest: str | None) -> None:
    header = admit(RUN, registration("w", RUN), None)
    assert admit(RUN, with_reward("v", digest), header, digest or "") == header
