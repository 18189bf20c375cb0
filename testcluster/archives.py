"""Archives of images that leave out what a node has already: a change of source travels as a few megabytes.

Images are copied with uncompressed layers into an OCI layout, a folder of blobs named by their hash. An
archive holds some images' manifests and those blobs that an earlier archive did not bring; containerd takes
the rest from its own store. Nothing here builds an image.
"""

import hashlib
import json
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from testcluster.buildah import Buildah
from testcluster.commands import run, write

OCI_LAYOUT = b'{"imageLayoutVersion": "1.0.0"}'


@dataclass(frozen=True, slots=True)
class Image:
    """An image in a layout: its manifest's descriptor and the digests of all its blobs."""

    descriptor: Mapping[str, Any]
    blobs: tuple[str, ...]

    @property
    def digest(self) -> str:
        """The manifest's digest, `sha256:...`."""
        return str(self.descriptor["digest"])


def copy_to_layout(buildah: Buildah, name: str, layout: Path) -> Image:
    """Copy an image out of buildah's store; layers that the layout has are not written again."""
    tag = hashlib.sha256(name.encode()).hexdigest()[:16]
    # Digests are kept, since compressing would take a minute and change them.
    run(["skopeo", "copy", "--quiet", "--preserve-digests", buildah.reference(name), f"oci:{layout}:{tag}"])
    index = json.loads((layout / "index.json").read_text())
    descriptor = next(
        entry
        for entry in index["manifests"]
        if entry.get("annotations", {}).get("org.opencontainers.image.ref.name") == tag
    )
    manifest = json.loads(blob_path(layout, descriptor["digest"]).read_text())
    blobs = (descriptor["digest"], manifest["config"]["digest"], *(x["digest"] for x in manifest["layers"]))
    return Image({key: descriptor[key] for key in ("mediaType", "digest", "size")}, blobs)


def write_archive(layout: Path, images: Mapping[str, Image], known: Iterable[str], destination: Path) -> None:
    """Write the images, by the names that nodes are to know them by, without the blobs in `known`."""
    manifests = [{**image.descriptor, "annotations": _annotations(name)} for name, image in images.items()]
    index = json.dumps({"schemaVersion": 2, "manifests": manifests}).encode()
    left_out = set(known)
    partial = destination.with_name(destination.name + ".partial")
    destination.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(partial, "w") as archive:
        for name, content in (("oci-layout", OCI_LAYOUT), ("index.json", index)):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, BytesIO(content))
        for digest in dict.fromkeys(blob for image in images.values() for blob in image.blobs):
            if digest not in left_out:
                path = blob_path(layout, digest)
                member = tarfile.TarInfo(f"blobs/sha256/{path.name}")
                member.size = path.stat().st_size
                with path.open("rb") as content_file:
                    archive.addfile(member, content_file)
    partial.replace(destination)


def remove_unused(layout: Path, used: Iterable[str]) -> None:
    """Remove the layout's manifests and other blobs that no present image has."""
    names = {digest.removeprefix("sha256:") for digest in used}
    index = json.loads((layout / "index.json").read_text())
    index["manifests"] = [
        entry for entry in index["manifests"] if entry["digest"].removeprefix("sha256:") in names
    ]
    write(layout / "index.json", index)
    for path in (layout / "blobs/sha256").iterdir():
        if path.name not in names:
            path.unlink()


def blob_path(layout: Path, digest: str) -> Path:
    """Where the layout keeps a blob."""
    return layout / "blobs" / digest.replace(":", "/")


def _annotations(name: str) -> dict[str, str]:
    return {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
