"""Targets for the bodies of RocketMQ's requests: messages, batches, properties, JSON, packed bodies, access keys."""

import zlib
from collections.abc import Iterator

import msgspec
from tests.fuzz.target import MEBIBYTE, Target
from tests.support.plain_sends import taken
from tests.support.stored_runs import check_agreement, collected_alike, forms_of, ways

from hutong.broker.rocketmq.records.packed_bodies import plain_body
from hutong.broker.rocketmq.records.packing import packed_batch
from hutong.broker.rocketmq.records.stored_forms import QueueOfForms
from hutong.broker.rocketmq.records.stored_runs import RunBounds
from hutong.broker.rocketmq.records.translation import message_of, record_of
from hutong.broker.rocketmq.refusals import RocketRefused
from hutong.broker.rocketmq.sends.compiled_sends import found_sends
from hutong.foundation.errors import LimitExceeded, ProtocolError
from hutong.security.access_keys import AccessKeysWrong, parse_access_keys
from hutong.wire.kafka.batch.records import (
    CONTROL,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    Record,
    build_batch,
    parse_batch_header,
)
from hutong.wire.rocketmq.admin_bodies import SubscriptionGroup
from hutong.wire.rocketmq.bodies import (
    BatchAck,
    BatchAckRequest,
    ConsumerData,
    HeartbeatData,
    LockBatchRequest,
    ProducerData,
    RocketQueue,
    SubscriptionData,
    decode_body,
)
from hutong.wire.rocketmq.codes import COMPRESSED, LZ4, ZLIB, ZSTD
from hutong.wire.rocketmq.command import BINARY, JSON, Command, encode
from hutong.wire.rocketmq.messages import (
    NO_HOST,
    BatchedMessage,
    Host,
    StoredMessage,
    decode_batch,
    decode_messages,
    decode_properties,
    encode_batch,
    encode_message,
    encode_properties,
)

UNPACKED_BYTES_MAX = MEBIBYTE
BODIES = (HeartbeatData, LockBatchRequest, SubscriptionGroup, BatchAckRequest)
FLAGS = (COMPRESSED, COMPRESSED | LZ4, COMPRESSED | ZSTD, COMPRESSED | ZLIB, COMPRESSED | 0x700)


def read_messages(data: bytes) -> object:
    """What is decoded is encoded as it was, but for what its store host's form says."""
    found = [*decode_messages(memoryview(data))]
    for message in found:
        (again,) = decode_messages(encode_message(message))
        assert (again.topic, bytes(again.body), again.properties) == (
            message.topic,
            bytes(message.body),
            message.properties,
        )
    return found


def messages() -> Iterator[bytes]:
    plain = StoredMessage("t", 1, 2, 3, b"body", encode_properties({"TAGS": "a"}))
    yield encode_message(plain)
    yield encode_message(plain) + encode_message(StoredMessage("u", 0, 0, 0, b"", born_host=Host(bytes(16), 1)))


def read_batch(data: bytes) -> object:
    found = decode_batch(memoryview(data), 1_000)
    assert len(found) <= 1_000
    return found


def batches() -> Iterator[bytes]:
    yield encode_batch([BatchedMessage(1, b"one", "TAGS\x01x\x02"), BatchedMessage(2, b"", "")])


def read_properties(data: bytes) -> object:
    """A message with any properties becomes a record, and that a message again; no name or value is made up."""
    text = data.decode(errors="ignore")
    properties = decode_properties(text)
    assert decode_properties(encode_properties(properties)) == properties
    message = StoredMessage("t", 0, 0, 0, b"", text)
    assert packed_batch([message]) == build_batch([record_of(message)])
    back = decode_properties(message_of(record_of(message), "t", 0, 0, NO_HOST).properties)
    assert back.keys() <= properties.keys()
    return properties


def read_json(data: bytes) -> object:
    """The first byte chooses the body."""
    return decode_body(BODIES[data[0] % len(BODIES)], data[1:]) if data else None


def json_bodies() -> Iterator[bytes]:
    heartbeat = HeartbeatData(
        "c", [ProducerData("p")], [ConsumerData("g", subscriptionDataSet=[SubscriptionData("t")])]
    )
    locks = LockBatchRequest("g", "c", [RocketQueue("t", "b", 0)])
    group = SubscriptionGroup("g", groupRetryPolicy={"type": "CUSTOMIZED"}, attributes={"a": "b"})
    acks = BatchAckRequest([BatchAck("g", "t", 7, 0, 5, b"\x05")])
    for number, body in enumerate((heartbeat, locks, group, acks)):
        yield bytes([number]) + msgspec.json.encode(body)


def unpack(data: bytes) -> object:
    """The first byte chooses the compression."""
    found = plain_body(FLAGS[data[0] % len(FLAGS)], data[1:], UNPACKED_BYTES_MAX) if data else b""
    assert len(found) <= UNPACKED_BYTES_MAX
    return found


def packed() -> Iterator[bytes]:
    yield b"\0" + zlib.compress(b"x" * 1_000)
    yield b"\3" + zlib.compress(bytes(100_000))


def read_access_keys(data: bytes) -> object:
    return parse_access_keys(data.decode(errors="replace"))


FORMS = QueueOfForms("t", 1, 2, NO_HOST)


def read_records(data: bytes) -> object:
    """The records of a batch, of which the input is the part behind the header, as stored messages, by each way."""
    # No compression: decoders of those have targets of their own.
    head = build_batch([Record(value=b"")] * 3)[:HEADER_BYTES]
    header = parse_batch_header(head)
    check_agreement(data, header, FORMS)
    check_agreement(data, header, FORMS, RunBounds(1, 2, 200))
    found = [forms_of(way, data, header, FORMS) for way in ways()]
    assert found == [found[0]] * len(found)
    for form in found[0]:
        (message,) = decode_messages(form.stored)
        assert (message.queue_offset, message.properties) == (form.offset, form.properties)
    return found


def collect_batches(data: bytes) -> object:
    """Batches as a fetch finds them: what is taken by one call is what is taken batch by batch."""
    whole = collected_alike([memoryview(data)], FORMS, (0, 1_000, MEBIBYTE))
    split = data.find(b"\x02", 61) - 16
    few = collected_alike([memoryview(data)[: max(0, split)], memoryview(data)[max(0, split) :]], FORMS, (2, 3, 400))
    return [None if found is None else found.pieces for found in (whole, few)]


def stored_batches() -> Iterator[bytes]:
    message = StoredMessage("t", 1, 2, 3, b"body", encode_properties({"TAGS": "a", "KEYS": "k"}))
    records = [record_of(message), Record(key=b"k"), Record(headers=[("a", b"\x01")])]
    for attributes in (0, CONTROL, LOG_APPEND_TIME):
        first = build_batch(records[:2])
        yield first + build_batch(records, base_offset=2, attributes=attributes) + build_batch(records, base_offset=5)


def packed_records() -> Iterator[bytes]:
    message = StoredMessage("t", 1, 2, 3, b"body", encode_properties({"TAGS": "a", "KEYS": "k"}))
    yield build_batch([record_of(message)] * 3)[HEADER_BYTES:]
    yield build_batch([Record(key=b"k"), Record(headers=[("a", None)]), Record(headers=[("a\x01", b"")])])[
        HEADER_BYTES:
    ]


def take_sends(data: bytes) -> object:
    """What a connection has read: what is taken of it by one call is what each request would become by itself."""
    return None if found_sends is None else taken(data)


def sends() -> Iterator[bytes]:
    fields = {"b": "t", "e": "0", "f": "0", "g": "1", "h": "0", "i": "KEYS\x01a b\x02T\x01ü\x02", "m": "false"}
    for form in (BINARY, JSON):
        yield b"".join(encode(Command(310, 7, body=b"body", fields=fields, serialization=form))) * 2


TARGETS = [
    Target("rocketmq-sends", take_sends, sends),
    Target("rocketmq-records", read_records, packed_records),
    Target("rocketmq-batches", collect_batches, stored_batches, (ProtocolError, LimitExceeded)),
    Target("rocketmq-messages", read_messages, messages),
    Target("rocketmq-batch", read_batch, batches),
    Target("rocketmq-properties", read_properties, lambda: [b"A\x01b\x02C\x01d", b"KEYS\x01a b\x02"], ()),
    Target("rocketmq-json", read_json, json_bodies, (ProtocolError,)),
    Target("rocketmq-packed", unpack, packed, (RocketRefused,), memory_base=8 * MEBIBYTE),
    Target("rocketmq-access-keys", read_access_keys, lambda: [b"# x\nalice = 12345678\n"], (AccessKeysWrong,)),
]
