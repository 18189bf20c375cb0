"""Do all workers hold the same weights? Their digests per iteration, compared as they come in.

Pure. Where digests disagree nobody is believed: every worker rebuilds from a snapshot or the base model
and the journal, and only what grew from rebuilt weights counts from then on.
"""

from collections.abc import Iterable
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
    _digests: dict[str, str] = field(default_factory=dict)
    """By worker; empty while in doubt."""
    _must_rebuild: set[str] = field(default_factory=set)
    _rebuilt: set[str] = field(default_factory=set)
    """Workers that have rebuilt since weights last disagreed; from then on they only applied updates."""
    _in_doubt: bool = False
    _settled: str | None = None
    """What the first rebuilt weights after a disagreement hash to."""
    _past: dict[int, str] = field(default_factory=dict)

    def advance(self, iteration: int) -> None:
        """Start collecting digests of the weights after `iteration` updates."""
        if self.agreed is not None:
            self._past[self.iteration] = self.agreed
        self.iteration = iteration
        self._digests = {}
        self._settled = None
        self._in_doubt = False

    def must_rebuild(self, worker: str) -> bool:
        """Whether a worker's weights are in doubt. Being away for a while does not settle that."""
        return worker in self._must_rebuild

    def attest(self, attestation: Attestation, present: Iterable[str] = ()) -> bool:
        """Take a digest. Returns True where it newly disagrees, so that everything has to be checked.

        `present` are the workers that may hold weights of this iteration, attested or not.

        Raises
        ------
        ReplicaError
            Rebuilt weights disagree with other rebuilt weights: the arithmetic differs between machines.
        """
        worker, digest = attestation.worker, attestation.digest
        if attestation.rebuilt:
            self._must_rebuild.discard(worker)
            self._rebuilt.add(worker)
        if attestation.iteration != self.iteration or worker in self._must_rebuild:
            return False
        if self._settled is not None:
            self._compare_with_settled(worker, digest)
            return False
        if self._in_doubt:
            if worker in self._rebuilt:
                self._settled = digest
            else:
                self._must_rebuild.add(worker)
            return False
        # Compared with the worker's own earlier digest too: a new process may hold other weights.
        agrees = all(digest == other for other in self._digests.values())
        self._digests[worker] = digest
        if agrees:
            return False
        self.mismatches += 1
        self._in_doubt = True
        self._must_rebuild |= {*self._digests, *present}
        self._rebuilt.clear()
        self._digests = {}
        return True

    @property
    def agreed(self) -> str | None:
        """The digest that all attesting workers share, or None where there is none or a doubt."""
        if self._in_doubt:
            return self._settled
        return next(iter(self._digests.values()), None)

    def agreed_at(self, iteration: int) -> str | None:
        """The digest agreed upon after `iteration` updates, or None where none is known."""
        return self.agreed if iteration == self.iteration else self._past.get(iteration)

    def _compare_with_settled(self, worker: str, digest: str) -> None:
        assert self._settled is not None
        if digest == self._settled:
            return
        if worker in self._rebuilt:
            raise ReplicaError(
                f"worker {worker}: digest {digest[:16]} after a rebuild at iteration {self.iteration}, where "
                f"others rebuilt {self._settled[:16]}; the machines do not compute the same bits (faulty "
                "memory, or a changed library?)"
            )
        self._must_rebuild.add(worker)
