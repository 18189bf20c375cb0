"""One containerd for each node: its configuration, start, and image archives.

All archives of the cache are unpacked once, into the golden root; each node starts from a hard-linked copy of
it, so an image of gigabytes costs a node nothing. Layers never change; only the databases must be copies.
"""

import json
import shutil
from pathlib import Path
from typing import Final

from .build import PAUSE_IMAGE
from .commands import ClusterError, attempt, clean_environment, read, run, say, wait_for, write
from .host import unmount_below
from .machinery import Machinery

GOLDEN: Final = "containerd-golden"
UNUSED_IMAGE: Final = "localhost/dartes-unused:1"
Loaded = dict[str, list[int]]
"""Archives by name, with size and time of change: which of them a containerd has."""


def process_name(node: str) -> str:
    """The name of a node's containerd among the processes."""
    return f"containerd-{node}"


def config(machinery: Machinery, home: Path) -> str:
    """containerd's configuration file; every path that it uses is in `home`."""
    programs = machinery.paths.bin
    # NRI's socket and the folder for added programs have one fixed path on a host, so they are off.
    # A host may withhold the right to lower an OOM score, hence `restrict_oom_score_adj`.
    return f"""version = 3
root = "{home}/containerd"
state = "{home}/run"
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.internal.v1.opt"]
[grpc]
  address = "{home}/containerd.sock"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{PAUSE_IMAGE}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{programs}"]
    conf_dir = "{home}/cni"
  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
        BinaryName = "{programs}/runc"
        Root = "{home}/runc"
        SystemdCgroup = false
"""


def start(machinery: Machinery, name: str, home: Path) -> None:
    """Start the process NAME with its files in `home` and wait until it answers."""
    programs = machinery.paths.bin
    file = write(home / "containerd.toml", config(machinery, home))
    path = f"{programs}:{clean_environment().get('PATH', '/usr/sbin:/usr/bin:/sbin:/bin')}"
    machinery.processes.start(name, [programs / "containerd", "--config", file], PATH=path)
    wait_for(name, lambda: ctl(machinery, home, "version") is not None)


def ctl(machinery: Machinery, home: Path, *words: str) -> str:
    """Ask a containerd something; ClusterError with its words where it says no."""
    command = [f"{machinery.paths.bin}/ctr", "-a", f"{home}/containerd.sock", "-n", "k8s.io"]
    return run([*command, *words])


def stop(machinery: Machinery, name: str, home: Path) -> None:
    """End a containerd; its containers, if any, go on."""
    machinery.processes.stop(name)
    unmount_below(home)


def archives(machinery: Machinery) -> Loaded:
    """The cache's archives as they are now."""
    files = sorted(machinery.paths.images.glob("*.tar"))
    return {file.name: [file.stat().st_size, file.stat().st_mtime_ns] for file in files}


def loaded(home: Path) -> Loaded:
    """The archives that a containerd has got."""
    known: Loaded = json.loads(read(home / "containerd" / "dartes-archives.json") or "{}")
    return known


def load_missing(machinery: Machinery, home: Path) -> list[str]:
    """Import those archives of the cache that a running containerd lacks or has older; returns the names."""
    has, wanted = loaded(home), archives(machinery)
    new = [name for name, stamp in wanted.items() if has.get(name) != stamp]
    for name in new:
        load(machinery, home, machinery.paths.images / name)
        has[name] = wanted[name]
        write(home / "containerd" / "dartes-archives.json", has)
    if new:
        collect_garbage(machinery, home)
    return new


def collect_garbage(machinery: Machinery, home: Path) -> None:
    """Give back at once the space of images that others with the same names have replaced.

    An image that has lost its name is still held by a second entry, named by a hash, that containerd made for
    kubelet. Removing one with `--sync` waits until the space is free; a name made for that always exists.
    """
    ctl(machinery, home, "images", "tag", "--force", PAUSE_IMAGE, UNUSED_IMAGE)
    nameless = nameless_images(ctl(machinery, home, "images", "ls"))
    ctl(machinery, home, "images", "rm", "--sync", *nameless, UNUSED_IMAGE)


def nameless_images(listing: str) -> list[str]:
    """The entries of `ctr images ls` named by a hash alone whose image has no entry with a proper name."""
    entries = [line.split()[:3] for line in listing.splitlines()[1:] if line.strip()]
    named = {digest for name, _, digest in entries if not name.startswith("sha256:")}
    return [name for name, _, digest in entries if name.startswith("sha256:") and digest not in named]


def load(machinery: Machinery, home: Path, archive: Path) -> None:
    """Import one docker or OCI archive."""
    if not archive.is_file():
        raise ClusterError(f"no file {archive}")
    ctl(machinery, home, "images", "import", "--local", str(archive))


def update_golden(machinery: Machinery) -> Path:
    """Bring the golden root up to the cache's archives; returns the containerd root that nodes copy."""
    golden = machinery.paths.golden
    root = golden / "containerd"
    wanted = archives(machinery)
    has = loaded(golden)
    complete = golden / "complete"
    if not complete.exists() or not has.keys() <= wanted.keys():
        # Cut short the last time, or an archive is gone: the images of the others can't be told apart.
        unmount_below(golden)
        shutil.rmtree(golden, ignore_errors=True)
        golden.mkdir(parents=True)
        has = {}
    if has != wanted:
        say("unpacking images")
        complete.unlink(missing_ok=True)
        start(machinery, GOLDEN, golden)
        load_missing(machinery, golden)
        stop(machinery, GOLDEN, golden)
        complete.touch()
    return root


def copy_golden(root: Path, home: Path) -> None:
    """Give a node its own containerd root, whose layers are links to the golden one's."""
    target = home / "containerd"
    partial = home / "containerd.partial"
    shutil.rmtree(partial, ignore_errors=True)
    if attempt(["cp", "-al", root, partial]).returncode:  # cache and state on two file systems
        shutil.rmtree(partial, ignore_errors=True)
        run(["cp", "-a", "--reflink=auto", root, partial])
    for database in (*partial.rglob("*.db"), partial / "dartes-archives.json"):
        copy = database.with_name(database.name + ".copy")
        shutil.copy2(database, copy)
        copy.replace(database)
    partial.rename(target)
