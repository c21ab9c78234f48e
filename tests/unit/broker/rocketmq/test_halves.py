"""Transactional messages: half messages, their ends, and checks of those that have none."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.waiting import turning_until
from tests.unit.broker.rocketmq.scene import (
    RocketClient,
    RocketScene,
    offsets_of,
    rocketmq_client,
    rocketmq_node,
    until_asked,
)
from tests.unit.broker.wire_node import batch_of

from hutong.broker.rocketmq.halves import driver
from hutong.broker.rocketmq.records.positions import log_and_offset
from hutong.remoting.channels.hooks import AclHook
from hutong.server.configuration.sections.rocketmq import RocketMqSettings
from hutong.server.configuration.settings import Address
from hutong.wire.kafka.apis.k20_delete_topics import DeleteTopicsRequest
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.rocketmq.codes import PULL_WAITS, RequestCode, ResponseCode
from hutong.wire.rocketmq.command import Command
from hutong.wire.rocketmq.messages import StoredMessage, decode_messages, decode_properties, encode_properties

COMMIT, ROLL_BACK, UNKNOWN = 8, 12, 0
HALVES = "RMQ_SYS_TRANS_HALF_TOPIC"
DECISIONS = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
ASIDE = "TRANS_CHECK_MAX_TIME_TOPIC"
QUICK = RocketMqSettings(
    listen=Address("127.0.0.1", 0),
    transaction_timeout_ms=1,
    transaction_check_interval_ms=20,
    transaction_checks_max=2,
)
ONE_HOUR = replace(QUICK, transaction_timeout_ms=3_600_000)


async def prepare(client: RocketClient, body: bytes, key: str = "id-1", topic: str = "t", **more: str) -> Command:
    properties = {"TRAN_MSG": "true", "PGROUP": "p", "UNIQ_KEY": key, "TAGS": "x", **more}
    sent = await client.send(body, topic, sysFlag=4, properties=encode_properties(properties))
    assert sent.code == ResponseCode.SUCCESS, sent.remark
    return sent


async def end(client: RocketClient, sent: Command, how: int, **changed: object) -> Command:
    """END_TRANSACTION as Java builds it of the answer to a send; an answer is awaited, where Java awaits none."""
    fields = sent.ext()
    given = {
        "producerGroup": "p", "tranStateTableOffset": fields["queueOffset"],
        "commitLogOffset": int(fields["msgId"][-16:], 16), "commitOrRollback": how, "fromTransactionCheck": "false",
        "msgId": fields["transactionId"], "transactionId": fields["transactionId"], **changed,
    }  # fmt: skip
    return await client.ask_with(RequestCode.END_TRANSACTION, given)


async def end_checked(client: RocketClient, check: Command, how: int) -> Command:
    """END_TRANSACTION as Java builds it of a check."""
    fields = check.ext()
    return await client.ask_with(
        RequestCode.END_TRANSACTION,
        {
            "producerGroup": "p", "tranStateTableOffset": fields["tranStateTableOffset"],
            "commitLogOffset": fields["commitLogOffset"], "commitOrRollback": how, "fromTransactionCheck": "true",
            "msgId": fields["msgId"], "transactionId": fields["transactionId"],
        },
    )  # fmt: skip


async def waited(client: RocketClient, topic: str = "t", offset: int = 0) -> StoredMessage:
    (message,) = decode_messages((await client.pull(offset, topic, sysFlag=PULL_WAITS)).body)
    return message


async def test_a_half_message_is_seen_once_it_is_committed(client: RocketClient) -> None:
    await client.send(b"other")
    sent = await prepare(client, b"half", KEYS="k")
    assert sent.ext()["transactionId"] == "id-1"
    assert [bytes(each.body) for each in await client.messages()] == [b"other"]
    assert (await end(client, sent, COMMIT)).code == ResponseCode.SUCCESS
    message = await waited(client, offset=1)
    assert bytes(message.body) == b"half"
    assert decode_properties(message.properties) == {
        "PGROUP": "p", "UNIQ_KEY": "id-1", "TAGS": "x", "KEYS": "k", "__transactionId__": "id-1",
    }  # fmt: skip
    half_at = int(sent.ext()["msgId"][-16:], 16)
    assert (message.sys_flag, message.prepared_offset, message.queue_id) == (8, half_at, 0)


async def test_a_message_that_is_rolled_back_is_never_seen(client: RocketClient) -> None:
    sent = await prepare(client, b"half")
    assert (await end(client, sent, ROLL_BACK)).code == ResponseCode.SUCCESS
    assert (await end(client, sent, COMMIT)).code == ResponseCode.SYSTEM_ERROR, "it is decided"
    await client.send(b"other")
    assert [bytes(each.body) for each in await client.messages()] == [b"other"]


async def test_a_message_is_committed_once(client: RocketClient) -> None:
    sent = await prepare(client, b"half")
    assert (await end(client, sent, UNKNOWN)).code == ResponseCode.SUCCESS, "no decision yet"
    assert (await end(client, sent, COMMIT)).code == ResponseCode.SUCCESS
    assert (await end(client, sent, COMMIT)).code == ResponseCode.SYSTEM_ERROR
    assert len(await client.messages()) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"producerGroup": "other"},
        {"transactionId": "id-2", "msgId": "id-2"},
        {"tranStateTableOffset": 7},
        {"commitLogOffset": 0},
        {"commitLogOffset": -1},
        {"commitLogOffset": (1 << 63) - 1, "tranStateTableOffset": (1 << 40) - 1},
        {"commitOrRollback": 4},
        {"commitOrRollback": "x"},
    ],
)
async def test_a_forged_end_ends_nothing(client: RocketClient, changed: dict[str, object]) -> None:
    sent = await prepare(client, b"half")
    assert (await end(client, sent, COMMIT, **changed)).code == ResponseCode.SYSTEM_ERROR
    await client.send(b"other")
    assert [bytes(each.body) for each in await client.messages()] == [b"other"]
    assert (await end(client, sent, COMMIT)).code == ResponseCode.SUCCESS


async def test_another_connection_of_the_same_address_may_end_it(client: RocketClient, scene: RocketScene) -> None:
    sent = await prepare(client, b"half")
    async with rocketmq_client(scene.address) as other:
        assert (await end(other, sent, COMMIT, msgId="x", transactionId="x")).code == ResponseCode.SYSTEM_ERROR
        assert (await end(other, sent, COMMIT, producerGroup="q")).code == ResponseCode.SYSTEM_ERROR
        assert (await end(other, sent, COMMIT)).code == ResponseCode.SUCCESS
    assert bytes((await waited(client)).body) == b"half"


@pytest.mark.usefixtures("elsewhere")
async def test_another_client_ends_it_only_as_a_producer_of_the_group(client: RocketClient, scene: RocketScene) -> None:
    sent = await prepare(client, b"half")
    async with rocketmq_client(scene.address) as other:
        assert (await end(other, sent, COMMIT)).code == ResponseCode.SYSTEM_ERROR
        await other.heartbeat("c2", producers=("q",))
        assert (await end(other, sent, COMMIT)).code == ResponseCode.SYSTEM_ERROR
        await other.heartbeat("c2", producers=("p",))
        assert (await end(other, sent, COMMIT)).code == ResponseCode.SUCCESS
    assert bytes((await waited(client)).body) == b"half"


async def test_the_topics_of_halves_are_the_nodes_own(client: RocketClient, scene: RocketScene) -> None:
    await prepare(client, b"half")
    assert (await client.send(b"x", HALVES)).code == ResponseCode.TOPIC_NOT_EXIST
    assert (await client.pull(0, HALVES)).code == ResponseCode.TOPIC_NOT_EXIST
    assert (await client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=HALVES)).code == ResponseCode.TOPIC_NOT_EXIST
    for topic in (HALVES, DECISIONS):
        assert (await scene.kafka.fetch(0, topic)).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        batch = batch_of(b"x", timestamp_ms=1)
        assert (await scene.kafka.produce(batch, topic)).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        response = await scene.kafka.ask(DeleteTopicsRequest(topic_names=[topic]), 5)
        assert response.responses[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("more", [{"DELAY": "3"}, {"filler": "x" * 32_730}])
async def test_a_half_message_that_cannot_be_one_is_refused(client: RocketClient, more: dict[str, str]) -> None:
    properties = encode_properties({"TRAN_MSG": "true", "PGROUP": "p", **more})
    assert (await client.send(b"x", sysFlag=4, properties=properties)).code == ResponseCode.MESSAGE_ILLEGAL


async def test_the_producer_is_asked_and_its_answer_counts(tmp_path: Path) -> None:
    async with rocketmq_node(tmp_path, QUICK) as scene, rocketmq_client(scene.address) as client:
        await client.heartbeat("c1", producers=("p",))
        await scene.kafka.create("t")
        sent = await prepare(client, b"half", KEYS="k")
        (check, *_) = await until_asked(client, 1)
        (message,) = decode_messages(check.body)
        assert check.code == RequestCode.CHECK_TRANSACTION_STATE
        assert (message.topic, message.queue_id, bytes(message.body)) == ("t", 0, b"half")
        properties = decode_properties(message.properties)
        assert (properties["PGROUP"], properties["UNIQ_KEY"], properties["KEYS"]) == ("p", "id-1", "k")
        assert (properties["TRAN_MSG"], properties["TRANSACTION_CHECK_TIMES"]) == ("true", "1")
        fields = check.ext()
        assert fields["offsetMsgId"] == sent.ext()["msgId"]
        assert message.physical_offset == int(fields["commitLogOffset"])
        assert log_and_offset(message.physical_offset)[1] == int(fields["tranStateTableOffset"])
        assert (await end_checked(client, check, COMMIT)).code == ResponseCode.SUCCESS
        assert bytes((await waited(client)).body) == b"half"


async def test_a_message_that_nobody_decides_is_put_aside(tmp_path: Path) -> None:
    async with rocketmq_node(tmp_path, QUICK) as scene, rocketmq_client(scene.address) as client:
        await client.heartbeat("c1", producers=("p",))
        await scene.kafka.create("t")
        await scene.kafka.create(ASIDE)
        sent = await prepare(client, b"half")
        message = await waited(client, ASIDE)
        assert bytes(message.body) == b"half"
        properties = decode_properties(message.properties)
        assert (properties["REAL_TOPIC"], properties["REAL_QID"]) == ("t", "0")
        assert "HALF_USER" not in properties
        assert len(client.asked) == 2
        assert (await end(client, sent, COMMIT)).code == ResponseCode.SYSTEM_ERROR


async def test_a_producer_of_another_user_or_group_is_not_asked(tmp_path: Path) -> None:
    async with rocketmq_node(tmp_path, QUICK) as scene, rocketmq_client(scene.address) as client:
        await client.heartbeat("c1", producers=("q",))
        await scene.kafka.create(ASIDE)
        await prepare(client, b"half")
        assert bytes((await waited(client, ASIDE)).body) == b"half"
        assert not client.asked


async def test_the_message_says_how_long_nobody_is_asked(tmp_path: Path) -> None:
    async with rocketmq_node(tmp_path, ONE_HOUR) as scene, rocketmq_client(scene.address) as client:
        await client.heartbeat("c1", producers=("p",))
        await prepare(client, b"in an hour", "id-1")
        await prepare(client, b"at once", "id-2", CHECK_IMMUNITY_TIME_IN_SECONDS="0")
        (check, *_) = await until_asked(client, 1)
        assert check.ext()["transactionId"] == "id-2"


async def start_of(scene: RocketScene, topic: str) -> int:
    start_offset, _ = await offsets_of(scene, topic, 0)
    return start_offset


async def test_what_is_undecided_survives_a_restart_and_what_is_decided_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "TRIM_INTERVAL_MS", 1)
    async with rocketmq_node(tmp_path, ONE_HOUR) as scene, rocketmq_client(scene.address) as client:
        for number in range(4):
            sent = await prepare(client, b"%d" % number, f"id-{number}")
            if number in (0, 3):
                assert (await end(client, sent, COMMIT if number else ROLL_BACK)).code == ResponseCode.SUCCESS
    patient = replace(QUICK, transaction_checks_max=1_000)
    async with rocketmq_node(tmp_path, patient) as scene, rocketmq_client(scene.address) as client:
        await client.heartbeat("c1", producers=("p",))

        def asked() -> dict[str, Command]:
            return {each.ext()["transactionId"]: each for each in client.asked}

        await turning_until(lambda: len(asked()) == 2)
        for check in asked().values():
            assert (await end_checked(client, check, COMMIT)).code == ResponseCode.SUCCESS
        bodies = [bytes(each.body) for each in await client.messages()]
        assert (bodies[0], sorted(bodies)) == (b"3", [b"1", b"2", b"3"])
        # Both logs begin behind what is decided.
        while await start_of(scene, HALVES) < 4 or await start_of(scene, DECISIONS) < 4 + len(client.asked):
            pass


async def test_a_deleted_topic_holds_up_nothing(client: RocketClient, scene: RocketScene) -> None:
    await scene.kafka.create("gone")
    sent = await prepare(client, b"half", topic="gone")
    await scene.kafka.delete("gone")
    assert (await end(client, sent, COMMIT)).code == ResponseCode.SUCCESS


async def test_a_topic_of_another_partition_group_is_committed_to_as_well(
    client: RocketClient, scene: RocketScene
) -> None:
    await scene.kafka.create("kept", retention_ms="-1")
    sent = await prepare(client, b"half", topic="kept")
    assert (await end(client, sent, COMMIT)).code == ResponseCode.SUCCESS
    assert bytes((await waited(client, "kept")).body) == b"half"


async def test_only_the_user_who_began_a_transaction_is_asked_and_may_end_it(tmp_path: Path) -> None:
    keys = tmp_path / "access_keys"
    keys.write_text("alice = alicesecret\nbob = bobssecret\n")
    keys.chmod(0o600)
    section = replace(QUICK, access_keys=keys, transaction_checks_max=1_000)
    async with (
        rocketmq_node(tmp_path / "data", section) as scene,
        rocketmq_client(scene.address) as alice,
        rocketmq_client(scene.address) as bob,
    ):
        alice.connection.remoting.add_hook(AclHook("alice", "alicesecret"))
        bob.connection.remoting.add_hook(AclHook("bob", "bobssecret"))
        for client_id, client in (("a", alice), ("b", bob)):
            await client.heartbeat(client_id, producers=("p",))
        sent = await prepare(alice, b"half")
        await until_asked(alice, 3)
        assert not bob.asked
        assert (await end(bob, sent, COMMIT)).code == ResponseCode.SYSTEM_ERROR
        assert (await end(alice, sent, COMMIT)).code == ResponseCode.SUCCESS
