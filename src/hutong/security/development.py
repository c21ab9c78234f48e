"""Certificates for trying TLS out: a private authority, and certificates that it signs for a server and for clients.

Strategy: keys on P-256, which every client supports. Each certificate names its purpose, so that a server cannot use a
client's. Key files are created readable for their owner alone. The authority stays in its folder: later certificates
are signed by the same one.

Needs the extra `certs`. Knows nothing of listeners. Not for production: the authority's key is in the same folder.
"""

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hutong.foundation.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

DAYS: Final = 365
DAYS_MAX: Final = 3650
SERVER_NAMES: Final = ("localhost", "127.0.0.1", "::1")
_ORGANIZATION: Final = "Hutong development"
_CLOCK_SKEW: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """PEM files: a certificate, and its key."""

    certificate: Path
    key: Path


class DevelopmentAuthority:
    """The authority of a folder, made when there is none. Raises UsageError where that cannot be."""

    def __init__(self, folder: Path, days: int = DAYS) -> None:
        _require_cryptography()
        self.folder = folder
        self.files = KeyPair(folder / "ca.pem", folder / "ca-key.pem")
        self._days = days
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.is_new = not self.files.certificate.exists()
            # An existing authority is reused: clients already trust it.
            self._certificate, self._key = self._made() if self.is_new else self._loaded()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(f"Cannot use the folder {folder}: {reason}.", ExitCode.CANTCREAT) from None

    def server(self, names: Sequence[str] = SERVER_NAMES) -> KeyPair:
        """For a node that is reached by these names and addresses."""
        return self._issued("server", "hutong", list(dict.fromkeys(names)), is_server=True)

    def client(self, name: str) -> KeyPair:
        """For a client whose principal is `User:CN=NAME,O=Hutong development`. Raises UsageError for an odd name."""
        # The name becomes a file's name, so it must not leave the folder.
        if not name or not all(c.isalnum() or c in "-_.@" for c in name) or len(name) > 64 or name.startswith("."):
            raise UsageError(f"A client's name has letters, digits, '-', '_', '.' and '@' alone, not {name[:64]!r}.")
        return self._issued(f"client-{name}", name, [], is_server=False)

    def _made(self) -> "tuple[x509.Certificate, EllipticCurvePrivateKey]":
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("development authority")
        builder = (
            _begun(name, name, key, self._days)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        certificate = builder.sign(key, hashes.SHA256())
        _write(self.files, certificate, key)
        return certificate, key

    def _loaded(self) -> "tuple[x509.Certificate, EllipticCurvePrivateKey]":
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        certificate = x509.load_pem_x509_certificate(self.files.certificate.read_bytes())
        key = load_pem_private_key(self.files.key.read_bytes(), None)
        # Signing with another key would give certificates that no client verifies.
        if not isinstance(key, EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise ValueError("its ca-key.pem does not belong to its ca.pem")
        return certificate, key

    def _issued(self, file: str, common_name: str, names: Sequence[str], *, is_server: bool) -> KeyPair:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID

        key = ec.generate_private_key(ec.SECP256R1())
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if is_server else ExtendedKeyUsageOID.CLIENT_AUTH
        authority_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            _begun(_name(common_name), self._certificate.subject, key, self._days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(authority_key, critical=False)
        )
        # Clients check these names, not the common name (RFC 9525).
        if names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False
            )
        pair = KeyPair(self.folder / f"{file}.pem", self.folder / f"{file}-key.pem")
        try:
            _write(pair, builder.sign(self._key, hashes.SHA256()), key)
        except OSError as error:
            raise UsageError(f"Cannot write {pair.key}: {error.strerror}.", ExitCode.CANTCREAT) from None
        return pair


def _require_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise UsageError(
            "Certificates are made by the package cryptography, which is not installed: pip install 'hutong[certs]'.",
            ExitCode.UNAVAILABLE,
        ) from None


def _name(common_name: str) -> "x509.Name":
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, _ORGANIZATION),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _begun(
    subject: "x509.Name", issuer: "x509.Name", key: "EllipticCurvePrivateKey", days: int
) -> "x509.CertificateBuilder":
    from cryptography import x509

    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # A client whose clock is behind would refuse it as not yet valid.
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + timedelta(days=days))
    )


def _usage(*, signs_certificates: bool) -> "x509.KeyUsage":
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(name: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write(pair: KeyPair, certificate: "x509.Certificate", key: "EllipticCurvePrivateKey") -> None:
    """Write the key, then the certificate. Each file is replaced atomically, because a node may be reading it."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    _replace(pair.key, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), 0o600)
    _replace(pair.certificate, certificate.public_bytes(Encoding.PEM), 0o644)


def _replace(path: Path, data: bytes, mode: int) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(data)
    temporary.replace(path)
