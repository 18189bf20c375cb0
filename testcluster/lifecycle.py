"""Brings a cluster up and takes it down, whatever an earlier command that was killed has left.

`down` needs nothing but what is on the host, so `up` calls it first. Both hold the cache's lock.
"""

import datetime as dt
import json
import os
import shutil
import sys
import time

from . import containerd, control_plane, guard, host, nodes
from .build import missing_programs
from .cgroups import DAEMONS
from .commands import ClusterError, locked, read, say, write
from .machinery import Machinery
from .options import Options


def up(machinery: Machinery, options: Options) -> None:
    """Start a cluster, or leave one be that runs with the same options; ClusterError where none may start."""
    check_rights()
    with locked(machinery.paths.lock):
        facts = guard.look(machinery.paths, machinery.cgroups)
        if reason := guard.refusal(facts, machinery.network):
            raise ClusterError(reason)
        if missing := missing_programs(machinery.paths):
            raise ClusterError(f"not built: {', '.join(missing)}; run `python -m testcluster build` first")
        if is_up(machinery):
            if running_options(machinery) == options:
                say("is up already")
                return
            raise ClusterError("a cluster with other options is up; run `python -m testcluster down` first")
        began, since = time.monotonic(), dt.datetime.now(dt.UTC)
        clean(machinery)
        machinery.paths.state.mkdir(parents=True, exist_ok=True)
        host.remember(machinery.paths)
        host.make_bridge(machinery.network)
        golden = containerd.update_golden(machinery)
        control_plane.start(machinery, options)
        started = [f"node{number}" for number in range(1, options.nodes + 1)]
        for node in started:
            nodes.add(machinery, options, node, golden)
        for node in started:
            nodes.wait_ready(machinery, node, since)
            if options.gpus:
                nodes.set_gpus(machinery, node, options.gpus)
        control_plane.wait_for_services(machinery)
        write(machinery.paths.options, options.to_json())
        say(f"up with {options.nodes} node(s) in {time.monotonic() - began:.1f} s")


def down(machinery: Machinery, keep_logs: bool = False) -> None:
    """Stop everything and remove every trace; nothing where there is none."""
    check_rights()
    with locked(machinery.paths.lock):
        began = time.monotonic()
        logs = machinery.paths.logs
        kept = machinery.paths.cache / "last-logs"
        if keep_logs and logs.exists():
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(logs, kept)
        clean(machinery)
        say(f"down in {time.monotonic() - began:.1f} s" + (f", logs in {kept}" if keep_logs else ""))


def clean(machinery: Machinery) -> None:
    """Remove a cluster of ours, whole or in pieces. Tables go only where ours ran: see `guard`."""
    facts = guard.look(machinery.paths, machinery.cgroups)
    if not facts.ours_was_up and not machinery.paths.state.exists():
        return
    # By force: nothing of the cluster is kept, and what the programs would have tidied up is removed below.
    machinery.cgroups.empty(DAEMONS)
    for node in nodes.names(machinery):
        nodes.halt(machinery, node)
    machinery.cgroups.remove()
    host.unmount_below(machinery.paths.golden)
    host.unmount_below(machinery.paths.state)
    host.remove_bridge(machinery.network)
    host.remove_tables(guard.tables_to_remove(facts))
    host.restore(machinery.paths)
    marker = machinery.paths.marker
    if machinery.paths.state.exists():
        for entry in machinery.paths.state.iterdir():
            if entry.is_dir():
                nodes.remove_folder(entry)
            elif entry != marker:  # the last to go, so that a `down` that is cut short can be repeated
                entry.unlink()
        marker.unlink(missing_ok=True)
        machinery.paths.state.rmdir()


def check_rights() -> None:
    """ClusterError where this isn't root on Linux."""
    if not sys.platform.startswith("linux"):
        raise ClusterError(f"the test cluster runs on Linux alone, and this is {sys.platform}; use kind here")
    if os.geteuid() != 0:
        raise ClusterError("the test cluster makes mounts, network devices and cgroups, so it needs root")


def dead(machinery: Machinery) -> list[str]:
    """The processes that were started, that no command has stopped, and that have ended all the same."""
    return [name for name in machinery.processes.names() if machinery.processes.pid(name) is None]


def is_up(machinery: Machinery) -> bool:
    """Whether a start came to its end and nothing of it has died since."""
    return machinery.paths.options.exists() and not dead(machinery)


def running_options(machinery: Machinery) -> Options:
    """How the running cluster was started; ClusterError where none is up, or one of which something died."""
    if not machinery.paths.options.exists():
        raise ClusterError("no cluster is up; run `python -m testcluster up` first")
    if names := dead(machinery):
        raise ClusterError(
            f"the cluster is broken: {', '.join(names)} died, see {machinery.paths.logs}; "
            "`python -m testcluster up` starts a new one"
        )
    return Options.from_json(json.loads(read(machinery.paths.options)))
