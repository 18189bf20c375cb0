"""Settings that only whole runs can prove: antithetic members, and the parent's evaluation beside them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from dartes.cli.verify import verify
from dartes.journal import JournalRow
from dartes.state import RunFolder, RunReader

from .harness import EngineHook, run_to_end
from .outcome import Identity, identity

JobWriter = Callable[..., Path]


def test_antithetic_members_share_a_seed_and_replay_to_the_weights_that_workers_hold(
    job: JobWriter, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path / "run")
    shorter = job(es__antithetic=True, es__iterations=4)
    run_to_end(shorter, folder.path, "--workers", "1", engine=EngineHook.HASHING)
    with RunReader.open(folder) as reader:
        rows = [JournalRow.decode(it.row) for it in reader.iterations()]
        passed = [it.passed for it in reader.iterations()]
    for row in rows:
        assert np.array_equal(row.seeds[0::2], row.seeds[1::2])
        assert len(np.unique(row.seeds)) == len(row.seeds) // 2
    assert any(not np.array_equal(it[0::2], it[1::2]) for it in passed), "the two signs are two models"
    assert verify(folder)[-1] == "verified: everything agrees"


def test_evaluating_the_parent_records_its_answers_and_changes_nothing_else(
    job: JobWriter, tmp_path: Path, reference: Identity
) -> None:
    folder = RunFolder(tmp_path / "run")
    options = {"evaluation__parent": True, "es__slicesPerMember": 2}
    run_to_end(job(**options), folder.path, "--workers", "1", engine=EngineHook.HASHING)
    assert identity(folder.path) == reference
    with RunReader.open(folder) as reader:
        parents = [it.parent_passed for it in reader.iterations()]
    assert all(parent is not None for parent in parents)
    assert any(parent.any() for parent in parents if parent is not None)
