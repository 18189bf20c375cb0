"""The parts that every step of building a cluster up or taking it down uses, bound to one cluster.

Only puts them together; the steps are in the other modules.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from .api import Api
from .cgroups import Cgroups
from .paths import Network, Paths
from .pki import Certificates
from .processes import Processes


@dataclass(frozen=True, slots=True)
class Machinery:
    """One cluster's folders, addresses, processes and certificates."""

    paths: Paths
    network: Network
    cgroups: Cgroups
    processes: Processes
    certificates: Certificates

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """The cluster that the environment names."""
        paths, network = Paths.from_environment(environ), Network.from_environment(environ)
        cgroups = Cgroups(paths.cgroup)
        return cls(paths, network, cgroups, Processes(paths, cgroups), Certificates(paths, network))

    def api(self, name: str = "admin") -> Api:
        """A client of the cluster's API server as the user of NAME.crt."""
        return Api(self.paths.pki, self.network, name)
