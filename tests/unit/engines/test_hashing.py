"""The test engine: any difference in groups or weights changes its answers, and nothing else does."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dartes.checkpoint import open_checkpoint
from dartes.errors import ConfigurationError
from dartes.noise import ServedDtype
from dartes_worker.engines.base import GenerationLimits, check_coverage
from dartes_worker.engines.hashing import HashingEngine
from dartes_worker.engines.registry import engine_factory

LIMITS = GenerationLimits(max_new_tokens=8)
PROMPTS = [f"{a}+{b}=" for a in range(10, 30) for b in range(0, 90, 9)]


@pytest.fixture
def engine(tiny_folder: Callable[[str], Path]) -> HashingEngine:
    folder = tiny_folder("llama")
    return HashingEngine.load(folder, open_checkpoint(folder), ServedDtype.BFLOAT16, 1, "cpu")


def texts(engine: HashingEngine, prompts: list[str], seed: int | None = None) -> list[str]:
    return [answer.text for answer in engine.generate(engine.encode(prompts), LIMITS, seed)]


def test_the_same_group_and_weights_give_the_same_answers(engine: HashingEngine) -> None:
    assert engine.generate(engine.encode(PROMPTS), LIMITS, None) == engine.generate(
        engine.encode(PROMPTS), LIMITS, None
    )


def test_another_composition_or_order_of_the_group_changes_answers(engine: HashingEngine) -> None:
    whole = texts(engine, PROMPTS)
    assert texts(engine, PROMPTS[:-1]) != whole[:-1]
    assert texts(engine, PROMPTS[::-1])[::-1] != whole


def test_one_changed_bit_of_the_served_weights_changes_answers(engine: HashingEngine) -> None:
    before = texts(engine, PROMPTS)
    storage = engine.segments()[3].storage
    assert isinstance(storage, np.ndarray)
    storage[5] ^= 1
    engine.weights_changed()
    assert texts(engine, PROMPTS) != before
    storage[5] ^= 1
    engine.weights_changed()
    assert texts(engine, PROMPTS) == before


def test_another_seed_changes_answers(engine: HashingEngine) -> None:
    assert texts(engine, PROMPTS, seed=1) != texts(engine, PROMPTS, seed=2)


def test_some_sums_are_right_and_some_are_not(engine: HashingEngine) -> None:
    right = [
        answer == str(sum(map(int, prompt.rstrip("=").split("+"))))
        for prompt, answer in zip(PROMPTS, texts(engine, PROMPTS), strict=True)
    ]
    assert 0.3 < sum(right) / len(right) < 0.7


def test_every_trained_element_is_served_once(
    engine: HashingEngine, tiny_folder: Callable[[str], Path]
) -> None:
    checkpoint = open_checkpoint(tiny_folder("llama"))
    check_coverage({info.name: info.count for info in checkpoint.trainable}, engine.segments(), "model")


def test_the_test_hook_replaces_the_engine() -> None:
    hook = {"DARTES_ENGINE": "dartes_worker.engines.hashing:HashingEngine.load"}
    assert engine_factory("Transformers", hook) == HashingEngine.load
    assert engine_factory("Transformers", {}).__qualname__ == "TransformersEngine.load"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "hook", "message"),
    [
        ("Tensorflow", "", "workers.engine = 'Tensorflow': must be one of Transformers"),
        ("Transformers", "nonsense", "must be module:attribute"),
        ("Transformers", "no_such_module:load", "No module named 'no_such_module'"),
        ("Transformers", "dartes.errors:load", "has no attribute 'load'"),
    ],
)
def test_an_unknown_engine_is_refused_by_name(name: str, hook: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        engine_factory(name, {"DARTES_ENGINE": hook})
