"""What the vLLM measurements share: the job they run, vLLM alone on the same prompts, and processes in turn.

An engine lives in a process of its own, which waits until it is its turn: so engines are compared in one run,
round by round, and none has the memory or the settings of another in its way. Imports torch and vLLM only
where they are used.
"""

import contextlib
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, Self, cast

from bench.runs_support import SMOLLM2_JOB, changed_job

MIB: Final = 2**20
SERVED: Final = "BFloat16"
TOKEN_BUDGET: Final = 7_554
"""`generation.tokenBudget`; with it the engine's KV cache for SmolLM2-135M in 16 bit is 256 MiB."""
KV_BYTES: Final = 256 * MIB
MODEL_LENGTH: Final = 512
SIGMA: Final = 1e-3
SEED: Final = 1
ENVIRONMENT: Final = {
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
}


@dataclass(frozen=True)
class Load:
    """What is generated: so many prompts of the arithmetic example, so many new tokens.

    `full` makes every answer `new_tokens` long; else it ends where the model ends it.
    """

    model: Path
    prompts: int
    new_tokens: int
    full: bool = True


@dataclass(frozen=True)
class Took:
    """One turn: wall-clock and processor seconds, and how many tokens were generated."""

    seconds: float
    processor: float
    tokens: int

    @property
    def rate(self) -> float:
        """Generated tokens per second of wall clock."""
        return self.tokens / self.seconds


def best(turns: Sequence[Took]) -> Took:
    """The fastest turn: what others do on the machine only ever adds."""
    return min(turns, key=lambda one: one.seconds / max(1, one.tokens))


def write_job(load: Load, engine: str, output: Path, threads: int = 1) -> Path:
    """Write the arithmetic example's job with this load, for one worker."""
    changes: dict[str, Any] = {
        "model.source": str(load.model.absolute()),
        "model.dtype": SERVED,
        "es.servedDtype": SERVED,
        "generation.maxNewTokens": load.new_tokens,
        "generation.tokenBudget": TOKEN_BUDGET,
        "es.batchSize": load.prompts,
        "es.sigma": SIGMA,
        "evaluation.sets": [],
        "workers.engine": engine,
        "workers.threads": threads,
        "workers.replicas": 1,
    }
    if engine == "VLLM":
        changes["workers.engineOptions.maxModelLen"] = MODEL_LENGTH
    return changed_job(SMOLLM2_JOB, changes, output)


class Worker:
    """A worker's engine, problems and weights, without a coordinator; `base` loads the weights at once."""

    def __init__(self, job: Path, load: Load, *, base: bool = True) -> None:
        from dartes.spec import load_job
        from dartes_worker.setup import equip
        from dartes_worker.weights.replica import replica_of

        loaded = load_job(job)
        self.equipment = equip(loaded.job.spec, loaded.base_dir)
        self.engine = cast("Any", self.equipment.engine)
        if load.full:
            self.engine._encoder.end_ids = ()
        self.rows = range(load.prompts)
        self.problems = self.equipment.stages[0]
        self.tokens = self.problems.encoded(self.engine, self.rows)
        self.replica = replica_of(self.engine, self.equipment.checkpoint, self.equipment.served, 1)
        if base:
            self.load_base()

    def load_base(self) -> None:
        """Read the base model as a worker does that joins at iteration 0, and serve it."""
        self.replica.load_base(b"\0" * 32)
        self.replica.write(0, 0.0)

    def member(self, seed: int) -> int:
        """Serve a member, answer the prompts, wait for the grades; returns the tokens generated."""
        from dartes_worker.evaluate import Sampling
        from dartes_worker.timing import Stopwatch

        self.replica.write(seed, SIGMA)
        answering = self.equipment.evaluator.answer(
            self.problems, self.rows, 0, 1, Sampling(SEED, 0, seed), Stopwatch()
        )
        return sum(generation.token_count for generation in answering.outcome().generations)

    def update(self, seeds: Sequence[int], coefficients: Sequence[float]) -> None:
        """Apply the next iteration and attest it."""
        import numpy as np

        from dartes.ids import Iteration
        from dartes.journal import JournalRow

        version = self.replica.version
        assert version is not None, "weights are loaded before they are used"
        row = JournalRow(
            Iteration(version.iteration),
            0,
            np.array(seeds, np.uint64),
            np.array(coefficients, np.float32),
        )
        self.replica.apply([row])
        self.replica.digest()

    def warm_up(self) -> None:
        """Answer two prompts shortly, so that no turn pays for what happens once."""
        from dartes_worker.engines.base import GenerationLimits

        self.engine.generate(self.tokens[:2], GenerationLimits(2), None)


def vllm_alone(folder: Path, *, plain: bool) -> Any:
    """Start vLLM as a user would, with plain weights or as vLLM packs them; returns its `LLM`."""
    from dartes_worker.engines.vllm import starting

    os.environ.update({**starting.ENVIRONMENT, **starting.CPU_ENVIRONMENT})
    import torch

    torch.set_num_threads(1)
    from vllm import LLM

    own: dict[str, Any] = {}
    if plain:
        own["worker_cls"] = "dartes_worker.engines.vllm.plain_cpu.PlainCPUWorker"
    return LLM(
        str(folder),
        dtype="bfloat16",
        max_model_len=MODEL_LENGTH,
        kv_cache_memory_bytes=KV_BYTES,
        enforce_eager=True,
        generation_config="vllm",
        seed=0,
        **own,
    )


def generate_alone(llm: Any, tokens: Sequence[Sequence[int]], new_tokens: int) -> int:
    """Answer all prompts by vLLM's own `generate`, each to its full length; returns the tokens generated."""
    from vllm import SamplingParams

    llm.reset_prefix_cache()
    outputs = llm.generate(
        [{"prompt_token_ids": list(own)} for own in tokens],
        SamplingParams(temperature=0.0, max_tokens=new_tokens, ignore_eos=True),
        use_tqdm=False,
    )
    return sum(len(output.outputs[0].token_ids) for output in outputs)


def timed(work: Callable[[], int]) -> Took:
    """Time something that returns how many tokens it generated."""
    wall, processor = time.perf_counter(), time.process_time()
    tokens = work()
    return Took(time.perf_counter() - wall, time.process_time() - processor, tokens)


Opened = Callable[..., dict[str, Callable[[], Any]]]
"""Runs in a process of its own: makes ready whatever is measured, returns what can be asked of it by name."""


class Turns:
    """A process that makes something ready and then does what it is asked, one thing at a time."""

    def __init__(self, opened: Opened, *arguments: object) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, opened, arguments))
        with _environment():
            self._process.start()
        other.close()

    def ask(self, name: str) -> Any:
        """Do something there; RuntimeError where that process fails."""
        self._pipe.send(name)
        return self._receive()

    def ready(self) -> Self:
        """Wait until it is."""
        self._receive()
        return self

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(BrokenPipeError):
            self._pipe.send(None)
        self._process.join(60)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _receive(self) -> Any:
        try:
            return self._pipe.recv()
        except EOFError as error:
            self._process.join()
            raise RuntimeError(f"a measured process ended with code {self._process.exitcode}") from error


@contextlib.contextmanager
def taking_turns(*processes: tuple[Any, ...]) -> Iterator[list[Turns]]:
    """Start processes, each of (function, arguments...), one after the other; end them all at the end."""
    started: list[Turns] = []
    try:
        for opened, *arguments in processes:
            started.append(Turns(opened, *arguments))
            started[-1].ready()
        yield started
    finally:
        for one in started:
            one.close()


def _serve(pipe: Connection, opened: Opened, arguments: tuple[object, ...]) -> None:
    actions = opened(*arguments)
    pipe.send("ready")
    while (name := pipe.recv()) is not None:
        pipe.send(actions[name]())
    actions.get("close", lambda: None)()
    os._exit(0)  # an engine's own threads and processes end with it; nothing is left to be written


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in ENVIRONMENT}
    os.environ.update(ENVIRONMENT)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
