"""What a refusal of the API server means for a job: whose name, whose quota, whose mistake.

Pure: an ApiRefusalError in, a Trouble out.
"""

import re
from collections.abc import Mapping
from typing import Any

from dartes_operator.api import WEBHOOK_FAILED, ApiRefusalError
from dartes_operator.plan.types import Manifest, Trouble

# ResourceQuota says the first two; the others are LimitRange's words.
_QUOTA = re.compile(
    r"exceeded quota|failed quota|(maximum|minimum) \S+ usage per|\S+ max limit to request ratio per|"
    r"is forbidden: status unknown for quota"
)
# A LimitRange gives a container its limit before the pod is checked, so this is said of what it has set, too.
_LIMIT = re.compile(r"must be less than or equal to (\S+) limit")
_RIGHTS = re.compile(
    r'cannot \w+ resource "|cannot set blockOwnerDeletion|'
    r"cannot set an ownerRef on a resource you can't delete"
)


def namespace_is_going(refusal: ApiRefusalError) -> bool:
    """Whether the namespace is gone or being deleted, and the job with it."""
    if "NamespaceTerminating" in refusal.causes:
        return True
    return refusal.code == 404 and refusal.message.startswith("namespaces ")


def name_is_taken(refusal: ApiRefusalError) -> bool:
    """Whether an object of that name exists; other 409s are conflicts that pass."""
    return refusal.code == 409 and refusal.reason == "AlreadyExists"


def tells_nothing(refusal: ApiRefusalError) -> bool:
    """Whether a dry run was refused for being one: a webhook with side effects takes none."""
    return "does not support dry run" in refusal.message


def trouble_of(refusal: ApiRefusalError, asked: Manifest | None = None) -> Trouble | None:
    """Why a write was refused for good, of the object that was asked for; None where another try may help."""
    if WEBHOOK_FAILED in refusal.message:
        return Trouble.WEBHOOK_AWAY
    if refusal.code == 403:
        if _QUOTA.search(refusal.message):
            return Trouble.QUOTA_EXCEEDED
        if _RIGHTS.search(refusal.message):
            return Trouble.FORBIDDEN
        return Trouble.INVALID
    if refusal.code in (400, 422):
        limited = _LIMIT.search(refusal.message)
        if limited and asked is not None and not _sets_limit(asked, limited[1]):
            return Trouble.QUOTA_EXCEEDED
        return Trouble.INVALID
    return None


def _sets_limit(asked: Manifest, resource: str) -> bool:
    """Whether a pod itself limits a resource, in any container."""
    spec: Mapping[str, Any] = asked.get("spec") or {}
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return any(resource in ((each.get("resources") or {}).get("limits") or {}) for each in containers)
