"""Certificates of a secured broker and its clients, good and bad, as PEM files: for the bench and the tests.

Strategy: everybody has one file NAME.pem with the key (PKCS 8) and the certificate, as Kafka's PEM stores want it, and
the two apart (NAME.key, NAME.crt) for clients that ask for two files. Elliptic curves, since RSA keys take a second.
Knows nothing of nodes and clients.
"""

import datetime
import ipaddress
import pathlib
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY: Final = datetime.timedelta(days=1)
USAGES: Final = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)


@dataclass(frozen=True, slots=True)
class Authority:
    """The signing authority; `path` is its own certificate."""

    path: pathlib.Path
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


@dataclass(frozen=True, slots=True)
class Identity:
    """Files of one key and its certificate."""

    both: pathlib.Path
    key: pathlib.Path
    certificate: pathlib.Path


@dataclass(frozen=True, slots=True)
class Certificates:
    """The good authority and those it has signed, and what nobody should believe."""

    authority: pathlib.Path
    server: Identity
    alice: Identity  # CN=alice
    stale_server: Identity  # expired
    stale_client: Identity  # expired
    strange_authority: pathlib.Path
    stranger: Identity  # CN=alice, signed by the strange authority


def make_certificates(folder: pathlib.Path) -> Certificates:
    ours, strange = _authority(folder, "authority"), _authority(folder, "strange-authority")
    return Certificates(
        ours.path,
        _identity(folder, ours, "server", "localhost"),
        _identity(folder, ours, "alice", "alice"),
        _identity(folder, ours, "stale-server", "localhost", expires=-DAY),
        _identity(folder, ours, "stale-client", "alice", expires=-DAY),
        strange.path,
        _identity(folder, strange, "stranger", "alice"),
    )


def _authority(folder: pathlib.Path, name: str) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _named(name)
    certificate = (
        _begun(subject, subject, key.public_key(), DAY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / f"{name}.crt"
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return Authority(path, key, certificate)


def _identity(
    folder: pathlib.Path, signer: Authority, name: str, common_name: str, expires: datetime.timedelta = DAY
) -> Identity:
    key = ec.generate_private_key(ec.SECP256R1())
    hosts = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))]
    certificate = (
        _begun(_named(common_name), signer.certificate.subject, key.public_key(), expires)
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.ExtendedKeyUsage(USAGES), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(signer.key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    shown = certificate.public_bytes(serialization.Encoding.PEM)
    identity = Identity(folder / f"{name}.pem", folder / f"{name}.key", folder / f"{name}.crt")
    for path, content in ((identity.both, secret + shown), (identity.key, secret), (identity.certificate, shown)):
        path.touch(mode=0o600)
        path.write_bytes(content)
    return identity


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, expires: datetime.timedelta
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 2 * DAY)
        .not_valid_after(now + expires)
    )


def _named(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
