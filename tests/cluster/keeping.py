"""Keeps the session's cluster: up when it is first asked for, down at the end unless it was up before.

Tests of lost nodes get a cluster of their own with short node timers, after all others: a host can have only
one kube-proxy, so the shared cluster is brought down first. One that a user brought up is left alone.
"""

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from testcluster import lifecycle
from testcluster.commands import ClusterError, read, write
from testcluster.machinery import Machinery
from testcluster.options import Options
from testcluster.processes import start_time

from .held import CommandFailedError, HeldCluster, OwnCluster, built_images, own
from .held_elsewhere import KindCluster, NamedCluster
from .provider import Choice, Provider

SHARED = (
    *("--nodes", "2", "--audit"),
    # An autoscaler looks every five seconds, not every fifteen.
    *("--arg", "controller-manager:--horizontal-pod-autoscaler-sync-period=5s"),
)
LOSSY = ("--nodes", "3", "--audit", "--fast-node-loss")
UP_SECONDS = 280.0
MOST_WORDS = 1500
"""Characters of a failed build's output that each test which needs it repeats."""


class NoClusterError(Exception):
    """There is no such cluster for these tests; the message says why and what to do."""


class Keeper:
    """One for each session."""

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        self.problem: str | None = None
        """Why no cluster can be started, found before the first test."""
        self.images_problem: str | None = None
        """The same of this project's images."""
        self._shared: HeldCluster | None = None
        self._lossy: OwnCluster | None = None
        self._images: Mapping[str, str] | None = None
        self._started = False
        self._is_up = False

    def prepare(self, with_images: bool, extras: Collection[str] = ()) -> None:
        """What takes minutes the first time, before any test's time limit runs: programs and images."""
        if self.choice.provider is not Provider.OWN:
            return
        try:
            own("build", seconds=3600.0)
            if extras:
                own("build", *sorted(extras), seconds=3600.0)
        except CommandFailedError as error:
            self.problem = f"the test cluster can't be built: {error}"
            return
        if with_images:
            try:
                self._images = built_images(Machinery.from_environment().paths)
            except ClusterError as error:
                self.images_problem = f"the images can't be built: {str(error)[-MOST_WORDS:]}"

    @property
    def started(self) -> bool:
        """Whether the clusters are this session's, and so do not outlive it; one may be down already."""
        return self._started

    def shared(self) -> HeldCluster:
        """The cluster of most tests."""
        if self.problem:
            raise NoClusterError(self.problem)
        if self._lossy:
            raise NoClusterError("the shared cluster is gone: tests of lost nodes run last")
        if self._shared is None:
            self._shared = self._open()
        return self._shared

    def lossy(self) -> OwnCluster:
        """A cluster whose nodes are soon missed; NoClusterError where another stands in its place."""
        if self.problem:
            raise NoClusterError(self.problem)
        if self.choice.provider is not Provider.OWN:
            raise NoClusterError("short node timers need this project's own test cluster")
        if self._lossy is None:
            self._lossy = self._open_lossy()
        return self._lossy

    def clear(self) -> None:
        """Down with this session's clusters; NoClusterError where one stays, or where this isn't the host."""
        if self.problem:
            raise NoClusterError(self.problem)
        if self.choice.provider is not Provider.OWN:
            raise NoClusterError("only this project's own test cluster is started and stopped by tests")
        if self._is_up:
            self._stop()
        if usable(Machinery.from_environment()):
            raise NoClusterError(
                "a cluster is up that these tests didn't start; bring it down: make cluster-down"
            )

    def finish(self) -> None:
        """Down with what this session brought up."""
        if self._is_up:
            self._stop()

    def _open(self) -> HeldCluster:
        match self.choice.provider:
            case Provider.NAMED:
                assert self.choice.context is not None
                return NamedCluster.of_context(self.choice.context)
            case Provider.KIND:
                self._started = self._is_up = True
                return KindCluster.start()
            case Provider.OWN:
                machinery = Machinery.from_environment()
                if usable(machinery) is None:
                    self._start(machinery, SHARED)
                return OwnCluster(machinery.paths, self._images)
            case None:
                raise NoClusterError(self.choice.reason)

    def _open_lossy(self) -> OwnCluster:
        machinery = Machinery.from_environment()
        if self._is_up:
            self._stop()
        options = usable(machinery)
        if options is None:
            self._start(machinery, LOSSY)
        elif not options.fast_node_loss:
            raise NoClusterError(
                "tests of lost nodes need a cluster with short node timers, and the one that is up has the "
                "usual ones; bring it down first (make cluster-down), or up with --fast-node-loss"
            )
        return OwnCluster(machinery.paths, self._images)

    def _start(self, machinery: Machinery, options: tuple[str, ...]) -> None:
        own("down")  # what a killed session left
        self._started = self._is_up = True
        own("up", *options, seconds=UP_SECONDS)
        write(mark(machinery), f"{os.getpid()} {start_time(os.getpid())}")

    def _stop(self) -> None:
        self._is_up = False
        if self.choice.provider is Provider.KIND:
            KindCluster.delete()
        else:
            own("down", "--keep-logs")


def mark(machinery: Machinery) -> Path:
    """Names the test process that brought the cluster up."""
    return machinery.paths.state / "started-by-tests"


def usable(machinery: Machinery) -> Options | None:
    """The options of a cluster that is up and whose owner still wants it; None where there is none."""
    try:
        options = lifecycle.running_options(machinery)
    except ClusterError:
        return None
    pid, _, began = read(mark(machinery)).partition(" ")
    if pid and start_time(int(pid)) != began:
        return None
    return options
