"""Making what was written last through a power cut, for every package that renames files into place."""

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Make names and renames in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
