"""A certificate authority for one run: its key signs three leaves and is then forgotten.

Coordinator, workers and the control client each get their own key; who is calling is read from the
certificate's common name. The same files serve a local run and, as Secrets, a run in a cluster.
"""

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dartes.errors import ConfigurationError

VALID_YEARS = 10  # leaves outlive any run, so that nothing has to rotate in the middle of one
SERVER_NAME = "dartes-coordinator"


class Role(StrEnum):
    """Who holds a leaf; the common name of its certificate."""

    COORDINATOR = "coordinator"
    WORKER = "worker"
    CONTROL = "control"


@dataclass(frozen=True)
class Credentials:
    """PEM bytes of one role: the authority's certificate, its own certificate and private key."""

    authority: bytes
    certificate: bytes
    key: bytes


def issue(names: Sequence[str] = (), now: datetime.datetime | None = None) -> dict[Role, Credentials]:
    """Make a new authority and one leaf per role.

    Parameters
    ----------
    names
        Further DNS names or IP addresses under which the coordinator is reached; `SERVER_NAME`,
        localhost and the loopback addresses are always among them.
    now
        Start of validity, for tests.
    """
    start = now or datetime.datetime.now(datetime.UTC)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "dartes run authority")])
    authority = (
        _builder(authority_name, authority_name, authority_key, start)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    authority_pem = authority.public_bytes(serialization.Encoding.PEM)
    leaves: dict[Role, Credentials] = {}
    for role in Role:
        key = ec.generate_private_key(ec.SECP256R1())
        usage = (
            ExtendedKeyUsageOID.SERVER_AUTH if role is Role.COORDINATOR else ExtendedKeyUsageOID.CLIENT_AUTH
        )
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, role.value)])
        builder = _builder(subject, authority_name, key, start).add_extension(
            x509.ExtendedKeyUsage([usage]), critical=False
        )
        if role is Role.COORDINATOR:
            alternatives = [_general_name(n) for n in (SERVER_NAME, "localhost", "127.0.0.1", "::1", *names)]
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        leaves[role] = Credentials(
            authority=authority_pem,
            certificate=builder.sign(authority_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM),
            key=key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        )
    return leaves


def save(credentials: Credentials, folder: Path) -> None:
    """Write one role's files as `ca.crt`, `tls.crt`, `tls.key` (the names of a Kubernetes TLS Secret)."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, content in (
        ("ca.crt", credentials.authority),
        ("tls.crt", credentials.certificate),
        ("tls.key", credentials.key),
    ):
        path = folder / name
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)
        path.write_bytes(content)


def load(folder: Path) -> Credentials:
    """Read what `save` wrote; ConfigurationError names a file that can't be read."""
    try:
        return Credentials(
            authority=(folder / "ca.crt").read_bytes(),
            certificate=(folder / "tls.crt").read_bytes(),
            key=(folder / "tls.key").read_bytes(),
        )
    except OSError as error:
        raise ConfigurationError(
            f"{folder}: {error.filename} can't be read ({error.strerror}); a folder of credentials must hold "
            "ca.crt, tls.crt and tls.key"
        ) from error


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, start: datetime.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # An hour of slack: clocks of nodes differ.
        .not_valid_before(start - datetime.timedelta(hours=1))
        .not_valid_after(start + datetime.timedelta(days=365 * VALID_YEARS))
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
