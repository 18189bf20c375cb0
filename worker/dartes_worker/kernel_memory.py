"""Load the noise kernels before anything large is, and give back the memory that only loading them took.

Compiled kernels come from the compiler's library, 160 MB of code and tables; loading them touches about half,
and running them none of it. Those pages are the file's own and come back by themselves should
anybody read them. Knows nothing about kernels but that importing them makes them ready.
"""

import ctypes
import logging
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

from dartes.noise.shipped_kernels import unpack_shipped_kernels

_LOG: Final = logging.getLogger(__name__)

_KERNELS: Final = "dartes.noise.kernel"
_COMPILER: Final = "libllvmlite"
_MAPS: Final = Path("/proc/self/smaps")
_MAPPING: Final = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \S+\s*(.*)")
_DONTNEED: Final = 4
"""MADV_DONTNEED of Linux: drop the pages now; the next access reads them from the file again."""


def prepare_kernels() -> None:
    """Make the noise kernels ready; where it is the first time on this machine, that compiles them.

    Called before the model is loaded: what compiling needs for a moment is then no part of the worker's peak.
    """
    unpack_shipped_kernels()
    import_module(_KERNELS)
    given_back = give_back_file_pages(_COMPILER)
    _LOG.debug("noise kernels are ready; %d MiB of the compiler given back", given_back >> 20)


def give_back_file_pages(library: str) -> int:
    """Drop the resident pages of a loaded library that are as in its file; returns how many bytes.

    Pages that were written to (relocations, variables) stay. 0 where this system doesn't show its mappings.
    """
    if not _MAPS.exists():
        return 0
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    given_back = 0
    for start, end, resident in list(_clean_mappings(library)):
        if advise(start, end - start, _DONTNEED) == 0:
            given_back += resident
    return given_back


def _clean_mappings(library: str) -> Iterator[tuple[int, int, int]]:
    """(start, end, resident bytes) of the library's read-only mappings in which no page was ever written."""
    mapping: tuple[int, int] | None = None
    resident = 0
    for line in _MAPS.read_text(encoding="utf-8", errors="replace").splitlines():
        header = _MAPPING.fullmatch(line)
        if header is not None:
            wanted = library in Path(header[4]).name and "w" not in header[3]
            mapping = (int(header[1], 16), int(header[2], 16)) if wanted else None
        elif line.startswith("Rss:"):
            resident = int(line.split()[1]) * 1024
        elif mapping is not None and resident and line.split()[:2] == ["Anonymous:", "0"]:
            yield (*mapping, resident)
