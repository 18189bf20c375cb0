"""Engines that disturb a run on purpose; a worker process takes one through `DARTES_ENGINE`.

A held engine stops a worker in the middle of a lease until a file appears, so that a test can kill it
there; a misgrouping one answers rightly but cuts groups in another way, which a comparison must notice.
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dartes.checkpoint import Checkpoint
from dartes.noise import ServedDtype
from dartes_worker.engines.base import (
    Engine,
    EngineFingerprint,
    Generation,
    GenerationLimits,
    Prompt,
    Segment,
)
from dartes_worker.engines.hashing import HashingEngine

HOLD_FOLDER: Final = "DARTES_TEST_HOLD_FOLDER"
HOLD_AT: Final = "DARTES_TEST_HOLD_AT"
"""`first:COUNT`: the first process to reach its COUNT-th group stops there; `all:COUNT`: every process."""

OPEN: Final = "open"
"""Name of the file in the hold folder that lets everybody go on."""

POLL_SECONDS = 0.005


class Wrapped:
    """An engine that does what another one does; the base of those that disturb."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def fingerprint(self) -> EngineFingerprint:
        """As the wrapped engine's."""
        return self._engine.fingerprint()

    def segments(self) -> Sequence[Segment]:
        """As the wrapped engine's."""
        return self._engine.segments()

    def encode(self, prompts: Sequence[Prompt]) -> list[list[int]]:
        """As the wrapped engine's."""
        return self._engine.encode(prompts)

    def weights_changed(self) -> None:
        """As the wrapped engine's."""
        self._engine.weights_changed()

    def generate(
        self, group: Sequence[Sequence[int]], limits: GenerationLimits, seed: int | None
    ) -> list[Generation]:
        """As the wrapped engine's."""
        return self._engine.generate(group, limits, seed)

    def close(self) -> None:
        """As the wrapped engine's."""
        self._engine.close()


class Held(Wrapped):
    """Stops before its COUNT-th group, with a file `held-PID` beside it, until the file `open` is there."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        who, _, count = os.environ[HOLD_AT].partition(":")
        self._folder = Path(os.environ[HOLD_FOLDER])
        self._only_first = who == "first"
        self._left = int(count)

    def generate(
        self, group: Sequence[Sequence[int]], limits: GenerationLimits, seed: int | None
    ) -> list[Generation]:
        """Answer, unless it is time to stop."""
        self._left -= 1
        if self._left == 0 and self._is_mine():
            (self._folder / f"held-{os.getpid()}").touch()
            while not (self._folder / OPEN).exists():
                time.sleep(POLL_SECONDS)
        return super().generate(group, limits, seed)

    def _is_mine(self) -> bool:
        if not self._only_first:
            return True
        try:
            (self._folder / "taken").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


class Misgrouping(Wrapped):
    """Answers the prompts of a group one by one, as if each were a group of its own."""

    def generate(
        self, group: Sequence[Sequence[int]], limits: GenerationLimits, seed: int | None
    ) -> list[Generation]:
        """Answer every prompt alone."""
        return [
            answer for prompt in group for answer in super(Misgrouping, self).generate([prompt], limits, seed)
        ]


def held_hashing(
    folder: Path, checkpoint: Checkpoint, served: ServedDtype, threads: int, device: str
) -> Engine:
    """Load the hashing engine, held."""
    return Held(HashingEngine.load(folder, checkpoint, served, threads, device))


def held_transformers(
    folder: Path, checkpoint: Checkpoint, served: ServedDtype, threads: int, device: str
) -> Engine:
    """Load the `transformers` engine, held."""
    from dartes_worker.engines.transformers import TransformersEngine

    return Held(TransformersEngine.load(folder, checkpoint, served, threads, device))


def misgrouping_hashing(
    folder: Path, checkpoint: Checkpoint, served: ServedDtype, threads: int, device: str
) -> Engine:
    """Load the hashing engine, misgrouping."""
    return Misgrouping(HashingEngine.load(folder, checkpoint, served, threads, device))
