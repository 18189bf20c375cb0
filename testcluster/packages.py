"""Debian packages that the cluster needs: says which are missing, and installs them where it can.

Asks dpkg and runs apt-get; on another system it only says what has to be there.
"""

import os
import shutil
from typing import Final

from .build import go_problem, go_version, newest_needed_go
from .commands import ClusterError, attempt, run, say

PACKAGES: Final = (
    "binutils",
    "buildah",
    "ca-certificates",
    "debootstrap",
    "gcc",
    "iproute2",
    "libc6-dev",
    "libnuma1",
    "libseccomp-dev",
    "libseccomp2",
    "mount",
    "nftables",
    "pkg-config",
    "skopeo",
)
"""Compilers for the programs with C in them, network tools, what builds the images of the tests, and what
vLLM for CPUs loads."""


PROGRAMS: Final = ("buildah", "debootstrap", "gcc", "ip", "mount", "nft", "readelf", "skopeo")
"""What the packages bring onto PATH, by which they are found where they have other names."""


def missing_programs() -> list[str]:
    """The programs of these packages that aren't on PATH."""
    return [name for name in PROGRAMS if not shutil.which(name)]


def missing_packages() -> list[str]:
    """The packages that dpkg doesn't have installed; all of them where there is no dpkg."""
    if not shutil.which("dpkg-query"):
        return list(PACKAGES)
    return [name for name in PACKAGES if not is_installed(name)]


def is_installed(name: str) -> bool:
    """Whether dpkg has the package, unpacked and configured."""
    answer = attempt(["dpkg-query", "--show", "--showformat", "${db:Status-Status}", name])
    return answer.returncode == 0 and answer.stdout == "installed"


def install_packages() -> None:
    """Install what is missing; ClusterError where that takes another package manager or other rights."""
    missing = missing_packages()
    if missing:
        if not shutil.which("apt-get"):
            raise ClusterError(
                f"no apt-get here; install what Debian calls {' '.join(missing)} with your package manager"
            )
        if os.geteuid() != 0:
            raise ClusterError(
                f"not root; run: sudo apt-get install --no-install-recommends {' '.join(missing)}"
            )
        say(f"installing {' '.join(missing)}")
        command = ["apt-get", "install", "--yes", "--no-install-recommends", *missing]
        if attempt(command, DEBIAN_FRONTEND="noninteractive").returncode:
            # The package lists may be missing or old.
            run(["apt-get", "update"])
            run(command, DEBIAN_FRONTEND="noninteractive")
    if problem := go_problem(go_version(), newest_needed_go()):
        say(f"{problem}, unless they are built already; see https://go.dev/dl")
