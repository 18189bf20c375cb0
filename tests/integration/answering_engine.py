"""A test engine that answers from a list: by prompt, some right and some wrong texts, drawn by the weights.

It stands for a language model that can solve some of any task's problems, which no model of a few thousand
parameters can. Which text a member gives depends on every bit of its weights, as with the hashing engine.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from dartes.checkpoint import Checkpoint
from dartes.noise import ServedDtype
from dartes_worker.engines.base import Generation, GenerationLimits
from dartes_worker.engines.hashing import HashingEngine

ANSWERS_VARIABLE: Final = "DARTES_TEST_ANSWERS"
"""Names a JSON file: the prompt's text (messages joined by line ends) -> list of answers."""


class AnsweringEngine(HashingEngine):
    """As the hashing engine, with answers from a file."""

    answers: dict[str, list[str]]

    @classmethod
    def load(
        cls, folder: Path, checkpoint: Checkpoint, served: ServedDtype, threads: int, device: str
    ) -> Self:
        """See `HashingEngine.load`."""
        engine = super().load(folder, checkpoint, served, threads, device)
        engine.answers = json.loads(Path(os.environ[ANSWERS_VARIABLE]).read_text(encoding="utf-8"))
        return engine

    def generate(
        self, group: Sequence[Sequence[int]], limits: GenerationLimits, seed: int | None
    ) -> list[Generation]:
        """Choose each answer by the hash that the hashing engine would have written."""
        chosen = []
        for tokens, hashed in zip(group, super().generate(group, limits, seed), strict=True):
            texts = self.answers[bytes(tokens).decode()]
            word = hashlib.blake2b(f"{hashed.text} {seed}".encode(), digest_size=4).digest()
            text = texts[int.from_bytes(word, "big") % len(texts)]
            chosen.append(Generation(text, min(len(text), limits.max_new_tokens), False))
        return chosen
