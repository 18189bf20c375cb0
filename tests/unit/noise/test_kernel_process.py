"""What only a process of its own shows: compiling, two compilers at once, machine code, peak memory."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

COMPILE = """
import json, re
import numba, numpy as np
from dartes.noise import ServedDtype, kernel, kernel_compiled

FUSED = re.compile(r"\\b(v?fn?m(add|sub)\\w*|fml[as])\\b")

@numba.njit(numba.float32(numba.float32, numba.float32, numba.float32), fastmath=True)
def control(a, b, c):
    return a + b * c

functions = [
    kernel_compiled.write_member_16, kernel_compiled.write_member_32, kernel_compiled.apply_updates
]
fused = {f.__name__: any(FUSED.search(code) for code in f.inspect_asm().values()) for f in functions}
fused["control"] = any(FUSED.search(code) for code in control.inspect_asm().values())
master = np.linspace(-1, 1, 10_000, dtype=np.float32)
out = np.empty(master.size, dtype=np.uint16)
kernel.write_member(master, out, ServedDtype.BFLOAT16, 1, 2, 3, 1e-3)
print(json.dumps({"fused": fused, "digest": kernel.digest_served(out, 2, 3)}))
"""

REUSE = """
import json
from dartes.noise import kernel_compiled as compiled

functions = [compiled.write_member_16, compiled.write_member_32, compiled.apply_updates, compiled.digest_bits]
print(json.dumps([len(f.stats.cache_hits) - len(f.stats.cache_misses) for f in functions]))
"""

MEMORY = """
import json, resource
import numpy as np
from dartes.noise import ServedDtype, kernel

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

count = 32 * 1024 * 1024
master = np.full(count, 0.02, dtype=np.float32)
out = np.ones(count, dtype=np.uint16)
rows = [(np.arange(2, dtype=np.uint64), np.full(2, 1e-3, dtype=np.float32))]
before = peak()
kernel.write_member(master, out, ServedDtype.BFLOAT16, 1, 2, 3, 1e-3)
kernel.round_into(master, out, ServedDtype.FLOAT16)
kernel.apply_updates(master, 2, 3, rows)
kernel.digest_fp32(master, 2, 3)
kernel.digest_rounded(master, ServedDtype.BFLOAT16, 2, 3)
kernel.digest_served(out, 2, 3)
print(json.dumps({"before": before, "after": peak(), "arrays": master.nbytes + out.nbytes}))
"""


def started(program: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: subprocess.Popen[str]) -> Any:
    """What the process printed, as JSON; its error output in the assertion if it failed."""
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return json.loads(output)


def test_two_processes_that_compile_at_once_agree_and_no_product_is_fused(tmp_path: Path) -> None:
    both = [started(COMPILE, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2)]
    first, second = [finished(process) for process in both]
    assert first == second
    # The control shows that a fused operation would be found in this machine's code.
    assert first["fused"] == {
        "write_member_16": False,
        "write_member_32": False,
        "apply_updates": False,
        "control": True,
    }
    # The cache they left behind serves a third process: every signature is a hit, none is compiled again.
    assert finished(started(REUSE, NUMBA_CACHE_DIR=str(tmp_path))) == [1, 1, 1, 2]


def test_no_kernel_needs_memory_beside_its_arrays() -> None:
    peak = finished(started(MEMORY))
    assert peak["before"] > peak["arrays"], "the arrays must be resident before the kernels run"
    assert peak["after"] - peak["before"] < 64 * 1024 * 1024


def test_without_a_writable_cache_the_kernels_are_compiled_in_the_process(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from dartes.noise import kernel_compiled

    asked_for: list[bool] = []

    def without_cache_folder(signatures: list[object], cache: bool = False, nogil: bool = False) -> Any:
        asked_for.append(cache)
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: (function, nogil)

    monkeypatch.setattr(kernel_compiled, "njit", without_cache_folder)

    def plain() -> None: ...

    compiled: object = kernel_compiled._compiled("void()")(plain)
    assert compiled == (plain, True)
    assert asked_for == [True, False]
    assert "compiled anew in each process" in caplog.text
