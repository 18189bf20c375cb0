"""The three Secrets: of one authority, marked with it, replaced where they are ours, else left alone."""

import base64
from typing import Any

import pytest

from dartes.rpc import tls
from dartes_operator.api import Api
from dartes_operator.certificates import (
    ROLES,
    ForeignSecretError,
    credentials_in,
    issue_certificates,
    mark_of,
    read_certificates,
    secret_name,
)
from dartes_operator.kinds import Key
from dartes_operator.plan.types import IssueCertificates, TlsState

from .kit import JOB_UID, NAMESPACE, FakeServer, owned, with_server

KEY = Key(NAMESPACE, "sums")
ISSUE = IssueCertificates(
    {role: owned("Secret", f"sums-tls-{role}")["metadata"] for role in ROLES}, ("sums-c",)
)
SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"


def issued(server: FakeServer) -> str:
    marks: list[str] = []

    async def scenario(api: Api) -> None:
        marks.append(await issue_certificates(api, ISSUE, JOB_UID))

    with_server(server, scenario)
    return marks[0]


def read(server: FakeServer) -> TlsState:
    states: list[TlsState] = []

    async def scenario(api: Api) -> None:
        states.append(await read_certificates(api, KEY, JOB_UID))

    with_server(server, scenario)
    return states[0]


def secret(server: FakeServer, role: str) -> dict[str, Any]:
    return server.objects[f"{SECRETS}/{secret_name('sums', role)}"]


def test_three_secrets_come_from_one_authority_and_say_so() -> None:
    server = FakeServer()
    mark = issued(server)
    assert read(server) == TlsState(dict.fromkeys(ROLES, mark))
    for role in ROLES:
        manifest = secret(server, role)
        assert manifest["type"] == "kubernetes.io/tls"
        assert manifest["metadata"]["annotations"]["dartes.dev/authority"] == mark
        found = credentials_in(manifest)
        assert found is not None
        assert mark_of(found.authority) == mark
    assert len({secret(server, role)["data"]["tls.key"] for role in ROLES}) == 3


def test_each_role_gets_the_certificate_of_its_own_role() -> None:
    server = FakeServer()
    issued(server)
    names = {"coordinator": b"coordinator", "worker": b"worker", "operator": b"control"}
    for role, common_name in names.items():
        found = credentials_in(secret(server, role))
        assert found is not None
        assert common_name in base64.b64decode(b"".join(found.certificate.splitlines()[1:-1]))


def test_issuing_again_replaces_all_three() -> None:
    server = FakeServer()
    first = issued(server)
    second = issued(server)
    assert first != second
    assert read(server) == TlsState(dict.fromkeys(ROLES, second))


def test_a_lost_secret_is_told_as_missing() -> None:
    server = FakeServer()
    mark = issued(server)
    del server.objects[f"{SECRETS}/sums-tls-worker"]
    assert read(server).marks == {"coordinator": mark, "operator": mark}


@pytest.mark.parametrize("damage", [{}, {"tls.key": ""}, {"ca.crt": "not base64!"}])
def test_a_damaged_secret_counts_as_missing(damage: dict[str, str]) -> None:
    server = FakeServer()
    issued(server)
    data = secret(server, "worker")["data"]
    secret(server, "worker")["data"] = {**data, **damage} if damage else {}
    assert "worker" not in read(server).marks


def test_a_secret_of_somebody_else_is_named_and_left_alone() -> None:
    server = FakeServer()
    server.put("secrets", owned("Secret", "sums-tls-worker", uid="another"))
    assert read(server).foreign == ("sums-tls-worker",)
    with pytest.raises(ForeignSecretError, match="sums-tls-worker"):
        issued(server)
    assert "data" not in secret(server, "worker")


def test_the_mark_is_the_beginning_of_a_digest() -> None:
    assert mark_of(tls.issue()[tls.Role.WORKER].authority) != mark_of(tls.issue()[tls.Role.WORKER].authority)
    assert mark_of(b"") == "e3b0c44298"
