"""Write the Python modules of the wire, core/dartes/v1, from proto/dartes/v1; `--check` only compares.

It knows the layout of this repository and runs the compiler of `grpcio-tools`; what the messages mean is not
its business.

    python scripts/generate_protocol.py [--check]
"""

import argparse
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "proto"
PACKAGE = Path("dartes/v1")
HEADER = "# Written by `make proto` from proto/dartes/v1; edit that instead.\n"


def generate(output: Path) -> None:
    """Compile every .proto file into modules, stubs and type stubs below ``output``."""
    files = sorted(str(path.relative_to(SOURCES)) for path in (SOURCES / PACKAGE).glob("*.proto"))
    options = [f"--{kind}_out={output}" for kind in ("python", "pyi", "grpc_python")]
    if protoc.main(["protoc", f"--proto_path={SOURCES}", *options, *files]) != 0:
        raise SystemExit("protoc failed; its message is above")
    for module in sorted((output / PACKAGE).iterdir()):
        module.write_text(HEADER + module.read_text(encoding="utf-8"), encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Generate or compare; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="exit 1 where a module differs from its source")
    check = parser.parse_args(arguments).check
    target = ROOT / "core" / PACKAGE
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        fresh = {path.name: path.read_bytes() for path in (Path(folder) / PACKAGE).iterdir()}
    present = {path.name: path.read_bytes() for path in target.glob("*_pb2*.py*")}
    changed = sorted(name for name in fresh.keys() | present if fresh.get(name) != present.get(name))
    if check:
        for name in changed:
            print(f"{(target / name).relative_to(ROOT)} is not what proto/ gives; run `make proto`")
        return 1 if changed else 0
    for name in changed:
        if name in fresh:
            (target / name).write_bytes(fresh[name])
        else:
            (target / name).unlink()
    print(f"{len(changed)} of {len(fresh)} modules changed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
