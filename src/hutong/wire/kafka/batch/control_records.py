"""Control batches: the markers that end a transaction in a partition's log (KIP-98).

    key    version i16 (0), type i16 (0 abort, 1 commit)
    value  version i16 (0), coordinator epoch i32

A marker is a batch of one such record, transactional and control, with the producer's id and epoch and no sequence.
Other types of control records exist (leader changes, snapshots of KRaft); nobody writes them to a topic here.

Pure: bytes and values.
"""

import struct
from typing import Final, NamedTuple

from hutong.foundation.errors import HutongError
from hutong.wire.buffer import Buffer
from hutong.wire.kafka.batch.records import CONTROL, TRANSACTIONAL, Record, build_batch, iterate_records

ABORT: Final = 0
COMMIT: Final = 1
NO_COORDINATOR_EPOCH: Final = -1
_VERSION: Final = 0
_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")


class Marker(NamedTuple):
    """The outcome of a producer's transaction, as a control batch records it."""

    is_commit: bool
    coordinator_epoch: int


def build_marker(
    producer_id: int, producer_epoch: int, *, is_commit: bool, coordinator_epoch: int, timestamp_ms: int
) -> bytes:
    """The control batch that ends a producer's transaction."""
    key = _KEY.pack(_VERSION, COMMIT if is_commit else ABORT)
    return build_batch(
        [Record(0, timestamp_ms, key, _VALUE.pack(_VERSION, coordinator_epoch))],
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def parse_marker(batch: Buffer) -> Marker | None:
    """Parse the marker of a valid control batch. None if it is no marker, or if compaction removed its record."""
    try:
        record = next(iterate_records(batch), None)
        if record is None or record.key is None:
            return None
        _, kind = _KEY.unpack_from(record.key)
        if kind not in (ABORT, COMMIT):
            return None
        coordinator_epoch = NO_COORDINATOR_EPOCH
        if record.value is not None and len(record.value) >= _VALUE.size:
            _, coordinator_epoch = _VALUE.unpack_from(record.value)
    except (HutongError, struct.error):
        return None
    return Marker(kind == COMMIT, coordinator_epoch)
