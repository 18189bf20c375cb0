"""The cluster's definition of DartESJob, for tests that change or delete it: given back as it was found.

Every job of the cluster goes with the definition, so these tests are for a cluster that nobody else uses.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .held import HeldCluster
from .jobs import until

DEFINITION = Path(__file__).resolve().parents[2] / "crds" / "dartesjobs.dartes.dev.yaml"
NAME = "dartesjobs.dartes.dev"
PATH = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{NAME}"
_MARKS = ("labels", "annotations")


@contextmanager
def given_back(cluster: HeldCluster) -> Iterator[None]:
    """Afterwards the present definition is there again, marked as its owner's as it was before."""
    before = cluster.find(PATH)
    try:
        yield
    finally:
        put_back(cluster)
        _mark(cluster, {} if before is None else before["metadata"])


def remove(cluster: HeldCluster) -> None:
    """Delete the definition, and with it every job, and wait until it is gone."""
    cluster.kubectl("delete", f"crd/{NAME}", "--ignore-not-found", "--timeout=60s", seconds=90)


def put_back(cluster: HeldCluster) -> None:
    """Apply the present definition, once one that is being deleted is gone."""
    until(lambda: not _is_going(cluster), "the old definition is gone", 60)
    apply(cluster)


def apply(cluster: HeldCluster) -> None:
    """Apply the present definition and wait until it is served."""
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(DEFINITION))
    # Not `kubectl wait`: it fails where a new definition has no status at all yet.
    until(lambda: _is_established(cluster), "the definition is served", 30)


def _is_established(cluster: HeldCluster) -> bool:
    conditions = (cluster.find(PATH) or {}).get("status", {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def _is_going(cluster: HeldCluster) -> bool:
    found = cluster.find(PATH)
    return found is not None and "deletionTimestamp" in found["metadata"]


def _mark(cluster: HeldCluster, metadata: dict[str, Any]) -> None:
    present = (cluster.find(PATH) or {})["metadata"]
    marks = {field: dict.fromkeys(present.get(field) or {}) | (metadata.get(field) or {}) for field in _MARKS}
    cluster.kubectl("patch", f"crd/{NAME}", "--type=merge", "-p", json.dumps({"metadata": marks}))
