"""Whatever happens to its processes, a job ends with the same journal, difficulty state and weights."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from dartes.cli.verify import verify
from dartes.state import RunFolder

from .conftest import GROUPS, HELD_OUT_GROUPS
from .harness import EngineHook, run_to_end
from .outcome import Identity, group_counts, identity
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

SAME = [
    workers(1),
    workers(4),
    slices(SLICES),
    worker_killed(),
    coordinator_killed_at(*FAULT_POINTS, seed=1),
    coordinator_killed_at_random(10, seed=2),
    everything_killed(),
]


def misgrouped(stage: Stage, folder: Path) -> None:
    """Prompts are answered one by one, not in their groups."""
    run_to_end(stage.job(folder.name), folder, "--workers", "1", engine=EngineHook.MISGROUPING)


def other_budget(stage: Stage, folder: Path) -> None:
    """Groups are larger."""
    job = stage.job(folder.name, generation__tokenBudget=84)
    run_to_end(job, folder, "--workers", "1", engine=stage.engine)


DIFFERENT = [
    Variant("answers grouped in another way", misgrouped),
    Variant("another token budget", other_budget),
]

Played = dict[str, Future[Path]]


@pytest.fixture(scope="module")
def played(stage: Stage, reference: Identity) -> Iterator[Played]:
    """All variants, three at a time: a run that starts leaves most of the machine idle."""

    def play(variant: Variant) -> Path:
        folder = stage.root / variant.name.replace(" ", "-")
        variant.play(stage, folder)
        return folder

    with ThreadPoolExecutor(3) as pool:
        yield {variant.name: pool.submit(play, variant) for variant in [*SAME, *DIFFERENT]}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("variant", SAME, ids=lambda variant: variant.name)
def test_the_result_is_the_same_to_the_last_bit(
    variant: Variant, played: Played, reference: Identity
) -> None:
    folder = played[variant.name].result()
    assert identity(folder) == reference
    assert verify(RunFolder(folder))[-1] == "verified: everything agrees"


@pytest.mark.parametrize("variant", DIFFERENT, ids=lambda variant: variant.name)
def test_a_difference_in_what_is_computed_is_noticed(
    variant: Variant, played: Played, reference: Identity
) -> None:
    other = identity(played[variant.name].result())
    assert other.journal_hash != reference.journal_hash
    assert other.difficulty_digest != reference.difficulty_digest
    assert other.weight_digest != reference.weight_digest
    assert other.evaluations != reference.evaluations


def test_full_batches_have_a_group_for_every_slice_and_short_ones_leave_some_empty(
    stage: Stage, reference_folder: Path
) -> None:
    counts = group_counts(reference_folder)
    assert counts.count(SLICES) >= 10
    assert min(counts) < SLICES
    evaluations = 4
    assert stage.spec["es"]["populationSize"] * sum(counts) + evaluations * HELD_OUT_GROUPS == GROUPS
