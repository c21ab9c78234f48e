"""The consumer protocol inside JoinGroup metadata and SyncGroup assignments: opaque to a broker, read by tools.

Versions 0 to 3, never flexible, the version as 16 bits in front. Version 1 adds the partitions that a member owns
(KIP-429), 2 its generation, 3 its rack (KIP-881). Newer versions only append, so they are read as version 3.
"""

import struct
from functools import cache
from typing import Any

from hutong.foundation.errors import ProtocolError
from hutong.wire.buffer import Buffer
from hutong.wire.kafka.codecs import Decoder, Encoder, decoder, encoder
from hutong.wire.kafka.schema import INT32, STRING, array, int32, message, message_info, opaque, string
from hutong.wire.kafka.schema import struct as table

VERSION_BYTES = 2


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
    subscription: ConsumerProtocolSubscription = _decode(ConsumerProtocolSubscription, data)
    return subscription


def decode_assignment(data: Buffer) -> ConsumerProtocolAssignment:
    """No bytes at all mean no partitions. Raises ProtocolError."""
    if not data:
        return ConsumerProtocolAssignment()
    assignment: ConsumerProtocolAssignment = _decode(ConsumerProtocolAssignment, data)
    return assignment


def encode(structure: ConsumerProtocolSubscription | ConsumerProtocolAssignment, version: int) -> bytes:
    out: list[Buffer] = [struct.pack(">h", version)]
    _encoder(type(structure).__name__, version)(structure, out)
    return b"".join(out)


def _decode(structure: type[Any], data: Buffer) -> Any:
    if len(data) < VERSION_BYTES:
        raise ProtocolError("consumer protocol: no version")
    version = int.from_bytes(data[:VERSION_BYTES], "big", signed=True)
    if version < 0:
        raise ProtocolError(f"consumer protocol: version {version}")
    newest = message_info(structure).versions[-1]
    return _decoder(structure.__name__, min(version, newest))(data, VERSION_BYTES)


_STRUCTURES: dict[str, type[Any]] = {
    structure.__name__: structure for structure in (ConsumerProtocolSubscription, ConsumerProtocolAssignment)
}


@cache
def _decoder(name: str, version: int) -> Decoder:
    return decoder(_STRUCTURES[name], version)


@cache
def _encoder(name: str, version: int) -> Encoder:
    return encoder(_STRUCTURES[name], version)
