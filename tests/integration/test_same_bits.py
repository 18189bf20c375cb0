"""Whatever happens to coordinator and workers, a job ends with the same journal, difficulty state and weights."""

import pytest

from dartes.cli.verify import verify
from dartes.spec import load_job
from dartes.state import RunFolder

from .harness import EngineHook, Identity, identity, run_to_end
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

VARIANTS = [
    workers(1),
    workers(4),
    slices(4),
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
