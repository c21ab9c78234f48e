"""Targets for what a node reads back from its disk: journal, index, checkpoint, and the records of its own topics."""

import asyncio
import struct
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from crc32c import crc32c
from tests.fuzz.kafka_targets import batches
from tests.fuzz.target import MEBIBYTE, Target
from tests.unit.broker.state.test_state_topic import FakeStorage

from hutong.broker.admin_state import AdminState
from hutong.broker.rocketmq.halves.decisions import Decision, HalfOutcome, decode_decision, encode_decision
from hutong.broker.state.durable_table import DurableTable
from hutong.broker.state.state_topic import StateTopic
from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import CorruptData, UnknownFormat
from hutong.groups import record_keys
from hutong.groups.classic import records as classic_records
from hutong.groups.consumer import records as consumer_records
from hutong.groups.offsets import records as offset_records
from hutong.groups.share import records as share_records
from hutong.groups.share.delivery.window import OffsetRun, ShareRecordState
from hutong.groups.streams import records as streams_records
from hutong.journal.append.producers import ProducerState, RememberedBatch
from hutong.journal.format import chunk, clean_offsets, index
from hutong.journal.read.walk import SegmentWindow
from hutong.journal.recover import checkpoint
from hutong.journal.recover.scan import scan_chunks
from hutong.rpc.delivery import records as call_records
from hutong.rpc.delivery.messages import Known
from hutong.testing.disks.memory import MemoryDisk
from hutong.transactions import records as transaction_records
from hutong.wire.kafka.batch.records import CRC_AT, CRC_START, Record, build_batch, parse_batch_header

STORAGE_ERRORS = (CorruptData, UnknownFormat)
PATH = Path("/fuzz/00000000000000000000.journal")


def read_journal(data: bytes) -> object:
    """As recovery and `hutong doctor` do."""
    disk = MemoryDisk()
    disk.make_directory(PATH.parent)
    file = disk.create(PATH)
    file.write([data], 0)
    window = SegmentWindow(file, 0, len(data), len(data), False)
    return list(scan_chunks(window, 0, len(data)))


def journals() -> Iterator[bytes]:
    every = list(batches())
    yield _chunk(0, [every[0]])
    first = _chunk(0, every[:2])
    yield first + _chunk(len(first), [every[5]]) + bytes(100)
    yield chunk.encode_bridge(0, chunk.header_bytes_for(1) + 10) + bytes(10)


def _chunk(position: int, runs: list[bytes]) -> bytes:
    entries, at = [], 0
    for number, batch in enumerate(runs):
        header = parse_batch_header(batch)
        entries.append(
            chunk.ENTRY.pack(number, chunk.BATCHES, 0, header.record_count, at, len(batch), 1, header.max_timestamp_ms)
        )
        at += len(batch)
    digest = chunk.digest_of(batch[CRC_AT:CRC_START] for batch in runs)
    return chunk.encode_header(position, -1, 5, entries, at, digest=digest) + b"".join(runs)


def reseal_chunk(data: bytes) -> bytes:
    """The CRC of the first chunk's header."""
    if len(data) < chunk.FIXED.size:
        return data
    end = chunk.header_bytes_for(chunk.entry_count_at(data, 0))
    return data[:4] + struct.pack(">I", crc32c(data[8:end])) + data[8:]


def indexes() -> Iterator[bytes]:
    made = index.SegmentIndex(0, 4_096, 65_536)
    yield index.encode_index(made, 0)
    for number in range(3):
        for at in range(number + 1):
            made.of(number).add(at * 10, at * 10 + 10, at * 100_000, 5_000, 7)
    yield index.encode_index(made, 500_000)


def read_index(data: bytes) -> object:
    index.parse_summary(data)
    return index.parse_index(data, 4_096, 65_536)


def reseal_index(data: bytes) -> bytes:
    if len(data) < index.HEADER_BYTES:
        return data
    (count,) = struct.unpack_from(">I", data, index.HEADER_BYTES - 4)
    summary_end = index.HEADER_BYTES + count * index.SUMMARY.size
    head = struct.pack(">I", crc32c(data[summary_end:])) + data[16 : index.HEADER_BYTES]
    crc = crc32c(data[index.HEADER_BYTES : summary_end], crc32c(head))
    return data[:8] + struct.pack(">I", crc) + head + data[index.HEADER_BYTES :]


def checkpoints() -> Iterator[bytes]:
    producers = {7: ProducerState(1, 5, (RememberedBatch(0, 4, 10), RememberedBatch(5, 5, 15)), 2)}
    logs = {
        1: checkpoint.LogState(0, 20, producers, [(7, 3)], array("q", [7, 1, 2, 3])),
        2: checkpoint.LogState(5, 5),
    }
    yield checkpoint.encode_checkpoint(checkpoint.Checkpoint(1_000, 0, True, logs))
    yield checkpoint.encode_checkpoint(checkpoint.Checkpoint(0, 0, False, {}))


def reseal_body(prefix_bytes: int) -> Callable[[bytes], bytes]:
    """Of files whose CRC stands at the end of a prefix and covers the rest."""

    def reseal(data: bytes) -> bytes:
        body = data[prefix_bytes:]
        return data[: prefix_bytes - 4] + struct.pack(">I", crc32c(body)) + body if body else data

    return reseal


def read_record(*decoders: Callable[[bytes], object]) -> Callable[[bytes], object]:
    """One byte says as what."""

    def read(data: bytes) -> object:
        return decoders[data[0] % len(decoders)](data[1:]) if data else None

    return read


def group_seeds() -> Iterator[bytes]:
    yield b"\0" + record_keys.encode_offset_key(record_keys.OffsetKey("billing", "orders", 3))
    yield b"\0" + record_keys.encode_group_key(record_keys.GroupKey("billing"))
    text = struct.pack(">h", 2) + b"ab"
    yield b"\1" + struct.pack(">hqi", 3, 5, -1) + text + struct.pack(">q", 7)
    yield b"\1" + struct.pack(">hq", 1, 5) + text + struct.pack(">qq", 7, 8)
    member = text + struct.pack(">h", -1) + text + text + struct.pack(">ii", 1, 2) + struct.pack(">i", 2) + b"xy"
    member += struct.pack(">i", 0)
    for version in (3,):
        head = struct.pack(">h", version) + text + struct.pack(">i", 1) + text + text + struct.pack(">q", 9)
        yield b"\2" + head + struct.pack(">i", 2) + member * 2


def replay_assigned_group(data: bytes) -> object:
    """A record of consumer groups: two bytes say how long its key is."""
    size = int.from_bytes(data[:2], "big")
    groups: dict[str, Any] = {}
    key, value = data[2 : 2 + size], data[2 + size :]
    version = int.from_bytes(key[:2], "big")
    kind = streams_records if version in streams_records.RECORDS.key_versions else consumer_records
    kind.RECORDS.replay(groups, key, value or None)
    return groups


def assigned_group_seeds() -> Iterator[bytes]:
    for version in (*consumer_records.RECORDS.key_versions, *streams_records.RECORDS.key_versions):
        key = version.to_bytes(2, "big") + b"\0\2ab\0\2cd"
        yield len(key).to_bytes(2, "big") + key + b"\0\0" + bytes(range(60))
        group_key = version.to_bytes(2, "big") + b"\0\2ab"
        yield len(group_key).to_bytes(2, "big") + group_key + b"\0\0\0\0\0\1\0"
        yield len(group_key).to_bytes(2, "big") + group_key


def share_seeds() -> Iterator[bytes]:
    yield b"\0" + share_records.encode_group_key("share")
    yield b"\0" + share_records.encode_partition_key(share_records.PartitionKey("share", bytes(16), 1))
    yield b"\1" + share_records.encode_group(7)
    runs = [OffsetRun(0, 4, ShareRecordState.ARCHIVED, 0, ""), OffsetRun(5, 9, ShareRecordState.ACQUIRED, 2, "m")]
    yield b"\2" + share_records.encode_progress(0, runs, 7)


def transaction_seeds() -> Iterator[bytes]:
    from tests.fuzz.kafka_targets import transaction_records as seeds

    for seed in seeds():
        yield b"\0" + seed
        yield b"\1" + seed


def read_call_record(data: bytes) -> object:
    key, _, value = data.partition(b"\n")
    return call_records.decode_change(key, value or None)


def half_decision_seeds() -> list[bytes]:
    return [encode_decision(Decision(outcome, 5, 3)) for outcome in HalfOutcome]


def call_seeds() -> Iterator[bytes]:
    yield b"h\n" + msgspec.msgpack.encode({"at": 5})
    yield b"s/0123456789abcdef0123456789abcdef\n" + msgspec.msgpack.encode({"below": 3, "heard": 5})
    for known in Known:
        body = {"known": known, "at": 5, "outcome": b"x"}
        yield b"c/0123456789abcdef0123456789abcdef/4\n" + msgspec.msgpack.encode(body)


def replay_metadata(data: bytes) -> object:
    """Records of the node's own metadata, as a start applies them; before each the lengths of its key and value."""
    records: list[Record] = []
    at = 0
    while at + 4 <= len(data):
        key_bytes, value_bytes = struct.unpack_from(">HH", data, at)
        key, value = data[at + 4 :][:key_bytes], data[at + 4 + key_bytes :][:value_bytes]
        records.append(Record(len(records), 0, key, value or None))
        at += 4 + key_bytes + value_bytes
    if not records:
        return None
    storage, clock = FakeStorage(), ManualClock()
    storage.append(build_batch(records), lambda error: None)
    storage.flush()
    admin = AdminState(1, {}, bytes)
    asyncio.run(StateTopic("__hutong_metadata", storage, clock).replay(admin.replay))
    return admin


def metadata() -> Iterator[bytes]:
    entries = {
        b"acl/": b"true",
        b"quota/": b'{"producer_byte_rate":5.0}',
        b"scram/": b'{"iterations":4096,"salt":"AAAA","stored_key":"AAAA","server_key":"AAAA"}',
        b"feature/": b"1",
        b"node_config/": b'{"a":"b"}',
    }
    for table in _tables():
        entries.setdefault(table, b"1")
    for key, value in entries.items():
        for name in (b"alice", b"a/b", b'[["user","alice"]]', b'["x",1]'):
            yield struct.pack(">HH", len(key + name), len(value)) + key + name + value


def _tables() -> Iterator[bytes]:
    """The prefixes of the tables that there are."""
    for part in AdminState(1, {}, bytes)._parts:
        for held in vars(part).values():
            if isinstance(held, DurableTable):
                yield held._prefix


TARGETS = [
    Target("metadata", replay_metadata, metadata, STORAGE_ERRORS, slowness=2),
    Target("journal", read_journal, journals, STORAGE_ERRORS, reseal_chunk, memory_base=24 * MEBIBYTE),
    Target("journal-index", read_index, indexes, STORAGE_ERRORS, reseal_index),
    Target("checkpoint", checkpoint.parse_checkpoint, checkpoints, STORAGE_ERRORS, reseal_body(12)),
    Target(
        "clean-offsets",
        clean_offsets.parse_clean_offsets,
        lambda: [clean_offsets.encode_clean_offsets({1: 5, 2: 9}), clean_offsets.encode_clean_offsets({})],
        STORAGE_ERRORS,
        reseal_body(8),
    ),
    Target(
        "group-records",
        read_record(record_keys.decode_key, offset_records.decode_offset, classic_records.decode_group),
        group_seeds,
        STORAGE_ERRORS,
    ),
    Target("consumer-group-records", replay_assigned_group, assigned_group_seeds, STORAGE_ERRORS),
    Target(
        "share-group-records",
        read_record(share_records.decode_key, share_records.decode_group, share_records.decode_progress),
        share_seeds,
        STORAGE_ERRORS,
    ),
    Target(
        "transaction-records",
        read_record(transaction_records.decode_key, transaction_records.decode_record),
        transaction_seeds,
        STORAGE_ERRORS,
    ),
    Target("half-decisions", decode_decision, half_decision_seeds),
    Target("call-records", read_call_record, call_seeds, STORAGE_ERRORS),
]
