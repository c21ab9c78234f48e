"""Bodies of requests that write records, and the bytes that they mean.

Knows nothing of clients.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

import msgspec

from hutong.bus.durable.records import OutgoingRecord
from hutong.console.limits import COPY_PARTITIONS_MAX
from hutong.rest.limits import HEADERS_OF_RECORD_MAX
from hutong.web.answers import WebRefusal

FORMS: Final = ("text", "json", "hex", "base64")
_NUMBER_MAX: Final = 2**31 - 1
_OFFSET_MAX: Final = 10**18


class WrittenBytes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key, a value or a header's value as it was typed."""

    text: str
    form: str = "text"


class WrittenHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    value: WrittenBytes | None = None


class ProduceBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A record to produce. A key or value that is missing is none at all, as the value of a tombstone."""

    key: WrittenBytes | None = None
    value: WrittenBytes | None = None
    headers: list[WrittenHeader] = []
    partition: int | None = None


class ResendBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Send a record again as it is, to this topic or another one."""

    target: str | None = None


class CopiedSpan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`end` is not included."""

    partition: int
    begin: int
    end: int


class CopyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Copy offsets of partitions to another topic, with their timestamps and partitions or without."""

    target: str
    spans: list[CopiedSpan]
    keeps_partitions: bool = False
    keeps_times: bool = False


def record_of(topic: str, body: ProduceBody) -> OutgoingRecord:
    """Raises WebRefusal(400)."""
    if len(body.headers) > HEADERS_OF_RECORD_MAX:
        raise WebRefusal(400, f"A record has at most {HEADERS_OF_RECORD_MAX} headers.")
    if body.partition is not None and not 0 <= body.partition <= _NUMBER_MAX:
        raise WebRefusal(400, f"{body.partition} is no number of a partition.")
    headers = [(_name(each.name), bytes_of(each.value, f"The header {each.name[:50]}")) for each in body.headers]
    key, value = bytes_of(body.key, "The key"), bytes_of(body.value, "The value")
    return OutgoingRecord(topic, key, value, headers, body.partition)


def bytes_of(written: WrittenBytes | None, what: str) -> bytes | None:
    """The bytes of a text in its form. Raises WebRefusal(400)."""
    if written is None:
        return None
    match written.form:
        case "text":
            return _utf8(written.text, what)
        case "json":
            return _json(written.text, what)
        case "hex":
            return _hex(written.text, what)
        case "base64":
            try:
                return base64.b64decode("".join(written.text.split()), validate=True)
            except (binascii.Error, ValueError):
                raise WebRefusal(400, f"{what} is not base64.") from None
        case other:
            raise WebRefusal(400, f"{what} has the form {other[:50]!r}; there are {', '.join(FORMS)}.")


def checked_spans(body: CopyBody) -> dict[int, tuple[int, int]]:
    """The offsets to copy by partition. Raises WebRefusal(400)."""
    if not body.spans or len(body.spans) > COPY_PARTITIONS_MAX:
        raise WebRefusal(400, f"Copy from 1 to {COPY_PARTITIONS_MAX} partitions.")
    spans = {each.partition: (each.begin, each.end) for each in body.spans}
    if len(spans) < len(body.spans):
        raise WebRefusal(400, "A partition is there twice.")
    for partition, (begin, end) in spans.items():
        if not (0 <= partition <= _NUMBER_MAX and 0 <= begin <= end <= _OFFSET_MAX):
            raise WebRefusal(400, f"Partition {partition} cannot be copied from {begin} to {end}.")
    return spans


def _json(text: str, what: str) -> bytes:
    data = _utf8(text, what)
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WebRefusal(400, f"{what} is no JSON: {error}.") from None
    return data  # as it was typed, numbers and spaces included


def _hex(text: str, what: str) -> bytes:
    try:
        return bytes.fromhex(text.replace("0x", ""))
    except ValueError:
        raise WebRefusal(400, f"{what} is not made of pairs of hex digits.") from None


def _utf8(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise WebRefusal(400, f"{what} has a lone surrogate in it, which no text may have.") from None


def _name(name: str) -> str:
    _utf8(name, "A header's name")
    return name
