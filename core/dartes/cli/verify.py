"""`dartes verify`: recompute a run from its bits, rebuild its weights, compare every hash and digest.

It collects what differs and goes on as far as what is left still means something, so that one look shows
everything. What is compared in files beside the store is in `verify_files`.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dartes.checkpoint import Checkpoint, SnapshotError, open_checkpoint, read_snapshot
from dartes.cli.recompute import Retold, retold
from dartes.cli.status import is_held
from dartes.cli.verify_files import journal_findings, metrics_findings, summary_findings
from dartes.cli.verify_passes import wrong_passes
from dartes.data.training import load_evaluation_set
from dartes.difficulty import DifficultyState
from dartes.errors import DartesError
from dartes.evaluation import wrong_wins
from dartes.journal import JournalError, JournalRow, replay_digests, require_base, shapes_of
from dartes.model_source import resolve_model
from dartes.report.metrics import metrics_of
from dartes.spec import algorithm_fields
from dartes.state import DamagedStoreError, RunFolder, StoredEvaluation, StoredSnapshot
from dartes.state.history import DivergenceError


class VerificationError(DartesError):
    """Something stored is not what it should be; every finding is in the message."""

    def __init__(self, folder: RunFolder, findings: Sequence[str]) -> None:
        self.findings = tuple(findings)
        count = "1 difference" if len(findings) == 1 else f"{len(findings)} differences"
        super().__init__("\n  ".join([f"{folder.path}: {count}", *findings]))


@dataclass
class _Recomputed:
    """What the stored bits lead to, up to the first iteration that does not follow from them."""

    state: DifficultyState
    hashes: list[bytes]
    rows: list[JournalRow] = field(default_factory=list)
    metrics: list[dict[str, Any]] = field(default_factory=list)
    passes: list[str] = field(default_factory=list)
    """A sentence for each iteration whose passes are not the scores above its parent's."""
    divergence: str | None = None


def verify(folder: RunFolder) -> list[str]:
    """Check a run; returns lines that say what was compared.

    A run under way may be checked too: what is committed while it is looked at is left out.

    Raises
    ------
    VerificationError
        Lists everything that differs.
    ConfigurationError
        No run here, or the base model or data set can't be read.
    """
    running = is_held(folder)
    try:
        with retold(folder) as run:
            return _verified(folder, run, running)
    except DamagedStoreError as error:
        raise VerificationError(folder, [str(error)]) from error


def _verified(folder: RunFolder, run: Retold, running: bool) -> list[str]:
    run.reader.check_pages()
    evaluations = run.reader.evaluations()
    told = _recompute(run, evaluations)
    count = len(told.rows)
    findings = [*_job_findings(run), *_data_findings(folder, run), *wrong_wins(evaluations), *told.passes]
    if told.divergence is not None:
        findings.append(f"{told.divergence}; later iterations can't be checked")
    complete = not running and told.divergence is None
    findings += journal_findings(folder, run.header, told.hashes, complete)
    findings += metrics_findings(folder, told.metrics, complete)
    if complete:
        findings += summary_findings(folder, run.reader, run.settings)
    attestations = [a for a in run.reader.attestations() if a[0] <= count]
    # In a cluster the workers keep them, in folders of their own.
    recorded = run.reader.snapshots() if folder.snapshots.is_dir() else []
    snapshots = [s for s in recorded if s.iteration <= count]
    checkpoint = _base_model(folder, run)
    try:
        require_base(run.header, checkpoint)
    except JournalError as error:
        # No digest means anything with other weights.
        raise VerificationError(folder, [*findings, str(error)]) from error
    digests = replay_digests(
        checkpoint,
        shapes_of(checkpoint),
        told.rows,
        {count, *(a[0] for a in attestations), *(s.iteration for s in snapshots)},
        threads=os.cpu_count() or 1,
    )
    rebuilt = {iteration: digest.total for iteration, digest in digests.items()}
    if complete:
        findings += _final_findings(run, rebuilt, count)
    findings += _attestation_findings(attestations, rebuilt)
    findings += _snapshot_findings(folder, snapshots, rebuilt)
    if findings:
        raise VerificationError(folder, findings)
    stages = len(run.settings.stages)
    of_stages = f" of {stages} stages" if stages > 1 else ""
    return [
        f"{count} iterations{of_stages}: batches, difficulty, coefficients and hashes follow from the bits",
        f"difficulty state {told.state.digest()}",
        f"journal hash     {told.hashes[-1].hex()}",
        f"base model       {run.header.base_digest}",
        f"weight digest    {rebuilt[count]}  (rebuilt from base model and journal)",
        f"compared: journal, metrics and summary, attestations ({len(attestations)}), "
        f"snapshots ({len(snapshots)}), evaluations ({len(evaluations)})",
        "verified: everything agrees",
    ]


def _recompute(run: Retold, evaluations: Sequence[StoredEvaluation]) -> _Recomputed:
    told = _Recomputed(run.new_state(), [run.header.hash()])
    try:
        for decision in run.decisions(told.state):
            iteration = decision.stored.iteration
            scores = [e for e in evaluations if e.iteration == iteration]
            told.metrics.append(metrics_of(decision.stored, decision.batch, decision.scored, scores))
            told.passes += wrong_passes(run.settings, told.state, decision)
            told.rows.append(decision.row)
            told.hashes.append(decision.row_hash)
    except DivergenceError as error:
        told.divergence = str(error)
    return told


def _job_findings(run: Retold) -> Iterator[str]:
    """Fields that decide the result but leave no trace in the bits, such as sigma, are in the header only."""
    recorded, now = run.header.algorithm_fields, algorithm_fields(run.spec)
    for path in sorted(recorded.keys() | now.keys()):
        if recorded.get(path) != now.get(path):
            yield (
                f"job.yaml: spec.{path} is {now.get(path)!r}, the run was made with {recorded.get(path)!r}"
            )


def _data_findings(folder: RunFolder, run: Retold) -> Iterator[str]:
    if run.data_digest != run.header.data_digest:
        yield (
            f"{_training_sources(run)}: digest {run.data_digest[:16]}, "
            f"the run was made with {run.header.data_digest[:16]}"
        )
    recorded = run.reader.meta_json("data_digests") or {}
    for held_out in run.spec.evaluation.all_sets:
        digest = load_evaluation_set(run.spec, held_out.name, folder.path).digest
        if recorded.get(held_out.name, digest) != digest:
            yield (
                f"evaluation set {held_out.name!r}: digest {digest[:16]}, "
                f"the run was made with {recorded[held_out.name][:16]}"
            )


def _training_sources(run: Retold) -> str:
    sources = [one.dataset.source for sets in run.spec.training_stages() for one in sets]
    return f"training set{'s' if len(sources) > 1 else ''} {', '.join(sources)}"


def _base_model(folder: RunFolder, run: Retold) -> Checkpoint:
    model = run.spec.model
    return open_checkpoint(resolve_model(model.source, model.revision, folder.path))


def _final_findings(run: Retold, rebuilt: Mapping[int, str], iterations: int) -> Iterator[str]:
    final = run.reader.meta_text("weight_digest")
    if run.reader.meta_text("finished_at") == str(iterations) and final != rebuilt[iterations]:
        recorded = "none" if final is None else final[:16]
        yield f"final weight digest: {recorded} is recorded, {rebuilt[iterations][:16]} is rebuilt"


def _attestation_findings(
    attestations: Sequence[tuple[int, str, str, bool]], rebuilt: Mapping[int, str]
) -> Iterator[str]:
    for iteration, worker, attested, _ in attestations:
        if attested != rebuilt[iteration]:
            yield (
                f"worker {worker} attested {attested[:16]} after iteration {iteration}, "
                f"{rebuilt[iteration][:16]} is rebuilt"
            )


def _snapshot_findings(
    folder: RunFolder, snapshots: Sequence[StoredSnapshot], rebuilt: Mapping[int, str]
) -> Iterator[str]:
    for stored in snapshots:
        path = folder.snapshots / stored.file
        try:
            digest = read_snapshot(path).digest
        except SnapshotError as error:
            yield str(error)
            continue
        if not digest == stored.digest == rebuilt[stored.iteration]:
            yield f"{path.name}: digest {digest[:16]}, {rebuilt[stored.iteration][:16]} is rebuilt"
