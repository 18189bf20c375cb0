"""A cluster for benchmarks: this project's own, up with an audit log, the images loaded, the chart installed.

One that is up already is used and left; one that was started here is brought down. It is the same machinery
that the tests use, so that a figure is measured on what the promises are proved on.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.runs_support import ROOT
from testcluster import lifecycle
from testcluster.commands import ClusterError
from testcluster.machinery import Machinery
from tests.cluster.held import HeldCluster, OwnCluster
from tests.cluster.release import Release


@contextmanager
def installed_release() -> Iterator[Release]:
    """The chart installed in a cluster with two nodes and an audit log."""
    with own_cluster() as cluster:
        release = Release(cluster)
        release.install()
        try:
            yield release
        finally:
            release.uninstall()


@contextmanager
def own_cluster() -> Iterator[OwnCluster]:
    """A cluster with the images on its nodes."""
    machinery = Machinery.from_environment()
    _testcluster("build")
    started = not _is_up(machinery)
    if started:
        _testcluster("down")
        _testcluster("up", "--nodes", "2", "--audit")
    try:
        cluster = OwnCluster(machinery.paths)
        cluster.ensure_images()
        yield cluster
    finally:
        if started:
            _testcluster("down")


@contextmanager
def namespace_of(cluster: HeldCluster, name: str) -> Iterator[str]:
    """A namespace of its own for one measurement."""
    namespace = cluster.make_namespace(name)
    try:
        yield namespace
    finally:
        cluster.delete_namespace(namespace)


def parse_time(text: str) -> datetime:
    """A time as Kubernetes and our logs write it."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def log_lines(text: str) -> list[dict[str, Any]]:
    """The JSON lines of a log."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def _is_up(machinery: Machinery) -> bool:
    try:
        options = lifecycle.running_options(machinery)
    except ClusterError:
        return False
    if not options.audit:
        raise SystemExit("the cluster that is up keeps no audit log; `make cluster-down` first")
    return True


def _testcluster(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "testcluster", *words], cwd=ROOT, check=True)


def example(name: str = "addition") -> Path:
    """A job file of examples/."""
    return ROOT / "examples" / f"{name}.yaml"
