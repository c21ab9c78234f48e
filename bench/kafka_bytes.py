"""The few Kafka requests that the load generators and the tests send, written by hand with `struct`.

Strategy: independent of the broker's own codecs on purpose, so that a fault in those cannot hide here. Only versions
with a fixed layout are used (field tables: kafka.apache.org/protocol), so that a reply is checked at fixed offsets.
Knows nothing of sockets.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

PRODUCE: Final = 0
FETCH: Final = 1
LIST_OFFSETS: Final = 2
METADATA: Final = 3
API_VERSIONS: Final = 18
CREATE_TOPICS: Final = 19
INCREMENTAL_ALTER_CONFIGS: Final = 44
CONSUMER_GROUP_HEARTBEAT: Final = 68
GROUP_RESOURCE: Final = 32

CLIENT_ID: Final = b"bench"
TOPIC_NAME_BYTES_MAX: Final = 100  # keeps every length prefix in one byte
TOPIC_ALREADY_EXISTS: Final = 36

_BATCH_HEAD = struct.Struct(">qiib")
_BATCH_BODY = struct.Struct(">hiqqqhii")


@dataclass(frozen=True, slots=True)
class ProducerState:
    """An idempotent producer's fields in a batch (KIP-98)."""

    producer_id: int = -1
    epoch: int = -1
    base_sequence: int = -1


NOT_IDEMPOTENT: Final = ProducerState()


def unsigned_varint(number: int) -> bytes:
    """Base-128 groups, lowest first, as in flexible versions (KIP-482)."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def varint(number: int) -> bytes:
    """Zig-zag varint, as inside records."""
    return unsigned_varint(number << 1 if number >= 0 else (-number << 1) - 1)


def string(text: str) -> bytes:
    """A classic (non-compact) string."""
    raw = text.encode()
    return struct.pack(">h", len(raw)) + raw


def compact_bytes(raw: bytes) -> bytes:
    return unsigned_varint(len(raw) + 1) + raw


def record_batch(
    values: Sequence[bytes], *, timestamp_ms: int = 1_700_000_000_000, producer: ProducerState = NOT_IDEMPOTENT
) -> bytes:
    """One uncompressed RecordBatch v2 that holds `values` with null keys, CRC-32C included."""
    records = bytearray()
    for index, value in enumerate(values):
        body = b"\x00" + varint(0) + varint(index) + varint(-1) + varint(len(value)) + value + varint(0)
        records += varint(len(body)) + body
    last = len(values) - 1
    checked = _BATCH_BODY.pack(
        0, last, timestamp_ms, timestamp_ms, producer.producer_id, producer.epoch, producer.base_sequence, len(values)
    )
    checked += records
    head = _BATCH_HEAD.pack(0, 9 + len(checked), -1, 2)
    return head + struct.pack(">I", crc32c(checked)) + checked


def frame(api_key: int, api_version: int, correlation_id: int, body: bytes, *, flexible: bool = False) -> bytes:
    """A whole request: size, header (v1, or v2 when flexible) and body."""
    head = struct.pack(">hhih", api_key, api_version, correlation_id, len(CLIENT_ID)) + CLIENT_ID
    if flexible:
        head += b"\x00"
    return struct.pack(">i", len(head) + len(body)) + head + body


def produce_request(topic: str, batch: bytes, *, acks: int = 1, correlation_id: int = 0, partition: int = 0) -> bytes:
    """Produce v9 with one batch for one partition."""
    name = topic.encode()
    if len(name) > TOPIC_NAME_BYTES_MAX:
        raise ValueError(f"topic names in the bench have at most {TOPIC_NAME_BYTES_MAX} bytes")
    body = b"\x00" + struct.pack(">hi", acks, 30_000) + b"\x02" + compact_bytes(name)
    body += b"\x02" + struct.pack(">i", partition) + compact_bytes(batch) + b"\x00\x00\x00"
    return frame(PRODUCE, 9, correlation_id, body, flexible=True)


@dataclass(frozen=True, slots=True)
class ProduceReplyLayout:
    """Positions in a Produce v9 reply about one partition (offsets include the four size bytes)."""

    error_at: int
    size: int  # of a whole reply without error messages

    @classmethod
    def of(cls, topic: str) -> "ProduceReplyLayout":
        # size 4, correlation 4, header tags 1, topics 1, name 1 + n, partitions 1, index 4
        error_at = 16 + len(topic.encode())
        # error 2, three offsets 24, record errors 1, message 1, tags 1 + 1, throttle 4, tags 1
        return cls(error_at, error_at + 35)

    def error_code(self, reply: bytes) -> int:
        return int.from_bytes(reply[self.error_at : self.error_at + 2], "big", signed=True)

    def base_offset(self, reply: bytes) -> int:
        return int.from_bytes(reply[self.error_at + 2 : self.error_at + 10], "big", signed=True)


def fetch_request(
    topic: str, offset: int, *, correlation_id: int = 0, wait_ms: int = 1000, bytes_max: int = 1 << 20
) -> bytes:
    """Fetch v11 of partition 0 without a fetch session; its offset stands at `FetchLayout.offset_at`."""
    body = struct.pack(">iiiibii", -1, wait_ms, 1, bytes_max, 0, 0, -1)
    body += struct.pack(">i", 1) + string(topic) + struct.pack(">i", 1)
    body += struct.pack(">iiqqi", 0, -1, offset, -1, bytes_max) + struct.pack(">i", 0) + string("")
    return frame(FETCH, 11, correlation_id, body)


def fetch_of_many(
    topic: str, offsets: Mapping[int, int], *, wait_ms: int = 1000, bytes_max: int = 50 << 20, each_max: int = 1 << 20
) -> bytes:
    """Fetch v11 of some partitions, given with their offsets in the order in which they are wanted."""
    body = struct.pack(">iiiibii", -1, wait_ms, 1, bytes_max, 0, 0, -1)
    body += struct.pack(">i", 1) + string(topic) + struct.pack(">i", len(offsets))
    for partition, offset in offsets.items():
        body += struct.pack(">iiqqi", partition, -1, offset, -1, each_max)
    return frame(FETCH, 11, 0, body + struct.pack(">i", 0) + string(""))


@dataclass(frozen=True, slots=True)
class FetchLayout:
    """Positions in `fetch_request` and in its v11 reply (offsets include the four size bytes)."""

    offset_at: int
    reply_error_at: int
    partition_error_at: int
    aborted_at: int

    @classmethod
    def of(cls, topic: str) -> "FetchLayout":
        name = len(topic.encode())
        offset_at = 4 + 10 + len(CLIENT_ID) + 25 + 4 + 2 + name + 4 + 8
        # correlation 4, throttle 4 | error 2, session 4, topics 4, name 2 + n, partitions 4, index 4
        partition_error_at = 4 + 8 + 2 + 4 + 4 + 2 + name + 4 + 4
        return cls(offset_at, 12, partition_error_at, partition_error_at + 2 + 24)

    def error_code(self, reply: bytes) -> int:
        top = int.from_bytes(reply[self.reply_error_at : self.reply_error_at + 2], "big", signed=True)
        at = self.partition_error_at
        return top or int.from_bytes(reply[at : at + 2], "big", signed=True)

    def records(self, reply: bytes) -> bytes:
        """The record batches of the reply; aborted transactions are not expected."""
        aborted = int.from_bytes(reply[self.aborted_at : self.aborted_at + 4], "big", signed=True)
        if aborted > 0:
            raise ValueError("a reply with aborted transactions")
        at = self.aborted_at + 8
        size = int.from_bytes(reply[at : at + 4], "big", signed=True)
        return reply[at + 4 : at + 4 + max(size, 0)]


def create_topic_request(
    topic: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None, correlation_id: int = 0
) -> bytes:
    """CreateTopics v4."""
    body = struct.pack(">i", 1) + string(topic) + struct.pack(">ihi", partitions, 1, 0)
    items = sorted((configs or {}).items())
    body += struct.pack(">i", len(items)) + b"".join(string(key) + string(value) for key, value in items)
    return frame(CREATE_TOPICS, 4, correlation_id, body + struct.pack(">i?", 30_000, False))


def create_topic_error(reply: bytes, topic: str) -> int:
    """The error code of a CreateTopics v4 reply about one topic."""
    at = 4 + 4 + 4 + 4 + 2 + len(topic.encode())
    return int.from_bytes(reply[at : at + 2], "big", signed=True)


def from_client(request: bytes, client_id: bytes) -> bytes:
    """The same request from a client of another name, which is as long as `CLIENT_ID`."""
    if len(client_id) != len(CLIENT_ID):
        raise ValueError(f"names of clients in the bench have {len(CLIENT_ID)} bytes")
    return request[:14] + client_id + request[14 + len(client_id) :]


def join_request(group: str, topic: str) -> bytes:
    """ConsumerGroupHeartbeat v0 that makes a member of a group, subscribed to one topic (KIP-848)."""
    body = compact_bytes(group.encode()) + compact_bytes(b"") + struct.pack(">i", 0) + b"\x00\x00"
    body += struct.pack(">i", 60_000) + b"\x02" + compact_bytes(topic.encode()) + b"\x00\x01\x00"
    return frame(CONSUMER_GROUP_HEARTBEAT, 0, 0, body, flexible=True)


def join_error(reply: bytes) -> int:
    """The error code of a ConsumerGroupHeartbeat v0 reply."""
    return int.from_bytes(reply[13:15], "big", signed=True)


def set_group_request(group: str, name: str, value: str) -> bytes:
    """IncrementalAlterConfigs v0 that sets one setting of a group."""
    body = struct.pack(">ib", 1, GROUP_RESOURCE) + string(group) + struct.pack(">i", 1)
    body += string(name) + struct.pack(">b", 0) + string(value) + b"\x00"
    return frame(INCREMENTAL_ALTER_CONFIGS, 0, 0, body)


def set_group_error(reply: bytes) -> int:
    """The error code of an IncrementalAlterConfigs v0 reply about one resource."""
    return int.from_bytes(reply[16:18], "big", signed=True)


def api_versions_request(*, correlation_id: int = 0, api_version: int = 0) -> bytes:
    """ApiVersions v0, or any other version of it: from v3 on flexible, with the client's name and version."""
    if api_version < 3:
        return frame(API_VERSIONS, api_version, correlation_id, b"")
    body = compact_bytes(CLIENT_ID) + compact_bytes(b"1") + b"\x00"
    return frame(API_VERSIONS, api_version, correlation_id, body, flexible=True)


def api_versions(reply: bytes) -> tuple[int, dict[int, tuple[int, int]]]:
    """Error code, and per API key the least and greatest version, of an ApiVersions v0 reply."""
    error, count = struct.unpack_from(">hi", reply, 8)
    ranges = (struct.unpack_from(">hhh", reply, 14 + 6 * index) for index in range(count))
    return error, {key: (least, greatest) for key, least, greatest in ranges}
