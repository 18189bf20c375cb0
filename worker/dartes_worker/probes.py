"""Health, readiness and metrics of a worker over HTTP, for the cluster's probes and Prometheus."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from prometheus_client import CollectorRegistry, Counter, Gauge

from dartes.serving import HttpServer
from dartes.v1 import population_pb2 as wire
from dartes_worker.observer import Observer

_PREFIX: Final = "dartes_worker_"

_KINDS: Final = {
    wire.EVALUATE_KIND_MEMBER: "member",
    wire.EVALUATE_KIND_PARENT: "parent",
    wire.EVALUATE_KIND_HELD_OUT: "held_out",
}


class Probes(Observer):
    """What a worker does, as metrics in the registry that is passed in, and whether it is ready.

    Ready is a worker that the present coordinator has admitted and whose weights it knows the digest of, as
    long as it answers on the presence stream. It is healthy as long as it can say so: a long generation is
    no death, and the agent's end is the process's.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registered = self._attested = self._present = False
        self._own = self._newest = 0
        self._server: HttpServer | None = None
        self._evaluations = Counter(
            f"{_PREFIX}evaluations", "Leases answered, by kind", ["kind"], registry=registry
        )
        self._tokens = Counter(f"{_PREFIX}generated_tokens", "Tokens generated in answers", registry=registry)
        self._prompt_tokens = Counter(f"{_PREFIX}prompt_tokens", "Tokens of prompts read", registry=registry)
        self._iteration = Gauge(
            f"{_PREFIX}iteration", "Updates that the weights have taken", registry=registry
        )
        self._behind = Gauge(
            f"{_PREFIX}iterations_behind", "Committed updates that the weights lack", registry=registry
        )
        memory = Gauge(
            f"{_PREFIX}device_memory_bytes",
            "Memory that the process holds on its device; resident memory where that is the CPU",
            registry=registry,
        )
        memory.set_function(device_memory_bytes)

    @classmethod
    def start(cls, address: str) -> Self:
        """Listen on `HOST:PORT`. Raises ConfigurationError where that can't be."""
        registry = CollectorRegistry()
        probes = cls(registry)
        probes._server = HttpServer(address, lambda: None, probes.readiness, registry)
        return probes

    def readiness(self) -> str | None:
        """Why the worker takes no part at present, or None."""
        if not self._registered:
            return "not registered with the coordinator"
        if not self._attested:
            return "the weights are being brought up"
        return None if self._present else "the connection to the coordinator is lost"

    def registered(self, incarnation: int) -> None:  # noqa: ARG002 - every one is the present one
        """Ready after the next attestation."""
        self._registered, self._attested = True, False

    def attested(self, iteration: int) -> None:
        """Ready while present."""
        self._attested = True
        self._own = iteration
        self._newest = max(self._newest, iteration)
        self._show()

    def told(self, iteration: int) -> None:
        """The newest iteration there is; after a fall-back to a backup it may be an older one."""
        self._newest = iteration
        self._show()

    def evaluated(self, results: Sequence[wire.EvaluateResult]) -> None:
        """Count answers and tokens."""
        for result in results:
            self._evaluations.labels(_KINDS.get(result.kind, "other")).inc()
            self._tokens.inc(result.generated_tokens)
            self._prompt_tokens.inc(result.prompt_tokens)

    def heard(self) -> None:
        """Connected."""
        self._present = True

    def parted(self) -> None:
        """Not connected."""
        self._present = False

    def _show(self) -> None:
        self._iteration.set(self._own)
        self._behind.set(max(0, self._newest - self._own))


def device_memory_bytes() -> int:
    """What the engine's allocator has taken of the GPU; without one, the resident memory of the process."""
    torch = sys.modules.get("torch")  # only an engine may import it
    if torch is not None and torch.cuda.is_initialized():
        return int(torch.cuda.memory_reserved())
    return _resident_bytes(Path("/proc/self/status"))


def _resident_bytes(status: Path) -> int:
    """`VmRSS` of a process's status file; 0 on systems without it."""
    if not status.exists():
        return 0
    for line in status.read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0
