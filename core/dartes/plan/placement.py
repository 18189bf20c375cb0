"""Where the float32 master weights lie: on the GPU, or in the host's memory where it has no room for them.

Pure arithmetic over bytes of one GPU. The master's number format is never a way out: only its place adapts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from dartes.errors import ConfigurationError
from dartes.spec.roles import MasterPlacement

STAGING_BYTES: Final = 64 * 2**20
"""GPU memory through which a master in the host's memory is streamed."""

TABLE_BYTES: Final = 4 * 65_536
"""The table of normals, on every device that writes noise."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of one GPU: what it has and what is wanted of it.

    Attributes
    ----------
    total_bytes, utilization
        The GPU's memory, and the share of it that this worker may take.
    served_bytes, master_bytes
        Weights as they are served, and the float32 master.
    workspace_bytes
        Activations, CUDA graphs and the like.
    kv_bytes_per_token, least_tokens
        KV cache of one token over all layers, and how many tokens it must hold: one longest sequence.
    asked
        Where the job wants the master; None: wherever there is room.
    """

    total_bytes: int
    utilization: float
    served_bytes: int
    master_bytes: int
    workspace_bytes: int
    kv_bytes_per_token: int
    least_tokens: int
    asked: MasterPlacement | None = None

    @property
    def budget(self) -> int:
        """Bytes that the worker may take."""
        return int(self.total_bytes * self.utilization)

    def beside_the_engine(self, where: MasterPlacement) -> int:
        """Bytes that the master takes of the GPU, with what writing members needs."""
        own = self.master_bytes if where is MasterPlacement.DEVICE else STAGING_BYTES
        return own + TABLE_BYTES

    def left_for_cache(self, where: MasterPlacement) -> int:
        """Bytes that are left for the KV cache; may be negative."""
        return self.budget - self.served_bytes - self.workspace_bytes - self.beside_the_engine(where)

    @property
    def least_cache(self) -> int:
        """Bytes that the KV cache needs at least."""
        return self.least_tokens * self.kv_bytes_per_token


@dataclass(frozen=True, slots=True)
class Placement:
    """What was chosen.

    Attributes
    ----------
    engine_utilization
        Share of the GPU that the engine may take, so that the master fits beside it: what vLLM is told as
        gpu_memory_utilization.
    kv_tokens
        Tokens for which the KV cache then has room.
    reason
        Why, in a few words for people.
    """

    where: MasterPlacement
    engine_utilization: float
    kv_tokens: int
    reason: str


def choose_placement(memory: Memory) -> Placement:
    """Choose where the master lies.

    Raises
    ------
    ConfigurationError
        The KV cache would not hold one longest sequence; says how much is short and what would fit.
    """
    places = (MasterPlacement.DEVICE, MasterPlacement.HOST) if memory.asked is None else (memory.asked,)
    for where in places:
        left = memory.left_for_cache(where)
        if left >= memory.least_cache:
            tokens = left // max(1, memory.kv_bytes_per_token)
            return Placement(
                where,
                (memory.budget - memory.beside_the_engine(where)) / memory.total_bytes,
                tokens,
                f"{_why(memory, where)}; KV cache of about {tokens:,} tokens",
            )
    raise ConfigurationError(_too_little(memory, places[-1]))


def _why(memory: Memory, where: MasterPlacement) -> str:
    if memory.asked is not None:
        return "as masterPlacement asks"
    if where is MasterPlacement.DEVICE:
        return "there is room on the GPU"
    short = memory.least_cache - memory.left_for_cache(MasterPlacement.DEVICE)
    return f"on the GPU {_gib(short)} are short"


def _too_little(memory: Memory, where: MasterPlacement) -> str:
    short = memory.least_cache - memory.left_for_cache(where)
    return (
        f"{_gib(short)} of GPU memory are short: of {_gib(memory.total_bytes)} the worker may take "
        f"{_gib(memory.budget)}, and needs {_gib(memory.served_bytes)} for the served weights, "
        f"{_gib(memory.beside_the_engine(where))} for the master weights ({where.value}), "
        f"{_gib(memory.workspace_bytes)} to work in and {_gib(memory.least_cache)} of KV cache for one "
        f"sequence of {memory.least_tokens:,} tokens. Would fit: {'; '.join(_ways_out(memory, where))}"
    )


def _ways_out(memory: Memory, where: MasterPlacement) -> Iterator[str]:
    """Name changes of the job in the words of its fields, each enough by itself."""
    host = memory.left_for_cache(MasterPlacement.HOST)
    if where is MasterPlacement.DEVICE and host >= memory.least_cache:
        yield "engineOptions.masterPlacement: Host"
    left = memory.left_for_cache(where)
    if left >= memory.kv_bytes_per_token * 256:
        yield f"engineOptions.maxModelLen: {left // max(1, memory.kv_bytes_per_token)}"
    if left >= memory.least_cache // 2:
        yield "engineOptions.kvCacheDtype: fp8, unless it is that already"
    short = memory.least_cache - left
    share = (memory.budget + short) / memory.total_bytes
    if share <= 0.98:
        yield f"engineOptions.gpuMemoryUtilization: {share + 0.005:.2f}"
    whole = memory.served_bytes + memory.beside_the_engine(where) + memory.least_cache
    fitting = (
        ranks for ranks in (2, 4, 8, 16, 32, 64) if whole / ranks + memory.workspace_bytes <= memory.budget
    )
    for ranks in fitting:
        yield f"gpusPerWorker: {ranks} times as many, where the heads can be shared so"
        break
    yield f"a GPU with {_gib((memory.budget + short) / memory.utilization)}"


def _gib(count: float) -> str:
    return f"{count / 2**30:.1f} GiB"
