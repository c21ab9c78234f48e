"""Certificate revocation lists (RFC 5280, section 5) as far as a node must know them: issuer, and the next update.

Strategy: OpenSSL checks signatures and serial numbers. A file with anything else than lists is refused here, since
OpenSSL would trust an authority's certificate that it finds there.

Knows nothing of files.
"""

import base64
import binascii
from typing import Final

from hutong.foundation.errors import ProtocolError
from hutong.security.certificate_times import TIME_TAGS, time_ms
from hutong.security.der import SEQUENCE, items_in, sequence_in

_BEGIN: Final = b"-----BEGIN X509 CRL-----"
_END: Final = b"-----END X509 CRL-----"
_ANY_BEGIN: Final = b"-----BEGIN "
_INTEGER: Final = 0x02


def revocation_lists_in(pem: bytes) -> list[bytes]:
    """The lists of one PEM file, in DER. Raises ProtocolError where it has none, or has anything else."""
    blocks = pem.split(_BEGIN)[1:]
    if not blocks:
        raise ProtocolError("a file without a revocation list in PEM")
    if pem.count(_ANY_BEGIN) != len(blocks):
        raise ProtocolError("a file with more than revocation lists")
    return [_der(block) for block in blocks]


def next_update_ms(revocation_list: bytes) -> tuple[bytes, int | None]:
    """The issuer's name in DER, and until when the list counts in wall time: None for ever. Raises ProtocolError."""
    fields = list(_fields(revocation_list))
    if fields and fields[0][0] == _INTEGER:  # the version; lists of version 1 leave it out
        del fields[0]
    # Left are algorithm, issuer, last update, and next update where there is one.
    if len(fields) < 3 or fields[1][0] != SEQUENCE or fields[2][0] not in TIME_TAGS:
        raise ProtocolError("not a revocation list")
    issuer = fields[1][1]
    if len(fields) < 4 or fields[3][0] not in TIME_TAGS:
        return issuer, None
    return issuer, time_ms(*fields[3])


def _fields(revocation_list: bytes) -> list[tuple[int, bytes]]:
    """The first fields of what is signed; the revoked certificates come after them and may be many."""
    found = []
    for field in items_in(sequence_in(sequence_in(revocation_list))):
        found.append(field)
        if len(found) == 5:
            break
    return found


def _der(block: bytes) -> bytes:
    text, end, _ = block.partition(_END)
    try:
        if not end:
            raise ProtocolError("a revocation list that is cut off")
        return base64.b64decode(b"".join(text.split()), validate=True)
    except binascii.Error:
        raise ProtocolError("a revocation list that is no base64") from None
