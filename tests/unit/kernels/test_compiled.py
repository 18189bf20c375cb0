"""What the kernels become for real GPUs: products are never fused with sums, nothing is flushed to zero.

Compiled here for two generations of GPUs by the compiler that a GPU's machine would use, through the same
calls; only the launch itself is left out. The machine code is looked at too where it is cheap.
"""

import contextlib
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import triton
from triton.backends.compiler import GPUTarget

from dartes.errors import ConfigurationError
from dartes.noise import ServedDtype
from dartes_worker.kernels import digest, launching, update, write
from dartes_worker.weights.stretch import Stretch

ALIGNED = Stretch("c", "s", 0, 0, 4096)
CROOKED = Stretch("c", "s", 3, 5, 100, 7, 1000, 101)
ROWS = [(np.arange(3, dtype=np.uint64), np.full(3, 1e-3, dtype=np.float32))]

Built = list[Any]


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch, tmp_path: Any, request: pytest.FixtureRequest) -> Built:
    """Kernels that launches would have started; the target is the test's parameter, (major, minor) as 80."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    compiled: Built = []
    target = GPUTarget("cuda", request.param, 32)
    driver = SimpleNamespace(
        get_current_target=lambda: target,
        get_current_device=lambda: 1000 + request.param,
        get_current_stream=lambda _: 0,
    )

    def without_launch(kernel: Any) -> Callable[..., None]:
        run = kernel.run

        def build(*arguments: Any, grid: Any, warmup: bool, **options: Any) -> None:
            compiled.append(run(*arguments, grid=grid, warmup=True, **options))

        return build

    for kernel in (write.write_kernel, update.update_kernel, digest.digest_kernel):
        monkeypatch.setattr(kernel, "run", without_launch(kernel))
        kernel.device_caches.pop(1000 + request.param, None)
    for module in (write, update, digest):
        monkeypatch.setattr(module, "on_device", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(triton.runtime.driver, "_active", driver)
    return compiled


def write_all(part: Stretch, sigma: float = 1e-3) -> None:
    """A launch of every variant of the kernel that writes a member."""
    master = torch.zeros(8192)
    for served, dtype in (
        (ServedDtype.FLOAT32, torch.float32),
        (ServedDtype.BFLOAT16, torch.bfloat16),
        (ServedDtype.FLOAT16, torch.float16),
        (ServedDtype.BFLOAT16, torch.float32),
        (ServedDtype.FLOAT16, torch.float32),
    ):
        write.write_member(master, torch.zeros(8192, dtype=dtype), served, part, 2**63 + 1, 1, sigma)


def launch_all() -> None:
    """A launch of every kernel, on stretches that begin with a block and on others."""
    write_all(ALIGNED)
    write_all(ALIGNED, sigma=0.0)
    for part in (ALIGNED, CROOKED):
        update.apply_updates(torch.zeros(8192), part, 1, update.packed(ROWS, torch.device("cpu")))
        for dtype in (torch.float32, torch.bfloat16):
            digest.digest(torch.zeros(8192, dtype=dtype), ServedDtype.BFLOAT16, part, 1)
    write_all(CROOKED)


def faults(ptx: str) -> list[str]:
    """Instructions on float32 values that would not give the bits of the noise contract."""
    return re.findall(r"\S*(?:fma|mad)\.\S*f32|\S+\.ftz\S*|\S+\.approx\S*", ptx)


@pytest.mark.slow
@pytest.mark.parametrize("built", [80, 90], indirect=True)
def test_no_kernel_fuses_or_flushes(built: Built) -> None:
    launch_all()
    names = [kernel.metadata.name for kernel in built]
    assert len(built) == 21
    assert set(names) == {"write_kernel", "update_kernel", "digest_kernel"}
    for kernel in built:
        assert faults(kernel.asm["ptx"]) == []
    rounded = [kernel.asm["ptx"].count("mul.rn.f32") for kernel in built if "update" in kernel.metadata.name]
    assert all(count == 8 for count in rounded), rounded


@pytest.mark.parametrize("built", [90], indirect=True)
def test_neither_does_the_assembler(built: Built) -> None:
    update.apply_updates(torch.zeros(8192), ALIGNED, 1, update.packed(ROWS, torch.device("cpu")))
    machine_code = built[0].asm["sass"]
    assert "FMUL" in machine_code
    assert "FADD" in machine_code
    assert "FFMA" not in machine_code


@pytest.mark.parametrize("built", [90], indirect=True)
def test_a_fused_kernel_would_be_found(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(launching.OPTIONS, "enable_fp_fusion", True)
    update.apply_updates(torch.zeros(8192), ALIGNED, 1, update.packed(ROWS, torch.device("cpu")))
    assert "fma.rn.f32" in faults(built[0].asm["ptx"])


@pytest.mark.parametrize("built", [90], indirect=True)
def test_an_aligned_stretch_is_read_and_written_in_wide_accesses_without_shared_memory(built: Built) -> None:
    master, out = torch.zeros(8192), torch.zeros(8192, dtype=torch.bfloat16)
    write.write_member(master, out, ServedDtype.BFLOAT16, ALIGNED, 1, 1, 1e-3)
    assert "ld.global.v4.b32" in built[0].asm["ptx"]
    assert "st.global.v4.b32" in built[0].asm["ptx"]
    assert built[0].metadata.shared == 0


@pytest.mark.parametrize("built", [90], indirect=True)
def test_values_of_scalars_make_no_new_variant(built: Built) -> None:
    master, out = torch.zeros(8192), torch.zeros(8192, dtype=torch.bfloat16)
    for seed, key, start, length in ((1, 2**63, 0, 4096), (2**64 - 1, 0, 16, 4080), (0, 1, 2**40, 4064)):
        part = Stretch("c", "s", start, 0, length)
        write.write_member(master, out, ServedDtype.BFLOAT16, part, key, seed, 1e-3)
    assert len({kernel.hash for kernel in built}) == 1


def test_weights_outside_a_gpu_are_refused_where_nothing_interprets() -> None:
    with pytest.raises(ConfigurationError, match="device cpu: Triton kernels run on CUDA"):
        write_all(ALIGNED)
