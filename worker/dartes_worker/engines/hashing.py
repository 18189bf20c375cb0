"""A test engine without a neural network: its answers hash its group, its served weights and the prompt.

Any difference in how a batch is cut into groups, or in one bit of the served weights, changes the answers and
so the journal; runs that agree with this engine agree by construction, not by chance. It answers
`a+b=` prompts rightly with a probability that depends on the prompt, so pass rates lie between 0 and 1.
"""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from dartes.checkpoint import Checkpoint
from dartes.noise import ServedDtype
from dartes.noise.dtypes import round_to
from dartes_worker.engines.base import (
    EngineFingerprint,
    Generation,
    GenerationLimits,
    Prompt,
    Segment,
    ServedValues,
)

_SUM: Final = re.compile(rb"(\d{1,18})\s*\+\s*(\d{1,18})")


class HashingEngine:
    """Serves the checkpoint's trained tensors as plain arrays. Tokens are the prompt's UTF-8 bytes."""

    def __init__(self, tensors: dict[str, ServedValues], served: ServedDtype, threads: int) -> None:
        self._tensors = tensors
        self._served = served
        self._threads = threads
        self._digest: bytes | None = None

    @classmethod
    def load(
        cls,
        folder: Path,  # noqa: ARG003 - the signature that every engine shares
        checkpoint: Checkpoint,
        served: ServedDtype,
        threads: int,
        device: str,  # noqa: ARG003
    ) -> Self:
        """Read and round every trained tensor of `checkpoint`; `folder` and `device` play no part."""
        tensors = {
            info.name: round_to(served, checkpoint.read_f32(info.name, 0, info.count))
            for info in checkpoint.trainable
        }
        return cls(tensors, served, threads)

    def fingerprint(self) -> EngineFingerprint:
        """Answers depend on nothing but bits; the device is any."""
        return EngineFingerprint("hashing", "any", self._served.value, self._threads, {})

    def segments(self) -> list[Segment]:
        """Return one segment per tensor."""
        return [Segment(name, 0, array.size, array) for name, array in self._tensors.items()]

    def encode(self, prompts: Sequence[Prompt]) -> list[list[int]]:
        """Return the UTF-8 bytes of each prompt, messages joined by line ends."""
        texts = (
            prompt if isinstance(prompt, str) else "\n".join(message.content for message in prompt)
            for prompt in prompts
        )
        return [list(text.encode() or b"\n") for text in texts]

    def weights_changed(self) -> None:
        """Forget the digest of the served weights."""
        self._digest = None

    def generate(
        self, group: Sequence[Sequence[int]], limits: GenerationLimits, seed: int | None
    ) -> list[Generation]:
        """Answer from hashes of (weights, limits, seed, whole group, position)."""
        prompts = [bytes(tokens) for tokens in group]
        context = hashlib.blake2b(self._weights_digest(), digest_size=16)
        context.update(repr((limits, seed)).encode())
        for prompt in prompts:
            context.update(len(prompt).to_bytes(8, "little") + prompt)
        return [
            _answer(context.digest(), position, prompt, limits) for position, prompt in enumerate(prompts)
        ]

    def close(self) -> None:
        """Release the arrays."""
        self._tensors = {}

    def _weights_digest(self) -> bytes:
        if self._digest is None:
            total = hashlib.blake2b(digest_size=32)
            for name in sorted(self._tensors):
                total.update(name.encode() + b"\0")
                total.update(self._tensors[name].data)
            self._digest = total.digest()
        return self._digest


def _answer(context: bytes, position: int, prompt: bytes, limits: GenerationLimits) -> Generation:
    word = hashlib.blake2b(position.to_bytes(8, "little"), key=context, digest_size=8).digest()
    # A prompt's own chance of a right answer, 0..255 of 256: some problems are easy and some are hard.
    chance = hashlib.blake2b(prompt, digest_size=1).digest()[0]
    token_count = 1 + word[1] % limits.max_new_tokens
    truncated = token_count == limits.max_new_tokens and word[2] < 64
    sums = _SUM.findall(prompt)
    if sums and word[0] < chance:
        # The last one is the question; those before it are examples.
        return Generation(str(sum(map(int, sums[-1]))), token_count, truncated)
    return Generation(word.hex(), token_count, truncated)
