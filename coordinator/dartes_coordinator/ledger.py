"""Committing: what is decided becomes one transaction of the store, then the files beside it follow.

It keeps what waits for the next transaction (attestations, events). When to commit is decided elsewhere; a
full disk is an UnwritableError after which the same call can be made again.
"""

import json
import logging
import time
from collections.abc import Mapping
from typing import Any

from dartes.difficulty import score
from dartes.journal import JournalHeader
from dartes.state import StoredSnapshot
from dartes_coordinator.evaluating import stored_evaluations
from dartes_coordinator.faults import FaultPlan, FaultPoint
from dartes_coordinator.observer import Observer
from dartes_coordinator.outputs import Outputs
from dartes_coordinator.plan import BACKUP_EVERY, RunPlan
from dartes_coordinator.progress import Progress
from dartes_coordinator.records import judged_round, stored_iteration
from dartes_coordinator.round import Round
from dartes_coordinator.store import Attestation, Event, MetaValues, Store

log = logging.getLogger(__name__)


NOTED = ("DataWarning", "MixedEngines", "Restored", "RewardChanged")
"""Events that change what a run's figures mean, or cost some of it; the others tell how it went on."""

MOST_NOTES = 32


class Ledger:
    """The store of a run and the files that follow it, as one incarnation writes them."""

    def __init__(
        self, plan: RunPlan, store: Store, outputs: Outputs, progress: Progress, faults: FaultPlan
    ) -> None:
        self._plan = plan
        self._store = store
        self._outputs = outputs
        self._progress = progress
        self._faults = faults
        self.observer = Observer()
        """Told of each committed iteration."""
        self.notes: list[str] = []
        """Events of this incarnation that whoever follows the run is told at once."""
        self._attestations: list[Attestation] = []
        self._events: list[Event] = []
        self._is_recorded_as_done = False
        self._commit_seconds: float | None = None

    @property
    def incarnation(self) -> int:
        """Of the coordinator that writes."""
        return self._store.incarnation

    def event(self, reason: str, text: str) -> None:
        """Tell people something: in the log now, in the store with the next transaction."""
        log.warning("%s: %s", reason, text)
        if reason in NOTED and len(self.notes) < MOST_NOTES:
            self.notes.append(text)
        self._events.append(Event(self._outputs.wall_time(), reason, text))

    def attested(self, attestation: Attestation) -> None:
        """Record a digest with the next transaction."""
        self._attestations.append(attestation)

    def establish(self, header: bytes, base_digest: str, reward_digest: str, fingerprints: list[str]) -> None:
        """Record what the first worker brought along, header and reward; and who takes part."""
        self._write(
            {
                "journal_header": header,
                "base_digest": base_digest,
                "reward_digest": reward_digest,
                "fingerprints": json.dumps([json.loads(f) for f in fingerprints]),
            }
        )
        self._progress.reward_digest = reward_digest
        self._progress.fingerprints = fingerprints
        if self._progress.header is None:
            self._progress.header = header
            self._progress.hashes = [JournalHeader.decode(header).hash()]
            self._outputs.start_journal(header)

    def commit(self, round_: Round, beside: Mapping[str, Any]) -> None:
        """Commit a complete round: an iteration with its evaluations, or evaluations alone.

        `beside` needs `seconds` and `wire_bytes`.
        """
        began = time.perf_counter()
        evaluations = stored_evaluations(
            round_.iteration, round_.evaluations, self._progress.first_evaluations()
        )
        batch = round_.batch
        if batch is None:
            self._store.commit(None, evaluations, self._attestations, self._events)
            self._written()
            self._progress.evaluated(evaluations)
            round_.committed = True
            return
        settings, state = self._plan.settings, self._progress.state
        judged = judged_round(settings, state, round_, batch)
        scored = score(settings, state, batch, judged.members)
        stored = stored_iteration(
            settings,
            round_,
            batch,
            judged,
            scored,
            self._progress.hashes[-1],
            {
                "incarnation": self._store.incarnation,
                "committed_at": self._outputs.wall_time(),
                # Of the commit before: this one's own time is not known inside its transaction.
                "commit_seconds": self._commit_seconds,
                **beside,
            },
        )
        self._store.commit(
            stored,
            evaluations,
            self._attestations,
            self._events,
            before_commit=lambda: self._faults.reach(FaultPoint.INSIDE_TRANSACTION),
        )
        self._faults.reach(FaultPoint.AFTER_COMMIT)
        self._written()
        self._progress.evaluated(evaluations)
        self._progress.committed(settings, stored, batch, scored)
        round_.committed = True
        line = self._outputs.append(stored, batch, scored, evaluations)
        if self._progress.iteration % BACKUP_EVERY == 0:
            self._outputs.back_up(self._store, self._progress.iteration, self._plan.keep)
        self._commit_seconds = time.perf_counter() - began
        self.observer.committed(line, scored, self._commit_seconds)
        log.info(
            "iteration %d committed: pass rate %.3f, in %.3f s",
            self._progress.iteration,
            line["pass_rate"],
            line["seconds"],
        )

    def finish(self, weight_digest: str) -> None:
        """Record that the run is done, then write its summary and a last backup."""
        iteration = self._progress.iteration
        if not self._is_recorded_as_done:
            done = Event(self._outputs.wall_time(), "Completed", f"{iteration} iterations are committed")
            self._store.commit(
                None,
                attestations=self._attestations,
                events=[*self._events, done],
                meta={"status": "done", "finished_at": str(iteration), "weight_digest": weight_digest},
            )
            self._written()
            self._is_recorded_as_done = True
            log.info("%s: %s", done.reason, done.text)
        self._outputs.finish(self._plan.name, self._plan.settings, self._plan.first_set)
        self._outputs.back_up(self._store, iteration, self._plan.keep)

    def keep_snapshot(self, snapshot: StoredSnapshot) -> None:
        """Record a snapshot; the oldest ones beyond `keep` go, first from the store, then from the disk."""
        known = {**self._progress.snapshots, snapshot.iteration: snapshot}
        old = sorted(known)[: -self._plan.keep]
        self._store.keep_snapshot(snapshot, old)
        self._progress.snapshots = {k: s for k, s in known.items() if k not in old}
        self._outputs.drop_snapshots([known[k].file for k in old])

    def flush(self) -> None:
        """Write what waits for a transaction, and something in any case: does the disk take data?"""
        self._write({"flushed_at": str(self._outputs.wall_time())})

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def journal_rows(self, start: int, limit: int) -> list[tuple[int, bytes, bytes]]:
        """(iteration, encoded row, row hash) of committed iterations."""
        return self._outputs.journal_rows(start, limit)

    def _write(self, meta: MetaValues) -> None:
        self._store.commit(None, attestations=self._attestations, events=self._events, meta=meta)
        self._written()

    def _written(self) -> None:
        self._attestations, self._events = [], []
