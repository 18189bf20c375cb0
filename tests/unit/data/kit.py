"""What the tests of data sets share: a description without a job model, and files written in one line."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Description:
    """What a job says of its data set."""

    source: str
    split: str = "train"
    max_problems: int | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    filters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    config: str | None = None
    revision: str | None = None


def write(folder: Path, content: str | bytes, name: str = "set.jsonl") -> Path:
    """Write a file, with the folders that it lies in."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path
