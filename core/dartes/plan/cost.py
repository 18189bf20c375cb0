"""How long an iteration takes, by a model of its parts: the formulas of `docs/cost.md`, and nothing else.

Every part is limited by memory bandwidth or by arithmetic, at a share of the data sheet's figure that is
a constant here and has its source there. Pure.
"""

from dataclasses import dataclass
from math import ceil
from typing import Final

from dartes.plan.devices import Device
from dartes.plan.model_shape import ModelShape

BANDWIDTH_SHARE: Final = 0.7
"""Of a device's memory bandwidth, while decoding."""

ARITHMETIC_SHARE: Final = 0.35
"""Of a device's dense operations, in large matrix products."""

STEP_SECONDS: Final = 0.001
"""What one step of decoding costs vLLM on a GPU besides: scheduling, launches, sampling."""

PLAIN_STEP_SECONDS: Final = 0.03
"""The same for the Transformers engine on a GPU, which launches each kernel by itself: assumed."""

WIRE_SECONDS: Final = 0.005
"""Per member: asking, reporting, the commit's share."""

HOST_BANDWIDTH: Final = 20e9
"""Bytes per second between a GPU and the host's pinned memory."""

READ_BANDWIDTH: Final = 1e9
"""Bytes per second at which weights are read from a disk."""


@dataclass(frozen=True, slots=True)
class Load:
    """What an iteration asks for: members, prompts of each, tokens of a prompt and of an answer."""

    members: int
    prompts: int
    prompt_tokens: int
    new_tokens: int


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker: its GPUs, bytes per served number, room in the KV cache, where the master lies."""

    device: Device
    gpus: int
    served_width: int
    kv_width: int
    kv_tokens: int
    master_on_host: bool
    step_seconds: float = STEP_SECONDS


@dataclass(frozen=True, slots=True)
class Iteration:
    """Seconds of one iteration by part, as seen from the clock, and of all workers together."""

    generate: float
    write: float
    wire: float
    update: float
    members_each: int

    @property
    def seconds(self) -> float:
        """The whole iteration."""
        return self.generate + self.write + self.wire + self.update


def generate_seconds(shape: ModelShape, load: Load, worker: Worker) -> float:
    """Seconds in which one worker answers all prompts of one member."""
    rate = worker.gpus * worker.device.operations * ARITHMETIC_SHARE
    bandwidth = worker.gpus * worker.device.bandwidth * BANDWIDTH_SHARE
    each = load.prompt_tokens + load.new_tokens
    together = max(1, min(load.prompts, worker.kv_tokens // each))
    # Continuous batching starts a sequence wherever one ends, so there are no whole waves.
    waves = load.prompts / together
    prefill = 2.0 * shape.parameters * load.prompts * load.prompt_tokens / rate
    half_full = load.prompt_tokens + load.new_tokens / 2
    cache = together * half_full * worker.gpus * shape.kv_values_per_token(worker.gpus) * worker.kv_width
    reading = (shape.parameters * worker.served_width + cache) / bandwidth
    multiplying = 2.0 * shape.parameters * together / rate
    return prefill + waves * load.new_tokens * (max(reading, multiplying) + worker.step_seconds)


def write_seconds(shape: ModelShape, worker: Worker) -> float:
    """Seconds to write one member: read the master, make the noise, write what is served."""
    own = shape.parameters / worker.gpus
    memory = own * (4 + worker.served_width) / (worker.device.bandwidth * BANDWIDTH_SHARE)
    over = own * 4 / HOST_BANDWIDTH if worker.master_on_host else 0.0
    return max(memory, _noise_seconds(own, worker)) + over


def update_seconds(shape: ModelShape, members: int, worker: Worker, iterations: int = 1) -> float:
    """Seconds to apply `iterations` updates of `members` members in one pass over the master."""
    own = shape.parameters / worker.gpus
    memory = own * 8 / (worker.device.bandwidth * BANDWIDTH_SHARE)
    over = own * 8 / HOST_BANDWIDTH if worker.master_on_host else 0.0
    return max(memory, _noise_seconds(own * members * iterations, worker)) + over


def iteration(shape: ModelShape, load: Load, worker: Worker, workers: int, slices: int = 1) -> Iteration:
    """One iteration with so many workers; each member is answered in `slices` parts."""
    share = Load(load.members, ceil(load.prompts / slices), load.prompt_tokens, load.new_tokens)
    leases = ceil(load.members * slices / workers)
    return Iteration(
        generate=leases * generate_seconds(shape, share, worker),
        write=leases * write_seconds(shape, worker),
        wire=leases * WIRE_SECONDS,
        update=update_seconds(shape, load.members, worker),
        members_each=leases,
    )


def join_seconds(shape: ModelShape, members: int, worker: Worker, missing: int) -> float:
    """Seconds until a new worker is caught up: read the weights, apply `missing` iterations."""
    return shape.parameters * 4 / READ_BANDWIDTH + update_seconds(shape, members, worker, missing)


def useful_workers(members: int, slices: int) -> list[int]:
    """Numbers of workers with which each has fewer leases than with one worker less; ascending."""
    leases = members * slices
    useful: list[int] = []
    for workers in range(1, leases + 1):
        if not useful or ceil(leases / workers) < ceil(leases / useful[-1]):
            useful.append(workers)
    return useful


def _noise_seconds(numbers: float, worker: Worker) -> float:
    return numbers / worker.device.noise
