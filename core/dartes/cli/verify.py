"""`dartes verify`: recompute a run from its bits, rebuild its weights, compare every hash and digest."""

import json
import os
from collections.abc import Iterator, Mapping

from dartes.checkpoint import Checkpoint, SnapshotError, open_checkpoint, read_snapshot
from dartes.cli.recompute import Retold, retold
from dartes.difficulty import DifficultyState
from dartes.errors import DartesError
from dartes.journal import read_good_prefix, replay_digests, require_base, shapes_of
from dartes.model_source import resolve_model
from dartes.state import RunFolder


class VerificationError(DartesError):
    """Something stored is not what it should be; every finding is in the message."""


def verify(folder: RunFolder) -> list[str]:
    """Check a run; returns lines that say what was compared.

    Raises
    ------
    VerificationError
        Lists everything that differs.
    DivergenceError
        The stored bits do not lead to what is stored; later iterations can't be checked.
    ConfigurationError
        No run here, or the base model or data set can't be read or is another one.
    """
    with retold(folder) as run:
        state = DifficultyState.new(run.problem_count)
        decisions = [(d.row, d.row_hash) for d in run.decisions(state)]
        rows = [row for row, _ in decisions]
        hashes = [run.header.hash(), *(row_hash for _, row_hash in decisions)]
        lines = [
            f"{len(rows)} iterations: batches, difficulty, coefficients and hashes follow from the bits",
            f"difficulty state {state.digest()}",
            f"journal hash     {hashes[-1].hex()}",
        ]
        findings = list(_data_findings(run))
        findings += _file_findings(folder, hashes)
        checkpoint = _base_model(folder, run)
        attestations = run.reader.attestations()
        digests = replay_digests(
            checkpoint,
            shapes_of(checkpoint),
            rows,
            {len(rows), *(a[0] for a in attestations), *(s.iteration for s in run.reader.snapshots())},
            threads=os.cpu_count() or 1,
        )
        findings += _digest_findings(folder, run, {k: d.total for k, d in digests.items()}, len(rows))
        lines += [
            f"base model       {run.header.base_digest}",
            f"weight digest    {digests[len(rows)].total}  (rebuilt from base model and journal)",
            f"{len(attestations)} attestations and {len(run.reader.snapshots())} snapshots compared",
        ]
    if findings:
        raise VerificationError("\n  ".join([f"{folder.path}: {len(findings)} differences", *findings]))
    return [*lines, "verified: everything agrees"]


def _data_findings(run: Retold) -> Iterator[str]:
    if run.data_digest != run.header.data_digest:
        yield (
            f"training set: digest {run.data_digest[:16]}, "
            f"the run was made with {run.header.data_digest[:16]}"
        )


def _file_findings(folder: RunFolder, hashes: list[bytes]) -> Iterator[str]:
    good = read_good_prefix(folder.journal)
    if good.lost is not None:
        yield good.lost
    if good.journal.last_hash != hashes[-1] and good.lost is None:
        yield f"{folder.journal.name}: ends at another row than the store"
    recorded = [json.loads(line) for line in folder.metrics.read_text(encoding="utf-8").splitlines()]
    for line, row_hash in zip(recorded, hashes[1:], strict=False):
        if line["row_hash"] != row_hash.hex():
            yield f"{folder.metrics.name}: iteration {line['iteration']} names another row hash"


def _base_model(folder: RunFolder, run: Retold) -> Checkpoint:
    model = run.spec.model
    checkpoint = open_checkpoint(resolve_model(model.source, model.revision, folder.path))
    require_base(run.header, checkpoint)
    return checkpoint


def _digest_findings(
    folder: RunFolder, run: Retold, rebuilt: Mapping[int, str], iterations: int
) -> Iterator[str]:
    """What was recorded of weights, compared with `rebuilt`: digest by number of updates."""
    final = run.reader.meta_text("weight_digest")
    if run.reader.meta_text("finished_at") == str(iterations) and final != rebuilt[iterations]:
        yield f"final weight digest: {final} is recorded, {rebuilt[iterations][:16]} is rebuilt"
    for iteration, worker, attested, _ in run.reader.attestations():
        if attested != rebuilt.get(iteration):
            yield f"worker {worker} attested {attested[:16]} after iteration {iteration}, not what is rebuilt"
    for stored in run.reader.snapshots():
        path = folder.snapshots / stored.file
        try:
            snapshot = read_snapshot(path)
        except SnapshotError as error:
            yield str(error)
            continue
        if not snapshot.digest == stored.digest == rebuilt.get(stored.iteration):
            yield f"{path.name}: digest {snapshot.digest[:16]} is not what is rebuilt"
