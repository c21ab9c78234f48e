"""RocketMQ's requests on a whole node: what is answered, what is stored, and what Kafka's clients see of it."""

import asyncio
import struct
import time
import zlib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.broker.rocketmq.scene import RocketClient, RocketScene, rocketmq_client, rocketmq_node, until_asked

from hutong.server.configuration.sections.log import TopicSettings
from hutong.wire.kafka.apis.k01_fetch import PartitionData
from hutong.wire.kafka.batch.records import Record, build_batch, iterate_records
from hutong.wire.rocketmq.codes import (
    COMPRESSED,
    PULL_COMMITS,
    PULL_HAS_EXPRESSION,
    PULL_WAITS,
    RequestCode,
    ResponseCode,
)
from hutong.wire.rocketmq.command import Command
from hutong.wire.rocketmq.messages import (
    BatchedMessage,
    decode_messages,
    decode_properties,
    encode_batch,
    encode_properties,
)


async def test_the_node_is_its_own_name_server(scene: RocketScene, client: RocketClient) -> None:
    missing = await client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="t")
    assert missing.code == ResponseCode.TOPIC_NOT_EXIST
    model = await client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="TBW102")
    assert msgspec.json.decode(model.body)["queueDatas"][0]["perm"] == 7
    await scene.kafka.create("t", partitions=3)
    found = await client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="t")
    route = msgspec.json.decode(found.body)
    assert route["queueDatas"] == [
        {"brokerName": "hutong", "readQueueNums": 3, "writeQueueNums": 3, "perm": 6, "topicSysFlag": 0}
    ]
    assert route["brokerDatas"][0]["brokerAddrs"] == {"0": str(scene.address)}
    # The Go client looks for this text, and finds no route where there are spaces in it.
    assert b'"brokerAddrs":{' in bytes(found.body)


async def test_the_cluster_and_its_brokers_have_routes_of_their_own(scene: RocketScene, client: RocketClient) -> None:
    # By them RocketMQ's proxy finds brokers.
    for name in ("DefaultCluster", "hutong"):
        found = await client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=name)
        (broker,) = msgspec.json.decode(found.body)["brokerDatas"]
        assert (broker["brokerName"], broker["brokerAddrs"]) == ("hutong", {"0": str(scene.address)})
    missing = await client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="hutong-1")
    assert missing.code == ResponseCode.TOPIC_NOT_EXIST


async def test_a_message_is_a_record_and_comes_back_as_it_was(scene: RocketScene, client: RocketClient) -> None:
    properties = {"KEYS": "order-1", "TAGS": "paid", "UNIQ_KEY": "0A", "color": "red"}
    sent = await client.send(b"body", properties=encode_properties(properties), flag=7)
    assert sent.code == ResponseCode.SUCCESS
    assert sent.ext()["queueOffset"] == "0"
    (message,) = await client.messages()
    assert (bytes(message.body), message.flag, message.born_ms) == (b"body", 7, 1_000)
    assert decode_properties(message.properties) == properties
    assert message.queue_offset == 0
    assert sent.ext()["msgId"].endswith(f"{message.physical_offset:016X}")

    data = await scene.kafka.fetch(0)
    (record,) = records_of(data)
    assert (record.key, record.value) == (b"order-1", b"body")
    headers = dict(record.headers)
    assert headers.pop("rocketmq") is not None
    assert headers == {"TAGS": b"paid", "UNIQ_KEY": b"0A", "color": b"red"}


async def test_a_record_of_a_kafka_client_is_a_message(scene: RocketScene, client: RocketClient) -> None:
    await scene.kafka.create("t")
    records = [
        Record(key=b"k 1", value=b"v", headers=[("h", b"x"), ("h", b"y"), ("n", None)]),
        Record(key=b"\xff", value=None, headers=[("bytes", b"\xff"), ("s", b"\x01")]),
        Record(value=b"w", headers=[("rocketmq", b"something else")]),
    ]
    answer = await scene.kafka.produce(build_batch([with_time(record) for record in records]))
    assert answer.error_code == 0, answer.error_message
    first, second, third = await client.messages()
    assert decode_properties(first.properties) == {"h": "x", "n": "", "KEYS": "k 1"}
    assert bytes(second.body) == b""
    assert decode_properties(second.properties) == {"TOMBSTONE": "true"}
    assert decode_properties(third.properties) == {"rocketmq": "something else"}
    assert [each.queue_offset for each in (first, second, third)] == [0, 1, 2]
    assert first.born_ms == first.stored_ms > 0


def with_time(record: Record) -> Record:
    record.timestamp_ms = time.time_ns() // 1_000_000
    return record


def records_of(data: PartitionData) -> list[Record]:
    assert isinstance(data.records, bytes | memoryview)
    return [*iterate_records(data.records)]


async def test_a_pull_begins_in_the_middle_of_a_batch_and_ends_with_its_count(
    scene: RocketScene, client: RocketClient
) -> None:
    await scene.kafka.create("t")
    await scene.kafka.produce(build_batch([with_time(Record(value=b"%d" % number)) for number in range(10)]))
    answer = await client.pull(3, maxMsgNums=4)
    assert [bytes(each.body) for each in decode_messages(answer.body)] == [b"3", b"4", b"5", b"6"]
    assert answer.ext()["nextBeginOffset"] == "7"
    assert (answer.ext()["minOffset"], answer.ext()["maxOffset"]) == ("0", "10")


async def test_several_keys_stay_together(client: RocketClient, scene: RocketScene) -> None:
    await client.send(b"", properties=encode_properties({"KEYS": "a b c"}))
    (message,) = await client.messages()
    assert decode_properties(message.properties) == {"KEYS": "a b c"}
    (record,) = records_of(await scene.kafka.fetch(0))
    assert record.key == b"a"


async def test_the_short_form_and_a_batch(client: RocketClient) -> None:
    body = encode_batch([BatchedMessage(1, b"one", "TAGS\x01x\x02"), BatchedMessage(2, b"two", "")])
    fields = {"a": "p", "b": "t", "c": "TBW102", "d": 1, "e": 0, "f": 0, "g": 1, "h": 0, "i": "", "j": 0, "m": "true"}
    sent = await client.ask_with(RequestCode.SEND_BATCH_MESSAGE, fields, body)
    assert sent.code == ResponseCode.SUCCESS, sent.remark
    assert len(sent.ext()["msgId"].split(",")) == 2
    first, second = await client.messages()
    assert (bytes(first.body), first.flag, first.properties) == (b"one", 1, "TAGS\x01x\x02")
    assert (bytes(second.body), second.flag) == (b"two", 2)


async def test_a_compressed_body_is_stored_plain(client: RocketClient, scene: RocketScene) -> None:
    await client.send(zlib.compress(b"x" * 10_000), sysFlag=COMPRESSED)
    (message,) = await client.messages()
    assert bytes(message.body) == b"x" * 10_000
    assert message.sys_flag & COMPRESSED == 0


@pytest.mark.parametrize(
    ("body", "flags", "text"),
    [
        (b"no zlib", COMPRESSED, "damaged"),
        (zlib.compress(b"x" * 100)[:-5], COMPRESSED, "cut off"),
        (zlib.compress(bytes(5_000_000)), COMPRESSED, "more than 4194304"),
        (b"x", COMPRESSED | 0x400, "no compression 4"),
        (b"x", COMPRESSED | 0x200, "damaged"),
    ],
)
async def test_a_body_that_does_not_unpack_is_refused(client: RocketClient, body: bytes, flags: int, text: str) -> None:
    answer = await client.send(body, sysFlag=flags)
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert text in (answer.remark or "")


async def test_a_pull_waits_for_a_message_and_holds_up_nothing(client: RocketClient, scene: RocketScene) -> None:
    await scene.kafka.create("t")
    waiting = asyncio.create_task(client.pull(sysFlag=PULL_WAITS))
    await client.ask(RequestCode.GET_MAX_OFFSET, topic="t", queueId=0)  # answered while the pull waits
    assert not waiting.done()
    await client.send(b"at last")
    (message,) = decode_messages((await waiting).body)
    assert bytes(message.body) == b"at last"


async def test_a_pull_that_may_not_wait_finds_nothing_and_one_from_nowhere_is_moved(
    client: RocketClient, scene: RocketScene
) -> None:
    await scene.kafka.create("t")
    assert (await client.pull()).code == ResponseCode.PULL_NOT_FOUND
    answer = await client.pull(5)
    assert (answer.code, answer.ext()["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "0")


async def test_tags_are_filtered_by_the_heartbeat_or_by_the_pull(client: RocketClient) -> None:
    for tag in ("a", "b", "c"):
        await client.send(tag.encode(), properties=encode_properties({"TAGS": tag}))
    await client.heartbeat("c1", "g", expression="a || c")
    assert [bytes(each.body) for each in await client.messages()] == [b"a", b"c"]
    found = await client.messages(sysFlag=PULL_HAS_EXPRESSION, subscription="b", expressionType="TAG")
    assert [bytes(each.body) for each in found] == [b"b"]
    nothing = await client.pull(sysFlag=PULL_HAS_EXPRESSION, subscription="z", expressionType="TAG")
    assert (nothing.code, nothing.ext()["nextBeginOffset"]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "3")


async def test_offsets_are_those_of_a_kafka_group(client: RocketClient) -> None:
    await client.send(b"x")
    asked = {"consumerGroup": "g", "topic": "t", "queueId": 0}
    first = await client.ask_with(RequestCode.QUERY_CONSUMER_OFFSET, asked)
    assert first.ext()["offset"] == "0", "as RocketMQ, where the first message is there"
    await client.ask_with(RequestCode.UPDATE_CONSUMER_OFFSET, {**asked, "commitOffset": -1})
    await client.pull(0, sysFlag=PULL_COMMITS, commitOffset=0)
    done = await client.ask_with(RequestCode.UPDATE_CONSUMER_OFFSET, {**asked, "commitOffset": 1})
    assert done.code == ResponseCode.SUCCESS
    assert (await client.ask_with(RequestCode.QUERY_CONSUMER_OFFSET, asked)).ext()["offset"] == "1"
    unknown = await client.ask_with(RequestCode.UPDATE_CONSUMER_OFFSET, {**asked, "topic": "none", "commitOffset": 1})
    assert unknown.code == ResponseCode.TOPIC_NOT_EXIST


async def test_offsets_of_the_log(client: RocketClient) -> None:
    await client.send(b"x")
    (message,) = await client.messages()
    asked = {"topic": "t", "queueId": 0}
    assert (await client.ask_with(RequestCode.GET_MIN_OFFSET, asked)).ext()["offset"] == "0"
    assert (await client.ask_with(RequestCode.GET_MAX_OFFSET, asked)).ext()["offset"] == "1"
    for timestamp, offset in ((-5, "0"), (message.stored_ms, "0"), (message.stored_ms + 1, "1")):
        found = await client.ask_with(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {**asked, "timestamp": timestamp})
        assert found.ext()["offset"] == offset


async def test_members_hear_of_each_other_and_get_a_retry_topic(scene: RocketScene, client: RocketClient) -> None:
    await client.heartbeat("c1", "g")
    async with rocketmq_client(scene.address) as other:
        await other.heartbeat("c2", "g")
        listed = await client.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="g")
        assert msgspec.json.decode(listed.body) == {"consumerIdList": ["c1", "c2"]}
        notices = await until_asked(client, 2)
        assert {notice.ext()["consumerGroup"] for notice in notices} == {"g"}
    await until_asked(client, 3)  # the other one has left with its connection
    await client.ask(RequestCode.UNREGISTER_CLIENT, clientID="c1", producerGroup="", consumerGroup="g")
    gone = await client.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="g")
    assert gone.code == ResponseCode.SYSTEM_ERROR
    retry = await client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="%RETRY%g")
    assert retry.code == ResponseCode.SUCCESS


async def test_gos_heartbeat_has_the_hashes_of_tags_as_texts(client: RocketClient) -> None:
    subscription = {"topic": "t", "subString": "red", "tagsSet": ["red"], "codeSet": ["112785"], "subVersion": 1}
    consumer = {"groupName": "g", "consumeType": "CONSUME_PASSIVELY", "subscriptionDataSet": [subscription]}
    body = msgspec.json.encode({"clientID": "c", "producerDataSet": [], "consumerDataSet": [consumer]})
    answer = await client.ask(RequestCode.HEART_BEAT, body)
    assert answer.code == ResponseCode.SUCCESS, answer.remark


async def test_a_client_cannot_take_another_one_out_of_its_group(scene: RocketScene, client: RocketClient) -> None:
    await client.heartbeat("c1", "g", producers=("p",))
    async with rocketmq_client(scene.address) as other:
        await other.ask(RequestCode.UNREGISTER_CLIENT, clientID="c1", producerGroup="p", consumerGroup="g")
    found = await client.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="g")
    assert msgspec.json.decode(found.body) == {"consumerIdList": ["c1"]}
    assert (await client.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, producerGroup="p")).code == 0
    await client.ask(RequestCode.UNREGISTER_CLIENT, clientID="c1", producerGroup="p", consumerGroup="g")
    assert (await client.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="g")).code != 0


async def test_one_client_at_a_time_consumes_a_queue_in_order(client: RocketClient) -> None:
    queues = [{"topic": "t", "brokerName": "hutong", "queueId": number} for number in (0, 1)]

    async def lock(code: int, client_id: str) -> object:
        body = msgspec.json.encode({"consumerGroup": "g", "clientId": client_id, "mqSet": queues})
        answer = await client.ask(code, body)
        return msgspec.json.decode(answer.body)["lockOKMQSet"] if code == RequestCode.LOCK_BATCH_MQ else answer.code

    assert await lock(RequestCode.LOCK_BATCH_MQ, "c1") == queues
    assert await lock(RequestCode.LOCK_BATCH_MQ, "c2") == []
    assert await lock(RequestCode.UNLOCK_BATCH_MQ, "c1") == 0
    assert await lock(RequestCode.LOCK_BATCH_MQ, "c2") == queues


@pytest.mark.parametrize(
    ("code", "fields", "body", "answered", "text"),
    [
        (RequestCode.PULL_MESSAGE, {}, b"", ResponseCode.SYSTEM_ERROR, "consumerGroup is missing"),
        (RequestCode.GET_MAX_OFFSET, {"topic": "t", "queueId": "0x1"}, b"", ResponseCode.SYSTEM_ERROR, "no number"),
        (RequestCode.GET_MAX_OFFSET, {"topic": "t", "queueId": "9" * 20}, b"", ResponseCode.SYSTEM_ERROR, "no number"),
        (RequestCode.GET_MAX_OFFSET, {"topic": "t", "queueId": "7"}, b"", ResponseCode.SYSTEM_ERROR, "Queue 7"),
        (RequestCode.GET_MAX_OFFSET, {"topic": "a/b", "queueId": "0"}, b"", ResponseCode.TOPIC_NOT_EXIST, "a/b"),
        (
            RequestCode.GET_MAX_OFFSET,
            {"topic": "__transaction_state", "queueId": "0"},
            b"",
            ResponseCode.TOPIC_NOT_EXIST,
            "",
        ),
        (RequestCode.HEART_BEAT, {}, b"{", ResponseCode.SYSTEM_ERROR, "no HeartbeatData"),
        (RequestCode.HEART_BEAT, {}, b"[1]", ResponseCode.SYSTEM_ERROR, "no HeartbeatData"),
        (RequestCode.LOCK_BATCH_MQ, {}, b"\xff", ResponseCode.SYSTEM_ERROR, "no LockBatchRequest"),
        (9_999, {}, b"", 3, "not supported"),
    ],
)
async def test_what_is_wrong_is_answered_and_the_connection_goes_on(
    scene: RocketScene,
    client: RocketClient,
    code: int,
    fields: dict[str, str],
    body: bytes,
    answered: int,
    text: str,
) -> None:
    await scene.kafka.create("t")
    answer = await client.ask_with(code, fields, body)
    assert answer.code == answered
    assert text in (answer.remark or "")
    assert (await client.send(b"still here")).code == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ({"bornTimestamp": 2**63}, ResponseCode.SYSTEM_ERROR, "no room"),
        ({"flag": 2**31}, ResponseCode.SYSTEM_ERROR, "no room"),
        ({"sysFlag": -(2**31) - 1}, ResponseCode.SYSTEM_ERROR, "no room"),
        ({"reconsumeTimes": 2**40}, ResponseCode.SYSTEM_ERROR, "no room"),
        ({"properties": "k\x01" + "v" * 32_767}, ResponseCode.MESSAGE_ILLEGAL, "32767 bytes"),
        ({"topic": "%RETRY%" + "g" * 121}, ResponseCode.TOPIC_NOT_EXIST, "at most 127"),
    ],
    ids=lambda value: str(value)[:30],
)
async def test_what_no_message_has_room_for_is_refused(
    client: RocketClient, fields: dict[str, object], code: int, text: str
) -> None:
    answer = await client.send(b"x", **{"topic": "t", **fields})  # type: ignore[arg-type]
    assert answer.code == code
    assert text in (answer.remark or "")
    assert (await client.send(b"still here")).code == ResponseCode.SUCCESS


async def test_a_damaged_batch_stores_nothing(client: RocketClient, scene: RocketScene) -> None:
    await scene.kafka.create("t")
    body = encode_batch([BatchedMessage(0, b"one", "")])
    for damaged in (body[:-1], b"\0\0\0\1" + body[4:], b""):
        answer = await client.send(damaged, batch="true")
        assert answer.code in (ResponseCode.SYSTEM_ERROR, ResponseCode.MESSAGE_ILLEGAL)
    assert (await client.pull()).code == ResponseCode.PULL_NOT_FOUND


async def test_topics_are_created_only_where_the_node_does_so(tmp_path: Path) -> None:
    topic = TopicSettings(auto_create=False)
    async with rocketmq_node(tmp_path, topic=topic) as scene, rocketmq_client(scene.address) as client:
        assert (await client.send(b"x")).code == ResponseCode.TOPIC_NOT_EXIST
        model = await client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="TBW102")
        assert model.code == ResponseCode.TOPIC_NOT_EXIST


async def test_an_oneway_message_is_stored(client: RocketClient) -> None:
    fields = {"producerGroup": "p", "topic": "t", "queueId": "0", "defaultTopicQueueNums": "1"}
    await client.connection.oneway(Command(RequestCode.SEND_MESSAGE, fields=fields, body=b"once"))
    found = await client.send(b"twice")
    assert found.ext()["queueOffset"] == "1"


async def test_a_selector_is_checked_and_chooses(client: RocketClient) -> None:
    for price in ("5", "15", "25"):
        await client.send(price.encode(), properties=encode_properties({"price": price}))
    fields: dict[str, Any] = {"sysFlag": PULL_HAS_EXPRESSION, "expressionType": "SQL92"}
    found = await client.messages(subscription="price BETWEEN 10 AND 20", **fields)
    assert [bytes(message.body) for message in found] == [b"15"]
    refused = await client.pull(subscription="price >", **fields)
    assert refused.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert (refused.remark or "").startswith("parse the consumer's subscription failed: ")


async def test_a_client_asks_whether_its_selector_is_understood(client: RocketClient) -> None:
    async def asked(expression: str, kind: str | None) -> int:
        subscription = {"topic": "t", "subString": expression, "expressionType": kind}
        body = msgspec.json.encode({"clientId": "c", "group": "g", "subscriptionData": subscription, "namespace": ""})
        return (await client.ask(RequestCode.CHECK_CLIENT_CONFIG, body)).code

    assert await asked("a > 1", "SQL92") == ResponseCode.SUCCESS
    assert await asked("a >", "SQL92") == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert await asked("a || b", "TAG") == ResponseCode.SUCCESS
    assert await asked("x", "JS") == ResponseCode.SYSTEM_ERROR
    assert (await client.ask(RequestCode.CHECK_CLIENT_CONFIG, b"{}")).code == ResponseCode.SUCCESS


async def test_a_client_is_asked_in_the_form_that_it_speaks(scene: RocketScene, client: RocketClient) -> None:
    reader, writer = await asyncio.open_connection(scene.address.host, scene.address.port)

    async def answer() -> dict[str, Any]:
        length, head = struct.unpack(">II", await reader.readexactly(8))
        assert head >> 24 == 0, "it is no JSON"
        found: dict[str, Any] = msgspec.json.decode((await reader.readexactly(length - 4))[: head & 0xFFFFFF])
        return found

    consumers = [{"groupName": "g", "subscriptionDataSet": [{"topic": "t"}]}]
    body = msgspec.json.encode({"clientID": "node", "consumerDataSet": consumers})
    # Numbers and booleans instead of texts, and no mark of the form before the length of the header: as ali-ons.
    head = msgspec.json.encode(
        {"code": 34, "language": "NODE_JS", "opaque": 7, "flag": 0, "extFields": {"n": 1, "b": True}}
    )
    writer.write(struct.pack(">II", 4 + len(head) + len(body), len(head)) + head + body)
    told = [await answer(), await answer()]
    assert {each["code"] for each in told} == {0, RequestCode.NOTIFY_CONSUMER_IDS_CHANGED}
    await client.heartbeat("other", "g")
    assert (await answer())["extFields"] == {"consumerGroup": "g"}
    writer.close()
    await writer.wait_closed()
