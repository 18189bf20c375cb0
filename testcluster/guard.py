"""Decides whether a cluster may start on this host, and whose kube-proxy tables there are.

A host has one set of tables named `kube-proxy`, and a kubelet that isn't ours may belong to somebody's real
cluster: so nothing is touched where either is found. Pure decisions on `Facts`; `look` gathers them.
"""

import json
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final

from .cgroups import Cgroups
from .commands import attempt, read
from .paths import Network, Paths

TABLE: Final = "kube-proxy"
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Table:
    """An nftables table: its address family and name."""

    family: str
    name: str


@dataclass(frozen=True, slots=True)
class Route:
    """A range of addresses that the host reaches through a device."""

    range: str
    device: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What of this host matters before a start."""

    foreign_kubelets: tuple[int, ...] = ()
    """Pids of processes named `kubelet` outside our cgroup."""
    tables: tuple[Table, ...] = ()
    ours_was_up: bool = False
    """Our marker of this boot, or our cgroup, is there: the tables are ours."""
    routes: tuple[Route, ...] = ()


def refusal(facts: Facts, network: Network) -> str | None:
    """Why no cluster may start here, with what to do about it; None where one may."""
    if facts.foreign_kubelets:
        pids = ", ".join(map(str, facts.foreign_kubelets))
        return (
            f"a kubelet that isn't the test cluster's runs here (pid {pids}): this host seems to be a node "
            "of another cluster. Stop that kubelet, use another host, or name the other cluster's context "
            "in DARTES_TEST_CONTEXT"
        )
    if not facts.ours_was_up and (found := proxy_tables(facts.tables)):
        names = ", ".join(f"{table.family} {table.name}" for table in found)
        return (
            f"nftables already holds a kube-proxy's table ({names}) that isn't the test cluster's, and a "
            "host can have only one. Stop that kube-proxy and remove the table "
            f"(nft delete table {found[0].family} {found[0].name}), or use another host"
        )
    for route in facts.routes:
        for wanted in (network.pods, network.service_range):
            if route.device != network.bridge and overlap(route.range, wanted):
                return (
                    f"this host already reaches {route.range} through {route.device}, and the test cluster "
                    f"wants {wanted}; set DARTES_TESTCLUSTER_PREFIX and DARTES_TESTCLUSTER_SERVICES to the "
                    "first halves of other ranges, like 10.33"
                )
    return None


def proxy_tables(tables: tuple[Table, ...]) -> list[Table]:
    """Those that a kube-proxy made."""
    return [table for table in tables if table.name == TABLE]


def tables_to_remove(facts: Facts) -> list[Table]:
    """The tables that `down` may delete: a kube-proxy's, where ours ran."""
    return proxy_tables(facts.tables) if facts.ours_was_up else []


def overlap(one: str, other: str) -> bool:
    """Whether two ranges of addresses share any; a default route shares none."""
    return one != "default" and ip_network(one, strict=False).overlaps(ip_network(other))


def is_ours(marker: str, boot: str) -> bool:
    """Whether the marker's text was written since the host started: tables don't outlive that."""
    try:
        document = json.loads(marker)
    except ValueError:
        return False
    return isinstance(document, dict) and document.get("boot") == boot


def parse_tables(listing: str) -> tuple[Table, ...]:
    """Tables of `nft -j list tables`; none of an empty answer."""
    entries: list[dict[str, Any]] = json.loads(listing or "{}").get("nftables", [])
    return tuple(
        Table(entry["table"]["family"], entry["table"]["name"]) for entry in entries if "table" in entry
    )


_DEAD: Final[tuple[list[str], ...]] = ([], ["Z"], ["X"])


def parse_routes(listing: str) -> tuple[Route, ...]:
    """Routes of `ip -j route`."""
    return tuple(Route(entry["dst"], entry.get("dev", "")) for entry in json.loads(listing or "[]"))


def this_boot() -> str:
    """An id that is new at each start of the host."""
    return read(BOOT_ID).strip()


def kubelets(proc: Path) -> list[int]:
    """Pids of the processes named `kubelet` that run; one that has died and is only not buried does not."""
    named = (p for p in proc.iterdir() if p.name.isdigit() and read(p / "comm").strip() == "kubelet")
    return sorted(int(p.name) for p in named if read(p / "stat").rpartition(")")[2].split()[:1] not in _DEAD)


def look(paths: Paths, cgroups: Cgroups) -> Facts:
    """The facts as they are now."""
    return Facts(
        foreign_kubelets=tuple(pid for pid in kubelets(Path("/proc")) if not cgroups.holds(pid)),
        tables=parse_tables(attempt(["nft", "-j", "list", "tables"]).stdout),
        ours_was_up=is_ours(read(paths.marker), this_boot()) or cgroups.exists(),
        routes=parse_routes(attempt(["ip", "-j", "route"]).stdout),
    )
