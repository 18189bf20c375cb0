"""The authority of a run: three leaves, each for its role, and files that others can't read."""

import datetime
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dartes.errors import ConfigurationError
from dartes.rpc import tls
from dartes.rpc.tls import Credentials, Role

LEAVES = tls.issue(["10.1.2.3", "coordinator.example"])


def leaf(credentials: Credentials) -> x509.Certificate:
    return x509.load_pem_x509_certificate(credentials.certificate)


def test_every_leaf_is_signed_by_the_one_authority() -> None:
    authorities = {c.authority for c in LEAVES.values()}
    assert len(authorities) == 1
    authority = x509.load_pem_x509_certificate(authorities.pop())
    for credentials in LEAVES.values():
        leaf(credentials).verify_directly_issued_by(authority)


def test_a_leaf_names_its_role_and_can_be_used_for_nothing_else() -> None:
    for role, credentials in LEAVES.items():
        certificate = leaf(credentials)
        assert certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == role
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        server = role is Role.COORDINATOR
        assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH]


def test_the_coordinator_is_known_under_all_its_names() -> None:
    extension = leaf(LEAVES[Role.COORDINATOR]).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    names = extension.value
    assert {tls.SERVER_NAME, "localhost", "coordinator.example"} <= set(
        names.get_values_for_type(x509.DNSName)
    )
    assert {"127.0.0.1", "10.1.2.3"} <= {str(a) for a in names.get_values_for_type(x509.IPAddress)}


def test_keys_are_their_own_and_no_key_of_the_authority_is_left() -> None:
    keys = [serialization.load_pem_private_key(c.key, None) for c in LEAVES.values()]
    authority = x509.load_pem_x509_certificate(LEAVES[Role.WORKER].authority).public_key()
    public = [k.public_key() for k in keys]
    assert all(authority != p for p in public)
    assert len({p.public_bytes(*_PEM) for p in public}) == len(Role)


_PEM = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def test_leaves_outlive_any_run_and_allow_for_clocks_that_differ() -> None:
    now = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
    certificate = leaf(tls.issue(now=now)[Role.WORKER])
    assert certificate.not_valid_before_utc == now - datetime.timedelta(hours=1)
    assert certificate.not_valid_after_utc > now + datetime.timedelta(days=9 * 365)


def test_credentials_survive_the_disk_and_only_their_owner_reads_them(tmp_path: Path) -> None:
    folder = tmp_path / "tls" / "worker"
    tls.save(LEAVES[Role.WORKER], folder)
    tls.save(LEAVES[Role.WORKER], folder)
    assert tls.load(folder) == LEAVES[Role.WORKER]
    assert {stat.S_IMODE(f.stat().st_mode) for f in folder.iterdir()} == {0o600}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"ca\.crt can't be read \(No such file or directory\)"):
        tls.load(tmp_path)
