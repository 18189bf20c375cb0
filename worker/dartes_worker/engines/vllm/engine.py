"""The vLLM engine: any causal language model that it serves, all prompts of a lease in one continuous batch.

Responsible for vLLM's life in this process and for answers; the weights are the extension's business. vLLM's
scheduler runs in this process, and with one rank its model too: nothing is copied between processes, and what
is scheduled together depends on the prompts alone.
"""

import logging
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Self

import torch

from dartes.checkpoint import Checkpoint
from dartes.errors import ConfigurationError, TransientError
from dartes.noise import ServedDtype
from dartes_worker.engines.base import (
    EngineFingerprint,
    Generation,
    GenerationLimits,
    OutOfMemory,
    Prompt,
    Segment,
)
from dartes_worker.engines.cpu import cpu_kind
from dartes_worker.engines.loading import load_tokenizer
from dartes_worker.engines.prompts import PromptEncoder, end_tokens
from dartes_worker.engines.stopping import StopStrings
from dartes_worker.engines.vllm import starting
from dartes_worker.engines.vllm.coverage import owned
from dartes_worker.engines.vllm.replica import VllmReplica
from dartes_worker.engines.vllm.settings import VllmSettings
from dartes_worker.engines.vllm.tail import LongTail
from dartes_worker.engines.vllm.trouble import Trouble

_LOG: Final = logging.getLogger(__name__)


class EngineGone(TransientError):  # noqa: N818 - what happened, not what is wrong
    """A process of vLLM ended by itself: whoever starts this worker again gets a new one."""


class VllmEngine:
    """One model served by vLLM; made by `load`."""

    def __init__(
        self,
        llm: Any,
        checkpoint: Checkpoint,
        encoder: PromptEncoder,
        fingerprint: EngineFingerprint,
        started: starting.Started,
    ) -> None:
        self._llm = llm
        self._engine = llm.llm_engine
        self._checkpoint = checkpoint
        self._encoder = encoder
        self._fingerprint = fingerprint
        self._started = started
        self._tail = LongTail(time.perf_counter)

    @classmethod
    def load(
        cls,
        folder: Path,
        checkpoint: Checkpoint,
        served: ServedDtype,
        threads: int,
        device: str,
        settings: VllmSettings | None = None,
    ) -> Self:
        """Start vLLM on `folder`, find out where it serves every element, and make room for the master.

        Parameters
        ----------
        folder, checkpoint
            A model folder and the same folder opened.
        served
            Format of the served weights.
        threads
            Threads per operation on a CPU.
        device
            "cpu" or a CUDA device; tensor parallelism takes further ones.

        Raises
        ------
        ConfigurationError
            vLLM isn't there or does not serve the model, the map does not cover it, or settings do not fit
            the model or the memory; the message names the field and the fix.
        OutOfMemory
            The memory ran out while loading.
        """
        settings = settings or VllmSettings()
        started = starting.plan_start(folder, checkpoint, served, device, settings)
        llm = starting.start(folder, served, threads, settings, started)
        engine = cls(
            llm,
            checkpoint,
            PromptEncoder(load_tokenizer(folder), end_tokens(folder), folder),
            _fingerprint(served, threads, device, settings),
            started,
        )
        engine._map_weights(served, threads)
        return engine

    def fingerprint(self) -> EngineFingerprint:
        """Return what answers may depend on besides weights and groups."""
        return self._fingerprint

    @property
    def max_model_len(self) -> int:
        """Tokens of prompt and answer together."""
        return self._started.length

    @property
    def placement(self) -> str:
        """Where the master weights lie and why, in one line for people."""
        return self._started.words

    def segments(self) -> list[Segment]:
        """There are none to be seen from here: the weights are written where vLLM keeps them."""
        return []

    def open_replica(self) -> VllmReplica:
        """Return the replica of the weights that lies in vLLM's processes."""
        return VllmReplica(self._checkpoint, self._call, self._require_idle, self.weights_changed)

    def encode(self, prompts: Sequence[Prompt]) -> list[list[int]]:
        """Return token ids per prompt, at least one each; ConfigurationError without a chat template."""
        return self._encoder.encode(prompts)

    def weights_changed(self) -> None:
        """Forget keys and values of the old weights."""
        if not self._engine.reset_prefix_cache():
            raise RuntimeError("vLLM's prefix cache can't be reset while sequences run")

    def generate(
        self, group: Sequence[Sequence[int]], limits: GenerationLimits, seed: int | None
    ) -> list[Generation]:
        """Answer one group."""
        ((_, answers),) = self.generate_all([group], limits, None if seed is None else [seed])
        return answers

    def generate_all(
        self,
        groups: Sequence[Sequence[Sequence[int]]],
        limits: GenerationLimits,
        seeds: Sequence[int] | None,
    ) -> Iterator[tuple[int, list[Generation]]]:
        """Answer all groups in one continuous batch; yields (number, answers) as groups are complete.

        To be read to its end, or closed: nothing may be written while sequences run. `seeds` has one per
        group and is required for a temperature above 0; a prompt's own is made from its group's and its place
        there.
        """
        for group in groups:
            for tokens in group:
                self._check_length(len(tokens), limits)
        stop = StopStrings(limits.stop, self._encoder.decode) if limits.stop else None
        places = self._submit(groups, limits, seeds)
        open_groups: list[dict[int, Any]] = [{} for _ in groups]
        self._tail.begin(len(places))
        try:
            while places:
                outputs = [output for output in self._guarded(self._engine.step) if output.finished]
                self._tail.note(len(places) - len(outputs))
                for output in outputs:
                    number, position = places.pop(output.request_id)
                    done = open_groups[number]
                    done[position] = output.outputs[0]
                    if len(done) == len(groups[number]):
                        yield number, self._read([done[p] for p in range(len(done))], stop)
        finally:
            if places:
                self._engine.abort_request(list(places), internal=False)

    def _submit(
        self,
        groups: Sequence[Sequence[Sequence[int]]],
        limits: GenerationLimits,
        seeds: Sequence[int] | None,
    ) -> dict[str, tuple[int, int]]:
        """Hand all prompts to vLLM; returns request name -> (group, place in it)."""
        places: dict[str, tuple[int, int]] = {}
        for number, group in enumerate(groups):
            for position, tokens in enumerate(group):
                seed = None if seeds is None else prompt_seed(seeds[number], position)
                name = f"{number}:{position}"
                self._engine.add_request(name, {"prompt_token_ids": list(tokens)}, self._params(limits, seed))
                places[name] = (number, position)
        return places

    def long_tail(self) -> tuple[float, float]:
        """Seconds since last asked in which few sequences were left, and in which one was; see `LongTail`."""
        return self._tail.take()

    def close(self) -> None:
        """End vLLM and its processes."""
        starting.stop(self._llm)
        self._llm = self._engine = None

    # ------------------------------------------------------------------------------------------------

    def _map_weights(self, served: ServedDtype, threads: int) -> None:
        folder = str(self._checkpoint.folder)
        per_rank = self._call("dartes_locate", folder)
        expected = {info.name: info.count for info in self._checkpoint.trainable}
        where = f"{folder} (vLLM)"
        stretches = owned(per_rank, expected, where)
        self._call("dartes_hold", stretches, served, self._started.placement, threads)
        _LOG.info("%s", self._started.words)

    def _call(self, method: str, *arguments: object) -> list[Any]:
        found: list[Any] = self._guarded(lambda: self._llm.collective_rpc(method, args=arguments))
        for one in found:
            if isinstance(one, Trouble):
                raise one.error()
        return found

    def _guarded(self, work: Callable[[], Any]) -> Any:
        """Do something in vLLM, and say in our words what happened to it."""
        try:
            return work()
        except (torch.OutOfMemoryError, MemoryError) as error:
            raise OutOfMemory(
                f"vLLM ran out of memory: {error}. Lower workers.engineOptions.gpuMemoryUtilization, which "
                "leaves more for activations, or set masterPlacement: Host"
            ) from error
        except Exception as error:
            if starting.has_died(self._llm, error):
                raise EngineGone(f"a process of vLLM ended by itself ({error})") from error
            raise

    def _params(self, limits: GenerationLimits, seed: int | None) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        sampling: dict[str, Any] = {"temperature": 0.0}
        if limits.temperature > 0:
            if seed is None:
                raise ValueError("sampling needs a seed")
            sampling = {"temperature": limits.temperature, "top_p": limits.top_p, "seed": seed}
        return SamplingParams(
            max_tokens=limits.max_new_tokens,
            stop=list(limits.stop),
            stop_token_ids=list(self._encoder.end_ids),
            ignore_eos=True,  # the end tokens are those above, whatever the folder's generation config says
            detokenize=bool(limits.stop),
            output_kind=RequestOutputKind.FINAL_ONLY,
            **sampling,
        )

    def _read(self, outputs: Sequence[Any], stop: StopStrings | None) -> list[Generation]:
        tokens = [list(output.token_ids) for output in outputs]
        ended = [bool(own) and own[-1] in self._encoder.end_ids for own in tokens]
        texts = self._encoder.decode(
            [own[:-1] if end else own for own, end in zip(tokens, ended, strict=True)]
        )
        return [
            Generation(
                text if stop is None else stop.cut(text), len(own), truncated=output.finish_reason == "length"
            )
            for output, own, text in zip(outputs, tokens, texts, strict=True)
        ]

    def _require_idle(self) -> None:
        if self._engine.has_unfinished_requests():
            raise RuntimeError("weights can't be written while sequences run: read generate_all to its end")

    def _check_length(self, prompt: int, limits: GenerationLimits) -> None:
        if prompt + limits.max_new_tokens > self.max_model_len:
            raise ConfigurationError(
                f"generation.maxNewTokens = {limits.max_new_tokens}: with a prompt of {prompt} tokens that "
                f"is beyond workers.engineOptions.maxModelLen ({self.max_model_len}); raise that within the "
                "model's context, or lower maxNewTokens"
            )


def prompt_seed(group_seed: int, position: int) -> int:
    """A prompt's sampling seed, 0 <= seed < 2**63: from its group's and its place there, whatever the slice.

    The step is the golden ratio's 64-bit fraction, which spreads neighbouring positions.
    """
    return (group_seed + position * 0x9E3779B97F4A7C15) % 2**63


def _fingerprint(served: ServedDtype, threads: int, device: str, settings: VllmSettings) -> EngineFingerprint:
    import tokenizers
    import transformers
    import vllm

    kind = cpu_kind() if device == "cpu" else torch.cuda.get_device_name(torch.device(device))
    versions = {
        "vllm": vllm.__version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "tokenizers": tokenizers.__version__,
        "python": platform.python_version(),
        "tensor_parallel_size": str(settings.tensor_parallel),
        "kv_cache_dtype": settings.kv_cache_dtype,
        "batch_invariant": str(settings.batch_invariant).lower(),
    }
    return EngineFingerprint("vllm", kind, served.value, threads, versions)
