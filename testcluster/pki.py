"""Certificates of one cluster: an authority of its own, one certificate for each program, and kubeconfigs.

Nothing here is secret beyond the life of a test cluster; the files are root's all the same.
"""

import base64
import datetime as dt
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from .commands import write
from .paths import Network, Paths

LIFETIME: Final = dt.timedelta(days=365)
CONTEXT: Final = "dartes-testcluster"
"""Name of the context in every kubeconfig."""


class Certificates:
    """The cluster's certificate authority, in `paths.pki`."""

    def __init__(self, paths: Paths, network: Network) -> None:
        self.paths = paths
        self.network = network

    def make_authority(self) -> None:
        """A new authority, and the key pair that signs the tokens of service accounts."""
        self.paths.pki.mkdir(parents=True, exist_ok=True, mode=0o700)
        key = new_key()
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, CONTEXT)])
        certificate = (
            builder(name, name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(key, hashes.SHA256())
        )
        self._write_pair("ca", key, certificate)
        tokens = new_key()
        self._write("sa.key", private_pem(tokens))
        public = tokens.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self._write("sa.pub", public)

    def issue(
        self,
        name: str,
        user: str,
        group: str | None = None,
        names: Sequence[str] = (),
        ips: Sequence[str] = (),
    ) -> None:
        """NAME.crt and NAME.key for `user`, good as a client and, under `names` and `ips`, as a server."""
        ca = x509.load_pem_x509_certificate((self.paths.pki / "ca.crt").read_bytes())
        ca_key = serialization.load_pem_private_key((self.paths.pki / "ca.key").read_bytes(), None)
        assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, user)]
        if group:
            attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
        others: list[x509.GeneralName] = [x509.DNSName(each) for each in names or [name]]
        others += [x509.IPAddress(ipaddress.ip_address(each)) for each in ips]
        uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        key = new_key()
        certificate = (
            builder(x509.Name(attributes), ca.subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
            .add_extension(x509.SubjectAlternativeName(others), critical=False)
            .sign(ca_key, hashes.SHA256())
        )
        self._write_pair(name, key, certificate)

    def kubeconfig(self, name: str, user: str, group: str | None = None) -> Path:
        """Issue a certificate and write NAME.kubeconfig in the state folder, which holds all it needs."""
        self.issue(name, user, group)
        ca, certificate, key = (
            base64.b64encode((self.paths.pki / file).read_bytes()).decode()
            for file in ("ca.crt", f"{name}.crt", f"{name}.key")
        )
        cluster = {"server": self.network.server, "certificate-authority-data": ca}
        credentials = {"client-certificate-data": certificate, "client-key-data": key}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": CONTEXT,
            "clusters": [{"name": CONTEXT, "cluster": cluster}],
            "users": [{"name": name, "user": credentials}],
            "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": name}}],
        }
        path = write(self.paths.state / f"{name}.kubeconfig", document)
        path.chmod(0o600)
        return path

    def _write_pair(self, name: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._write(f"{name}.key", private_pem(key))
        self._write(f"{name}.crt", certificate.public_bytes(serialization.Encoding.PEM))

    def _write(self, name: str, data: bytes) -> None:
        path = self.paths.pki / name
        path.touch(mode=0o600)
        path.write_bytes(data)


def new_key() -> ec.EllipticCurvePrivateKey:
    """A private key on P-256."""
    return ec.generate_private_key(ec.SECP256R1())


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The key as the Kubernetes programs read it."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    """A certificate with its names, key, random serial number and lifetime."""
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + LIFETIME)
    )
