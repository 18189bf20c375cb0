"""Kernels are ready before anything large is loaded, and work on after their compiler's pages are gone."""

import sys
from importlib import import_module
from pathlib import Path

import numpy as np

from dartes.noise import ServedDtype
from dartes.noise.reference import normals
from dartes_worker.kernel_memory import give_back_file_pages, prepare_kernels


def written() -> np.ndarray:
    from dartes.noise.kernel import write_member

    out = np.empty(1000, np.float32)
    write_member(np.zeros(1000, np.float32), out, ServedDtype.FLOAT32, 5, 6, 3, 1.0)
    return out


def resident_of(library: str) -> int:
    """Resident KiB of a library."""
    total, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(" ", 1)[0]:
            inside = library in line
        elif inside and line.startswith("Rss:"):
            total += int(line.split()[1])
    return total


def test_kernels_give_the_same_bits_after_their_pages_were_given_back() -> None:
    prepare_kernels()
    assert "dartes.noise.kernel_compiled" in sys.modules
    before = written()
    give_back_file_pages("libllvmlite")
    after = written()
    assert before.tobytes() == after.tobytes() == normals(5, 6, 3, 1000).tobytes()


def test_only_pages_of_the_library_named_are_dropped() -> None:
    assert give_back_file_pages("no-such-library") == 0


def test_what_is_given_back_is_no_longer_resident() -> None:
    prepare_kernels()
    binding = import_module("llvmlite.binding")
    assert binding.get_default_triple(), "runs code of the library, so that some of it is resident"
    before = resident_of("libllvmlite")
    given_back = give_back_file_pages("libllvmlite")
    assert given_back > 0
    assert resident_of("libllvmlite") <= before - given_back // 1024
