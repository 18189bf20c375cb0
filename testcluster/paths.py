"""Where the test cluster keeps its things and which addresses it uses.

Names folders and addresses only: creates nothing, reads no file. The environment can move each of them, but
what started a cluster and what stops it must agree.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

KUBERNETES_VERSION: Final = "v1.37.2"
"""Version of the Kubernetes programs; the folder of the cache is named after it."""

DEFAULT_STATE: Final = Path("/var/lib/dartes-testcluster")


@dataclass(frozen=True, slots=True)
class Paths:
    """The cache (kept: programs, images) and the state (gone after `down`: one cluster's files)."""

    cache: Path
    state: Path

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """DARTES_TESTCLUSTER_CACHE and DARTES_TESTCLUSTER_STATE, or the user's cache folder and /var/lib."""
        caches = Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME", "/root")) / ".cache")
        cache = environ.get("DARTES_TESTCLUSTER_CACHE")
        state = environ.get("DARTES_TESTCLUSTER_STATE")
        return cls(
            Path(cache) if cache else caches / "dartes" / "testcluster" / KUBERNETES_VERSION,
            Path(state) if state else DEFAULT_STATE,
        )

    @property
    def bin(self) -> Path:
        """Programs, kubectl and helm among them: to be put on PATH."""
        return self.cache / "bin"

    @property
    def images(self) -> Path:
        """Archives (*.tar, docker or OCI); each is on every node of a cluster from the start."""
        return self.cache / "images"

    @property
    def golden(self) -> Path:
        """A containerd root with all archives of `images` unpacked, which new nodes link to."""
        return self.cache / "golden"

    @property
    def modules(self) -> Path:
        """The build's copies of the go.mod files, with the go.sum files that Go writes beside them."""
        return self.cache / "modules"

    @property
    def lock(self) -> Path:
        """Held by a command that builds, starts or stops."""
        return self.cache / "lock"

    @property
    def admin_kubeconfig(self) -> Path:
        """The cluster administrator's kubeconfig."""
        return self.state / "admin.kubeconfig"

    @property
    def pki(self) -> Path:
        """Certificates and keys of the present cluster."""
        return self.state / "pki"

    @property
    def logs(self) -> Path:
        """One log for each process."""
        return self.state / "log"

    @property
    def audit_log(self) -> Path:
        """What the API server was asked, one JSON object a line; only in a cluster started with `--audit`."""
        return self.logs / "audit.log"

    @property
    def marker(self) -> Path:
        """Says that a cluster of ours was started and what the host was like before; the last file to go."""
        return self.state / "marker.json"

    @property
    def options(self) -> Path:
        """How the running cluster was started; written last, so that a start cut short has none."""
        return self.state / "options.json"

    @property
    def volumes(self) -> Path:
        """One folder for each volume."""
        return self.state / "volumes"

    @property
    def nodes(self) -> Path:
        """One folder for each node."""
        return self.state / "nodes"

    @property
    def cgroup(self) -> str:
        """The cgroup of all our processes, one for each state folder."""
        return "dartes-testcluster-" + hashlib.sha256(str(self.state).encode()).hexdigest()[:8]


@dataclass(frozen=True, slots=True)
class Network:
    """Addresses: pods and nodes are PREFIX.0.0/16 on one bridge, services SERVICES.0.0/16."""

    prefix: str
    services: str
    bridge: str

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """DARTES_TESTCLUSTER_PREFIX, _SERVICES and _BRIDGE, or 10.188, 10.189 and br-dartes."""
        return cls(
            environ.get("DARTES_TESTCLUSTER_PREFIX") or "10.188",
            environ.get("DARTES_TESTCLUSTER_SERVICES") or "10.189",
            environ.get("DARTES_TESTCLUSTER_BRIDGE") or "br-dartes",
        )

    @property
    def gateway(self) -> str:
        """The host on the bridge: API server, DNS and node1 have this address."""
        return f"{self.prefix}.0.1"

    @property
    def pods(self) -> str:
        """The range of pods and nodes."""
        return f"{self.prefix}.0.0/16"

    @property
    def service_range(self) -> str:
        """The range of ClusterIPs."""
        return f"{self.services}.0.0/16"

    def node_address(self, index: int) -> str:
        """Node INDEX (1 to 199); its pods are PREFIX.INDEX.1 to .254."""
        return f"{self.prefix}.0.{index}"

    @property
    def server(self) -> str:
        """The API server's URL."""
        return f"https://{self.gateway}:6443"
