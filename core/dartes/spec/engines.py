"""What settings of the engines do not go together with: pure rules over a valid job.

Knows the words of vLLM that a job may use, not vLLM.
"""

from collections.abc import Iterator
from typing import Final

from dartes.spec.job import JobSpec
from dartes.spec.problems import FieldProblem
from dartes.spec.roles import EngineKind, EngineOptions, MasterPlacement

KV_CACHE_DTYPES: Final = ("auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2")
"""Of vLLM's formats those that need nothing from the checkpoint and no further setting."""

_ONLY_ON_GPUS: Final = ("float16", "bfloat16")
"""Not among the formats that vLLM's attention for CPUs lists as its own."""

_OPTIONS: Final = "spec.workers.engineOptions"


def engine_errors(spec: JobSpec) -> Iterator[FieldProblem]:
    """Yield what an engine can't be started with."""
    workers, options = spec.workers, spec.workers.engine_options
    if workers.engine is not EngineKind.VLLM:
        if options != EngineOptions():
            yield FieldProblem(
                _OPTIONS,
                "",
                f"settings of the VLLM engine, and spec.workers.engine is {workers.engine.value}; set "
                "engine: VLLM, or leave them out",
            )
        return
    ranks, gpus = options.tensor_parallel_size, workers.gpus_per_worker
    if ranks is not None and gpus > 0 and ranks != gpus:
        yield FieldProblem(
            f"{_OPTIONS}.tensorParallelSize",
            str(ranks),
            f"{ranks}, and spec.workers.gpusPerWorker is {gpus}: a worker shares one model between all of "
            "its GPUs; set both alike, or leave tensorParallelSize out",
        )
    if options.kv_cache_dtype not in KV_CACHE_DTYPES:
        yield FieldProblem(
            f"{_OPTIONS}.kvCacheDtype",
            options.kv_cache_dtype,
            f"{options.kv_cache_dtype!r} is none of {', '.join(KV_CACHE_DTYPES)}",
        )
    elif gpus == 0 and options.kv_cache_dtype in _ONLY_ON_GPUS:
        allowed = ", ".join(name for name in KV_CACHE_DTYPES if name not in _ONLY_ON_GPUS)
        yield FieldProblem(
            f"{_OPTIONS}.kvCacheDtype",
            options.kv_cache_dtype,
            f"{options.kv_cache_dtype!r} needs gpusPerWorker above 0; on a CPU vLLM takes {allowed}",
        )


def engine_warnings(spec: JobSpec) -> Iterator[str]:
    """Yield what an engine does not do on the devices that a job asks for."""
    workers, options = spec.workers, spec.workers.engine_options
    if workers.engine is not EngineKind.VLLM or workers.gpus_per_worker > 0:
        return
    if options.batch_invariant:
        yield (
            f"{_OPTIONS}.batchInvariant: true has no effect with gpusPerWorker: 0: vLLM has batch-invariant "
            "kernels for GPUs only, so rewards may depend on what shares a batch; weights do not"
        )
    if options.master_placement is MasterPlacement.HOST:
        yield (
            f"{_OPTIONS}.masterPlacement: Host has no effect with gpusPerWorker: 0: all memory is the host's"
        )
