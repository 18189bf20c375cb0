"""How many tokens a model takes, and whether the prompts of a job leave it room to answer.

Reads a model's configuration only; what is done about a prompt that is too long is the evaluator's.
"""

from collections.abc import Mapping
from typing import Final

from dartes.errors import ConfigurationError
from dartes_worker.engines.base import ContinuousEngine, Engine
from dartes_worker.problems import ProblemSet

LENGTH_KEYS: Final = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length")
"""What the families of models call it in their config.json."""

TOLERATED_SHARE: Final = 0.01
"""Share of prompts that may leave no room for an answer."""

LOOKED_AT: Final = 2_048
"""Prompts of a set that are looked at, evenly spread: tokenizing a million would hold up the start."""


def context_length(config: Mapping[str, object]) -> int | None:
    """Tokens of prompt and answer together, by a model's config.json; None where it names no limit."""
    for key in LENGTH_KEYS:
        value = config.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    inner = config.get("text_config")
    return context_length(inner) if isinstance(inner, dict) else None


def context_of(engine: Engine, config: Mapping[str, object]) -> int | None:
    """Tokens of prompt and answer together: the model's, or fewer where the engine was told so."""
    model = context_length(config)
    if not isinstance(engine, ContinuousEngine):
        return model
    return engine.max_model_len if model is None else min(model, engine.max_model_len)


def check_prompts(engine: Engine, problems: ProblemSet, context: int | None, name: str) -> str | None:
    """Count the prompts that leave no room; returns what to warn about.

    Raises
    ------
    ConfigurationError
        More than `TOLERATED_SHARE` of them.
    """
    if context is None:
        return None
    size = problems.size
    looked_at = range(size) if size <= LOOKED_AT else [size * k // LOOKED_AT for k in range(LOOKED_AT)]
    lengths = [len(ids) for ids in problems.encoded(engine, looked_at)]
    new_tokens = problems.limits.max_new_tokens
    long = [n for n in lengths if n + new_tokens > context]
    if not long:
        return None
    said = (
        f"{name}: {len(long)} of {len(lengths)} prompts leave no room for an answer: with {new_tokens} new "
        f"tokens (generation.maxNewTokens) the longest needs {max(long) + new_tokens}, and the model takes "
        f"{context}"
    )
    if len(long) > TOLERATED_SHARE * len(lengths):
        raise ConfigurationError(
            f"{said}. At most {TOLERATED_SHARE:.0%} may be so: lower generation.maxNewTokens, shorten "
            "task.prompt or leave those problems out"
        )
    return f"{said}. They are not answered, and fail"
