"""The `transformers` engine: any causal language model from a folder, on the CPU or one device.

Responsible for generating a group the same way every time. What decides an answer is the job file, the
weights and the group: sampling defaults that the model's folder carries are not applied.
"""

import logging
import os
import platform
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import torch
from numpy.typing import NDArray

from dartes.checkpoint import Checkpoint
from dartes.errors import ConfigurationError
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
from dartes_worker.engines.loading import load_model, load_tokenizer
from dartes_worker.engines.parameters import parameter_segments
from dartes_worker.engines.prefix import SharedPrefix, can_share_prefix
from dartes_worker.engines.prompts import PromptEncoder
from dartes_worker.engines.stopping import StopStrings

_LOG: Final = logging.getLogger(__name__)

_ALLOCATION: Final = re.compile(r"(?:can't allocate memory|not enough memory|out of memory)", re.IGNORECASE)
_BYTES_ASKED: Final = re.compile(r"tried to allocate ([\d.]+ ?(?:bytes|[KMGT]iB))", re.IGNORECASE)


class TransformersEngine:
    """One causal LM served from its module's own tensors; made by `load`."""

    def __init__(
        self, model: Any, encoder: PromptEncoder, segments: list[Segment], served: ServedDtype, threads: int
    ) -> None:
        self._model = model
        self._encoder = encoder
        self._segments = segments
        self._served = served
        self._threads = threads
        self._shares_prefix = can_share_prefix(model)
        text_config = model.config.get_text_config(decoder=True)
        self._positions: int | None = getattr(text_config, "max_position_embeddings", None)

    @classmethod
    def load(
        cls, folder: Path, checkpoint: Checkpoint, served: ServedDtype, threads: int, device: str
    ) -> Self:
        """Load `folder`, map its parameters, and set this process's torch to `threads` threads.

        Parameters
        ----------
        folder, checkpoint
            A model folder and the same folder opened.
        served
            Format of the served weights.
        threads
            Threads per operation on the CPU; part of what decides the last bits of an answer.
        device
            "cpu", or a torch device such as "cuda:0".

        Raises
        ------
        ConfigurationError
            The folder is not a causal LM that can be served and trained; the message names the fix.
        OutOfMemory
            The weights do not fit.
        """
        torch.set_num_threads(threads)
        model = load_model(folder, served, device)
        tokenizer = load_tokenizer(folder)
        segments = parameter_segments(model, checkpoint, served)
        encoder = PromptEncoder(tokenizer, _take_generation_config(model, folder), folder)
        return cls(model, encoder, segments, served, threads)

    def fingerprint(self) -> EngineFingerprint:
        """Return what answers may depend on besides weights and groups."""
        import tokenizers
        import transformers

        device = self._model.device
        kind = cpu_kind() if device.type == "cpu" else torch.cuda.get_device_name(device)
        versions = {
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "tokenizers": tokenizers.__version__,
            "python": platform.python_version(),
        }
        return EngineFingerprint("transformers", kind, self._served.value, self._threads, versions)

    def segments(self) -> list[Segment]:
        """Return segments that cover every trained checkpoint element exactly once."""
        return self._segments

    def encode(self, prompts: Sequence[Prompt]) -> list[list[int]]:
        """Return token ids per prompt, at least one each; ConfigurationError without a chat template."""
        return self._encoder.encode(prompts)

    def weights_changed(self) -> None:
        """Nothing to drop: keys and values live no longer than one `generate`."""

    def generate(
        self, group: Sequence[Sequence[int]], limits: GenerationLimits, seed: int | None
    ) -> list[Generation]:
        """Answer one group, padded on the left to its longest prompt, as one batch."""
        longest = max(map(len, group))
        self._check_length(longest, limits)
        if limits.temperature > 0:
            if seed is None:
                raise ValueError("sampling needs a seed")
            torch.manual_seed(seed)
        stop = StopStrings(limits.stop, self._encoder.decode) if limits.stop else None
        try:
            new_tokens = self._new_tokens(group, limits, stop)
        except (torch.OutOfMemoryError, MemoryError) as error:
            raise self._out_of_memory(group, longest, limits, error) from error
        except RuntimeError as error:
            if not _ALLOCATION.search(str(error)):
                raise
            raise self._out_of_memory(group, longest, limits, error) from error
        return self._read(new_tokens, stop)

    def close(self) -> None:
        """Release the model."""
        self._segments = []
        self._model = None

    @torch.inference_mode()
    def _new_tokens(
        self, group: Sequence[Sequence[int]], limits: GenerationLimits, stop: StopStrings | None
    ) -> NDArray[np.int64]:
        """Return int64[group, new tokens], padded after each answer's end."""
        prefix = SharedPrefix.of(group) if self._shares_prefix else SharedPrefix.none()
        ids, mask = prefix.layout(group, self._encoder.pad_id)
        device = self._model.device
        arguments = prefix.arguments(self._model, ids, len(group))
        if stop is not None:
            stop.begin(ids.shape[1])
            arguments["stopping_criteria"] = [stop]
        output = self._model.generate(
            input_ids=ids.to(device),
            attention_mask=mask.to(device),
            generation_config=self._generation_config(limits),
            **arguments,
        )
        new: NDArray[np.int64] = output[:, ids.shape[1] :].cpu().numpy()
        return new

    def _generation_config(self, limits: GenerationLimits) -> Any:
        from transformers import GenerationConfig

        sampling: dict[str, object] = {"do_sample": False}
        if limits.temperature > 0:
            # `top_k` has a default of its own in transformers; 0 switches it off.
            sampling = {
                "do_sample": True,
                "temperature": limits.temperature,
                "top_p": limits.top_p,
                "top_k": 0,
            }
        return GenerationConfig(
            max_new_tokens=limits.max_new_tokens,
            eos_token_id=list(self._encoder.end_ids) or None,
            pad_token_id=self._encoder.pad_id,
            use_cache=True,
            disable_compile=True,
            **sampling,
        )

    def _read(self, new_tokens: NDArray[np.int64], stop: StopStrings | None) -> list[Generation]:
        ends: NDArray[np.bool_] = np.isin(new_tokens, self._encoder.end_ids)
        ended: NDArray[np.bool_] = np.asarray(ends.any(axis=1))
        lengths = np.where(ended, ends.argmax(axis=1), new_tokens.shape[1])
        texts = self._encoder.decode(
            [row[:length].tolist() for row, length in zip(new_tokens, lengths, strict=True)]
        )
        answers = []
        for row, text in enumerate(texts):
            token_count = int(lengths[row]) + int(ended[row])
            stopped_at = stop.stopped_at(row) if stop is not None else None
            if stop is not None and stopped_at is not None:
                answers.append(Generation(stop.cut(text), min(stopped_at, token_count), truncated=False))
            else:
                answers.append(Generation(text, token_count, truncated=not ended[row]))
        return answers

    def _check_length(self, longest: int, limits: GenerationLimits) -> None:
        if self._positions is not None and longest + limits.max_new_tokens > self._positions:
            raise ConfigurationError(
                f"generation.maxNewTokens = {limits.max_new_tokens}: with a prompt of {longest} tokens that "
                f"is beyond the model's {self._positions} positions; lower it, or shorten the prompts"
            )

    def _out_of_memory(
        self,
        group: Sequence[Sequence[int]],
        longest: int,
        limits: GenerationLimits,
        error: BaseException,
    ) -> OutOfMemory:
        asked = _BYTES_ASKED.search(str(error))
        tokens = len(group) * (longest + limits.max_new_tokens)
        free = _free_bytes(self._model.device) // 2**20
        return OutOfMemory(
            f"out of memory on {self._model.device} with a group of {len(group)} prompts, the longest "
            f"{longest} tokens, {tokens} tokens with generation.maxNewTokens = {limits.max_new_tokens}"
            f"{f'; {asked[1]} were asked for' if asked else ''}; {free} MiB are free. "
            "Run fewer workers here, or lower generation.tokenBudget (which "
            "changes the groups and so the algorithm digest: a new run)"
        )


def _take_generation_config(model: Any, folder: Path) -> list[int]:
    """Return the end tokens of the model's generation config and replace it, so that no default applies."""
    from transformers import GenerationConfig

    config = model.generation_config
    ends = config.eos_token_id
    plain = GenerationConfig().to_dict()
    used = {"eos_token_id", "bos_token_id", "pad_token_id", "transformers_version", "_from_model_config"}
    ignored = {
        name: value
        for name, value in config.to_dict().items()
        if name not in used and value is not None and value != plain.get(name) and value is not False
    }
    ignored.pop("use_cache", None)
    if ignored:
        _LOG.info("%s: generation_config.json is not applied: %s", folder, ignored)
    model.generation_config = GenerationConfig()
    if ends is None:
        return []
    return [int(ends)] if isinstance(ends, int) else [int(end) for end in ends]


def _free_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
