"""Which files a confined program may see, and the root folder that holds these alone.

Reads paths of this interpreter; decides nothing about who may run.
"""

import contextlib
import fcntl
import os
import secrets
import stat
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

from dartes.sandbox import landlock, linux
from dartes.sandbox.runs import MIB

DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
SYSTEM_LIBRARIES = (
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/share/zoneinfo",
    "/etc/ld.so.cache",
    "/etc/localtime",
)
VIEW_TEMP = "/tmp"
"""The temporary folder inside the view."""

SCRATCH_PREFIX = "dartes-sandbox-"
STALE_SECONDS = 60.0
"""Age from which on a scratch folder that nobody holds has no owner; a younger one may have one soon."""

_FOR_OTHERS = 0o005


def library_paths() -> list[str]:
    """Folders and files of the interpreter, its libraries and the system's; none lies in another."""
    paths = sysconfig.get_paths()
    wanted = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    wanted |= {f"{sys.base_prefix}/lib", *SYSTEM_LIBRARIES}
    found = sorted(str(Path(path).absolute()) for path in wanted if Path(path).exists())
    return [path for path in found if not any(path.startswith(f"{other}/") for other in found)]


def others_can_read(folder: str) -> bool:
    """Whether a user without rights of its own reaches a folder, by the permission bits on the way."""
    path = Path(folder)
    return all(step.stat().st_mode & _FOR_OTHERS == _FOR_OTHERS for step in (path, *path.parents))


def landlock_rules() -> tuple[tuple[str, int], ...]:
    """What Landlock leaves every program, beside its temporary folder."""
    rules = [(path, landlock.READ) for path in library_paths()]
    return (*rules, *((path, landlock.USE_DEVICE) for path in DEVICES))


def enter_view(scratch: str) -> None:
    """Make a root folder of library paths and devices, all read-only, and enter it.

    `scratch` is an empty folder to mount it on. Raises OSError where the kernel refuses; then nothing of
    the old root is lost.
    """
    paths = library_paths()
    linux.mount("tmpfs", scratch, "tmpfs", linux.MS_NOSUID, "mode=755,size=1m")
    for path in [*paths, *DEVICES]:
        _show(Path(path), Path(scratch + path))
    Path(scratch + VIEW_TEMP).mkdir()
    linux.make_read_only(scratch)
    linux.enter_root(scratch)


def mount_temporary(disk_mib: int, files: int) -> None:
    """Put a fresh file system of bounded size, in memory, on the view's temporary folder."""
    options = f"mode=777,size={disk_mib * MIB},nr_inodes={files + 1}"
    linux.mount("tmpfs", VIEW_TEMP, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC, options)


def unmount_temporary() -> None:
    """Take it away, with all that it holds."""
    linux.unmount(VIEW_TEMP)


def make_scratch(folder: str | None) -> tuple[str, int]:
    """A scratch folder and the descriptor that holds it: `remove_stale` spares it until that is closed."""
    path = tempfile.mkdtemp(prefix=SCRATCH_PREFIX, dir=folder)
    held = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(held, fcntl.LOCK_EX)
    return path, held


def remove_stale(folder: str | None) -> None:
    """Remove the empty scratch folders of owners that were killed; leaves what it can't remove."""
    for path in Path(folder or tempfile.gettempdir()).glob(f"{SCRATCH_PREFIX}*"):
        with contextlib.suppress(OSError):
            found = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if time.time() - os.fstat(found).st_mtime > STALE_SECONDS:
                    path.rmdir()
            finally:
                os.close(found)


def used(folder: str, most_files: int) -> tuple[int, int]:
    """Bytes and number of files in a folder, counted as far as `most_files`; never follows a link.

    A folder that can't be looked into, by its permissions or by the length of its path, counts as too many.
    """
    size = count = 0
    waiting = [folder]
    while waiting and count <= most_files:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    count += 1
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        size += entry.stat(follow_symlinks=False).st_blocks * 512
                    if count > most_files:
                        break
        except FileNotFoundError:  # removed meanwhile
            continue
        except OSError:
            return size, most_files + 1
    return size, count


def remove(folder: str) -> None:
    """Remove a folder and all in it, however deep and whatever its permissions; never follows a link.

    Folders inside folders are moved to the top first, so that neither depth nor length of paths matters.
    """
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    prefix = secrets.token_hex(16)
    moved = 0
    try:
        while folders := _remove_files(top):
            for name in folders:
                os.chmod(name, stat.S_IRWXU, dir_fd=top)
                inside = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
                try:
                    for deeper in _remove_files(inside):
                        moved += 1
                        os.chmod(deeper, stat.S_IRWXU, dir_fd=inside)
                        os.rename(deeper, f"{prefix}{moved}", src_dir_fd=inside, dst_dir_fd=top)
                finally:
                    os.close(inside)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    Path(folder).rmdir()


def _remove_files(folder: int) -> list[str]:
    """Remove what is not a folder; returns the names of the folders."""
    with os.scandir(folder) as found:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
    for name, is_folder in entries:
        if not is_folder:
            os.unlink(name, dir_fd=folder)
    return [name for name, is_folder in entries if is_folder]


def _show(path: Path, place: Path) -> None:
    place.parent.mkdir(0o755, parents=True, exist_ok=True)
    if path.is_symlink():
        place.symlink_to(path.readlink())
        return
    if path.is_dir():
        place.mkdir(0o755, exist_ok=True)
    else:
        place.touch(0o644)
    linux.mount(str(path), str(place), None, linux.MS_BIND | linux.MS_REC)
