"""Records of share groups: keys and values of their internal topic, `__share_group_state`.

    key   0, group                      value  0, group epoch                           a group that was ever joined
    key   1, group, topic id, partition value  1, record version, start offset, runs    its progress in one partition
                                        value  0, start offset, runs                    the same before records had one
    run:  length, state, deliveries     (variable-length numbers; the runs have no gaps)

Among several nodes the first kind is in `__consumer_offsets`, where the coordinator's other groups are, under Kafka's
number for it: 11 (ShareGroupMetadataKey).

The layout is our own: Kafka writes snapshots and updates of them, which its coordinator alone reads. One record has the
whole progress in one partition, so that replay needs no second one; it is bounded by the locks that a partition may
have, of which there are at most twice as many runs.

Pure. Bytes come from our own disk behind a checksum, so what cannot be decoded is CorruptData, never a peer's fault.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hutong.foundation.errors import CorruptData, ProtocolError
from hutong.groups.share.delivery.window import DONE, OffsetRun, ShareRecordState
from hutong.wire.kafka.varint import read_varlong, varlong

_GROUP: Final = 0
_PARTITION: Final = 1
_VERSION: Final = 0
_PROGRESS_VERSION: Final = 1
OFFSETS_KEY_VERSION: Final = 11
NO_PROGRESS: Final = -1
"""The version of progress that is not there."""
_INT16: Final = struct.Struct(">h")
_GROUP_VALUE: Final = struct.Struct(">hi")
_PARTITION_VALUE: Final = struct.Struct(">hqq")
_OLD_PARTITION_VALUE: Final = struct.Struct(">hq")
_PARTITION_TAIL: Final = struct.Struct(">16si")
_REJECTED_BIT: Final = 1 << 3


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """One partition of a topic, for one share group."""

    group_id: str
    topic_id: bytes
    partition: int


@dataclass(frozen=True, slots=True)
class ShareProgress:
    """A group's progress in a partition."""

    start_offset: int
    runs: Sequence[OffsetRun] = ()
    version: int = 0  # of the record


@dataclass(frozen=True, slots=True)
class ProgressSummary:
    """A group's start offset in a partition, and the number of finished offsets after it."""

    start_offset: int
    done_ahead: int


def encode_group_key(group_id: str) -> bytes:
    return _INT16.pack(_GROUP) + group_id.encode()


def encode_partition_key(key: PartitionKey) -> bytes:
    return _INT16.pack(_PARTITION) + _PARTITION_TAIL.pack(key.topic_id, key.partition) + key.group_id.encode()


def decode_key(data: bytes) -> str | PartitionKey:
    """A group's id, or the key of its progress. Raises CorruptData."""
    try:
        (kind,) = _INT16.unpack_from(data)
        if kind == _GROUP:
            return data[_INT16.size :].decode()
        if kind == _PARTITION:
            topic_id, partition = _PARTITION_TAIL.unpack_from(data, _INT16.size)
            return PartitionKey(data[_INT16.size + _PARTITION_TAIL.size :].decode(), topic_id, partition)
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptData(f"a key of the share groups' topic: {error}") from error
    raise CorruptData(f"a record of the share groups' topic has key version {kind}")


def encode_group(epoch: int) -> bytes:
    return _GROUP_VALUE.pack(_VERSION, epoch)


def decode_group(data: bytes) -> int:
    """The group's epoch. Raises CorruptData."""
    try:
        version, epoch = _GROUP_VALUE.unpack(data)
    except struct.error as error:
        raise CorruptData(f"a share group's record: {error}") from error
    if version != _VERSION:
        raise CorruptData(f"a share group's record has version {version}")
    return int(epoch)


def encode_progress(start_offset: int, runs: Sequence[OffsetRun], version: int) -> bytes:
    parts = [_PARTITION_VALUE.pack(_PROGRESS_VERSION, version, start_offset)]
    for run in runs:
        state = run.state | _REJECTED_BIT * run.is_rejected
        parts += (varlong(len(run)), bytes((state,)), varlong(0 if run.state in DONE else run.deliveries))
    return b"".join(parts)


def decode_progress(data: bytes) -> ShareProgress:
    """An acquired run has the member "?": nobody holds it any more. Raises CorruptData."""
    try:
        version, start_offset, position = _head(data)
        offset, runs = start_offset, []
        while position < len(data):
            length, position = read_varlong(data, position)
            state = ShareRecordState(data[position] & ~_REJECTED_BIT)
            is_rejected = bool(data[position] & _REJECTED_BIT)
            deliveries, position = read_varlong(data, position + 1)
            if length <= 0:
                raise CorruptData("a share group's progress has an empty run")
            member_id = "?" if state is ShareRecordState.ACQUIRED else ""
            runs.append(OffsetRun(offset, offset + length - 1, state, deliveries, member_id, is_rejected=is_rejected))
            offset += length
    except (struct.error, IndexError, ValueError, ProtocolError) as error:
        raise CorruptData(f"a share group's progress: {error}") from error
    return ShareProgress(start_offset, runs, version)


def version_of(data: bytes | None) -> int:
    """The version of a record of progress, without its runs. Raises CorruptData."""
    return NO_PROGRESS if data is None else _head(data)[0]


def summary_of(data: bytes) -> ProgressSummary:
    """Raises CorruptData."""
    progress = decode_progress(data)
    return ProgressSummary(progress.start_offset, sum(len(run) for run in progress.runs if run.state in DONE))


def in_offsets(key: bytes) -> bytes:
    """The key of a group's record where it is in `__consumer_offsets`."""
    return _INT16.pack(OFFSETS_KEY_VERSION) + key[_INT16.size :]


def out_of_offsets(key: bytes) -> bytes:
    """The key that `in_offsets` was given."""
    return _INT16.pack(_GROUP) + key[_INT16.size :]


def _head(data: bytes) -> tuple[int, int, int]:
    """The record's version, the start offset, and the position of the runs."""
    try:
        (layout,) = _INT16.unpack_from(data)
        if layout == _PROGRESS_VERSION:
            _, version, start_offset = _PARTITION_VALUE.unpack_from(data)
            return version, start_offset, _PARTITION_VALUE.size
        if layout == _VERSION:
            return 0, _OLD_PARTITION_VALUE.unpack_from(data)[1], _OLD_PARTITION_VALUE.size
    except struct.error as error:
        raise CorruptData(f"a share group's progress: {error}") from error
    raise CorruptData(f"a share group's progress has version {layout}")
