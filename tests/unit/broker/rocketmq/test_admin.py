"""What RocketMQ's administrators ask of a whole node: topics, groups, connections, lag, and the node itself."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from tests.support.waiting import turning_until
from tests.unit.broker.rocketmq.scene import RocketClient, RocketScene, rocketmq_client

from hutong import remoting
from hutong.remoting.channels.channel import Channel
from hutong.wire.rocketmq.codes import RequestCode, ResponseCode
from hutong.wire.rocketmq.command import Command
from hutong.wire.rocketmq.messages import encode_properties

TOPIC = {"topic": "t", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6, "topicFilterType": "SINGLE_TAG"}
CHANGING_CODES = (
    25,  # UPDATE_BROKER_CONFIG: wrote files and ran programs (CVE-2023-33246)
    27,  # TRIGGER_DELETE_FILES
    100,  # PUT_KV_CONFIG
    102,  # DELETE_KV_CONFIG
    103,  # REGISTER_BROKER: would send clients to another broker
    205,  # WIPE_WRITE_PERM_OF_BROKER
    301,  # REGISTER_FILTER_SERVER
    302,  # REGISTER_MESSAGE_FILTER_CLASS: ran the Java source that it was sent
    318,  # UPDATE_NAMESRV_CONFIG: wrote files (CVE-2023-37582)
    319,  # GET_NAMESRV_CONFIG
    329,  # DELETE_EXPIRED_COMMITLOG
    355,  # EXPORT_ROCKSDB_CONFIG_TO_JSON: to a folder that the request names
    1009,  # UPDATE_CONTROLLER_CONFIG
    2001,  # UPDATE_COLD_DATA_FLOW_CTR_CONFIG
    3001,  # AUTH_CREATE_USER
)


def of(answer: Command) -> Any:
    """A body's JSON, with keys that are objects made texts."""
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    text = bytes(answer.body).decode()
    keyed = re.sub(r'[{,]\{"topic":"(.*?)","brokerName":"(.*?)","queueId":(\d+)\}:', _as_text, text)
    return msgspec.json.decode(keyed)


def _as_text(found: re.Match[str]) -> str:
    return f'{found[0][0]}"{found[1]}/{found[3]}":'


@asynccontextmanager
async def listening_client(scene: RocketScene, *codes: int) -> AsyncIterator[RocketClient]:
    """A client that notes requests of these codes, and answers them with a body."""
    asked: list[Command] = []

    def answer(command: Command, _channel: Channel) -> Command:
        asked.append(command)
        return Command(0, body=b'{"it":"runs"}')

    processors = dict.fromkeys((*codes, RequestCode.NOTIFY_CONSUMER_IDS_CHANGED), answer)
    async with remoting.connect(str(scene.address), processors) as connection:
        yield RocketClient(connection, asked)


async def test_a_topic_is_created_grows_and_is_deleted(client: RocketClient) -> None:
    assert (await client.ask_with(RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC)).code == ResponseCode.SUCCESS
    assert (await client.ask_with(RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC)).code == ResponseCode.SUCCESS
    grown = {**TOPIC, "readQueueNums": 3, "writeQueueNums": 3, "attributes": "+message.type=NORMAL"}
    assert (await client.ask_with(RequestCode.UPDATE_AND_CREATE_TOPIC, grown)).code == ResponseCode.SUCCESS
    config = of(await client.ask(RequestCode.GET_TOPIC_CONFIG, topic="t"))
    assert (config["topicName"], config["readQueueNums"], config["perm"]) == ("t", 3, 6)
    assert config["attributes"] == {"message.type": "NORMAL"}
    assert of(await client.ask(RequestCode.GET_ALL_TOPIC_CONFIG))["topicConfigTable"].keys() == {"t"}
    assert of(await client.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))["topicList"] == ["t"]
    for code in (RequestCode.DELETE_TOPIC_IN_BROKER, RequestCode.DELETE_TOPIC_IN_NAMESRV):
        assert (await client.ask(code, topic="t")).code == ResponseCode.SUCCESS
    assert (await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, topic="t")).code == ResponseCode.SUCCESS
    assert of(await client.ask(RequestCode.GET_TOPICS_BY_CLUSTER, cluster="any"))["topicList"] == []
    assert (await client.ask(RequestCode.GET_TOPIC_CONFIG, topic="t")).code == ResponseCode.TOPIC_NOT_EXIST


async def test_a_topic_has_a_type_of_messages_for_proxies(client: RocketClient) -> None:
    async def put(attributes: str) -> str:
        put = {**TOPIC, "attributes": attributes}
        assert (await client.ask_with(RequestCode.UPDATE_AND_CREATE_TOPIC, put)).code == ResponseCode.SUCCESS
        found: str = of(await client.ask(RequestCode.GET_TOPIC_CONFIG, topic="t"))["attributes"]["message.type"]
        return found

    assert await put("+message.type=TRANSACTION") == "TRANSACTION"  # created with it
    assert await put("") == "TRANSACTION"
    assert await put("+message.type=FIFO") == "FIFO"
    assert await put("-message.type") == "MIXED"
    assert await put("-message.type") == "MIXED"


async def test_a_type_that_there_is_not_changes_nothing(client: RocketClient) -> None:
    await client.ask_with(RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC)
    asked = {**TOPIC, "readQueueNums": 9, "writeQueueNums": 9, "attributes": "+message.type=LOUD"}
    answer = await client.ask_with(RequestCode.UPDATE_AND_CREATE_TOPIC, asked)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "must be one of NORMAL, FIFO" in (answer.remark or "")
    config = of(await client.ask(RequestCode.GET_TOPIC_CONFIG, topic="t"))
    assert (config["readQueueNums"], config["attributes"]) == (TOPIC["readQueueNums"], {"message.type": "MIXED"})


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"readQueueNums": 1}, "as many queues to read"),
        ({"readQueueNums": 1, "writeQueueNums": 1}, "never shrinks"),
        ({"readQueueNums": 0, "writeQueueNums": 0}, "of 0 queues"),
        ({"perm": 4}, "ACLs say"),
        ({"order": "true"}, "in order anyway"),
        ({"attributes": "+queue.type=BatchCQ"}, "no attributes but"),
        ({"attributes": "message.type=FIFO"}, "no attributes but"),
        ({"topic": "a/../b"}, "can be named"),
    ],
)
async def test_a_topic_that_cannot_be_is_refused_with_its_reason(
    client: RocketClient, changed: dict[str, object], text: str
) -> None:
    await client.ask_with(RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC)
    answer = await client.ask_with(RequestCode.UPDATE_AND_CREATE_TOPIC, {**TOPIC, **changed})
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert text in (answer.remark or "")


@pytest.mark.parametrize("code", CHANGING_CODES)
async def test_what_would_change_a_nodes_settings_or_files_has_no_handler(client: RocketClient, code: int) -> None:
    fields = {"filterServerAddr": "$(touch /tmp/x)", "configStorePath": "/etc/passwd", "namespace": "n", "key": "k"}
    answer = await client.ask_with(code, fields, b"rocketmqHome=-c $@|sh . echo id\nfilterServerNums=1\n")
    assert (answer.code, answer.remark) == (3, f"request type {code} not supported")


async def test_the_node_tells_of_itself(client: RocketClient) -> None:
    await client.send(b"x")
    cluster = of(await client.ask(RequestCode.GET_BROKER_CLUSTER_INFO))
    assert cluster["clusterAddrTable"] == {"DefaultCluster": ["hutong"]}
    table = of(await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO))["table"]
    assert (table["brokerActive"], table["msgPutTotalTodayNow"], table["topicCount"]) == ("true", "1", "1")
    assert table["runtime"].startswith("[ 0 days, 0 hours, ")
    config = bytes((await client.ask(RequestCode.GET_BROKER_CONFIG)).body).decode()
    assert "brokerName=hutong\n" in config


async def test_queues_and_lag_of_a_group(client: RocketClient) -> None:
    await client.send(b"x")
    await client.send(b"y")
    asked = {"consumerGroup": "g", "topic": "t", "queueId": 0, "commitOffset": 1}
    await client.ask_with(RequestCode.UPDATE_CONSUMER_OFFSET, asked)
    first, second = await client.messages()
    stats = of(await client.ask(RequestCode.GET_TOPIC_STATS_INFO, topic="t"))["offsetTable"]
    assert stats == {"t/0": {"minOffset": 0, "maxOffset": 2, "lastUpdateTimestamp": second.stored_ms}}
    lag = of(await client.ask(RequestCode.GET_CONSUME_STATS, consumerGroup="g"))["offsetTable"]
    assert lag == {
        "t/0": {"brokerOffset": 2, "consumerOffset": 1, "pullOffset": 1, "lastTimestamp": first.stored_ms},
    }
    assert of(await client.ask(RequestCode.GET_CONSUME_STATS, consumerGroup="g", topic="t"))["offsetTable"] == lag
    assert of(await client.ask(RequestCode.GET_CONSUME_STATS, consumerGroup="other"))["offsetTable"] == {}
    await client.heartbeat("c1", "h")
    assert of(await client.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, topic="t"))["groupList"] == ["g", "h"]


async def test_connected_clients(scene: RocketScene, client: RocketClient) -> None:
    offline = await client.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup="g")
    assert offline.code == ResponseCode.CONSUMER_NOT_ONLINE
    none = await client.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, producerGroup="p")
    assert (none.code, none.remark) == (ResponseCode.SYSTEM_ERROR, "the producer group[p] not exist")
    async with listening_client(scene, RequestCode.GET_CONSUMER_RUNNING_INFO) as consumer:
        await consumer.heartbeat("c1", "g", producers=("p",))
        found = of(await client.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup="g"))
        (connection,) = found["connectionSet"]
        assert (connection["clientId"], connection["language"]) == ("c1", "PYTHON")
        assert connection["clientAddr"].startswith("127.0.0.1:")
        assert found["subscriptionTable"]["t"]["subString"] == "*"
        producers = of(await client.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, producerGroup="p"))
        assert producers["connectionSet"] == [connection]
        (listed,) = of(await client.ask(RequestCode.GET_ALL_PRODUCER_INFO))["data"]["p"]
        assert listed["remoteIP"] == f"/{connection['clientAddr']}"
        fields = {"consumerGroup": "g", "clientId": "c1", "jstackEnable": "false"}
        assert of(await client.ask_with(RequestCode.GET_CONSUMER_RUNNING_INFO, fields)) == {"it": "runs"}
        gone = await client.ask_with(RequestCode.GET_CONSUMER_RUNNING_INFO, {**fields, "clientId": "c2"})
        assert gone.remark == "The Consumer <g> <c2> not online"


async def test_offsets_are_reset_and_running_clients_are_told(scene: RocketScene, client: RocketClient) -> None:
    for body in (b"a", b"b", b"c"):
        await client.send(body)
    messages = await client.messages()
    asked = {"group": "g", "topic": "t", "timestamp": 0, "isForce": "true", "queueId": -1, "offset": -1}
    absent = await client.ask_with(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, asked)
    assert (absent.code, absent.remark) == (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "Group g does not exist")
    async with listening_client(scene, RequestCode.RESET_CONSUMER_CLIENT_OFFSET) as consumer:
        await consumer.heartbeat("c1", "g")
        for timestamp, offset in ((0, 0), (messages[0].stored_ms, 0), (-1, 3), (1 << 62, 3)):
            asked["timestamp"] = timestamp
            reset = of(await client.ask_with(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, asked))
            assert reset == {"offsetTable": {"t/0": offset}}
            stored = await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, consumerGroup="g", topic="t", queueId=0)
            assert stored.ext()["offset"] == str(offset)
        one = {**asked, "queueId": 0, "offset": 2, "isForce": "false"}
        assert of(await client.ask_with(222, one)) == {"offsetTable": {"t/0": 2}}
        assert of(await client.ask_with(222, {**one, "offset": 3})) == {"offsetTable": {"t/0": 2}}, "it is not forced"
        assert (await client.ask_with(222, {**one, "queueId": 7})).code == ResponseCode.SYSTEM_ERROR
        resets = [each for each in consumer.asked if each.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET]
        await turning_until(lambda: sum(each.code == 220 for each in consumer.asked) >= 6)
        resets = [each for each in consumer.asked if each.code == 220]
        assert resets[0].ext()["group"] == "g"
        assert bytes(resets[0].body) == b'{"offsetTable":{{"topic":"t","brokerName":"hutong","queueId":0}:0}}'


async def test_settings_of_a_group_are_kept_and_act(scene: RocketScene, client: RocketClient) -> None:
    await client.send(b"x")
    body = {"groupName": "g", "consumeEnable": False, "retryMaxTimes": 1, "consumeBroadcastEnable": False}
    put = await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, msgspec.json.encode(body))
    assert put.code == ResponseCode.SUCCESS, put.remark
    shown = of(await client.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, group="g"))
    assert {name: shown[name] for name in body} == body
    everything = await client.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    assert everything.ext()["totalGroupNum"] == "1"
    assert of(everything)["subscriptionGroupTable"].keys() == {"g"}
    refused = await client.pull()
    assert (refused.code, refused.remark) == (ResponseCode.NO_PERMISSION, "subscription group no permission, g")

    await client.ask(
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, msgspec.json.encode({**body, "consumeEnable": True})
    )
    async with rocketmq_client(scene.address) as reader:
        await reader.heartbeat("c1", "g", messageModel="BROADCASTING")
        refused = await reader.pull()
        assert refused.remark == "the consumer group[g] can not consume by broadcast way"

    removed = await client.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, groupName="g", cleanOffset="true")
    assert removed.code == ResponseCode.SUCCESS, removed.remark
    assert of(await client.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG))["subscriptionGroupTable"] == {}
    assert len(await client.messages()) == 1


async def test_a_deleted_group_forgets_its_offsets_where_that_is_asked_for(client: RocketClient) -> None:
    await client.send(b"x")
    asked = {"consumerGroup": "g", "topic": "t", "queueId": 0}
    await client.ask_with(RequestCode.UPDATE_CONSUMER_OFFSET, {**asked, "commitOffset": 1})
    await client.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, groupName="g")
    assert (await client.ask_with(RequestCode.QUERY_CONSUMER_OFFSET, asked)).ext()["offset"] == "1"
    await client.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, groupName="g", cleanOffset="true")
    assert (await client.ask_with(RequestCode.QUERY_CONSUMER_OFFSET, asked)).ext()["offset"] == "0"


async def test_a_group_says_how_often_a_message_comes_again(client: RocketClient) -> None:
    await client.send(b"x", properties=encode_properties({"KEYS": "k"}))
    (message,) = await client.messages()
    back = {"group": "g", "offset": message.physical_offset, "originTopic": "t", "delayLevel": 0}

    async def put(**settings: int) -> None:
        body = msgspec.json.encode({"groupName": "g", **settings})
        assert (await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body)).code == ResponseCode.SUCCESS

    await put(retryMaxTimes=0)
    assert (await client.ask_with(RequestCode.CONSUMER_SEND_MSG_BACK, back)).code == ResponseCode.SUCCESS
    (letter,) = await client.messages(topic="%DLQ%g")
    assert bytes(letter.body) == b"x"
    # One that its client sends again by itself, since the node has not taken it back.
    await client.send(b"y", topic="%RETRY%g", reconsumeTimes=1)
    assert [bytes(each.body) for each in await client.messages(topic="%DLQ%g")] == [b"x", b"y"]
    await put(retryQueueNums=0)
    assert (await client.ask_with(RequestCode.CONSUMER_SEND_MSG_BACK, back)).code == ResponseCode.SUCCESS
    topics = of(await client.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))["topicList"]
    assert topics == ["%DLQ%g", "t"], "nothing waits to come again"


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"groupName": ""}, ResponseCode.INVALID_PARAMETER),
        ({"groupName": "g" * 200}, ResponseCode.INVALID_PARAMETER),
        ({"groupRetryPolicy": {"type": "EXPONENTIAL"}}, ResponseCode.INVALID_PARAMETER),
        ({"retryMaxTimes": -1}, ResponseCode.SYSTEM_ERROR),
        ({"retryQueueNums": 65}, ResponseCode.SYSTEM_ERROR),
        ({"retryQueueNums": "many"}, ResponseCode.SYSTEM_ERROR),
    ],
)
async def test_settings_that_cannot_hold_are_refused(
    client: RocketClient, changed: dict[str, object], code: ResponseCode
) -> None:
    body = msgspec.json.encode({"groupName": "g", **changed})
    answer = await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body)
    assert answer.code == code
    assert answer.remark
