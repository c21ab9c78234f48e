"""Walks over the unpacked records of a batch, in Python: the reference for the compiled pass in `_record_walk.c`.

    length varint       | timestamp delta varlong | key length varint (-1: null), key     | header count varint
    attributes i8       | offset delta varint     | value length varint (-1: null), value | header: key length, key,
                                                                                          |         value length, value

Strategy: one pass that builds nothing. Each round consumes a record of at least RECORD_BYTES_MIN bytes, so a count that
promises more than there is ends at the last byte. Both implementations accept and refuse the same bytes.

The rules are those of Kafka's DefaultRecord, stricter where Kafka's readers differ: a negative length other than -1,
a varint that does not fit its type, a timestamp that does not fit 64 bits, and offsets with gaps are refused.
Kafka's broker does not look at the attributes byte, nor check that header keys are UTF-8; neither is done here.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from hutong.foundation.errors import ProtocolError
from hutong.wire.buffer import Buffer

CONTRACT: Final = 2
"""Number of the contract with the compiled pass. An older build on disk has another one, and is not used."""

RECORD_BYTES_MIN: Final = 7
"""Length, attributes, timestamp delta, offset delta, key length, value length and header count take a byte each."""

RECORDS_NAMED_MAX: Final = 100
"""Of the records at fault, this many are named."""

NO_TIMESTAMP: Final = -1
INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
_VARINT_SHIFTS = (7, 14, 21, 28)
_VARLONG_SHIFTS = (7, 14, 21, 28, 35, 42, 49, 56, 63)


class RecordContents(NamedTuple):
    """Findings of one walk. `keyless` and `untimely` hold the first RECORDS_NAMED_MAX indexes of such records."""

    greatest_timestamp_ms: int  # at least NO_TIMESTAMP, as Kafka counts
    keyless: tuple[int, ...]
    untimely: tuple[int, ...]


_Place: TypeAlias = tuple[int, int, int, bool]
"""Of one record: the position of its end, its timestamp in ms, its offset delta, and True if it has a key."""


def examine_records(
    data: Buffer, start: int, record_count: int, base_timestamp_ms: int, earliest_ms: int, latest_ms: int
) -> RecordContents:
    """Check that `data` from `start` is exactly `record_count` sound records with offset deltas 0, 1, 2 and so on.

    A timestamp outside `earliest_ms` to `latest_ms` makes a record untimely; NO_TIMESTAMP does not. Raises
    ProtocolError for anything else.
    """
    greatest_ms = NO_TIMESTAMP
    keyless: list[int] = []
    untimely: list[int] = []
    places = _places(data, start, record_count, base_timestamp_ms)
    for index, (_, timestamp_ms, offset_delta, has_key) in enumerate(places):
        if offset_delta != index:
            raise ProtocolError(f"record {index}: its offset delta is {offset_delta}")
        if timestamp_ms > greatest_ms:
            greatest_ms = timestamp_ms
        # Compacted topics need keys: the producer gets the indexes of records without one (KIP-467).
        if not has_key and len(keyless) < RECORDS_NAMED_MAX:
            keyless.append(index)
        # Kafka accepts -1, no timestamp, whatever the bounds of the topic.
        is_timely = earliest_ms <= timestamp_ms <= latest_ms or timestamp_ms == NO_TIMESTAMP
        if not is_timely and len(untimely) < RECORDS_NAMED_MAX:
            untimely.append(index)
    return RecordContents(greatest_ms, tuple(keyless), tuple(untimely))


def greatest_timestamp(data: Buffer, start: int, record_count: int, base_timestamp_ms: int) -> int:
    """Do the checks of `examine_records` for the greatest timestamp alone.

    The compiled pass needs half the time where a batch has one record: it makes one number instead of four objects.
    """
    return examine_records(data, start, record_count, base_timestamp_ms, INT64_MIN, INT64_MAX).greatest_timestamp_ms


def examine_sparse(data: Buffer, start: int, record_count: int, base_timestamp_ms: int, last_delta: int) -> None:
    """Check like `examine_records` a batch of which records were taken: offset deltas rise up to `last_delta`."""
    least = 0
    for index, (_, _, offset_delta, _) in enumerate(_places(data, start, record_count, base_timestamp_ms)):
        # Compaction leaves gaps, but never repeats or reorders offsets.
        if not least <= offset_delta <= last_delta:
            raise ProtocolError(f"record {index}: its offset delta is {offset_delta}")
        least = offset_delta + 1


def first_from(
    data: Buffer, start: int, record_count: int, base_timestamp_ms: int, from_ms: int, least: int, end: int
) -> tuple[int, int] | None:
    """Timestamp and offset delta of the first record at or after `from_ms`.

    Records with an offset delta below `least` or from `end` on do not count. Raises ProtocolError for malformed records
    before it.
    """
    for _, timestamp_ms, offset_delta, _ in _places(data, start, record_count, base_timestamp_ms):
        if timestamp_ms >= from_ms and least <= offset_delta < end:
            return timestamp_ms, offset_delta
    return None


def greatest_in(
    data: Buffer, start: int, record_count: int, base_timestamp_ms: int, least: int, end: int
) -> tuple[int, int] | None:
    """Timestamp and offset delta of the first record with the greatest timestamp.

    Records with an offset delta below `least` or from `end` on do not count. Raises ProtocolError for malformed ones.
    """
    best: tuple[int, int] | None = None
    for _, timestamp_ms, offset_delta, _ in _places(data, start, record_count, base_timestamp_ms):
        if (best is None or timestamp_ms > best[0]) and least <= offset_delta < end:
            best = timestamp_ms, offset_delta
    return best


def _places(data: Buffer, start: int, record_count: int, base_timestamp_ms: int) -> Iterator[_Place]:
    position, size = start, len(data)
    room = size - start if 0 <= start <= size else 0
    # Before anything is walked: a forged count of 2^31 must not make a loop of as many rounds.
    if not 0 <= record_count <= room // RECORD_BYTES_MIN or start != size - room:
        raise ProtocolError(f"{record_count} records do not fit {room} bytes")
    for index in range(record_count):
        try:
            place = _place(data, position, size, base_timestamp_ms)
        except IndexError:
            raise ProtocolError(f"record {index}: it is cut off") from None
        except _Malformed as error:
            raise ProtocolError(f"record {index}: {error}") from None
        position = place[0]
        yield place
    if position != size:
        raise ProtocolError(f"{size - position} bytes follow the last record")


class _Malformed(Exception):
    """A record that breaks a rule; its text lacks the index, which the caller knows."""


def _place(data: Buffer, position: int, size: int, base_timestamp_ms: int) -> _Place:
    length, position = _varint(data, position)
    end = position + length
    # The length does not count itself, which takes a byte at least.
    if length < RECORD_BYTES_MIN - 1 or end > size:
        raise _Malformed("its length does not fit")
    # The skipped byte is the record's attributes, which Kafka defines and does not use.
    delta_ms, position = _varlong(data, position + 1)
    timestamp_ms = base_timestamp_ms + delta_ms
    # Java's sum would wrap around, and C's would be undefined.
    if not INT64_MIN <= timestamp_ms <= INT64_MAX:
        raise _Malformed("its timestamp does not fit 64 bits")
    offset_delta, position = _varint(data, position)
    key_bytes, position = _varint(data, position)
    position = _after_field(position, key_bytes, end)
    value_bytes, position = _varint(data, position)
    position = _after_field(position, value_bytes, end)
    header_count, position = _varint(data, position)
    # A header takes bytes of the record, so they bound the loop.
    if not 0 <= header_count <= end - position:
        raise _Malformed("its header count does not fit")
    for _ in range(header_count):
        name_bytes, position = _varint(data, position)
        if name_bytes < 0:
            raise _Malformed("a header has no key")
        position = _after_field(position, name_bytes, end)
        held_bytes, position = _varint(data, position)
        position = _after_field(position, held_bytes, end)
    if position != end:
        raise _Malformed("its fields do not fill its length")
    return end, timestamp_ms, offset_delta, key_bytes >= 0


def _after_field(position: int, length: int, end: int) -> int:
    """The position after a field of `length` bytes, or after none for a null one. The record ends at `end`."""
    if length < -1:
        raise _Malformed("a field has a negative length")
    if length > end - position:
        raise _Malformed("a field does not fit it")
    return position + max(length, 0)


def _varint(data: Buffer, position: int) -> tuple[int, int]:
    """The zig-zag coded signed 32-bit number at `position` and the position after it."""
    number = data[position]
    position += 1
    if number > 127:
        number &= 127
        for shift in _VARINT_SHIFTS:
            byte = data[position]
            position += 1
            number |= (byte & 127) << shift
            if byte < 128:
                break
        else:
            raise _Malformed("a varint is longer than 5 bytes")
        if number > 0xFFFF_FFFF:
            raise _Malformed("a varint does not fit 32 bits")
    return (number >> 1) ^ -(number & 1), position


def _varlong(data: Buffer, position: int) -> tuple[int, int]:
    """The zig-zag coded signed 64-bit number at `position` and the position after it."""
    number = data[position]
    position += 1
    if number > 127:
        number &= 127
        for shift in _VARLONG_SHIFTS:
            byte = data[position]
            position += 1
            number |= (byte & 127) << shift
            if byte < 128:
                break
        else:
            raise _Malformed("a varint is longer than 10 bytes")
        # Ten bytes carry 70 bits: the last one may have bits that fit no 64-bit number.
        if number > 0xFFFF_FFFF_FFFF_FFFF:
            raise _Malformed("a varint does not fit 64 bits")
    return (number >> 1) ^ -(number & 1), position
