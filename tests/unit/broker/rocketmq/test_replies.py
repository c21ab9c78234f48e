"""Requests that are messages, and their replies."""

from collections.abc import Callable

import pytest
from tests.unit.broker.rocketmq.scene import RocketClient, RocketScene, rocketmq_client

from hutong import remoting
from hutong.remoting.channels.answers import Answer
from hutong.remoting.channels.channel import Channel
from hutong.wire.rocketmq.codes import RequestCode, ResponseCode
from hutong.wire.rocketmq.command import Command
from hutong.wire.rocketmq.messages import decode_properties, encode_properties

TOPIC = "DefaultCluster_REPLY_TOPIC"

NAMES = ("producerGroup", "topic", "queueId", "sysFlag", "bornTimestamp", "flag", "properties")
LETTERS = dict(zip(NAMES, "abefghi", strict=True))


async def reply(
    client: RocketClient, to: str, *, code: int = RequestCode.SEND_REPLY_MESSAGE, **more: object
) -> Command:
    properties = {"MSG_TYPE": "reply", "CORRELATION_ID": "c-1", "REPLY_TO_CLIENT": to, "TTL": "3000"}
    named = {
        "producerGroup": "answering", "topic": TOPIC, "queueId": 0, "sysFlag": 0, "bornTimestamp": 1_000, "flag": 3,
        "properties": encode_properties(properties), **more,
    }  # fmt: skip
    if code == RequestCode.SEND_REPLY_MESSAGE_V2:
        named = {letter: named[name] for name, letter in LETTERS.items()}
    return await client.ask_with(code, named, b"answer")


@pytest.mark.parametrize("code", [RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2])
async def test_a_reply_is_pushed_to_the_client_that_asked_and_stored(
    client: RocketClient, scene: RocketScene, code: int
) -> None:
    pushed: list[Command] = []

    def take(command: Command, _channel: Channel) -> Answer:
        pushed.append(command)
        return Command(ResponseCode.SUCCESS)

    processors: dict[int, Callable[[Command, Channel], Answer]] = {RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: take}
    async with remoting.connect(str(scene.address), processors) as connection:
        asking = RocketClient(connection, pushed)
        await asking.heartbeat("asking", producers=("p",))
        answer = await reply(client, "asking", code=code)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
    (push,) = pushed
    fields = push.ext()
    assert bytes(push.body) == b"answer"
    assert (fields["topic"], fields["producerGroup"], fields["flag"]) == (TOPIC, "answering", "3")
    properties = decode_properties(fields["properties"])
    assert (properties["CORRELATION_ID"], properties["MSG_TYPE"]) == ("c-1", "reply")
    assert int(properties["PUSH_REPLY_TIME"]) == int(fields["storeTimestamp"])
    assert fields["storeHost"] == str(scene.address)
    (stored,) = await client.messages(topic=TOPIC)
    assert bytes(stored.body) == b"answer"


async def test_who_replies_hears_that_nobody_has_it(client: RocketClient, scene: RocketScene) -> None:
    assert (await reply(client, "nobody")).code == ResponseCode.SYSTEM_ERROR
    # It has no processor for a push, and so it answers with a failure.
    async with rocketmq_client(scene.address) as deaf:
        await deaf.heartbeat("deaf", producers=("p",))
        answer = await reply(client, "deaf")
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "push reply message to deaf fail.")
    assert (await reply(client, "x", batch="true")).code == ResponseCode.MESSAGE_ILLEGAL
    assert (await reply(client, "x", sysFlag="y")).code == ResponseCode.SYSTEM_ERROR


async def test_a_request_names_the_cluster_by_which_it_is_answered(client: RocketClient) -> None:
    given = {"CORRELATION_ID": "c-1", "REPLY_TO_CLIENT": "me"}
    # Java 4.9 leaves out the last mark.
    await client.send(b"ask", properties=encode_properties(given)[:-1])
    await client.send(b"other")
    ask, other = await client.messages()
    assert decode_properties(ask.properties) == {**given, "CLUSTER": "DefaultCluster"}
    assert decode_properties(other.properties) == {}
    assert (await client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=TOPIC)).code == ResponseCode.SUCCESS
