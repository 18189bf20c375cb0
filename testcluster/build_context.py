"""What an image is built from: the files that the Dockerfile needs, read once, and their fingerprint.

Equal sources give equal contexts, whenever and wherever they were checked out: times of change are fixed, and
what `.dockerignore` leaves out isn't there. Nothing is built here.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

FILES: Final = ("Dockerfile", "pyproject.toml", "README.md", "LICENSE")
FOLDERS: Final = ("requirements", "core", "coordinator", "worker", "operator")
LEFT_OUT: Final = frozenset({"__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"})
SUFFIXES_LEFT_OUT: Final = frozenset({".in", ".nbc", ".nbi", ".overrides", ".partial", ".pyc"})
VERSION_FILE: Final = "core/dartes/__init__.py"
TIME_OF_CHANGE: Final = 1577836800
"""1 January 2020, of every file."""


@dataclass(frozen=True, slots=True)
class Context:
    """Paths, relative to the project, and their contents, as they were when it was read."""

    files: Mapping[str, bytes]

    @classmethod
    def read(cls, root: Path) -> Self:
        """Read the files of the project at `root`."""
        return cls({str(path): (root / path).read_bytes() for path in _paths(root)})

    @property
    def version(self) -> str:
        """The project's version, as its source states it; ValueError where it doesn't."""
        text = self.files[VERSION_FILE].decode()
        match = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
        if match is None:
            raise ValueError(f'{VERSION_FILE}: a line like __version__ = "1.2.3" is needed')
        return match[1]

    def fingerprint(self, *also: str) -> str:
        """A hash of paths and contents, and of further words that the images depend on."""
        digest = hashlib.sha256()
        for word in also:
            digest.update(f"{word}\n".encode())
        for path, content in self.files.items():
            digest.update(f"{path} {len(content)}\n".encode())
            digest.update(content)
        return digest.hexdigest()

    def write(self, target: Path, replaced: Mapping[str, str]) -> None:
        """Write the files to the folder `target`, emptied first; `replaced` maps paths to other texts."""
        shutil.rmtree(target, ignore_errors=True)
        for name, content in self.files.items():
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(replaced[name].encode() if name in replaced else content)
            path.chmod(0o644)
            os.utime(path, (TIME_OF_CHANGE, TIME_OF_CHANGE))
        for folder in (target, *(path for path in target.rglob("*") if path.is_dir())):
            folder.chmod(0o755)
            os.utime(folder, (TIME_OF_CHANGE, TIME_OF_CHANGE))


def _paths(root: Path) -> Iterator[Path]:
    yield from (Path(name) for name in FILES)
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            relative = path.relative_to(root)
            left_out = LEFT_OUT.intersection(relative.parts) or path.suffix in SUFFIXES_LEFT_OUT
            if path.is_file() and not left_out:
                yield relative
