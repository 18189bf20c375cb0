"""Storage classes, and the provisioner that makes a volume for each claim of them.

Volumes are folders of the host offered as `local` volumes, which honour fsGroup as a disk does (a hostPath
volume doesn't). Pure functions say what a claim gets; `Provisioner` looks, makes and removes.
"""

import math
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .api import Api, Document
from .commands import ClusterError, run, say
from .machinery import Machinery

PROVISIONER: Final = "testcluster.dartes.dev/local"
DEFAULT_MARK: Final = "storageclass.kubernetes.io/is-default-class"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
FIRST_REQUEST: Final = "testcluster.dartes.dev/first-request"
POLL_SECONDS: Final = 0.3
SMALL_BYTES: Final = 16 * 1024**2
UNITS: Final = {
    "Ki": 1024,
    "Mi": 1024**2,
    "Gi": 1024**3,
    "Ti": 1024**4,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
}


@dataclass(frozen=True, slots=True)
class StorageClass:
    """One class: where its volumes can be used and whether their size is real."""

    name: str
    is_default: bool = False
    follows: bool = False
    """A volume can be used from every node, so a lost node doesn't take it along."""
    is_small: bool = False
    """A volume is a tmpfs of 16 MiB whatever was asked for; a claim that grows makes it larger by as much."""

    def manifest(self) -> Document:
        """The StorageClass object."""
        annotations = {DEFAULT_MARK: "true"} if self.is_default else {}
        return {
            "metadata": {"name": self.name, "annotations": annotations},
            "provisioner": PROVISIONER,
            # A class whose volumes have no place needn't wait for a pod's.
            "volumeBindingMode": "Immediate" if self.follows else "WaitForFirstConsumer",
            "reclaimPolicy": "Delete",
            "allowVolumeExpansion": self.is_small,
        }


CLASSES: Final = (
    StorageClass("standard", is_default=True),
    StorageClass("portable", follows=True),
    StorageClass("small", is_small=True),
)
BY_NAME: Final = {storage.name: storage for storage in CLASSES}


def is_waiting(claim: Document) -> bool:
    """Whether it is our turn to make this claim's volume."""
    storage = BY_NAME.get(claim["spec"].get("storageClassName", ""))
    if storage is None or claim["spec"].get("volumeName") or claim["metadata"].get("deletionTimestamp"):
        return False
    return storage.follows or SELECTED_NODE in claim["metadata"].get("annotations", {})


def volume_name(claim: Document) -> str:
    """The volume's name: one for each claim for ever, so that a repeated try makes no second one."""
    return f"pvc-{claim['metadata']['uid']}"


def volume_manifest(claim: Document, folder: Path) -> Document:
    """The PersistentVolume that a claim gets."""
    metadata, spec = claim["metadata"], claim["spec"]
    storage = BY_NAME[spec["storageClassName"]]
    node = metadata.get("annotations", {}).get(SELECTED_NODE)
    # All nodes are one host, so a volume to be shared can be.
    anywhere = storage.follows or not {"ReadWriteMany", "ReadOnlyMany"}.isdisjoint(spec["accessModes"])
    place: dict[str, Any] = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    if anywhere:
        # A `local` volume must name nodes; this names all of them.
        place = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}
    annotations = {
        "pv.kubernetes.io/provisioned-by": PROVISIONER,
        FIRST_REQUEST: spec["resources"]["requests"]["storage"],
    }
    return {
        "metadata": {"name": volume_name(claim), "annotations": annotations},
        "spec": {
            "capacity": spec["resources"]["requests"],
            "accessModes": spec["accessModes"],
            "storageClassName": storage.name,
            "persistentVolumeReclaimPolicy": "Delete",
            "local": {"path": str(folder)},
            "claimRef": {
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [place]}]}},
        },
    }


def is_left_over(volume: Document) -> bool:
    """Whether a volume of ours is to be removed: its claim is gone and the policy says so."""
    return (
        volume["spec"].get("storageClassName") in BY_NAME
        and volume.get("status", {}).get("phase") == "Released"
        and volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
        and not volume["metadata"].get("deletionTimestamp")
    )


def grown_size(claim: Document, volume: Document) -> int | None:
    """The bytes that a `small` volume must have after its claim grew; None where nothing is to be done."""
    storage = BY_NAME.get(claim["spec"].get("storageClassName", ""))
    if storage is None or not storage.is_small or claim.get("status", {}).get("phase") != "Bound":
        return None
    wanted = quantity(claim["spec"]["resources"]["requests"]["storage"])
    if wanted <= quantity(claim["status"].get("capacity", {}).get("storage", "0")):
        return None
    return SMALL_BYTES + wanted - quantity(volume["metadata"]["annotations"][FIRST_REQUEST])


def quantity(text: str) -> int:
    """Bytes of a Kubernetes quantity like 16Mi, 1.5Gi or 1000; ClusterError for another form."""
    unit = next((unit for unit in UNITS if text.endswith(unit)), "")
    try:
        return math.ceil(float(text.removesuffix(unit)) * UNITS.get(unit, 1))
    except ValueError:
        raise ClusterError(f"{text!r} is no quantity like 16Mi, 1.5Gi or 1000") from None


class Provisioner:
    """Keeps volumes in step with claims, for as long as the cluster runs."""

    def __init__(self, machinery: Machinery) -> None:
        self._folder = machinery.paths.volumes
        self._api: Api = machinery.api("provisioner")

    def serve(self) -> None:
        """Look and act for ever; a request that fails is tried again at the next look."""
        while True:
            try:
                self.look()
            except (OSError, ClusterError) as error:
                say(f"provisioner: {error}")
            time.sleep(POLL_SECONDS)

    def look(self) -> None:
        """Make, grow and remove what the claims ask for now."""
        claims = self._list("persistentvolumeclaims")
        volumes = {each["metadata"]["name"]: each for each in self._list("persistentvolumes")}
        for claim in claims:
            volume = volumes.get(claim["spec"].get("volumeName", ""))
            if is_waiting(claim):
                self._make(claim)
            elif volume and (size := grown_size(claim, volume)):
                self._grow(claim, volume, size)
        for volume in volumes.values():
            if is_left_over(volume):
                self._remove(volume)

    def _list(self, resource: str) -> list[Document]:
        # Version 0 is answered from the server's memory, which is enough for someone who looks all the time.
        items: list[Document] = self._api.get(f"/api/v1/{resource}?resourceVersion=0")["items"]
        return items

    def _make(self, claim: Document) -> None:
        folder = self._folder / volume_name(claim)
        # Root's alone, as a new disk is: a pod without fsGroup can't write to it here either.
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        if BY_NAME[claim["spec"]["storageClassName"]].is_small and not folder.is_mount():
            run(["mount", "-t", "tmpfs", "-o", f"size={SMALL_BYTES},mode=0755", "dartes-small", folder])
        self._api.create("/api/v1/persistentvolumes", volume_manifest(claim, folder))

    def _grow(self, claim: Document, volume: Document, size: int) -> None:
        metadata = claim["metadata"]
        capacity = {"storage": claim["spec"]["resources"]["requests"]["storage"]}
        run(["mount", "-o", f"remount,size={size}", volume["spec"]["local"]["path"]])
        self._api.patch(
            f"/api/v1/persistentvolumes/{volume['metadata']['name']}", {"spec": {"capacity": capacity}}
        )
        path = f"/api/v1/namespaces/{metadata['namespace']}/persistentvolumeclaims/{metadata['name']}/status"
        self._api.patch(path, {"status": {"capacity": capacity}})

    def _remove(self, volume: Document) -> None:
        folder = Path(volume["spec"]["local"]["path"])
        if folder.is_mount():
            run(["umount", folder])
        shutil.rmtree(folder, ignore_errors=True)
        self._api.delete(f"/api/v1/persistentvolumes/{volume['metadata']['name']}")
