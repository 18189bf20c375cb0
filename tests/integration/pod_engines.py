"""Engines of processes that are stopped or fail before they serve, taken through `DARTES_ENGINE`."""

import os
import time
from pathlib import Path

from dartes.checkpoint import Checkpoint
from dartes.noise import ServedDtype
from dartes_worker.engines.base import Engine

LOADING = "DARTES_TEST_LOADING"
"""Names the file that says that loading has begun."""


def never_loaded(
    folder: Path, checkpoint: Checkpoint, served: ServedDtype, threads: int, device: str
) -> Engine:
    """Stay in one call of the operating system, as a loader of large files does."""
    Path(os.environ[LOADING]).touch()
    time.sleep(600)
    raise AssertionError("nobody has ended this process")


def broken(folder: Path, checkpoint: Checkpoint, served: ServedDtype, threads: int, device: str) -> Engine:
    """Fail as a bug does."""
    raise ZeroDivisionError("layers without heads")
