"""Revocation lists of a trustme authority, for tests.

Knows nothing of nodes.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

DAY = timedelta(days=1)


def revocation_list(
    authority: trustme.CA, revoked: Sequence[Path] = (), *, age: timedelta = DAY, lasts: timedelta = 2 * DAY
) -> bytes:
    """In PEM. `revoked` are files that begin with, or contain, a certificate of the authority."""
    certificate = x509.load_pem_x509_certificate(authority.cert_pem.bytes())
    key = load_pem_private_key(authority.private_key_pem.bytes(), None)
    made = datetime.now(UTC) - age
    builder = x509.CertificateRevocationListBuilder().issuer_name(certificate.subject)
    builder = builder.last_update(made).next_update(made + lasts)
    for file in revoked:
        serial = x509.load_pem_x509_certificates(file.read_bytes())[0].serial_number
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(made).build()
        builder = builder.add_revoked_certificate(entry)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)  # type: ignore[arg-type]
