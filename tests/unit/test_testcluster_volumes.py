"""What volume a claim gets, when it grows and when it goes."""

from pathlib import Path
from typing import Any

import pytest

from testcluster.commands import ClusterError
from testcluster.volumes import (
    CLASSES,
    SMALL_BYTES,
    grown_size,
    is_left_over,
    is_waiting,
    quantity,
    volume_manifest,
    volume_name,
)

FOLDER = Path("/volumes/one")


def claim(
    storage: str, node: str | None = None, mode: str = "ReadWriteOnce", **status: Any
) -> dict[str, Any]:
    """A claim as the API server shows it."""
    annotations = {"volume.kubernetes.io/selected-node": node} if node else {}
    return {
        "metadata": {"name": "data", "namespace": "ns", "uid": "u-1", "annotations": annotations},
        "spec": {
            "storageClassName": storage,
            "accessModes": [mode],
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": status,
    }


def place(manifest: dict[str, Any]) -> tuple[str, list[str]]:
    """The node affinity of a volume: key and values."""
    term = manifest["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]
    return term["key"], term["values"]


@pytest.mark.parametrize("storage", ["standard", "small"])
def test_a_claim_of_a_placed_class_waits_for_its_pods_node(storage: str) -> None:
    assert not is_waiting(claim(storage))
    assert is_waiting(claim(storage, node="node2"))


def test_a_portable_claim_needs_no_node() -> None:
    assert is_waiting(claim("portable"))


def test_another_provisioners_claim_is_left_alone() -> None:
    assert not is_waiting(claim("elsewhere", node="node2"))
    without_class = claim("standard", node="node2")
    del without_class["spec"]["storageClassName"]
    assert not is_waiting(without_class)


def test_a_bound_or_deleted_claim_gets_no_second_volume() -> None:
    bound, deleted = claim("portable"), claim("portable")
    bound["spec"]["volumeName"] = "pvc-u-1"
    deleted["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    assert not is_waiting(bound)
    assert not is_waiting(deleted)


def test_a_standard_volume_stays_on_its_node_and_a_portable_one_follows() -> None:
    assert place(volume_manifest(claim("standard", "node2"), FOLDER)) == ("kubernetes.io/hostname", ["node2"])
    assert place(volume_manifest(claim("portable"), FOLDER)) == ("kubernetes.io/os", ["linux"])


def test_a_volume_for_many_nodes_can_be_used_on_all_of_them() -> None:
    shared = claim("standard", "node2", mode="ReadWriteMany")
    assert place(volume_manifest(shared, FOLDER)) == ("kubernetes.io/os", ["linux"])


def test_a_volume_is_bound_to_the_very_claim_and_honours_fs_group() -> None:
    made = volume_manifest(claim("standard", "node2", mode="ReadWriteOncePod"), FOLDER)
    assert made["spec"]["claimRef"]["uid"] == "u-1"
    assert made["spec"]["accessModes"] == ["ReadWriteOncePod"]
    assert made["spec"]["local"] == {"path": str(FOLDER)}, "a hostPath volume would ignore fsGroup"
    assert made["metadata"]["name"] == volume_name(claim("standard"))


def test_a_grown_small_claim_adds_the_difference_to_sixteen_mebibytes() -> None:
    grown = claim("small", "node1", phase="Bound", capacity={"storage": "1Gi"})
    volume = volume_manifest(grown, FOLDER)
    assert grown_size(grown, volume) is None
    grown["spec"]["resources"]["requests"]["storage"] = "1040Mi"
    assert grown_size(grown, volume) == SMALL_BYTES + 16 * 1024**2


def test_a_claim_that_is_not_bound_or_not_small_does_not_grow() -> None:
    pending = claim("small", "node1", phase="Pending")
    standard = claim("standard", "node1", phase="Bound", capacity={"storage": "1Mi"})
    for each in (pending, standard):
        assert grown_size(each, volume_manifest(each, FOLDER)) is None


@pytest.mark.parametrize(
    ("phase", "policy", "gone"),
    [
        ("Released", "Delete", True),
        ("Released", "Retain", False),
        ("Bound", "Delete", False),
        ("Available", "Delete", False),
    ],
)
def test_only_a_released_volume_to_be_deleted_goes(phase: str, policy: str, gone: bool) -> None:
    volume = volume_manifest(claim("standard", "node1"), FOLDER)
    volume["spec"]["persistentVolumeReclaimPolicy"] = policy
    volume["status"] = {"phase": phase}
    assert is_left_over(volume) is gone


@pytest.mark.parametrize(
    ("text", "size"),
    [("16Mi", 16 * 1024**2), ("1.5Gi", 3 * 1024**3 // 2), ("2G", 2 * 10**9), ("1000", 1000), ("1k", 1000)],
)
def test_quantities_are_bytes(text: str, size: int) -> None:
    assert quantity(text) == size


@pytest.mark.parametrize("text", ["", "Mi", "much", "1 Gi x"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ClusterError, match="16Mi"):
        quantity(text)


def test_one_class_is_the_default_and_only_small_can_grow() -> None:
    manifests = {each.name: each.manifest() for each in CLASSES}
    default = [name for name, each in manifests.items() if each["metadata"]["annotations"]]
    assert default == ["standard"]
    assert [name for name, each in manifests.items() if each["allowVolumeExpansion"]] == ["small"]
    assert manifests["portable"]["volumeBindingMode"] == "Immediate"
    assert manifests["standard"]["volumeBindingMode"] == "WaitForFirstConsumer"
