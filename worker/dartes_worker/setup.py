"""Everything a worker needs before it registers: the model, the engine, the problems, the digests."""

import json
import logging
from dataclasses import dataclass
from pathlib import Path

from dartes.checkpoint import Checkpoint, open_checkpoint
from dartes.errors import ConfigurationError
from dartes.model_source import resolve_model
from dartes.noise import NOISE_VERSION, ServedDtype
from dartes.rpc import PROTOCOL_VERSION
from dartes.spec import JobSpec
from dartes.spec.algorithm import algorithm_digest
from dartes.v1 import population_pb2 as wire
from dartes_worker.engines.base import Engine, GenerationLimits
from dartes_worker.engines.registry import engine_factory
from dartes_worker.evaluate import ProblemSet
from dartes_worker.kernel_memory import prepare_kernels

log = logging.getLogger(__name__)


@dataclass
class Equipment:
    """What a worker holds besides its weights."""

    spec: JobSpec
    checkpoint: Checkpoint
    engine: Engine
    train: ProblemSet
    held_out: dict[str, ProblemSet]

    @property
    def served(self) -> ServedDtype:
        """The format in which members are served."""
        return served_dtype(self.spec)

    def registration(self, worker: str) -> wire.RegisterRequest:
        """Who this worker is and what it holds."""
        sets = {"train": self.train, **self.held_out}
        return wire.RegisterRequest(
            worker=worker,
            protocol=PROTOCOL_VERSION,
            fingerprint=json.dumps(self.engine.fingerprint().to_dict(), sort_keys=True),
            base_digest=self.checkpoint.base_digest(),
            data=[wire.DataDigest(name=name, digest=s.dataset.digest) for name, s in sets.items()],
            algorithm_digest=algorithm_digest(self.spec),
            noise_version=str(NOISE_VERSION),
            tensors=[wire.TensorShape(name=t.name, shape=t.shape) for t in self.checkpoint.trainable],
        )

    def close(self) -> None:
        """Release engine and graders."""
        self.engine.close()
        for problems in (self.train, *self.held_out.values()):
            problems.close()


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
    greedy = GenerationLimits(limits.max_new_tokens, stop=limits.stop)
    budget = spec.generation.token_budget
    # Data before the model: its mistakes are the commonest and the cheapest to find.
    train = ProblemSet.load(spec.dataset, spec.task, base_dir, limits, budget)
    held_out = {
        s.name: ProblemSet.load(s.dataset, s.task or spec.task, base_dir, greedy, budget)
        for s in spec.evaluation.sets
    }
    folder = resolve_model(spec.model.source, spec.model.revision, base_dir)
    checkpoint = open_checkpoint(folder)
    prepare_kernels()
    engine = engine_factory(str(spec.workers.engine))(
        folder, checkpoint, served_dtype(spec), spec.workers.threads, _device(spec.workers.gpus_per_worker)
    )
    return Equipment(spec, checkpoint, engine, train, held_out)


def _device(gpus: int) -> str:
    if gpus == 0:
        return "cpu"
    if gpus > 1:
        raise ConfigurationError(
            f"spec.workers.gpusPerWorker = {gpus}: the Transformers engine uses one GPU per worker; set 1"
        )
    import torch

    if torch.cuda.is_available():
        return "cuda:0"
    log.warning("spec.workers.gpusPerWorker = 1, but no GPU is found; this worker runs on the CPU")
    return "cpu"
