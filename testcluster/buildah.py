"""buildah with a store of the project's own: no image of the user's is read, changed or removed.

It runs the program and hands on its words when it fails; what is built is for others to decide.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from testcluster.commands import run


@dataclass(frozen=True, slots=True)
class Buildah:
    """One store of images, below `store`; made when first used."""

    store: Path

    @property
    def options(self) -> tuple[str, ...]:
        """The options that name the store."""
        storage, state = self.store / "storage", self.store / "run"
        return ("--root", str(storage), "--runroot", str(state), "--storage-driver", "overlay")

    def run(self, *arguments: str | Path) -> str:
        """Run `buildah ARGUMENTS`; returns its standard output. ClusterError where it fails."""
        # buildah copies whole layers, gigabytes, to TMPDIR: beside the store, never to a small /tmp.
        scratch = self.store / "tmp"
        scratch.mkdir(parents=True, exist_ok=True)
        return run(["buildah", *self.options, *arguments], TMPDIR=str(scratch))

    def image_id(self, name: str) -> str | None:
        """The id of an image in the store, or None."""
        images: list[dict[str, object]] = json.loads(self.run("images", "--json") or "[]") or []
        for image in images:
            names = image.get("names")
            if isinstance(names, list) and name in names:
                return str(image["id"])
        return None

    def reference(self, name: str) -> str:
        """How skopeo names an image of this store."""
        return f"containers-storage:[overlay@{self.store / 'storage'}+{self.store / 'run'}]{name}"
