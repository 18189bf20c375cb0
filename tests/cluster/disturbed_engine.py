"""The real engine at the pace of a larger model, which takes all memory once a file asks for it.

Mounted into worker pods by tests; `DARTES_ENGINE=disturbed_engine:load` makes a worker use it. Answers and
fingerprint are the real engine's, so a run with it must come out the same. Without the pace a run would be
over before a disturbance has had its effect.
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dartes.checkpoint import Checkpoint
from dartes.noise import ServedDtype
from dartes_worker.engines.base import Engine, Generation, GenerationLimits
from dartes_worker.engines.transformers import TransformersEngine

ALLOCATE = Path("/tmp/allocate")
BLOCK_BYTES = 64 * 2**20
PACE_SECONDS = float(os.environ.get("DARTES_TEST_PACE_SECONDS", "0"))
"""What each group of prompts takes longer."""


class Disturbed:
    """Delegates to an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def generate(
        self, group: Sequence[Sequence[int]], limits: GenerationLimits, seed: int | None
    ) -> list[Generation]:
        """As the real one, while nobody asks for its end."""
        blocks = []
        while ALLOCATE.exists():
            blocks.append(bytearray(b"x" * BLOCK_BYTES))
        time.sleep(PACE_SECONDS)
        return self._engine.generate(group, limits, seed)


def load(folder: Path, checkpoint: Checkpoint, served: ServedDtype, threads: int, device: str) -> Disturbed:
    """Load the real engine and wrap it."""
    return Disturbed(TransformersEngine.load(folder, checkpoint, served, threads, device))
