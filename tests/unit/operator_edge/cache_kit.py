"""A pod as the cache takes it in, and what it knows of one."""

from typing import Any

from dartes_operator.cache import Cache
from dartes_operator.kinds import Key

from .kit import JOB_UID, NAMESPACE, owned

KEY = Key(NAMESPACE, "sums")
MANAGED_BY = "app.kubernetes.io/managed-by"


def pod(
    name: str = "sums-worker-0", version: int = 5, *, own_uid: str = "uid-pod", owner: str = JOB_UID
) -> dict[str, Any]:
    manifest = owned("Pod", name, uid=owner, resourceVersion=str(version))
    manifest["metadata"]["uid"] = own_uid
    manifest["metadata"]["labels"][MANAGED_BY] = "dartes-operator"
    return manifest


def version_known(cache: Cache, name: str = "sums-worker-0") -> str | None:
    found = cache.get("Pod", NAMESPACE, name)
    return None if found is None else found["metadata"]["resourceVersion"]
