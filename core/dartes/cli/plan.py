"""`dartes plan`: what a job needs and how long it takes, before anything is run. Reads no weights.

Every figure is an estimate by `docs/cost.md`, and says so.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dartes.errors import ConfigurationError
from dartes.model_source import resolve_model
from dartes.plan.devices import DEVICES, device_named
from dartes.plan.model_shape import ModelShape, shape_of_folder
from dartes.plan.plan import Assumed, Plan, memory_items, plan_for
from dartes.spec import JobSpec, load_job
from dartes.spec.source import Scheme, parse_source

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Asked:
    """What was typed besides the job; None where it was not."""

    gpu: str | None = None
    workers: int | None = None
    gpu_price: float | None = None
    prompt_tokens: int = 128
    answer_tokens: int | None = None
    shape: ModelShape | None = None


def plan(job_file: Path, asked: Asked) -> Plan:
    """Plan a job; ConfigurationError where it, its model or the device is wrong, or memory is too little."""
    loaded = load_job(job_file)
    spec = loaded.job.spec
    on_gpu = spec.workers.gpus_per_worker > 0
    if on_gpu and asked.gpu is None:
        raise ConfigurationError(
            f"spec.workers.gpusPerWorker = {spec.workers.gpus_per_worker}: say which GPU with --gpu, one of "
            f"{', '.join(sorted(DEVICES))}"
        )
    if asked.gpu is not None and not on_gpu:
        raise ConfigurationError(
            f"--gpu {asked.gpu}: the job runs on the CPU (spec.workers.gpusPerWorker: 0); leave --gpu "
            "out, or set gpusPerWorker"
        )
    device = None if asked.gpu is None else device_named(asked.gpu)
    assumed = Assumed(
        asked.prompt_tokens,
        asked.answer_tokens or spec.generation.max_new_tokens,
        asked.workers or spec.workers.replicas,
        asked.gpu_price,
    )
    return plan_for(spec, asked.shape or _shape(spec, loaded.base_dir), device, assumed)


def plan_lines(found: Plan) -> Iterator[str]:
    """The plan for people."""
    shape, assumed, part = found.shape, found.assumed, found.iteration
    where = f"{found.gpus} x {found.device.name} per worker" if found.gpus else found.device.name
    parameters = f"{shape.parameters / 1e6:,.0f} M" if shape.parameters >= 1e6 else f"{shape.parameters:,}"
    yield f"model        {parameters} parameters, {shape.layers} layers"
    yield f"where        {assumed.workers} worker{'s' * (assumed.workers > 1)}, {where}"
    yield (
        f"assumed      prompts of {assumed.prompt_tokens} tokens (--prompt-tokens), answers of "
        f"{assumed.answer_tokens} (--answer-tokens)"
    )
    if found.memory is not None and found.placement is not None:
        yield ""
        yield f"memory of one GPU, {found.memory.total_bytes / GIB:.1f} GiB"
        for name, size in memory_items(found.memory, found.placement):
            yield f"  {name:<24}{size / GIB:8.1f} GiB"
        yield f"master weights: {found.placement.where.value}; {found.placement.reason}"
    yield ""
    yield f"one iteration, {part.seconds:,.1f} s (estimated)"
    for name, seconds in (("generate", part.generate), ("write", part.write), ("wire", part.wire)):
        yield f"  {name:<10}{seconds:10.2f} s   {part.members_each} leases of a worker, one after another"
    yield f"  {'update':<10}{part.update:10.2f} s   on all workers at once"
    yield f"  tokens    {found.tokens:10,}     {found.tokens / part.seconds:,.0f} per second"
    if found.gpus:
        hours = found.gpu_hours_per_iteration
        yield f"  GPU hours {hours:10.3f}{_money(found, hours)}"
    if found.iterations is not None:
        total = part.seconds * found.iterations
        hours = found.gpu_hours_per_iteration * found.iterations
        gpu = f", {hours:,.1f} GPU hours{_money(found, hours)}" if found.gpus else ""
        yield f"the run      {found.iterations} iterations: {_duration(total)}{gpu}"
    yield f"joining      a new worker is caught up after about {_duration(found.join_seconds)}"
    yield f"more workers help up to {found.useful_workers[-1]}: {_some(found.useful_workers)}"
    yield "evaluation sets and starting are not counted; docs/cost.md has the formulas and their errors"


def plan_json(found: Plan) -> dict[str, Any]:
    """The plan for programs."""
    return {
        "parameters": found.shape.parameters,
        "device": found.device.name,
        "gpus_per_worker": found.gpus,
        "assumed": asdict(found.assumed),
        "memory": None
        if found.memory is None or found.placement is None
        else {
            "total_bytes": found.memory.total_bytes,
            "items": dict(memory_items(found.memory, found.placement)),
            "master_placement": found.placement.where.value,
            "kv_tokens": found.placement.kv_tokens,
            "reason": found.placement.reason,
        },
        "iteration_seconds": {**asdict(found.iteration), "total": found.iteration.seconds},
        "tokens_per_iteration": found.tokens,
        "gpu_hours_per_iteration": found.gpu_hours_per_iteration if found.gpus else None,
        "iterations": found.iterations,
        "join_seconds": found.join_seconds,
        "useful_workers": list(found.useful_workers),
    }


def _shape(spec: JobSpec, base_dir: Path) -> ModelShape:
    scheme = parse_source(spec.model.source).scheme
    if scheme not in {Scheme.FILE, Scheme.BUILTIN}:
        raise ConfigurationError(
            f"spec.model.source = {spec.model.source!r}: not on this machine; give its sizes with "
            "--parameters, --layers, --heads, --kv-heads and --head-size (all in its config.json)"
        )
    return shape_of_folder(resolve_model(spec.model.source, spec.model.revision, base_dir))


def _money(found: Plan, hours: float) -> str:
    return "" if found.assumed.price is None else f", {hours * found.assumed.price:,.2f} at that price"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:,.1f} h"


def _some(workers: tuple[int, ...]) -> str:
    shown = [str(number) for number in workers]
    if len(shown) <= 16:
        return f"{', '.join(shown)}; between these, another one changes nothing"
    return f"{', '.join(shown[:8])}, ..., {', '.join(shown[-4:])}"
