"""Everything a worker needs before it registers: the model, the engine, the problems, the digests."""

import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path

from dartes.checkpoint import Checkpoint, open_checkpoint
from dartes.data import load_evaluation_set
from dartes.data.training import load_training
from dartes.errors import ConfigurationError
from dartes.model_source import resolve_model
from dartes.noise import NOISE_VERSION, ServedDtype
from dartes.rewards.digest import job_reward_digest
from dartes.rewards.opening import GraderContext, grader_name
from dartes.rpc import PROTOCOL_VERSION
from dartes.spec import JobSpec
from dartes.spec.algorithm import algorithm_digest
from dartes.spec.roles import EngineKind, WorkersSpec
from dartes.v1 import population_pb2 as wire
from dartes_worker.context import check_prompts, context_of
from dartes_worker.engines.base import ContinuousEngine, Engine, GenerationLimits
from dartes_worker.engines.registry import engine_for
from dartes_worker.evaluate import Evaluator
from dartes_worker.kernel_memory import prepare_kernels
from dartes_worker.problems import Graders, ProblemSet, problem_set
from dartes_worker.trouble import Trouble

log = logging.getLogger(__name__)


@dataclass
class Equipment:
    """What a worker holds besides its weights; `warnings` are what people should know of the data.

    Attributes
    ----------
    stages
        The training problems, by stage.
    held_out
        Evaluation sets and holdouts, by name.
    digests
        Of everything that is read besides the model, by name: "train", each set, and "reward" where the job
        brings reward functions of its own.
    """

    spec: JobSpec
    checkpoint: Checkpoint
    engine: Engine
    evaluator: Evaluator
    stages: tuple[ProblemSet, ...]
    held_out: dict[str, ProblemSet]
    digests: dict[str, str]
    graders: Graders
    trouble: Trouble
    warnings: tuple[str, ...] = ()

    @property
    def served(self) -> ServedDtype:
        """The format in which members are served."""
        return served_dtype(self.spec)

    def registration(self, worker: str) -> wire.RegisterRequest:
        """Who this worker is and what it holds."""
        return wire.RegisterRequest(
            worker=worker,
            protocol=PROTOCOL_VERSION,
            fingerprint=json.dumps(self.engine.fingerprint().to_dict(), sort_keys=True),
            base_digest=self.checkpoint.base_digest(),
            data=[wire.DataDigest(name=name, digest=digest) for name, digest in self.digests.items()],
            algorithm_digest=algorithm_digest(self.spec),
            noise_version=str(NOISE_VERSION),
            tensors=[wire.TensorShape(name=t.name, shape=t.shape) for t in self.checkpoint.trainable],
            warnings=self.warnings,
            placement=self.engine.placement if isinstance(self.engine, ContinuousEngine) else "",
        )

    def close(self) -> None:
        """Release engine and graders."""
        self.graders.give_up_waiting()
        self.evaluator.close()
        self.engine.close()
        self.graders.close()


def served_dtype(spec: JobSpec) -> ServedDtype:
    """`es.servedDtype`, by default `model.dtype`."""
    return ServedDtype(spec.served_type.lower())


def equip(spec: JobSpec, base_dir: Path) -> Equipment:
    """Load model, engine and data sets.

    Raises
    ------
    ConfigurationError
        Model or data can't be used; the message names the field and the fix.
    TransientError
        The hub can't be reached.
    """
    limits = GenerationLimits(
        max_new_tokens=spec.generation.max_new_tokens,
        temperature=spec.generation.temperature,
        top_p=spec.generation.top_p,
        stop=tuple(spec.generation.stop),
    )
    device, trouble = device_of(spec.workers), Trouble()
    graders = Graders(
        GraderContext(
            base_dir=base_dir,
            device=device,
            processes=_grader_processes(spec.workers.threads),
            on_trouble=trouble.tell,
        )
    )
    try:
        return _equip(spec, base_dir, limits, device, graders, trouble)
    except BaseException:
        graders.close()
        raise


def _equip(
    spec: JobSpec,
    base_dir: Path,
    limits: GenerationLimits,
    device: str,
    graders: Graders,
    trouble: Trouble,
) -> Equipment:
    # Data before the model: its mistakes are the commonest and the cheapest to find.
    stages, held_out, digests = _problems(spec, base_dir, limits, graders)
    folder = resolve_model(spec.model.source, spec.model.revision, base_dir)
    checkpoint = open_checkpoint(folder)
    prepare_kernels()
    engine = engine_for(spec)(folder, checkpoint, served_dtype(spec), spec.workers.threads, device)
    context = context_of(engine, checkpoint.config)
    several = len(stages) > 1
    named = {f"stage {number}" if several else "the data set": s for number, s in enumerate(stages)}
    warnings: list[str] = []
    for name, problems in {**named, **held_out}.items():
        too_long = check_prompts(engine, problems, context, name)
        warnings += [*problems.warnings, *([] if too_long is None else [too_long])]
    for warning in warnings:
        log.warning("%s", warning)
    return Equipment(
        spec,
        checkpoint,
        engine,
        Evaluator(engine, context),
        stages,
        held_out,
        digests,
        graders,
        trouble,
        tuple(warnings),
    )


def _problems(
    spec: JobSpec, base_dir: Path, limits: GenerationLimits, graders: Graders
) -> tuple[tuple[ProblemSet, ...], dict[str, ProblemSet], dict[str, str]]:
    """Stages, evaluation sets by name, and the digests of what they are made of."""
    budget = spec.generation.token_budget
    training = load_training(spec, base_dir)
    stages = tuple(
        problem_set(
            [(dataset, one.task) for dataset, one in zip(datasets, sets, strict=True)],
            graders,
            limits,
            budget,
        )
        for datasets, sets in zip(training.stages, spec.training_stages(), strict=True)
    )
    held_out, digests = {}, {"train": training.digest}
    for one in spec.evaluation.all_sets:
        dataset = load_evaluation_set(spec, one.name, base_dir)
        own = GenerationLimits(
            limits.max_new_tokens, one.temperature, limits.top_p if one.temperature > 0 else 1.0, limits.stop
        )
        held_out[one.name] = problem_set(
            [(dataset, spec.task_of(one))], graders, own, budget, samples=one.samples
        )
        digests[one.name] = dataset.digest
    reward = job_reward_digest(spec, base_dir)
    if reward is not None:
        digests["reward"] = reward
    # A grader that does not start is found now. Reward models of later stages are loaded when their time
    # comes; functions are not, since what was digested is what has to be called.
    for problems in (*stages, *held_out.values()):
        for part in problems.parts:
            if problems not in stages[1:] or grader_name(part.task) != "reward-model":
                part.grader()
    return stages, held_out, digests


MOST_GRADERS = 8


def _grader_processes(threads: int) -> int:
    """Processors that the engine leaves to graders, at least 1."""
    return min(MOST_GRADERS, max(1, len(os.sched_getaffinity(0)) - threads))


def device_of(workers: WorkersSpec) -> str:
    """Where a worker computes: "cpu", or its first GPU; ConfigurationError for more than its engine uses."""
    gpus = workers.gpus_per_worker
    if gpus == 0:
        return "cpu"
    if gpus > 1 and workers.engine is EngineKind.TRANSFORMERS:
        raise ConfigurationError(
            f"spec.workers.gpusPerWorker = {gpus}: the Transformers engine uses one GPU per worker; set 1, "
            "or engine: VLLM, whose tensor parallelism shares a model between GPUs"
        )
    import torch

    if torch.cuda.is_available():
        return "cuda:0"
    log.warning("spec.workers.gpusPerWorker = %d, but no GPU is found; this worker runs on the CPU", gpus)
    return "cpu"
