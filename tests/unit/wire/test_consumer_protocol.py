import io

import pytest
from kio.index import load_entity_schema
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from hutong.foundation.errors import ProtocolError
from hutong.wire.kafka.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    decode_subscription,
    encode,
)

OWNED = [TopicPartition("a", [0, 1]), TopicPartition("b", [])]
SUBSCRIPTION = ConsumerProtocolSubscription(["a", "b"], b"data", OWNED, 7, "rack-1")
ASSIGNMENT = ConsumerProtocolAssignment(OWNED, None)


@pytest.mark.parametrize("version", range(4))
def test_kio_agrees(version: int) -> None:
    for name, ours in (("consumer_protocol_subscription", SUBSCRIPTION), ("consumer_protocol_assignment", ASSIGNMENT)):
        schema = load_entity_schema(name, version, EntityType.data)
        data = encode(ours, version)
        theirs, size = entity_reader(schema)(memoryview(data), 2)
        assert size == len(data) - 2
        written = io.BytesIO()
        entity_writer(schema)(written, theirs)
        assert written.getvalue() == data[2:]


def test_each_version_adds_a_field() -> None:
    read = [decode_subscription(encode(SUBSCRIPTION, version)) for version in range(4)]
    assert read[0] == ConsumerProtocolSubscription(["a", "b"], b"data")
    assert read[1] == ConsumerProtocolSubscription(["a", "b"], b"data", OWNED)
    assert read[2] == ConsumerProtocolSubscription(["a", "b"], b"data", OWNED, 7)
    assert read[3] == SUBSCRIPTION


def test_newer_versions_are_read_as_far_as_we_know_them() -> None:
    assert decode_subscription(b"\0\x09" + encode(SUBSCRIPTION, 3)[2:] + b"news") == SUBSCRIPTION
    assert decode_assignment(b"\0\x09" + encode(ASSIGNMENT, 3)[2:] + b"news") == ASSIGNMENT


def test_no_assignment_is_an_empty_one() -> None:
    assert decode_assignment(b"") == ConsumerProtocolAssignment()


def test_what_is_not_the_consumer_protocol_is_refused() -> None:
    whole = encode(SUBSCRIPTION, 3)
    for data in [*(whole[:size] for size in range(len(whole))), b"\xff\xff" + whole[2:], b"connect"]:
        with pytest.raises(ProtocolError):
            decode_subscription(data)
