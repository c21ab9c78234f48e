"""The short way of plain messages: what is stored together, what keeps its order, and what goes the long way."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.broker.rocketmq.scene import RocketClient, RocketScene

from hutong.broker.produce.record_appends import StoredRecords
from hutong.broker.rocketmq.sends import plain_sends
from hutong.broker.rocketmq.sends.compiled_sends import found_sends
from hutong.broker.rocketmq.sends.plain_send import BODY_BYTES_MAX
from hutong.broker.rocketmq.sends.plain_sends import BATCH_BYTES_MAX, PlainSends
from hutong.foundation.errors import HutongError, LimitExceeded, Refused
from hutong.remoting.channels.channel import Channel
from hutong.wire.kafka.batch.records import Record, iterate_batches, iterate_records, parse_batch_header
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.rocketmq.codes import RequestCode, ResponseCode
from hutong.wire.rocketmq.command import BINARY, JSON, Command
from hutong.wire.rocketmq.messages import BatchedMessage, encode_batch, encode_properties


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each send, whether it went the short way."""
    noted: list[bool] = []
    note = PlainSends._note

    def watched(sends: PlainSends, command: Command, channel: Channel) -> bool:
        noted.append(note(sends, command, channel))
        return noted[-1]

    monkeypatch.setattr(PlainSends, "_note", watched)
    return noted


async def batches(scene: RocketScene) -> list[list[Record]]:
    data = await scene.kafka.fetch(0)
    assert isinstance(data.records, bytes | memoryview)
    return [[*iterate_records(batch)] for _, batch in iterate_batches(memoryview(data.records))]


@pytest.fixture
def appends(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of each end of an iteration with messages, the number of their queues."""
    queues: list[int] = []
    append_noted = PlainSends.append_noted

    def watched(sends: PlainSends) -> None:
        if sends._noted:
            queues.append(len(sends._noted))
        append_noted(sends)

    monkeypatch.setattr(PlainSends, "append_noted", watched)
    return queues


async def test_messages_that_come_together_are_one_batch(
    scene: RocketScene, client: RocketClient, short: list[bool], appends: list[int]
) -> None:
    await scene.kafka.create("t")
    answers = await asyncio.gather(*[client.send(b"%d" % number) for number in range(10)])
    assert short == [True] * 10
    assert [answer.ext()["queueOffset"] for answer in answers] == [str(number) for number in range(10)]
    found = await batches(scene)
    # One, or a few where the time of a connection's turn was over before all were read.
    assert appends == [1] * len(found)
    assert [record.value for batch in found for record in batch] == [b"%d" % number for number in range(10)]
    messages = await client.messages()
    for answer, message in zip(answers, messages, strict=True):
        assert answer.ext()["msgId"].endswith(f"{message.physical_offset:016X}")


async def test_a_batch_has_bounds(scene: RocketScene, client: RocketClient) -> None:
    await scene.kafka.create("t")
    count = 2 * BATCH_BYTES_MAX // BODY_BYTES_MAX
    await asyncio.gather(*[client.send(bytes(BODY_BYTES_MAX)) for _ in range(count)])
    found = await batches(scene)
    assert sum(map(len, found)) == count
    assert max(map(len, found)) <= BATCH_BYTES_MAX // BODY_BYTES_MAX


async def test_what_goes_the_long_way_does_not_overtake(scene: RocketScene, client: RocketClient) -> None:
    await scene.kafka.create("t")
    batch = encode_batch([BatchedMessage(0, b"2", ""), BatchedMessage(0, b"3", "")])
    fields = {"a": "p", "b": "t", "e": 0, "f": 0, "g": 1, "h": 0, "i": "", "j": 0, "m": "true"}
    answers = await asyncio.gather(
        client.send(b"0"),
        client.send(b"1"),
        client.ask_with(RequestCode.SEND_BATCH_MESSAGE, fields, batch),
        client.send(b"4"),
    )
    assert [answer.ext()["queueOffset"] for answer in answers] == ["0", "1", "2", "4"]
    assert [bytes(message.body) for message in await client.messages()] == [b"%d" % number for number in range(5)]


@pytest.mark.parametrize(
    "fields",
    [
        {"sysFlag": 4},
        {"flag": "x"},
        {"bornTimestamp": "-1"},
        {"queueId": -1},
        {"queueId": 7},
        {"reconsumeTimes": 1},
        {"batch": "true"},
        {"topic": "%RETRY%g"},
        {"topic": "a|b"},
        {"topic": "SCHEDULE_TOPIC_XXXX"},
        {"topic": "__consumer_offsets"},
        {"properties": encode_properties({"DELAY": "3"})},
        {"properties": encode_properties({"TIMER_DELAY_SEC": "3"})},
        {"properties": encode_properties({"__STARTDELIVERTIME": "3"})},
        {"properties": encode_properties({"TRAN_MSG": "true"})},
        {"properties": encode_properties({"REPLY_TO_CLIENT": "c"})},
        {"properties": encode_properties({"WAIT": "false"})},
        {"properties": encode_properties({"long": "x" * 9_000})},
    ],
)
async def test_what_wants_more_goes_the_long_way(
    scene: RocketScene, client: RocketClient, short: list[bool], fields: dict[str, Any]
) -> None:
    await scene.kafka.create("t")
    await client.send(b"x", **fields)
    assert short == [False]
    # The next one is plain again.
    assert (await client.send(b"y")).code == ResponseCode.SUCCESS
    assert short == [False, True]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of each read of a connection that the compiled pass has looked at, the number of messages that it took."""
    if found_sends is None:
        pytest.skip("it is not compiled")
    counts: list[int] = []
    take = PlainSends.take

    def watched(sends: PlainSends, *arguments: Any) -> object:
        batch = take(sends, *arguments)
        counts.append(batch[0] if batch else 0)
        return batch

    monkeypatch.setattr(PlainSends, "take", watched)
    return counts


async def test_many_are_taken_by_one_call(
    scene: RocketScene, client: RocketClient, short: list[bool], taken: list[int]
) -> None:
    await scene.kafka.create("t")
    await client.send(b"first")
    answers = await asyncio.gather(*[client.send(b"%d" % number, flag=number) for number in range(20)])
    assert (short, sum(taken)) == ([True], 20)
    assert [answer.ext()["queueOffset"] for answer in answers] == [str(number) for number in range(1, 21)]
    messages = await client.messages(1)
    assert [(bytes(message.body), message.flag) for message in messages] == [(b"%d" % at, at) for at in range(20)]
    assert messages[0].born_host == (await client.messages())[0].born_host


async def test_of_many_none_overtakes_one_that_goes_the_long_way(
    scene: RocketScene, client: RocketClient, taken: list[int]
) -> None:
    await scene.kafka.create("t")
    await client.send(b"0")
    sends = [client.send(b"%d" % number, reconsumeTimes=number % 3) for number in range(1, 10)]
    answers = await asyncio.gather(*sends)
    assert [answer.ext()["queueOffset"] for answer in answers] == [str(number) for number in range(1, 10)]
    assert [bytes(message.body) for message in await client.messages()] == [b"%d" % number for number in range(10)]
    # Behind the first of the other way all of one read goes request by request.
    assert sum(taken) < 9


async def test_of_many_those_for_an_unknown_queue_are_refused(
    scene: RocketScene, client: RocketClient, taken: list[int]
) -> None:
    await scene.kafka.create("t")
    await client.send(b"0")
    answers = await asyncio.gather(client.send(b"1"), client.send(b"2", queueId=7), client.send(b"3"))
    assert [answer.code for answer in answers] == [
        ResponseCode.SUCCESS,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SUCCESS,
    ]
    assert [bytes(message.body) for message in await client.messages()] == [b"0", b"1", b"3"]


async def test_a_connection_may_have_so_many_unanswered(
    scene: RocketScene, client: RocketClient, monkeypatch: pytest.MonkeyPatch, taken: list[int]
) -> None:
    monkeypatch.setattr(plain_sends, "FRAMES_MAX", 3)
    await scene.kafka.create("t")
    await client.send(b"0")
    answers = await asyncio.gather(*[client.send(b"%d" % number) for number in range(1, 10)])
    assert [answer.ext()["queueOffset"] for answer in answers] == [str(number) for number in range(1, 10)]
    assert max(taken) <= 3


async def test_a_topic_that_is_deleted_is_not_remembered(scene: RocketScene, client: RocketClient) -> None:
    await scene.kafka.create("t")
    await client.send(b"x")
    assert (await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, topic="t")).code == ResponseCode.SUCCESS
    answer = await client.send(b"y")
    assert answer.ext()["queueOffset"] == "0", "of the topic that was created anew"


@pytest.mark.parametrize("form", [BINARY, JSON])
async def test_the_answer_has_the_form_of_the_request(scene: RocketScene, client: RocketClient, form: int) -> None:
    await scene.kafka.create("t")
    fields = {"b": "t", "e": "0", "f": "0", "g": "1000", "h": "5", "i": "TAGS\x01ä"}
    command = Command(RequestCode.SEND_MESSAGE_V2, body=b"x", fields=fields, serialization=form)
    answer = await client.connection.invoke(command, 30)
    assert (answer.code, answer.serialization, answer.ext()["queueId"]) == (0, form, "0")
    (message,) = await client.messages()
    assert (message.properties, message.flag, message.born_ms) == ("TAGS\x01ä\x02", 5, 1_000)


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (StoredRecords(7, is_flushed=False), ResponseCode.FLUSH_DISK_TIMEOUT),
        (Refused(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is gone"), ResponseCode.SERVICE_NOT_AVAILABLE),
        (LimitExceeded("dirty_bytes_max", 1), ResponseCode.SYSTEM_BUSY),
    ],
)
async def test_what_becomes_of_a_batch_is_the_answer_to_all_of_it(
    scene: RocketScene,
    client: RocketClient,
    monkeypatch: pytest.MonkeyPatch,
    outcome: StoredRecords | HutongError,
    code: ResponseCode,
) -> None:
    await scene.kafka.create("t")

    def appended(_broker: object, _partition: object, batch: bytes, _owner: object, then: Callable[..., None]) -> None:
        then(outcome)
        # The two may come in two batches, where the time of a connection's turn was over between them.
        if isinstance(outcome, StoredRecords):
            outcome.base_offset += parse_batch_header(batch).record_count

    monkeypatch.setattr(plain_sends, "append_batch", appended)
    answers = await asyncio.gather(client.send(b"x"), client.send(b"y"))
    assert [answer.code for answer in answers] == [code, code]
    offsets = [answer.ext().get("queueOffset") for answer in answers]
    assert offsets == (["7", "8"] if isinstance(outcome, StoredRecords) else [None, None])


async def test_a_topic_that_demands_schemas_takes_no_messages(
    scene: RocketScene, client: RocketClient, short: list[bool]
) -> None:
    await scene.kafka.create("t", confluent_value_schema_validation="true")
    answer = await client.send(b"x")
    assert (answer.code, short) == (ResponseCode.NO_PERMISSION, [False])
