"""Writes an OCI image archive with one layer: for images so small that no image builder is needed."""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any


def write_archive(destination: Path, name: str, layer: bytes, config: dict[str, Any]) -> None:
    """An archive with the tar file `layer` as the only layer of image `name`; `config` is the OCI image's."""
    partial = destination.with_name(destination.name + ".partial")
    with tarfile.open(partial, "w") as out:

        def add(path: str, data: bytes) -> None:
            info = tarfile.TarInfo(path)
            info.size = len(data)
            out.addfile(info, io.BytesIO(data))

        def blob(data: bytes, kind: str) -> dict[str, Any]:
            digest = hashlib.sha256(data).hexdigest()
            add(f"blobs/sha256/{digest}", data)
            kind = f"application/vnd.oci.image.{kind}"
            return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}

        def document(value: dict[str, Any], kind: str) -> dict[str, Any]:
            return blob(json.dumps(value).encode(), kind)

        layers = blob(layer, "layer.v1.tar")
        rootfs = {"type": "layers", "diff_ids": [layers["digest"]]}
        image = {"architecture": "amd64", "os": "linux", "config": config, "rootfs": rootfs}
        manifest = document(
            {
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": document(image, "config.v1+json"),
                "layers": [layers],
            },
            "manifest.v1+json",
        )
        manifest["annotations"] = {
            "io.containerd.image.name": name,
            "org.opencontainers.image.ref.name": name,
        }
        add("index.json", json.dumps({"schemaVersion": 2, "manifests": [manifest]}).encode())
        add("oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
    partial.replace(destination)


def single_file_layer(path: Path, name: str) -> bytes:
    """A tar file with one executable, owned by root."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        info = tarfile.TarInfo(name)
        info.size, info.mode = path.stat().st_size, 0o755
        with path.open("rb") as content:
            tar.addfile(info, content)
    return data.getvalue()
