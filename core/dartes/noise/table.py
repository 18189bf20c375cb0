"""The normal table: 65,536 float32 numbers of unit variance that turn 16 random bits into one normal.

The table is a file of the package, checked against its SHA-256 when first read: a math library must never
decide a bit of the noise. `scripts/make_normal_table.py` documents how the file was made.
"""

import functools
import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dartes.errors import ConfigurationError

TABLE_SIZE = 65536
TABLE_FILE = Path(__file__).with_name("normals-v1.f32")
TABLE_SHA256 = "8babbcaf96568f10165a1eab530c0e5c92d04de96761b6dbb3dadfa94baba37f"


@functools.cache
def normal_table() -> NDArray[np.float32]:
    """The table, float32[65536], read-only and shared by all callers.

    Raises ConfigurationError where the installed file is missing or is not the one of this version.
    """
    return read_table(TABLE_FILE)


def read_table(path: Path) -> NDArray[np.float32]:
    """Reads and verifies a table file (little-endian float32); the result is read-only."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f"the normal table {path} cannot be read ({error.strerror}); install `dartes` again"
        ) from error
    found = hashlib.sha256(data).hexdigest()
    if found != TABLE_SHA256:
        raise ConfigurationError(
            f"the normal table {path} is damaged: {len(data)} bytes with SHA-256 {found}, "
            f"but noise version 1 needs {4 * TABLE_SIZE} bytes with {TABLE_SHA256}; install `dartes` again"
        )
    table = np.frombuffer(data, dtype="<f4").astype(np.float32)
    table.setflags(write=False)
    return table
