"""A stand-in for an export: writes a few files as one, and counts how often it had to."""

import json
from pathlib import Path
from typing import Final

from dartes.checkpoint import PROVENANCE_FILE, WeightDigest
from dartes.ids import Iteration
from dartes.journal import Exported

ROW_HASH: Final = "ab" * 32
ITERATION: Final = 4


class Builder:
    """Builds one model; `weights` are its bytes."""

    digest: Final = "cd" * 32

    def __init__(self, weights: bytes = b"weights" * 1000) -> None:
        self.calls = 0
        self._files = {"config.json": b"{}", "model.safetensors": weights}

    @property
    def names(self) -> set[str]:
        """The files of a built model."""
        return {*self._files, PROVENANCE_FILE}

    def content(self, name: str) -> bytes:
        """What a file of the model holds."""
        return self._files[name]

    def __call__(self, output: Path) -> Exported:
        """Write the model."""
        self.calls += 1
        output.mkdir(parents=True, exist_ok=True)
        for name, content in self._files.items():
            (output / name).write_bytes(content)
        provenance = {"journal_hash": ROW_HASH, "weight_digest": self.digest, "iteration": ITERATION}
        (output / PROVENANCE_FILE).write_text(json.dumps(provenance))
        return Exported(
            output, Iteration(ITERATION), bytes.fromhex(ROW_HASH), WeightDigest(total=self.digest, tensors={})
        )
