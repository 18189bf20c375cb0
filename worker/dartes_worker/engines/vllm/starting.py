"""Start and stop vLLM: its environment, its arguments, the memory it gets, and what its refusals mean.

`plan_start` decides and `start` acts. Knows vLLM's names for settings; no weights and no prompts.
"""

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from dartes.checkpoint import Checkpoint
from dartes.errors import ConfigurationError, TransientError
from dartes.noise import ServedDtype
from dartes.plan.model_shape import ModelShape, check_tensor_parallel, shape_of_config
from dartes.plan.placement import Memory, choose_placement
from dartes.plan.plan import WORKSPACE_BYTES
from dartes.spec.roles import MasterPlacement
from dartes_worker.context import context_length
from dartes_worker.engines.base import OutOfMemory
from dartes_worker.engines.vllm.settings import VllmSettings

_DTYPES: Final = {
    ServedDtype.FLOAT32: "float32",
    ServedDtype.BFLOAT16: "bfloat16",
    ServedDtype.FLOAT16: "float16",
}
_LOADER: Final = ("LD_PRELOAD", "LD_LIBRARY_PATH")
"""What the system's loader reads: libraries that processes started later would load."""

_PASSING: Final = re.compile(r"Free memory on device|CUDA error|CUDA driver|NCCL")
"""What a GPU says that others still hold, or that is not well: another start may find it otherwise."""

_BLOCK_SLACK: Final = 4_096
"""Tokens of KV cache above what was asked: every running sequence leaves part of its last block empty."""

ENVIRONMENT: Final = {
    # The scheduler in this process: what runs together is then decided by the prompts alone.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_DO_NOT_TRACK": "1",
}
CPU_ENVIRONMENT: Final = {
    # Several workers may share a machine, and vLLM would bind all of them to the same cores.
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    # A few helpers would be compiled at the first answers, for 5 to 20 seconds.
    "TORCHDYNAMO_DISABLE": "1",
}


@dataclass(frozen=True, slots=True)
class Started:
    """What was decided before the start; `words` tells people where the master weights lie."""

    length: int
    placement: MasterPlacement
    words: str
    cpu: bool
    kv_bytes: int | None
    memory_utilization: float


def plan_start(
    folder: Path,
    checkpoint: Checkpoint,
    served: ServedDtype,
    device: str,
    settings: VllmSettings,
) -> Started:
    """Decide how vLLM is started; ConfigurationError where the settings do not fit model or memory."""
    shape = shape_of_config(checkpoint.config, checkpoint.parameter_count, str(folder))
    context = context_length(checkpoint.config)
    check_tensor_parallel(shape, settings.tensor_parallel, str(folder))
    length = settings.length(context)
    if context is not None and length > context:
        raise ConfigurationError(
            f"spec.workers.engineOptions.maxModelLen = {length}: the model takes {context} tokens; lower it"
        )
    master = 4 * checkpoint.parameter_count
    if device == "cpu":
        tokens = settings.cpu_tokens(length)
        words = (
            f"master weights: host memory, {master / 2**30:.2f} GiB; KV cache: room for {tokens} tokens "
            "(generation.tokenBudget)"
        )
        kv_bytes = (tokens + _BLOCK_SLACK) * shape.kv_values_per_token() * served.bytes_per_value
        return Started(length, MasterPlacement.DEVICE, words, True, kv_bytes, settings.memory_utilization)
    total = torch.cuda.get_device_properties(torch.device(device)).total_memory
    return plan_on_a_gpu(shape, total, served, settings, length)


def plan_on_a_gpu(
    shape: ModelShape, total_bytes: int, served: ServedDtype, settings: VllmSettings, length: int
) -> Started:
    """Decide where the master lies beside vLLM on GPUs with `total_bytes` of memory each."""
    ranks = settings.tensor_parallel
    kv_width = 1 if settings.kv_cache_dtype.startswith("fp8") else served.bytes_per_value
    chosen = choose_placement(
        Memory(
            total_bytes=total_bytes,
            utilization=settings.memory_utilization,
            served_bytes=shape.parameters * served.bytes_per_value // ranks,
            master_bytes=4 * shape.parameters // ranks,
            workspace_bytes=WORKSPACE_BYTES,
            kv_bytes_per_token=shape.kv_values_per_token(ranks) * kv_width,
            least_tokens=length,
            asked=settings.master_placement,
        )
    )
    size = f"{4 * shape.parameters / ranks / 2**30:.2f} GiB per GPU"
    words = f"master weights: {chosen.where.value.lower()}, {size}; {chosen.reason}"
    return Started(length, chosen.where, words, False, None, chosen.engine_utilization)


def start(folder: Path, served: ServedDtype, threads: int, settings: VllmSettings, started: Started) -> Any:
    """Start vLLM; returns its `LLM`."""
    _set_environment(threads, settings, started)
    torch.set_num_threads(threads)
    vllm = _import_vllm(started.cpu)
    _let_modules_be_looked_at()
    from dartes_worker.engines.vllm.extension import EXTENSION

    arguments: dict[str, Any] = {
        "dtype": _DTYPES[served],
        "max_model_len": started.length,
        "kv_cache_dtype": settings.kv_cache_dtype,
        "tensor_parallel_size": settings.tensor_parallel,
        "distributed_executor_backend": "uni" if settings.tensor_parallel == 1 else "mp",
        "generation_config": "vllm",
        "worker_extension_cls": EXTENSION,
        # Layouts stay as they were loaded: other backends shuffle the experts' weights.
        "moe_backend": "auto" if started.cpu else "triton",
        "seed": 0,
    }
    if started.cpu:
        arguments |= {
            "kv_cache_memory_bytes": started.kv_bytes,
            # Compiling for a CPU takes minutes, and the time goes into the same matrix products.
            "enforce_eager": True,
            "worker_cls": "dartes_worker.engines.vllm.plain_cpu.PlainCPUWorker",
        }
    else:
        arguments["gpu_memory_utilization"] = started.memory_utilization
    loader = {name: os.environ.get(name) for name in _LOADER}
    set_threads = torch.set_num_threads
    try:
        return vllm.LLM(str(folder), **arguments)
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise OutOfMemory(f"{folder}: the memory ran out while vLLM loaded it: {error}") from error
    except (ValueError, RuntimeError, NotImplementedError, AttributeError, KeyError, OSError) as error:
        if _PASSING.search(str(error)):
            raise TransientError(f"{folder}: vLLM did not start: {_reason(error)}") from error
        raise ConfigurationError(
            f"{folder}: vLLM {vllm.__version__} does not serve it: {_reason(error)}"
        ) from error
    except Exception as error:
        # Of a rank that did not start, vLLM says no more than this; the rank has said why.
        raise TransientError(
            f"{folder}: a process of vLLM did not start ({error}); its reason stands above in this log"
        ) from error
    finally:
        # What vLLM changes for its own processes is not for those that graders are started as.
        torch.set_num_threads = set_threads
        for name, value in loader.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def stop(llm: Any) -> None:
    """End vLLM, its processes and what it keeps per process, so that another one can be started."""
    from vllm.distributed import cleanup_dist_env_and_memory

    llm.llm_engine.engine_core.shutdown()
    cleanup_dist_env_and_memory()


def has_died(llm: Any, error: BaseException) -> bool:
    """Whether an error comes from a process of vLLM that is gone."""
    from vllm.v1.engine.exceptions import EngineDeadError

    executor = getattr(llm.llm_engine, "model_executor", None)
    return isinstance(error, EngineDeadError) or bool(getattr(executor, "is_failed", False))


def _set_environment(threads: int, settings: VllmSettings, started: Started) -> None:
    """Set what vLLM reads from the environment; what the user has set stays."""
    os.environ.update(ENVIRONMENT)
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    if started.cpu:
        os.environ.update(CPU_ENVIRONMENT)
        os.environ["OMP_NUM_THREADS"] = str(threads)
        if "torch._dynamo" in sys.modules:  # it has read its environment already
            sys.modules["torch._dynamo"].config.disable = True
    if settings.batch_invariant:
        os.environ["VLLM_BATCH_INVARIANT"] = "1"


def _let_modules_be_looked_at() -> None:
    """Have llvmlite's library object, which numba loads, refuse what it isn't asked for as others do.

    vLLM looks through the attributes of every loaded module for Triton kernels. That object answers to any
    name, `__dict__` too, with a wrapped C function.
    """
    from llvmlite.binding import ffi

    kind: Any = type(ffi.lib)
    original = kind.__getattr__
    if getattr(original, "dartes", False):
        return

    def only_symbols(self: Any, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return original(self, name)

    only_symbols.dartes = True  # type: ignore[attr-defined]
    kind.__getattr__ = only_symbols


def _import_vllm(cpu: bool) -> Any:
    try:
        import vllm
    except ImportError as error:
        raise ConfigurationError(
            f"spec.workers.engine = VLLM: {error}; use the image worker-vllm, or install vllm==0.32.0"
        ) from error
    from vllm.platforms import current_platform

    current_platform.import_kernels()
    if cpu and not hasattr(torch.ops._C, "init_cpu_memory_env"):
        raise ConfigurationError(
            "spec.workers.engine = VLLM: vLLM's library for CPUs does not load here; install libnuma.so.1 "
            "(Debian and Ubuntu: apt install libnuma1); a build for CUDA needs a GPU that PyTorch sees"
        )
    return vllm


def _reason(error: BaseException) -> str:
    """The line of an error that says something; validation errors put it below their title."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if "Value error" in line] or lines
    return (
        re.sub(r"\s*\[type=.*$", "", told[0].removeprefix("Value error, "))[:400]
        if told
        else type(error).__name__
    )
