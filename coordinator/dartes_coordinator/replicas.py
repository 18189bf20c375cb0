"""Do all workers hold the same weights? Their digests per iteration, compared as they come in.

Pure. Where digests disagree nobody is believed: every worker rebuilds from a snapshot or the base model
and the journal, and only rebuilt digests count from then on.
"""

from dataclasses import dataclass, field

from dartes.errors import DartesError

from dartes_coordinator.store import Attestation


class ReplicaError(DartesError):
    """Two workers rebuilt the same journal and still hold different weights."""


@dataclass
class Replicas:
    """Digests of the current iteration, and who still has to rebuild."""

    iteration: int = 0
    mismatches: int = 0
    _digests: dict[str, Attestation] = field(default_factory=dict)
    _must_rebuild: set[str] = field(default_factory=set)
    _settled: str | None = None
    _in_doubt: bool = False

    def advance(self, iteration: int) -> None:
        """Start collecting digests of the weights after `iteration` updates."""
        self.iteration = iteration
        self._digests = {}
        self._settled = None
        self._in_doubt = False

    def must_rebuild(self, worker: str) -> bool:
        """Whether a worker's weights are in doubt."""
        return worker in self._must_rebuild

    def attest(self, attestation: Attestation) -> bool:
        """Take a digest. Returns True where it newly disagrees, so that everything has to be checked.

        Raises
        ------
        ReplicaError
            Rebuilt weights disagree with other rebuilt weights: the arithmetic differs between machines.
        """
        worker = attestation.worker
        if attestation.rebuilt:
            self._must_rebuild.discard(worker)
        if attestation.iteration != self.iteration:
            return False
        others = [a for a in self._digests.values() if a.worker != worker]
        self._digests[worker] = attestation
        if self._settled is not None:
            if attestation.digest == self._settled:
                return False
            if attestation.rebuilt:
                raise ReplicaError(
                    f"worker {worker}: digest {attestation.digest[:16]} after a rebuild at iteration "
                    f"{self.iteration}, where others rebuilt {self._settled[:16]}; the machines do not compute "
                    "the same bits (faulty memory, or a changed library?)"
                )
            self._must_rebuild.add(worker)
            return False
        if attestation.rebuilt and self._in_doubt:
            self._settled = attestation.digest
            self._must_rebuild |= {a.worker for a in others if not a.rebuilt and a.digest != self._settled}
            return False
        if all(a.digest == attestation.digest for a in others):
            return False
        self.mismatches += 1
        self._in_doubt = True
        self._must_rebuild |= set(self._digests)
        return True

    def forget(self, worker: str) -> None:
        """A worker has left; its digest stays, its rebuild is moot."""
        self._must_rebuild.discard(worker)

    @property
    def agreed(self) -> str | None:
        """The digest that all attesting workers share, or None where there is none or a doubt."""
        if self._settled is not None:
            return self._settled
        digests = {a.digest for a in self._digests.values()}
        return next(iter(digests)) if len(digests) == 1 and not self._must_rebuild else None
