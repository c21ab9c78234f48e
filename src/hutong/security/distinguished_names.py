"""The subject of an X.509 certificate as text, as Java writes it and Kafka names its clients by (RFC 2253).

Strategy: the certificate is walked as DER (X.690), one level at a time, to its subject; only what that takes is
understood. It comes from OpenSSL, which has verified it, and still every length is checked and every loop bounded.

Knows nothing of TLS or of trust.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from hutong.foundation.errors import ProtocolError
from hutong.security.der import SEQUENCE, items_in, sequence_in

ATTRIBUTES_MAX: Final = 100
_SET, _OID, _VERSION = 0x31, 0x06, 0xA0
_KEYWORDS: Final = {  # those of RFC 2253; all others are written as numbers
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_ENCODINGS: Final = {  # string types by their tags
    0x0C: "utf-8",
    0x13: "ascii",  # PrintableString
    0x14: "latin-1",  # TeletexString
    0x16: "ascii",  # IA5String
    0x1B: "latin-1",  # GeneralString
    0x1C: "utf-32-be",  # UniversalString
    0x1E: "utf-16-be",  # BMPString
}
_ESCAPED: Final = frozenset(',=+<>#;"\\')


def subject_of(certificate: bytes) -> str:
    """`CN=ann,OU=ops,O=Example`: the last attribute of the certificate first. Raises ProtocolError."""
    fields = items_in(sequence_in(sequence_in(certificate)))
    has_version = next(fields, (0, b""))[0] == _VERSION
    tag, name = next(islice(fields, 4 if has_version else 3, None), (0, b""))  # after number, algorithm, issuer, times
    if tag != SEQUENCE:
        raise ProtocolError("a certificate without a subject")
    parts = [_relative_name(tag, value) for tag, value in _bounded(items_in(name))]
    return ",".join(reversed(parts))


def _relative_name(tag: int, value: bytes) -> str:
    """One level of the name, usually one attribute."""
    if tag != _SET:
        raise ProtocolError("a subject whose parts are no sets")
    return "+".join(_attribute(tag, attribute) for tag, attribute in _bounded(items_in(value)))


def _attribute(tag: int, value: bytes) -> str:
    if tag != SEQUENCE:
        raise ProtocolError("an attribute that is no sequence")
    items = [*_bounded(items_in(value))]
    if len(items) != 2 or items[0][0] != _OID:
        raise ProtocolError("an attribute that is not a type and a value")
    oid, (value_tag, text) = _oid(items[0][1]), items[1]
    keyword, encoding = _KEYWORDS.get(oid), _ENCODINGS.get(value_tag)
    if keyword is None or encoding is None:
        whole = bytes((value_tag,)) + _length(len(text)) + text
        return f"{keyword or oid}=#{whole.hex()}"
    try:
        return f"{keyword}={_escaped(text.decode(encoding))}"
    except UnicodeDecodeError:
        raise ProtocolError(f"an attribute {keyword} that is not text") from None


def _escaped(text: str) -> str:
    escaped = "".join("\\" + character if character in _ESCAPED else character for character in text)
    escaped = escaped.replace("\0", "\\00")
    inner = escaped.strip(" \r")
    if inner == escaped:
        return escaped
    begin = len(escaped) - len(escaped.lstrip(" \r"))
    end = begin + len(inner)
    return "".join("\\" + c for c in escaped[:begin]) + inner + "".join("\\" + c for c in escaped[end:])


def _oid(data: bytes) -> str:
    if not data or data[-1] & 0x80:
        raise ProtocolError("an object identifier that is cut off")
    numbers, value = [], 0
    for byte in data:
        value = value << 7 | byte & 0x7F
        if value >> 128:
            raise ProtocolError("an object identifier with a number too large")
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    root = min(numbers[0] // 40, 2)
    return ".".join(map(str, (root, numbers[0] - 40 * root, *numbers[1:])))


def _bounded(items: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    for number, item in enumerate(items):
        if number == ATTRIBUTES_MAX:
            raise ProtocolError(f"a name with more than {ATTRIBUTES_MAX} parts")
        yield item


def _length(length: int) -> bytes:
    if length < 0x80:
        return bytes((length,))
    data = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes((0x80 | len(data),)) + data
