"""The `transformers` engine on the folders of tiny models."""

from collections.abc import Callable
from pathlib import Path

from dartes.checkpoint import open_checkpoint
from dartes.noise import ServedDtype
from dartes_worker.engines.base import GenerationLimits
from dartes_worker.engines.transformers import TransformersEngine

TinyFolder = Callable[[str], Path]
EditedCopy = Callable[..., Path]
Engines = Callable[[str], TransformersEngine]
GREEDY = GenerationLimits(max_new_tokens=12)


def load(folder: Path, served: ServedDtype = ServedDtype.FLOAT32) -> TransformersEngine:
    return TransformersEngine.load(folder, open_checkpoint(folder), served, 1, "cpu")
