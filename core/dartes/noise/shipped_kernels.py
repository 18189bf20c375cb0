"""Compiled noise kernels that came with an installation, put where the compiler looks for them.

The compiler reads its cache only in a folder that it may write to, and the root of a container is read-only.
Its image keeps compiled kernels aside, and a process copies them to the writable folder before it needs them.
The compiler itself checks that they are for this source and this processor, and compiles others anew.
"""

import logging
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

SHIPPED: Final = "DARTES_SHIPPED_KERNELS"
"""Environment variable: the folder that came with the installation, written with it as NUMBA_CACHE_DIR."""

CACHE: Final = "NUMBA_CACHE_DIR"
"""Environment variable of the compiler: the folder of its cache."""

_LOG: Final = logging.getLogger(__name__)


def unpack_shipped_kernels(environ: Mapping[str, str] = os.environ) -> None:
    """Copy the shipped kernels into the compiler's cache where it has none; nothing without both variables.

    A folder that can't be written costs time only, so that it is logged and no error.
    """
    shipped, cache = environ.get(SHIPPED), environ.get(CACHE)
    if not shipped or not cache:
        return
    for folder in sorted(Path(shipped).glob("*/")):
        target = Path(cache) / folder.name
        partial = target.with_name(f"{target.name}.{os.getpid()}")
        if target.exists():
            continue
        try:
            shutil.copytree(folder, partial)
            partial.rename(target)  # whole or not at all: another process may look just now
        except OSError as error:
            _LOG.warning("%s can't be written, so the noise kernels are compiled anew: %s", target, error)
            shutil.rmtree(partial, ignore_errors=True)
