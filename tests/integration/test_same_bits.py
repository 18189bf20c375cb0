"""Whatever happens to coordinator and workers, a job ends with the same journal, difficulty state and weights."""

from pathlib import Path

import pytest
from dartes.cli.verify import verify
from dartes.state import RunFolder

from .harness import EngineHook, Identity, group_counts, identity, run_to_end
from .variants import (
    FAULT_POINTS,
    Stage,
    Variant,
    coordinator_killed_at,
    coordinator_killed_at_random,
    everything_killed,
    slices,
    worker_killed,
    workers,
)

SLICES = 4

VARIANTS = [
    workers(1),
    workers(4),
    slices(SLICES),
    worker_killed(),
    coordinator_killed_at(*FAULT_POINTS, seed=1),
    coordinator_killed_at_random(10, seed=2),
    everything_killed(),
]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_the_result_is_the_same_to_the_last_bit(variant: Variant, stage: Stage, reference: Identity) -> None:
    folder = stage.root / variant.name.replace(" ", "-")
    variant.play(stage, folder)
    assert identity(folder) == reference
    assert verify(RunFolder(folder))[-1] == "verified: everything agrees"


def test_full_batches_have_a_group_for_every_slice_and_short_ones_leave_some_empty(
    reference_folder: Path,
) -> None:
    counts = group_counts(reference_folder)
    assert counts.count(SLICES) >= 10
    assert min(counts) < SLICES


def test_answers_that_are_grouped_in_another_way_are_noticed(stage: Stage, reference: Identity) -> None:
    folder = stage.root / "misgrouped"
    run_to_end(stage.job(folder.name), folder, "--workers", "1", engine=EngineHook.MISGROUPING)
    other = identity(folder)
    assert other.journal_hash != reference.journal_hash
    assert other.difficulty_digest != reference.difficulty_digest
    assert other.weight_digest != reference.weight_digest
    assert other.evaluations != reference.evaluations


@pytest.mark.parametrize("change", [{"generation__tokenBudget": 84}, {"es__seed": 4}], ids=str)
def test_another_token_budget_or_seed_gives_another_result(
    change: dict[str, int], stage: Stage, reference: Identity
) -> None:
    folder = stage.root / "-".join(change)
    run_to_end(stage.job(folder.name, **change), folder, "--workers", "1", engine=stage.engine)
    other = identity(folder)
    assert other.journal_hash != reference.journal_hash
    assert other.difficulty_digest != reference.difficulty_digest
    assert other.weight_digest != reference.weight_digest
