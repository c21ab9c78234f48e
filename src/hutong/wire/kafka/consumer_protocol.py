"""The consumer protocol inside JoinGroup metadata and SyncGroup assignments: opaque to a broker, read by tools.

Versions 0 to 3, never flexible, the version as 16 bits in front. Version 1 adds the partitions that a member owns
(KIP-429), 2 its generation, 3 its rack (KIP-881). Newer versions only append, so they are read as version 3.
"""

from typing import TypeVar

from hutong.wire.buffer import Buffer
from hutong.wire.kafka import version_prefixed
from hutong.wire.kafka.schema import INT32, STRING, array, int32, message, message_info, opaque, string
from hutong.wire.kafka.schema import struct as table

T = TypeVar("T")


@table
class TopicPartition:
    topic: str = string()
    partitions: list[int] = array(INT32)


@message(versions="0-3", open_ended=True)
class ConsumerProtocolSubscription:
    topics: list[str] = array(STRING)
    user_data: bytes | None = opaque(nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = array(TopicPartition, "1+")
    generation_id: int = int32("2+", default=-1)
    rack_id: str | None = string("3+", nullable="3+", default=None)


@message(versions="0-3", open_ended=True)
class ConsumerProtocolAssignment:
    assigned_partitions: list[TopicPartition] = array(TopicPartition)
    user_data: bytes | None = opaque(nullable="0+", default=None)


def decode_subscription(data: Buffer) -> ConsumerProtocolSubscription:
    """Raises ProtocolError, for groups may well carry something that is not the consumer protocol."""
    return _decode(ConsumerProtocolSubscription, data)


def decode_assignment(data: Buffer) -> ConsumerProtocolAssignment:
    """No bytes at all mean no partitions. Raises ProtocolError."""
    return _decode(ConsumerProtocolAssignment, data) if data else ConsumerProtocolAssignment()


def encode(structure: ConsumerProtocolSubscription | ConsumerProtocolAssignment, version: int) -> bytes:
    return version_prefixed.encode(structure, version)


def _decode(structure: type[T], data: Buffer) -> T:
    newest = message_info(structure).versions[-1]
    return version_prefixed.decode(structure, data, min(version_prefixed.version_of(data), newest))
