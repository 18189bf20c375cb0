"""What the cluster's programs change on the host outside the state folder, and how that is put back.

Kubelet and CNI set kernel parameters and use a few folders with fixed paths: the marker records how those
were, and `restore` brings them back. Mounts, the bridge and nftables tables are removed here too.
"""

import json
from pathlib import Path
from typing import Any, Final

from .commands import attempt, read, run, write
from .guard import Table, this_boot
from .paths import Network, Paths

KERNEL: Final = Path("/proc/sys")
PARAMETERS: Final = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
    "net/ipv4/ip_forward",
    "net/ipv4/conf/all/route_localnet",
    "net/ipv4/vs/conntrack",
    "net/netfilter/nf_conntrack_max",
    "net/netfilter/nf_conntrack_tcp_be_liberal",
    "net/bridge/bridge-nf-call-iptables",
)
FOLDERS: Final = (
    Path("/var/lib/kubelet/device-plugins"),
    Path("/var/lib/kubelet/pod-resources"),
    Path("/var/lib/kubelet"),
    Path("/var/lib/cni/results"),
    Path("/var/lib/cni"),
    Path("/var/log/containers"),
    Path("/var/log/pods"),
    Path("/run/containerd/s"),
    Path("/run/containerd/fifo"),
    Path("/run/containerd"),
    Path("/opt/containerd/bin"),
    Path("/opt/containerd/lib"),
    Path("/opt/containerd"),
    Path("/opt/cni"),
    Path("/etc/cni/net.d"),
    Path("/etc/cni"),
)
"""Inner ones first. Those that weren't there before are removed when they are empty."""
KUBELET_FILES: Final = ("kubelet.sock", "kubelet_internal_checkpoint", "DEPRECATION")


def remember(paths: Paths) -> None:
    """Write the marker: from now on this host's traces of a cluster are ours."""
    parameters = {name: read(KERNEL / name).strip() for name in PARAMETERS if (KERNEL / name).exists()}
    folders = [str(folder) for folder in FOLDERS if folder.exists()]
    write(paths.marker, {"boot": this_boot(), "parameters": parameters, "folders": folders})


def restore(paths: Paths) -> None:
    """Put parameters and folders back as the marker has them; nothing without one."""
    text = read(paths.marker)
    if not text:
        return
    marker: dict[str, Any] = json.loads(text)
    for link in linked_logs(paths):
        link.unlink()
    for name in KUBELET_FILES:
        (Path("/var/lib/kubelet/device-plugins") / name).unlink(missing_ok=True)
    for folder in FOLDERS:
        if str(folder) not in marker["folders"] and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    if marker["boot"] == this_boot():
        for name, value in marker["parameters"].items():
            if read(KERNEL / name).strip() != value:
                (KERNEL / name).write_text(value)


def linked_logs(paths: Paths) -> list[Path]:
    """Kubelet's links in /var/log/containers that lead into our state folder."""
    folder = Path("/var/log/containers")
    links = [file for file in folder.glob("*.log") if file.is_symlink()] if folder.exists() else []
    return [link for link in links if link.readlink().is_relative_to(paths.state)]


def make_bridge(network: Network) -> None:
    """The bridge with the gateway's address; nothing where it is there."""
    if attempt(["ip", "link", "show", "dev", network.bridge]).returncode:
        run(["ip", "link", "add", network.bridge, "type", "bridge"])
    run(["ip", "addr", "replace", f"{network.gateway}/16", "dev", network.bridge])
    run(["ip", "link", "set", network.bridge, "up"])


def remove_bridge(network: Network) -> None:
    """The bridge and all addresses on it."""
    if not attempt(["ip", "link", "show", "dev", network.bridge]).returncode:
        run(["ip", "link", "del", network.bridge])


def remove_tables(tables: list[Table]) -> None:
    """Delete nftables tables that may be gone meanwhile."""
    for table in tables:
        attempt(["nft", "delete", "table", table.family, table.name])


def unmount_below(folder: Path) -> None:
    """Unmount everything mounted below a folder; what is still busy goes when it is let go of."""
    for point in mounts_below(read(Path("/proc/self/mountinfo")), folder):
        if attempt(["umount", point]).returncode:
            attempt(["umount", "--lazy", point])


def mounts_below(mountinfo: str, folder: Path) -> list[str]:
    """Mount points below a folder, the newest first, from the text of /proc/PID/mountinfo."""
    points = [unescaped(line.split()[4]) for line in mountinfo.splitlines()]
    return [point for point in reversed(points) if point.startswith(f"{folder}/")]


def unescaped(point: str) -> str:
    """A path as mountinfo writes it, with its blanks back."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\134", "\\")):
        point = point.replace(code, character)
    return point
