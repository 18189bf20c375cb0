"""Stand-ins for the CUDA libraries and Triton that torch's wheel requires, for images that tests run on CPUs.

`import torch` needs those libraries, but without a GPU nothing in them is called: the loader must find each
library and each symbol that torch's own libraries name, no more. A stand-in is a wheel of the same name and
version with the local label `stub`, which satisfies the same `==`; 3 GB become less than one MB.
"""

import base64
import hashlib
import re
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from testcluster.commands import run

LABEL: Final = "stub"
REVISION: Final = 1
"""Raised when other wheels come out for the same torch."""

KEPT: Final = {"cudart": "nvidia-cuda-runtime", "cupti": "nvidia-cuda-cupti"}
"""Kept real (5 MB), by cuda-toolkit's extra: `torch.cuda.is_available()` is answered by the real code."""

NOT_OURS: Final = frozenset({*KEPT, "cuda"})
"""Libraries without a stand-in: the kept ones, and the driver, which is never part of an image."""

UNVERSIONED: Final = {
    "nccl": r"p?nccl",
    "cusparseLt": r"cusparseLt",
    "cufile": r"cuFile",
    "curand": r"curand",
}
"""Libraries whose symbols carry no version: by the prefix of their functions."""

PRELOADED: Final = frozenset({"libnvJitLink.so.13"})
"""Loaded by torch's Python code, needed by none of its libraries."""

REQUIREMENT: Final = re.compile(
    r"^Requires-Dist: ([\w-]+)(?:\[([\w,]+)\])?==([\w.]+); platform_system", re.MULTILINE
)
LIBRARY: Final = re.compile(r"lib((?:cu|nv|nccl)\w*?)(?:_host)?\.so")
PIN: Final = re.compile(r"^([a-z0-9-]+)==([^\s;+]+)[^\n]*(?:\n +--hash=[^\n]*)*", re.MULTILINE)
"""One package of a lock file with its hashes."""

FIRST_DAY: Final = (1980, 1, 1, 0, 0, 0)
"""The time of every file in a stand-in: the same bytes, and so the same hashes, at each making."""


@dataclass(slots=True)
class Wanted:
    """What a set of libraries asks of others: symbols by version, symbols without one, library names."""

    versioned: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    plain: set[str] = field(default_factory=set)
    libraries: set[str] = field(default_factory=set)

    def read(self, listing: str) -> None:
        """Add what one `readelf -W --dyn-syms -d` says."""
        self.libraries |= set(re.findall(r"\(NEEDED\).*\[(.*)\]", listing))
        for line in listing.splitlines():
            columns = line.split()
            if len(columns) >= 8 and columns[6] == "UND" and columns[0].endswith(":"):
                symbol, _, version = columns[7].partition("@")
                (self.versioned[version.strip("@")] if version else self.plain).add(symbol)

    def stand_ins(self) -> Iterable[tuple[str, frozenset[str], str | None]]:
        """(file name, its symbols, their version or None) of each CUDA library that must be there."""
        for library in sorted(self.libraries | PRELOADED):
            match = LIBRARY.match(library)
            if match is None or match[1] in NOT_OURS:
                continue
            version: str | None = "NVSHMEM" if match[1] == "nvshmem" else library
            symbols = frozenset(self.versioned.get(version or "", ()))
            if not symbols and (prefix := UNVERSIONED.get(match[1])):
                version = None
                symbols = frozenset(symbol for symbol in self.plain if re.match(prefix, symbol))
            yield library, symbols, version


def ensure_stand_ins(folder: Path, torch_version: str, pip: Iterable[str | Path]) -> Path:
    """Make the wheels for a version of torch where they are missing; returns their folder, below `folder`.

    `pip` is the command that runs pip; torch's wheel (half a GB) is fetched with it and not kept.
    ClusterError where a program is missing or fails.
    """
    done = folder / f"torch-{torch_version}-{REVISION}"
    if not done.exists():
        with tempfile.TemporaryDirectory(dir=_made(folder)) as scratch:
            run([*pip, "download", "--quiet", "--no-deps", "--dest", scratch, f"torch=={torch_version}"])
            wheels = Path(scratch) / "wheels"
            make_stand_ins(next(Path(scratch).glob("torch-*.whl")), wheels)
            wheels.rename(done)
    return done


def make_stand_ins(torch: Path, wheels: Path) -> None:
    """Write a stand-in for each of torch's CUDA requirements to the folder `wheels`; needs gcc, readelf."""
    wheels.mkdir(parents=True)
    with tempfile.TemporaryDirectory(dir=wheels.parent) as scratch, zipfile.ZipFile(torch) as archive:
        wanted = Wanted()
        for name in archive.namelist():
            if re.match(r"torch/lib/.*\.so", name):
                wanted.read(run(["readelf", "-W", "--dyn-syms", "-d", archive.extract(name, scratch)]))
        libraries = {
            f"nvidia/cu13/lib/{name}": _library(Path(scratch) / name, symbols, version)
            for name, symbols, version in wanted.stand_ins()
        }
        metadata = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        for name, extras, version in REQUIREMENT.findall(archive.read(metadata).decode()):
            if name == "cuda-toolkit":
                series = version.rpartition(".")[0]
                kept = {extra: f"{package}=={series}.*" for extra, package in KEPT.items()}
                write_wheel(wheels, name, version, extras.split(","), kept, libraries)
            elif name.startswith("nvidia-") or name == "triton":
                write_wheel(wheels, name, version)


def write_wheel(
    folder: Path,
    name: str,
    version: str,
    extras: Iterable[str] = (),
    requires: Mapping[str, str] | None = None,
    files: Mapping[str, bytes] | None = None,
) -> Path:
    """Write one wheel: `requires` maps an extra to what it brings, `files` paths to contents."""
    stem = f"{name.replace('-', '_')}-{version}+{LABEL}"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}+{LABEL}"]
    lines += [f"Provides-Extra: {extra}" for extra in extras]
    lines += [f'Requires-Dist: {wanted}; extra == "{extra}"' for extra, wanted in (requires or {}).items()]
    wheel = f"Wheel-Version: 1.0\nGenerator: {LABEL}\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    contents = {
        **(files or {}),
        f"{stem}.dist-info/METADATA": ("\n".join(lines) + "\n").encode(),
        f"{stem}.dist-info/WHEEL": wheel.encode(),
    }
    record = "".join(f"{path},sha256={_record_hash(data)},{len(data)}\n" for path, data in contents.items())
    contents[f"{stem}.dist-info/RECORD"] = f"{record}{stem}.dist-info/RECORD,,\n".encode()
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, data in contents.items():
            archive.writestr(zipfile.ZipInfo(entry, FIRST_DAY), data, zipfile.ZIP_DEFLATED)
    return path


def pin_stand_ins(lock: str, wheels: Path) -> str:
    """The lock file's text for these stand-ins: their packages pinned to them, hash and all.

    The libraries that come with cuda-toolkit's stand-in are in it, so that the packages which hold the real
    ones are left out, but for those that are kept real.
    """
    hashes: dict[tuple[str, str], tuple[str, str]] = {}
    for path in wheels.glob("*.whl"):
        name, version = path.name.split("-")[:2]
        released = version.removesuffix(f"+{LABEL}")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        hashes[name.replace("_", "-"), _release(released)] = version, digest

    def pinned(match: re.Match[str]) -> str:
        name = match[1]
        if stand_in := hashes.get((name, _release(match[2]))):
            return f"{name}=={stand_in[0]} \\\n    --hash=sha256:{stand_in[1]}"
        if name.startswith("nvidia-") and name not in KEPT.values():
            return f"# {name}: its libraries are in the stand-in of cuda-toolkit"
        return match[0]

    return PIN.sub(pinned, lock)


def locked_version(lock: str, package: str) -> str:
    """The version of a package in a lock file's text; ValueError where it has none."""
    for match in PIN.finditer(lock):
        if match[1] == package:
            return match[2]
    raise ValueError(f"{package} is not in the lock file")


def _release(version: str) -> str:
    """The version without trailing zeros, as `==` compares: 13.0.3.0 is 13.0.3."""
    return re.sub(r"(\.0)+$", "", version)


def _library(path: Path, symbols: frozenset[str], version: str | None) -> bytes:
    """A shared library with functions of these names that do nothing."""
    source = path.with_suffix(".c")
    code = "".join(f"int {symbol}(void) {{ return 1; }}\n" for symbol in sorted(symbols))
    source.write_text(code or "static int nothing;\n")
    command = [
        "gcc",
        "-shared",
        "-fPIC",
        "-Os",
        "-w",
        "-s",
        f"-Wl,-soname,{path.name}",
        "-Wl,--build-id=none",
    ]
    if version and symbols:
        names = path.with_suffix(".map")
        names.write_text(f"{version} {{ global: {'; '.join(sorted(symbols))}; }};\n")
        command.append(f"-Wl,--version-script={names}")
    run([*command, "-o", path, source])
    return path.read_bytes()


def _record_hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
