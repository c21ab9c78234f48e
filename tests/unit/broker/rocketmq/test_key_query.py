"""Messages by their keys, without an index: what is found, in which order it is looked for, and where that ends."""

from typing import Any

import pytest
from tests.unit.broker.rocketmq.scene import RocketClient, RocketScene

from hutong.broker.rocketmq.key_query import WINDOW, KeyQuestion, QueueWalk
from hutong.broker.rocketmq.requests.admin import r012_messages
from hutong.wire.kafka.batch.compression import Compression
from hutong.wire.kafka.batch.records import Record, build_batch
from hutong.wire.rocketmq.codes import RequestCode, ResponseCode
from hutong.wire.rocketmq.command import Command
from hutong.wire.rocketmq.messages import decode_messages, encode_properties

HOUR_MS = 3_600_000


async def query(client: RocketClient, key: str, **fields: Any) -> Command:
    given = {"topic": "t", "key": key, "maxNum": 64, "beginTimestamp": 0, "endTimestamp": 2**63 - 1, **fields}
    return await client.ask_with(RequestCode.QUERY_MESSAGE, given)


async def found(client: RocketClient, key: str, **fields: Any) -> list[bytes]:
    answer = await query(client, key, **fields)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return [bytes(each.body) for each in decode_messages(answer.body)]


async def keyed(client: RocketClient, body: bytes, keys: str, unique: str = "", **fields: Any) -> None:
    properties = {"KEYS": keys, **({"UNIQ_KEY": unique} if unique else {})}
    sent = await client.send(body, properties=encode_properties(properties), **fields)
    assert sent.code == ResponseCode.SUCCESS, sent.remark


async def test_messages_are_found_by_each_of_their_keys_newest_first(client: RocketClient) -> None:
    await keyed(client, b"one", "a", "U1", defaultTopicQueueNums=2)
    await keyed(client, b"two", "b a", "U2", queueId=1)
    await keyed(client, b"three", "ab", "U3")
    assert sorted(await found(client, "a")) == [b"one", b"two"]
    assert await found(client, "b") == [b"two"]
    assert await found(client, "U3", _UNIQUE_KEY_QUERY="true") == [b"three"]
    assert len(await found(client, "a", maxNum=1)) == 1
    for key, fields in (("U", {"_UNIQUE_KEY_QUERY": "true"}), ("c", {}), ("U1", {}), ("a", {"endTimestamp": 1})):
        answer = await query(client, key, **fields)
        assert answer.code == ResponseCode.QUERY_NOT_FOUND
        assert answer.remark == "can not find message, maybe time range not correct"


async def test_a_unique_key_is_found_about_its_time_or_before(client: RocketClient) -> None:
    await keyed(client, b"x", "a", "U1")
    (message,) = await client.messages()
    for around_ms in (message.stored_ms, message.stored_ms + HOUR_MS, message.stored_ms - HOUR_MS):
        times = {"beginTimestamp": around_ms - 36 * HOUR_MS, "endTimestamp": around_ms + 36 * HOUR_MS}
        assert await found(client, "U1", _UNIQUE_KEY_QUERY="true", **times) == [b"x"]
    # As clients of 4.9 ask.
    assert await found(client, "U1", _UNIQUE_KEY_QUERY="true", beginTimestamp=message.stored_ms - 1_000) == [b"x"]


async def test_a_compressed_batch_is_looked_into(scene: RocketScene, client: RocketClient) -> None:
    await client.send(b"first")
    (message,) = await client.messages()
    records = [Record(0, message.stored_ms, b"k%d" % number, b"v" * 100) for number in range(50)]
    await scene.kafka.produce(build_batch(records, compression=Compression.GZIP))
    (answer,) = decode_messages((await query(client, "k7")).body)
    assert answer.queue_offset == 8


async def test_searches_at_a_time_are_bounded(client: RocketClient, monkeypatch: pytest.MonkeyPatch) -> None:
    await keyed(client, b"x", "a")
    monkeypatch.setattr(r012_messages, "QUERIES_MAX", 0)
    answer = await query(client, "a")
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_BUSY, "[LIMIT]QUERIES_MAX is 0 and would be exceeded")


async def test_a_key_has_bounds(client: RocketClient) -> None:
    await keyed(client, b"x", "a")
    for key in ("", "k" * 2_000):
        assert (await query(client, key)).code == ResponseCode.INVALID_PARAMETER


async def test_a_message_is_found_by_its_id(client: RocketClient) -> None:
    await keyed(client, b"x", "a")
    (message,) = await client.messages()
    fields: dict[str, str]
    for fields in ({}, {"topic": "t"}):
        answer = await client.ask_with(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": message.physical_offset, **fields})
        (seen,) = decode_messages(answer.body)
        assert (bytes(seen.body), seen.topic, seen.physical_offset) == (b"x", "t", message.physical_offset)
    for physical in (message.physical_offset + 1, 7, (1 << 63) - 1, -1):
        answer = await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, offset=physical)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark == f"can not find message by the offset, {physical}"


def offsets_of(walk: QueueWalk, bytes_each: int = 1) -> list[int]:
    """The offsets that a walk asks for, if each read ends 1,000 offsets later."""
    offsets: list[int] = []
    while (offset := walk.next) is not None:
        offsets.append(offset)
        walk.looked(offset + 1_000, bytes_each)
    return offsets


def test_a_walk_goes_forward_from_the_middle_and_then_back() -> None:
    assert offsets_of(QueueWalk(0, 5_000, 7_000, 100)) == [
        5_000, 6_000, 904, 1_904, 2_904, 3_904, 4_904, 0,
    ]  # fmt: skip
    assert offsets_of(QueueWalk(10, 10, 10, 100)) == []
    backward = offsets_of(QueueWalk(0, 3 * WINDOW, 3 * WINDOW, 100))
    assert backward[0] == 2 * WINDOW
    assert backward[-1] == WINDOW - 96, "the oldest window is the last"


def test_a_walk_ends_with_its_bytes_and_half_of_them_are_for_what_is_older() -> None:
    walk = QueueWalk(0, 50_000, 100_000, 10)
    offsets = offsets_of(walk)
    assert [offset >= 50_000 for offset in offsets] == [True] * 5 + [False] * 5
    assert walk.has_given_up
    whole = QueueWalk(0, 50_000, 52_000, 1_000)
    offsets_of(whole)
    assert not whole.has_given_up


def test_a_walk_passes_over_what_cannot_be_read() -> None:
    walk = QueueWalk(0, 0, 5_000, 100)
    assert walk.next == 0
    walk.looked(0, 0)
    assert walk.next is None


def test_the_time_of_a_unique_key() -> None:
    t = 100 * 24 * HOUR_MS
    assert KeyQuestion("u", True, t - 36 * HOUR_MS, t + 36 * HOUR_MS, 1).middle_ms == t - 60_000
    assert KeyQuestion("u", True, t, 2**63 - 1, 1).middle_ms == t - 60_000
