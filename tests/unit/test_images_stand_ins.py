"""Stand-ins have the names, versions and symbols that torch asks for, and the same bytes at each making."""

import ctypes
import shutil
import zipfile
from pathlib import Path

import pytest

from testcluster.stand_ins import (
    Wanted,
    locked_version,
    make_stand_ins,
    pin_stand_ins,
    write_wheel,
)

LISTING = """
 0x0000000000000001 (NEEDED)             Shared library: [libcublas.so.13]
 0x0000000000000001 (NEEDED)             Shared library: [libnccl.so.2]
 0x0000000000000001 (NEEDED)             Shared library: [libcudart.so.13]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
    12: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND cublasCreate_v2@libcublas.so.13 (5)
    13: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND ncclCommInitRank
    14: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND malloc@GLIBC_2.2.5 (2)
    15: 0000000000001000    10 FUNC    GLOBAL DEFAULT   12 cublasDefinedHere
"""

LOCK = """\
cuda-toolkit==13.0.3.0 \\
    --hash=sha256:aaaa
nvidia-cublas==13.1.1.3 ; sys_platform == 'linux' \\
    --hash=sha256:bbbb \\
    --hash=sha256:cccc
nvidia-cuda-runtime==13.0.96 \\
    --hash=sha256:dddd
torch==2.13.0 \\
    --hash=sha256:eeee
"""


def test_symbols_are_read_with_their_library() -> None:
    wanted = Wanted()
    wanted.read(LISTING)
    assert list(wanted.stand_ins()) == [
        ("libcublas.so.13", frozenset({"cublasCreate_v2"}), "libcublas.so.13"),
        ("libnccl.so.2", frozenset({"ncclCommInitRank"}), None),
        ("libnvJitLink.so.13", frozenset(), "libnvJitLink.so.13"),
    ]


def test_a_wheel_has_the_same_bytes_at_each_making(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    one = write_wheel(tmp_path, "nvidia-cudnn-cu13", "9.20.0.48", files={"nvidia/x.so": b"x"})
    again = write_wheel(tmp_path / "again", "nvidia-cudnn-cu13", "9.20.0.48", files={"nvidia/x.so": b"x"})
    assert one.name == "nvidia_cudnn_cu13-9.20.0.48+stub-py3-none-any.whl"
    assert one.read_bytes() == again.read_bytes()


def test_a_lock_file_is_pinned_to_the_stand_ins_and_to_nothing_that_they_replace(tmp_path: Path) -> None:
    write_wheel(tmp_path, "cuda-toolkit", "13.0.3")
    pinned = pin_stand_ins(LOCK, tmp_path)
    assert "cuda-toolkit==13.0.3+stub \\\n    --hash=sha256:" in pinned
    assert "\nnvidia-cublas==" not in pinned
    for hash_of_replaced in ("aaaa", "bbbb", "cccc"):
        assert hash_of_replaced not in pinned
    kept = (
        "nvidia-cuda-runtime==13.0.96 \\\n    --hash=sha256:dddd\ntorch==2.13.0 \\\n    --hash=sha256:eeee\n"
    )
    assert pinned.endswith(kept)


def test_the_version_of_a_package_is_read_from_the_lock_file() -> None:
    assert locked_version(LOCK, "torch") == "2.13.0"
    with pytest.raises(ValueError, match="numpy is not in the lock file"):
        locked_version(LOCK, "numpy")


@pytest.mark.skipif(not (shutil.which("gcc") and shutil.which("readelf")), reason="needs gcc and readelf")
def test_a_library_that_needs_a_stand_in_loads_with_it(tmp_path: Path) -> None:
    """A library that calls a function of cuBLAS loads beside the stand-in that was made from its symbols."""
    from testcluster.commands import run

    (tmp_path / "cublas.c").write_text("int cublasCreate_v2(void) { return 0; }\n")
    (tmp_path / "names.map").write_text("libcublas.so.13 { global: cublasCreate_v2; };\n")
    real = tmp_path / "libcublas.so.13"
    run(["gcc", "-shared", "-fPIC", f"-Wl,-soname,{real.name}", f"-Wl,--version-script={tmp_path}/names.map",
         "-o", real, tmp_path / "cublas.c"])  # fmt: skip
    (tmp_path / "torch.c").write_text(
        "int cublasCreate_v2(void);\nint answer(void) { return cublasCreate_v2(); }\n"
    )
    user = tmp_path / "libtorch.so"
    run(["gcc", "-shared", "-fPIC", "-o", user, tmp_path / "torch.c", real])
    torch = tmp_path / "torch-2.0.0-py3-none-any.whl"
    with zipfile.ZipFile(torch, "w") as archive:
        archive.write(user, "torch/lib/libtorch.so")
        archive.writestr(
            "torch-2.0.0.dist-info/METADATA",
            'Requires-Dist: cuda-toolkit[cublas,cudart]==13.0.3; platform_system == "Linux"\n'
            'Requires-Dist: triton==3.7.1; platform_system == "Linux"\n'
            "Requires-Dist: sympy>=1.13\n",
        )
    make_stand_ins(torch, tmp_path / "wheels")
    assert sorted(path.name for path in (tmp_path / "wheels").iterdir()) == [
        "cuda_toolkit-13.0.3+stub-py3-none-any.whl",
        "triton-3.7.1+stub-py3-none-any.whl",
    ]
    toolkit = tmp_path / "wheels/cuda_toolkit-13.0.3+stub-py3-none-any.whl"
    with zipfile.ZipFile(toolkit) as archive:
        metadata = archive.read("cuda_toolkit-13.0.3+stub.dist-info/METADATA").decode()
        stand_in = archive.extract("nvidia/cu13/lib/libcublas.so.13", tmp_path / "unpacked")
    assert 'Requires-Dist: nvidia-cuda-runtime==13.0.*; extra == "cudart"' in metadata
    ctypes.CDLL(stand_in, mode=ctypes.RTLD_GLOBAL)
    assert ctypes.CDLL(str(user)).answer() == 1
