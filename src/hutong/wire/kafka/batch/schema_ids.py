"""The ids of schemas that values or keys of a batch begin with: a zero byte, then four bytes of the id.

Strategy: one walk over records that were examined before (`record_contents`), which jumps over all that comes behind
the field. About a microsecond for each record, so callers bound what they walk on a loop.

Knows nothing of schemas. The layout is that of Confluent's serializers.
"""

from typing import Final, NamedTuple

from hutong.wire.buffer import Buffer
from hutong.wire.kafka.batch.record_walk import RECORDS_NAMED_MAX

MAGIC: Final = 0
PREFIX_BYTES: Final = 5


class SchemaIds(NamedTuple):
    """`first` has the index of the first record with each id; `without` has indexes of those that have none."""

    first: dict[int, int]
    without: list[int]


def schema_ids_of(data: Buffer, start: int, record_count: int, *, of_keys: bool) -> SchemaIds:
    """The ids in sound records. A null field needs none: a tombstone has no schema."""
    first: dict[int, int] = {}
    without: list[int] = []
    position = start
    for index in range(record_count):
        length, position = _number(data, position)
        end = position + length
        position += 1  # attributes
        # Of the deltas of time and offset only the length counts: the byte without the highest bit is their last.
        for _ in range(2):
            while data[position] > 127:
                position += 1
            position += 1
        size, position = _number(data, position)
        if not of_keys:
            size, position = _number(data, position + max(size, 0))
        if size >= PREFIX_BYTES and data[position] == MAGIC:
            first.setdefault(int.from_bytes(data[position + 1 : position + PREFIX_BYTES], "big"), index)
        elif size >= 0:
            without.append(index)
            # Enough to name, and the batch is refused anyway.
            if len(without) == RECORDS_NAMED_MAX:
                break
        position = end
    return SchemaIds(first, without)


def _number(data: Buffer, position: int) -> tuple[int, int]:
    """The zig-zag coded number of a sound record, and the position after it."""
    byte = data[position]
    position += 1
    number, shift = byte & 127, 7
    while byte > 127:
        byte = data[position]
        position += 1
        number |= (byte & 127) << shift
        shift += 7
    return (number >> 1) ^ -(number & 1), position
