"""Where a run stands: the difficulty state, the chain of row hashes and what was evaluated.

Loaded at start and moved by commits; it decides nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from dartes.difficulty import AlgorithmSettings, Batch, DifficultyState, Scored, advance
from dartes.evaluation import first_evaluations
from dartes.state import StoredEvaluation, StoredIteration, StoredSnapshot
from dartes_coordinator.pace import Pace


@dataclass
class Progress:
    """Where the run stands after its last commit."""

    state: DifficultyState
    header: bytes | None = None
    hashes: list[bytes] = field(default_factory=list)
    """Hash of the header, then of each journal row."""
    reward_digest: str | None = None
    """Digest of the user's reward source as recorded last, "" for none; None before the first worker."""
    fingerprints: list[str] = field(default_factory=list)
    """Every engine that has taken part, as JSON objects, in the order of their first appearance."""
    snapshots: dict[int, StoredSnapshot] = field(default_factory=dict)
    pace: Pace = field(default_factory=Pace)
    _evaluations: dict[tuple[int, str], StoredEvaluation] = field(default_factory=dict)

    @property
    def iteration(self) -> int:
        """Number of committed iterations."""
        return max(0, len(self.hashes) - 1)

    @property
    def evaluations(self) -> list[StoredEvaluation]:
        """By iteration, then set name."""
        return [self._evaluations[key] for key in sorted(self._evaluations)]

    def evaluated(self, evaluations: Iterable[StoredEvaluation]) -> None:
        """Note committed evaluations; a later one of the same weights replaces an earlier one."""
        # Texts and votes are for reports, which read the store.
        self._evaluations.update(
            {(e.iteration, e.set_name): replace(e, completions=(), keys=None) for e in evaluations}
        )

    def first_evaluations(self) -> dict[str, StoredEvaluation]:
        """The earliest evaluation of each set: against it wins are counted."""
        return first_evaluations(self.evaluations)

    def is_evaluated(self, set_name: str) -> bool:
        """Whether the present weights were evaluated on a set."""
        return (self.iteration, set_name) in self._evaluations

    def committed(
        self, settings: AlgorithmSettings, stored: StoredIteration, batch: Batch, scored: Scored
    ) -> None:
        """Move on by one committed iteration, at a stage's end into the next one."""
        advance(settings, self.state, batch, scored)
        self.note(stored, scored)

    def note(self, stored: StoredIteration, scored: Scored) -> None:
        """As `committed`, where the difficulty state is moved by somebody else."""
        self.hashes.append(stored.row_hash)
        self.pace.add(
            stored.beside["seconds"], stored.beside["generated_tokens"], float(scored.pass_rates.mean())
        )

    def on_chain(self, iteration: int, row_hash: bytes) -> bool:
        """Whether weights after `iteration` updates, with this last row hash, are of this run."""
        return iteration < len(self.hashes) and self.hashes[iteration] == row_hash
