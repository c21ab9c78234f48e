"""Targets for what RocketMQ's clients write."""

from collections.abc import Iterator

from tests.fuzz.target import Target

from hutong.broker.delays.steps import HEADER, DelayedRecord, DeliveryPlace, packed, unpacked
from hutong.foundation.errors import ProtocolError
from hutong.wire.kafka.batch.records import Record
from hutong.wire.rocketmq.recall_handles import RecallHandle, decode_handle, encode_handle


def read_handle(data: bytes) -> object:
    return decode_handle(data.decode(errors="replace"))


def handles() -> Iterator[bytes]:
    for handle in (RecallHandle("t", "hutong", 1_700_000_000_000, "7F01"), RecallHandle("grün", "b", 0, "x" * 200)):
        yield (encode_handle(handle) or "").encode()


def read_place(data: bytes) -> object:
    return unpacked(Record(headers=[(HEADER, data)]))


def places() -> Iterator[bytes]:
    for place in (DeliveryPlace("t", 0), DeliveryPlace("x" * 249, 99)):
        yield packed(DelayedRecord(1_700_000_000_000, place, Record()), 0).headers[0][1] or b""


TARGETS = [
    Target("rocketmq-recall-handle", read_handle, handles, (ProtocolError,)),
    Target("delayed-record", read_place, places, ()),
]
