"""The base image for a machine that reaches no registry of images: Debian with Python, made by debootstrap.

It stands in for the Dockerfile's default `BASE_IMAGE`, and knows nothing of what is built on it.
"""

import shutil
import tempfile
from pathlib import Path

from testcluster.buildah import Buildah
from testcluster.commands import run

SUITE = "bookworm"
PACKAGES = ("ca-certificates", "python3", "python3-venv")
REVISION = 2
"""Raised when what the image holds changes, so that old caches are not taken for it."""

NAME = f"localhost/dartes-base:{SUITE}-{REVISION}"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LEFT_OUT = ("dev", "var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale")


def ensure_base_image(buildah: Buildah) -> str:
    """Make the base image where the store lacks it (a minute or two); returns its name.

    ClusterError, with the program's own last words, where debootstrap is missing or fails.
    """
    if buildah.image_id(NAME) is None:
        with tempfile.TemporaryDirectory(dir=buildah.store, prefix="base-") as folder:
            root = Path(folder) / "root"
            run(["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, root])
            for path in LEFT_OUT:
                shutil.rmtree(root / path, ignore_errors=True)
                (root / path).mkdir(parents=True, exist_ok=True)
            # A place for the host's settings of pip to be mounted while something is built on this.
            (root / "etc/pip.conf").touch()
            container = buildah.run("from", "scratch").strip()
            try:
                buildah.run("add", "--quiet", container, root, "/")
                buildah.run("config", "--env", f"PATH={PATH}", "--cmd", "python3", container)
                buildah.run("commit", "--quiet", "--disable-compression", container, NAME)
            finally:
                buildah.run("rm", container)
    return NAME
