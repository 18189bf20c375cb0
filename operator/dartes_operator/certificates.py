"""The three TLS Secrets of a job: which authority signed them, and new ones from a new authority.

The authority is named by a mark, the beginning of its certificate's digest; its key is gone once the three
leaves are signed.
"""

import asyncio
import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Any

from dartes.rpc import tls
from dartes_operator.api import Api, ApiRefusalError
from dartes_operator.kinds import AUTHORITY, Key, is_ours
from dartes_operator.plan.types import IssueCertificates, Kind, Manifest, TlsState
from dartes_operator.refusals import name_is_taken

# The roles of the Secrets, as in their names, and whose certificate each holds.
ROLES: Mapping[str, tls.Role] = {
    "coordinator": tls.Role.COORDINATOR,
    "worker": tls.Role.WORKER,
    "operator": tls.Role.CONTROL,
}
_KEYS = ("ca.crt", "tls.crt", "tls.key")


class ForeignSecretError(Exception):
    """A Secret of that name belongs to somebody else; the argument is its name."""


def secret_name(job: str, role: str) -> str:
    """`J-tls-<role>`."""
    return f"{job}-tls-{role}"


def mark_of(authority: bytes) -> str:
    """The mark of an authority: the first 10 hex digits of the SHA-256 of its certificate (PEM)."""
    return hashlib.sha256(authority).hexdigest()[:10]


def credentials_in(secret: Manifest) -> tls.Credentials | None:
    """What a TLS Secret holds; None where a part is missing or is not base64."""
    data = secret.get("data") or {}
    try:
        parts = [base64.b64decode(data[key], validate=True) for key in _KEYS]
    except (KeyError, binascii.Error):
        return None
    return tls.Credentials(*parts) if all(parts) else None


async def read_certificates(api: Api, key: Key, job_uid: str) -> TlsState:
    """Read the three Secrets; a damaged one counts as missing."""
    found = await asyncio.gather(
        *(api.get(Kind.SECRET, key.namespace, secret_name(key.name, role)) for role in ROLES)
    )
    marks: dict[str, str] = {}
    foreign: list[str] = []
    for role, secret in zip(ROLES, found, strict=True):
        if secret is None:
            continue
        if not is_ours(secret, job_uid):
            foreign.append(secret_name(key.name, role))
        elif (credentials := credentials_in(secret)) is not None:
            marks[role] = mark_of(credentials.authority)
    return TlsState(marks, tuple(foreign))


async def issue_certificates(api: Api, action: IssueCertificates, job_uid: str) -> str:
    """Write three Secrets signed by a new authority; returns its mark.

    ForeignSecretError names a Secret that is not the job's: it is left as it is.
    """
    leaves = await asyncio.to_thread(tls.issue, action.dns_names)
    mark = mark_of(leaves[tls.Role.COORDINATOR].authority)
    for role, metadata in action.metadata.items():
        await _write(api, _secret(metadata, leaves[ROLES[role]], mark), job_uid)
    return mark


def _secret(metadata: Manifest, credentials: tls.Credentials, mark: str) -> dict[str, Any]:
    parts = (credentials.authority, credentials.certificate, credentials.key)
    annotations = {**(metadata.get("annotations") or {}), AUTHORITY: mark}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {**metadata, "annotations": annotations},
        "data": {
            name: base64.b64encode(part).decode("ascii") for name, part in zip(_KEYS, parts, strict=True)
        },
    }


async def _write(api: Api, secret: Manifest, job_uid: str) -> None:
    namespace, name = secret["metadata"]["namespace"], secret["metadata"]["name"]
    try:
        await api.create(secret)
        return
    except ApiRefusalError as refusal:
        if not name_is_taken(refusal):
            raise
    existing = await api.get(Kind.SECRET, namespace, name)
    if existing is None:
        await api.create(secret)
        return
    if not is_ours(existing, job_uid):
        raise ForeignSecretError(name)
    patch = {
        "metadata": {
            "uid": existing["metadata"]["uid"],
            "annotations": secret["metadata"]["annotations"],
        },
        "data": secret["data"],
    }
    await api.merge(Kind.SECRET, namespace, name, patch)
