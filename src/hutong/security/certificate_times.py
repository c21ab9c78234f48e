"""The end of an X.509 certificate's validity (RFC 5280, 4.1.2.5).

Knows nothing of trust.
"""

from itertools import islice
from typing import Final

from hutong.foundation.errors import ProtocolError
from hutong.security.der import SEQUENCE, items_in, sequence_in

_VERSION: Final = 0xA0
_FORMATS: Final = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}  # UTCTime, GeneralizedTime
TIME_TAGS: Final = frozenset(_FORMATS)


def expires_at_ms(certificate: bytes) -> int:
    """The end of a certificate in DER, in wall time. Raises ProtocolError."""
    fields = items_in(sequence_in(sequence_in(certificate)))
    has_version = next(fields, (0, b""))[0] == _VERSION
    tag, validity = next(islice(fields, 3 if has_version else 2, None), (0, b""))  # after number, algorithm, issuer
    tag, end = next(islice(items_in(validity), 1, None), (0, b"")) if tag == SEQUENCE else (0, b"")
    if tag not in TIME_TAGS:
        raise ProtocolError("a certificate without an end")
    return time_ms(tag, end)


def time_ms(tag: int, text: bytes) -> int:
    """A UTCTime or GeneralizedTime (`TIME_TAGS`) in wall time. Raises ProtocolError."""
    # Imported here, as few nodes have certificates and every start would pay for the import.
    from datetime import UTC, datetime

    try:
        # Two digits mean 1969 to 2068 to strptime and 1950 to 2049 in a UTCTime: the same for every certificate in use.
        moment = datetime.strptime(text.decode("ascii"), _FORMATS[tag]).replace(tzinfo=UTC)
    except ValueError:
        raise ProtocolError("a time that is none") from None
    return int(moment.timestamp() * 1000)
