"""The test cluster and its host: a killed start can be repeated, and `down` leaves nothing behind."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from testcluster.cgroups import TOP
from testcluster.host import FOLDERS, KERNEL, PARAMETERS
from testcluster.paths import Paths

from ..waiting import until
from .held import CommandFailedError, own, run

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


@dataclass(frozen=True)
class Host:
    """Everything outside the cache that a cluster touches."""

    mounts: frozenset[str]
    links: frozenset[str]
    tables: str
    cgroups: frozenset[str]
    processes: frozenset[str]
    files: frozenset[str]
    parameters: tuple[tuple[str, str], ...]


def look(paths: Paths) -> Host:
    """The host as it is now."""
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    cgroups = [str(entry) for entry in (*TOP.glob("*/*"), *TOP.glob("*")) if entry.is_dir()]
    files = [str(file) for folder in FOLDERS if folder.exists() for file in (folder, *folder.rglob("*"))]
    return Host(
        mounts=frozenset(mounts),
        links=frozenset(each["ifname"] for each in json.loads(run(["ip", "-j", "link"]))),
        tables=run(["nft", "list", "tables"]),
        cgroups=frozenset(cgroups),
        processes=frozenset(programs_of(paths)),
        files=frozenset(files) | ({str(paths.state)} if paths.state.exists() else set()),
        parameters=tuple(
            (name, (KERNEL / name).read_text()) for name in PARAMETERS if (KERNEL / name).exists()
        ),
    )


def programs_of(paths: Paths) -> Iterator[str]:
    """Running programs out of the cache's bin, with their pids."""
    for link in Path("/proc").glob("[0-9]*/exe"):
        try:
            target = link.readlink()
        except OSError:
            continue
        if target.is_relative_to(paths.bin):
            yield f"{target.name} {link.parent.name}"


def kill_a_start(paths: Paths, process: str) -> None:
    """Start a cluster and kill the command once `process` runs."""
    command = [sys.executable, "-m", "testcluster", "up", "--nodes", "1"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as start:
        until((paths.state / "pid" / process).exists, f"{process} was started", 120.0)
        start.send_signal(signal.SIGKILL)
    assert start.returncode == -signal.SIGKILL


def test_a_start_killed_half_way_can_be_repeated_and_down_leaves_the_host_as_it_was(bare_host: None) -> None:
    paths = Paths.from_environment()
    own("down")
    before = look(paths)
    for process in ("kine", "kubelet-node1"):
        kill_a_start(paths, process)
        assert look(paths) != before, "a killed start leaves traces, or there is nothing to clean up"
    own("up", "--nodes", "1", seconds=280.0)
    assert own("status")
    own("down")
    assert look(paths) == before


def test_down_clears_what_a_killed_start_left(bare_host: None) -> None:
    paths = Paths.from_environment()
    own("down")
    before = look(paths)
    kill_a_start(paths, "kubelet-node1")
    own("down")
    assert look(paths) == before


def test_no_cluster_starts_where_a_foreign_kube_proxy_has_its_table(bare_host: None) -> None:
    own("down")
    run(["nft", "add", "table", "ip", "kube-proxy"])
    try:
        with pytest.raises(CommandFailedError, match="isn't the test cluster's"):
            own("up")
        own("down")
        assert "table ip kube-proxy" in run(["nft", "list", "tables"]), "what isn't ours stays"
    finally:
        run(["nft", "delete", "table", "ip", "kube-proxy"])


def test_no_cluster_starts_beside_a_foreign_kubelet(bare_host: None, tmp_path: Path) -> None:
    own("down")
    program = tmp_path / "kubelet"
    program.write_bytes(Path("/bin/sleep").read_bytes())
    program.chmod(0o755)
    with subprocess.Popen([str(program), "600"]) as foreign:
        try:
            until(lambda: Path(f"/proc/{foreign.pid}/comm").read_text() == "kubelet\n", "it runs", 30.0)
            with pytest.raises(CommandFailedError, match=f"pid {foreign.pid}"):
                own("up")
        finally:
            foreign.kill()
