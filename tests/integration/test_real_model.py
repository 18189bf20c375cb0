"""The built-in model itself, not a stand-in: its answers do not depend on who computes them."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from dartes.builtin import builtin_model

from .conftest import SPEC
from .harness import EngineHook, with_changes
from .outcome import group_counts, identity
from .variants import Stage, coordinator_killed_at, workers

SLICES = 4

# Members sample; the held-out set is answered greedily, as every evaluation is.
SAMPLED = with_changes(
    SPEC,
    dataset__maxProblems=200,
    es={**SPEC["es"], "batchSize": 32, "iterations": 2},
    generation={"maxNewTokens": 8, "tokenBudget": 112, "temperature": 0.7},
)


@pytest.mark.slow
def test_sampled_and_greedy_answers_are_the_same_for_one_worker_with_slices_and_kills(tmp_path: Path) -> None:
    whole, sliced = tmp_path / "two-workers", tmp_path / "one-worker-in-slices-killed"
    spec = with_changes(SAMPLED, es__slicesPerMember=SLICES, workers__replicas=1)
    kills = coordinator_killed_at("before-report", "after-commit", seed=5)
    with ThreadPoolExecutor(2) as pool:
        runs = [
            pool.submit(workers(2).play, Stage(SAMPLED, EngineHook.REAL, tmp_path, groups=0), whole),
            pool.submit(kills.play, Stage(spec, EngineHook.REAL, tmp_path, groups=0), sliced),
        ]
        for run in runs:
            run.result()
    assert identity(sliced) == identity(whole)
    tokenizer = Tokenizer.from_file(str(builtin_model("addition") / "tokenizer.json"))
    assert min(group_counts(whole, lambda text: len(tokenizer.encode(text).ids))) >= SLICES, "none is empty"
