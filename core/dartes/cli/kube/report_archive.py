"""The archive of a bug report: every file passes the redactor on its way in, and none is too large.

It knows nothing of the cluster. An archive is there whole, readable by its owner alone, or not at all.
"""

import io
import json
import os
import tarfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from dartes.cli.kube.redact import Redactor
from dartes.durable import sync_folder
from dartes.errors import ConfigurationError

FOLDER: Final = "dartes-report"
TEXT_BYTES: Final = 2**20
"""Most of one log or metrics page; of a longer one the end is kept, where what went wrong stands."""
DOCUMENT_BYTES: Final = 4 * 2**20
TOTAL_BYTES: Final = 64 * 2**20
"""Most of all files together, before they are packed."""
CUT: Final = "(the beginning is left out: the file was too long)\n"


class Archive:
    """Files that are written one after the other."""

    def __init__(self, tar: tarfile.TarFile, redactor: Redactor) -> None:
        self._tar = tar
        self._redactor = redactor
        self._room = TOTAL_BYTES
        self.left_out: list[str] = []

    def add(self, path: str, content: Any) -> None:
        """Write one file: a text as its end, anything else as JSON; none where there is no room left."""
        raw = self._text(content) if isinstance(content, str) else self._document(content)
        if raw is None or len(raw) > self._room:
            self.left_out.append(f"{path}: too large")
            return
        self._room -= len(raw)
        self._write(path, raw)

    def has_room(self) -> bool:
        """Whether any log or metrics page would still fit."""
        return self._room >= TEXT_BYTES

    def close(self, path: str, others: Sequence[str]) -> int:
        """Write what was left out, here and by others, whatever room there is; returns how many things."""
        lines = [*others, *self.left_out]
        self._write(path, self._text("".join(f"{line}\n" for line in lines)))
        return len(lines)

    def _write(self, path: str, raw: bytes) -> None:
        entry = tarfile.TarInfo(f"{FOLDER}/{path}")
        entry.size, entry.mode, entry.mtime = len(raw), 0o600, int(time.time())
        self._tar.addfile(entry, io.BytesIO(raw))

    def _text(self, content: str) -> bytes:
        # First without secrets, then cut: half a token has no shape to be known by.
        raw = self._redactor.text(content).encode("utf-8", "replace")
        if len(raw) <= TEXT_BYTES:
            return raw
        end = raw[-TEXT_BYTES:]
        return CUT.encode("ascii") + end[end.find(b"\n") + 1 :]

    def _document(self, content: Any) -> bytes | None:
        text = json.dumps(self._redactor.document(content), indent=1, ensure_ascii=False)
        raw = f"{text}\n".encode("utf-8", "replace")
        return raw if len(raw) <= DOCUMENT_BYTES else None


@contextmanager
def writing(output: Path, redactor: Redactor) -> Iterator[Archive]:
    """An archive to be filled within the block; it appears at its end, and not at all after an error.

    Raises
    ------
    ConfigurationError
        There is a file of that name, or no folder for it.
    """
    if output.exists() or output.is_symlink():
        raise ConfigurationError(f"{output} exists already; name another file with --output, or remove it")
    if not output.parent.is_dir():
        raise ConfigurationError(f"{output.parent} is no folder; name a file in one that exists")
    partial = output.parent / f".{output.name}.partial-{os.getpid()}"
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            with tarfile.open(fileobj=file, mode="w:gz", format=tarfile.PAX_FORMAT) as tar:
                yield Archive(tar, redactor)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(output)
        sync_folder(output.parent)
    finally:
        with suppress(FileNotFoundError):
            partial.unlink()
