"""Releases beside one another: each looks after some namespaces, and has a name and a namespace of its own.

Made by tests that disturb an operator, or need several; removed with everything that they brought.
"""

import secrets
from collections.abc import Sequence
from pathlib import Path

from testcluster.extras.kwok import LABELS, TAINT

from .held import HeldCluster
from .release import CHART, Release

JOBS_ON_KWOK = (
    *(f"--set=jobDefaults.nodeSelector.{name}={value}" for name, value in LABELS.items()),
    f"--set=jobDefaults.tolerations[0].key={TAINT['key']}",
    "--set=jobDefaults.tolerations[0].operator=Exists",
)
"""Settings of the chart with which all pods of jobs come onto fake nodes."""


class Releases:
    """Call it for a new release."""

    def __init__(self, cluster: HeldCluster, images: Sequence[str]) -> None:
        """`images` are the chart's options that say where its images are."""
        self.cluster = cluster
        self._images = images
        self._made: list[Release] = []

    def __call__(
        self, *namespaces: str, options: Sequence[str] = (), kwok: bool = False, chart: Path = CHART
    ) -> Release:
        """A release that looks after these namespaces, ready; `kwok` puts their jobs onto fake nodes."""
        name = f"dartes-{secrets.token_hex(3)}"
        release = Release(self.cluster, name, self.cluster.make_namespace("system"), chart)
        self._made.append(release)
        watched = [f"--set=watch.namespaces[{number}]={each}" for number, each in enumerate(namespaces)]
        release.install(
            "--set=crds.create=false",
            # Roles for users are the whole cluster's; the default release brings them.
            "--set=rbac.aggregate=false",
            *self._images,
            *watched,
            *(JOBS_ON_KWOK if kwok else ()),
            *options,
        )
        return release

    def remove(self) -> None:
        """Uninstall all that are still there, and delete their namespaces."""
        for release in self._made:
            if release.is_installed():
                release.uninstall()
            self.cluster.delete_namespace(release.namespace)
