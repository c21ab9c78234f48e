"""Records of a state topic as they stand in its log.

Knows nothing of what keys and values mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from hutong.foundation.errors import CorruptData, ProtocolError
from hutong.wire.kafka.batch.records import Record, iterate_batches, iterate_records

Apply = Callable[[bytes, "bytes | None"], None]
"""Called with (key, value); None removes the key."""

RECORD_OVERHEAD_BYTES: Final = 16


def size_of(key: bytes, value: bytes | None) -> int:
    """The bytes that an entry takes up, about."""
    return RECORD_OVERHEAD_BYTES + len(key) + len(value or b"")


def records_in(name: str, runs: Sequence[memoryview], from_offset: int) -> Iterator[tuple[Record, bytes]]:
    """Each record from an offset on, with its key; a read gives whole batches, so they may begin before it.

    Raises CorruptData where they cannot be read.
    """
    try:
        for run in runs:
            for header, batch in iterate_batches(run):
                # Nothing transactional is written here; the check costs nothing and keeps markers from being taken for
                # entries.
                if header.is_control:
                    continue
                for record in iterate_records(batch):
                    if record.offset < from_offset:
                        continue
                    if record.key is None:
                        raise CorruptData(f"{name} has a record without a key at offset {record.offset}")
                    yield record, record.key
    except ProtocolError as error:
        raise CorruptData(f"{name}: {error}") from error


def apply_record(name: str, record: Record, key: bytes, apply: Apply) -> None:
    """Hand a record on. Raises CorruptData where nobody can read it."""
    try:
        apply(key, record.value)
    # A record of another program or version: the node does not go on with state that it half understands.
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptData(f"{name} has a record at offset {record.offset} that cannot be read: {error!r}") from error
