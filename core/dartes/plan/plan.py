"""The plan of a job: what fits where, and what it will take. Puts the parts together; pure.

Decides nothing that a run does not decide itself: the placement is the engine's own arithmetic.
"""

from dataclasses import dataclass, replace
from typing import Final

from dartes.errors import ConfigurationError
from dartes.plan import cost
from dartes.plan.devices import Device, cpu_threads
from dartes.plan.model_shape import ModelShape, check_tensor_parallel
from dartes.plan.placement import TABLE_BYTES, Memory, Placement, choose_placement
from dartes.spec import JobSpec
from dartes.spec.roles import EngineKind, MasterPlacement

WORKSPACE_BYTES: Final = 2 * 2**30
"""GPU memory set aside for activations and CUDA graphs."""

_WIDTH: Final = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True, slots=True)
class Assumed:
    """What a job file doesn't say: lengths in tokens, the number of workers, money per GPU and hour."""

    prompt_tokens: int
    answer_tokens: int
    workers: int
    price: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What `dartes plan` shows; `memory` and `placement` are per GPU, None on a CPU."""

    shape: ModelShape
    device: Device
    gpus: int
    memory: Memory | None
    placement: Placement | None
    iteration: cost.Iteration
    tokens: int
    useful_workers: tuple[int, ...]
    iterations: int | None
    join_seconds: float
    assumed: Assumed

    @property
    def gpu_hours_per_iteration(self) -> float:
        """GPU hours of all workers, idle ones included."""
        return self.iteration.seconds * self.assumed.workers * self.gpus / 3600


def plan_for(spec: JobSpec, shape: ModelShape, device: Device | None, assumed: Assumed) -> Plan:
    """Plan a job on a device; None is the CPU.

    Raises
    ------
    ConfigurationError
        Ranks that can't share the model's heads, a length beyond its context, or too little memory.
    """
    workers, gpus = spec.workers, spec.workers.gpus_per_worker
    ranks = workers.tensor_parallel
    check_tensor_parallel(shape, ranks, "the model")
    served = _WIDTH[spec.served_type.lower()]
    memory = placement = None
    if device is None or gpus == 0:
        chosen = cpu_threads(workers.threads)
        room = max(spec.generation.token_budget, assumed.prompt_tokens + assumed.answer_tokens)
        worker = cost.Worker(chosen, 1, served, served, room, master_on_host=False)
    else:
        chosen = device
        memory = memory_of(spec, shape, device)
        placement = choose_placement(memory)
        if workers.engine is EngineKind.TRANSFORMERS:
            placement = replace(placement, reason="where the Transformers engine keeps them")
        worker = cost.Worker(
            device=device,
            gpus=ranks,
            served_width=served,
            kv_width=_kv_width(spec, served),
            kv_tokens=placement.kv_tokens,
            master_on_host=placement.where is MasterPlacement.HOST,
            step_seconds=cost.STEP_SECONDS if workers.engine is EngineKind.VLLM else cost.PLAIN_STEP_SECONDS,
        )
    load = cost.Load(
        spec.es.population_size, spec.es.batch_size, assumed.prompt_tokens, assumed.answer_tokens
    )
    slices = spec.es.slices_per_member
    snapshots = spec.checkpoint.weights
    # At worst, a new worker has to catch up with all that happened since the last snapshot.
    missing = (snapshots and snapshots.every_iterations) or spec.es.iterations or 0
    return Plan(
        shape=shape,
        device=chosen,
        gpus=max(1, gpus) if memory is not None else 0,
        memory=memory,
        placement=placement,
        iteration=cost.iteration(shape, load, worker, assumed.workers, slices),
        tokens=load.members * load.prompts * assumed.answer_tokens,
        useful_workers=tuple(cost.useful_workers(load.members, slices)),
        iterations=spec.es.iterations,
        join_seconds=cost.join_seconds(shape, load.members, worker, missing),
        assumed=assumed,
    )


def memory_of(spec: JobSpec, shape: ModelShape, device: Device) -> Memory:
    """What one GPU is asked for."""
    workers, options = spec.workers, spec.workers.engine_options
    ranks = workers.tensor_parallel
    served = _WIDTH[spec.served_type.lower()]
    generation = spec.generation
    asked_for = options.max_model_len
    if asked_for is not None and shape.context is not None and asked_for > shape.context:
        raise ConfigurationError(
            f"spec.workers.engineOptions.maxModelLen = {asked_for}: the model takes {shape.context} tokens; "
            "lower it"
        )
    wanted = asked_for or max(generation.token_budget, 2 * generation.max_new_tokens)
    host = MasterPlacement.HOST if workers.engine is EngineKind.TRANSFORMERS else options.master_placement
    return Memory(
        total_bytes=device.memory_bytes,
        utilization=options.gpu_memory_utilization,
        served_bytes=shape.parameters * served // ranks,
        master_bytes=4 * shape.parameters // ranks,
        workspace_bytes=WORKSPACE_BYTES,
        kv_bytes_per_token=shape.kv_values_per_token(ranks) * _kv_width(spec, served),
        least_tokens=wanted if shape.context is None else min(wanted, shape.context),
        asked=host,
    )


def memory_items(memory: Memory, placement: Placement) -> list[tuple[str, int]]:
    """What one GPU's memory goes to, in bytes, the rest last."""
    master = memory.beside_the_engine(placement.where) - TABLE_BYTES
    name = "float32 master" if placement.where is MasterPlacement.DEVICE else "staging for the master"
    cache = placement.kv_tokens * memory.kv_bytes_per_token
    taken = [
        ("served weights", memory.served_bytes),
        (name, master),
        ("activations and graphs", memory.workspace_bytes),
        ("KV cache", cache),
    ]
    return [*taken, ("left to others", memory.total_bytes - sum(size for _, size in taken))]


def _kv_width(spec: JobSpec, served: int) -> int:
    return 1 if spec.workers.engine_options.kv_cache_dtype.startswith("fp8") else served
