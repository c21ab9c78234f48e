"""Signed requests on a whole node: who they are from, what ACLs let them do, and what is refused."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.unit.broker.rocketmq.scene import RocketClient, RocketScene, rocketmq_node

from hutong import remoting
from hutong.foundation.errors import UsageError
from hutong.remoting.channels.hooks import AclHook
from hutong.security.acls import Operation, ResourceType
from hutong.server.configuration.sections.rocketmq import RocketMqSettings
from hutong.server.configuration.sections.security import SecuritySettings
from hutong.server.configuration.settings import Address
from hutong.server.rocketmq.access_key_file import AccessKeyFile
from hutong.wire.kafka.apis.k30_create_acls import AclCreation, CreateAclsRequest
from hutong.wire.rocketmq.codes import RequestCode, ResponseCode

LITERAL, DENY, ALLOW = 3, 2, 3
KEYS = "root = rootsecret\nalice = alicesecret\nbob = bobssecret\n"
ALICE, ROOT = ("alice", "alicesecret"), ("root", "rootsecret")


def key_file(folder: Path, text: str = KEYS, mode: int = 0o600) -> Path:
    path = folder / "access_keys"
    path.write_text(text)
    path.chmod(mode)
    return path


@asynccontextmanager
async def guarded_node(folder: Path, *super_users: str, authorize: bool = True) -> AsyncIterator[RocketScene]:
    section = RocketMqSettings(listen=Address("127.0.0.1", 0), access_keys=key_file(folder))
    security = SecuritySettings(authorize=authorize, super_users=super_users)
    async with rocketmq_node(folder / "data", section, security=security) as scene:
        yield scene


@asynccontextmanager
async def signing_client(scene: RocketScene, *key: str) -> AsyncIterator[RocketClient]:
    async with remoting.connect(str(scene.address), {}) as connection:
        if key:
            connection.remoting.add_hook(AclHook(*key))
        yield RocketClient(connection, [])


async def allow(
    scene: RocketScene, principal: str, *rules: tuple[Operation, ResourceType, str], permission: int = ALLOW
) -> None:
    creations = [
        AclCreation(kind, name, LITERAL, principal, "*", operation, permission) for operation, kind, name in rules
    ]
    answer = await scene.kafka.ask(CreateAclsRequest(creations), 3)
    assert [each.error_code for each in answer.results] == [0] * len(rules)


async def codes_of_sends(client: RocketClient) -> set[int]:
    """The codes of the answers to messages that are sent together."""
    return {answer.code for answer in await asyncio.gather(*[client.send(b"x") for _ in range(8)])}


async def test_a_signed_client_may_do_what_acls_allow_to_its_user(tmp_path: Path) -> None:
    async with (
        guarded_node(tmp_path, "User:ANONYMOUS", "User:root") as scene,
        signing_client(scene, *ALICE) as alice,
        signing_client(scene, *ROOT) as root,
    ):
        await scene.kafka.create("t")
        assert (await alice.send(b"x")).code == ResponseCode.NO_PERMISSION
        assert (await root.send(b"x")).code == ResponseCode.SUCCESS
        await allow(scene, "User:alice", (Operation.WRITE, ResourceType.TOPIC, "t"))
        assert (await alice.send(b"y")).code == ResponseCode.SUCCESS
        assert (await alice.pull()).code == ResponseCode.NO_PERMISSION
        await allow(
            scene,
            "User:alice",
            (Operation.READ, ResourceType.TOPIC, "t"),
            (Operation.READ, ResourceType.GROUP, "g"),
        )
        assert [bytes(each.body) for each in await alice.messages()] == [b"x", b"y"]
        missing = {"topic": "u", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}
        for code, fields in (
            (RequestCode.UPDATE_AND_CREATE_TOPIC, missing),
            (RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"}),
            (RequestCode.GET_BROKER_RUNTIME_INFO, {}),
            (RequestCode.GET_BROKER_CONFIG, {}),
            (RequestCode.GET_ALL_PRODUCER_INFO, {}),
            (RequestCode.GET_CONSUME_STATS, {"consumerGroup": "h"}),
            (RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, {"group": "h", "topic": "t", "timestamp": 0}),
            (RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "g"}),
        ):
            assert (await alice.ask_with(code, fields)).code == ResponseCode.NO_PERMISSION, code
        assert (await root.ask_with(RequestCode.UPDATE_AND_CREATE_TOPIC, missing)).code == ResponseCode.SUCCESS
        topics = await alice.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        assert b'"topicList":["t"]' in bytes(topics.body), "of others it does not hear"


async def test_who_does_not_sign_is_anonymous(tmp_path: Path) -> None:
    async with guarded_node(tmp_path, "User:root") as scene, signing_client(scene) as anybody:
        async with signing_client(scene, *ROOT) as root:
            assert (await root.send(b"x")).code == ResponseCode.SUCCESS
        assert (await anybody.send(b"x")).code == ResponseCode.NO_PERMISSION
        assert (await anybody.pull()).code == ResponseCode.NO_PERMISSION
        # A key that is named and not proved gives nothing.
        named = await anybody.pull(AccessKey="root")
        assert named.code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize("key", [("alice", "anothersecret"), ("mallory", "alicesecret"), ("", "alicesecret")])
@pytest.mark.parametrize("authorize", [True, False])
async def test_a_wrong_signature_is_refused_even_where_nothing_is_authorized(
    tmp_path: Path, key: tuple[str, str], authorize: bool
) -> None:
    async with (
        guarded_node(tmp_path, "User:ANONYMOUS", authorize=authorize) as scene,
        signing_client(scene, *key) as client,
    ):
        answer = await client.send(b"x")
        text = "The request is not signed by a key that is known here."
        assert (answer.code, answer.remark) == (ResponseCode.NO_PERMISSION, text)


async def test_one_connection_may_bring_requests_of_several_users(tmp_path: Path) -> None:
    async with guarded_node(tmp_path, "User:ANONYMOUS", "User:root") as scene, signing_client(scene) as client:
        await scene.kafka.create("t")
        assert (await client.send(b"x")).code == ResponseCode.SUCCESS
        client.connection.remoting.add_hook(AclHook("bob", "bobssecret"))
        assert (await client.send(b"x")).code == ResponseCode.NO_PERMISSION


async def test_without_keys_signatures_mean_nothing(tmp_path: Path) -> None:
    async with rocketmq_node(tmp_path) as scene, signing_client(scene, *ALICE) as client:
        assert (await client.send(b"x")).code == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [(KEYS, 0o644, "others may read it"), (KEYS, 0o620, "others may read it"), ("nothing", 0o600, "Line 1 is no")],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_reason(tmp_path: Path, text: str, mode: int, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        AccessKeyFile(key_file(tmp_path, text, mode))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        AccessKeyFile(tmp_path / "none")


def test_a_changed_file_is_read_again_and_a_wrong_one_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys = AccessKeyFile(key_file(tmp_path))
    keys.reload_if_changed()
    assert caplog.messages == []
    path = key_file(tmp_path, "carol = carolsecret\n")
    os.utime(path, ns=(1, 1))
    keys.reload_if_changed()
    assert keys.signatures.secrets.keys() == {"carol"}
    os.utime(key_file(tmp_path, "dave = short\n"), ns=(2, 2))
    keys.reload_if_changed()
    assert keys.signatures.secrets.keys() == {"carol"}
    assert "stay as they were" in caplog.text
    assert "short" not in caplog.text


async def test_rights_are_looked_up_for_each_message(tmp_path: Path) -> None:
    async with (
        guarded_node(tmp_path, "User:ANONYMOUS") as scene,
        signing_client(scene, *ALICE) as alice,
    ):
        await scene.kafka.create("t")
        right = Operation.WRITE, ResourceType.TOPIC, "t"
        await allow(scene, "User:alice", right)
        assert await codes_of_sends(alice) == {ResponseCode.SUCCESS}
        await allow(scene, "User:alice", right, permission=DENY)
        assert await codes_of_sends(alice) == {ResponseCode.NO_PERMISSION}


async def test_rights_are_looked_up_for_messages_that_come_together(tmp_path: Path) -> None:
    security = SecuritySettings(authorize=True, allow_everyone_if_no_acl_found=True)
    async with rocketmq_node(tmp_path, security=security) as scene, signing_client(scene) as client:
        await scene.kafka.create("t")
        await scene.kafka.create("u")
        assert (await client.send(b"first")).code == ResponseCode.SUCCESS
        assert await codes_of_sends(client) == {ResponseCode.SUCCESS}
        await allow(scene, "User:ANONYMOUS", (Operation.WRITE, ResourceType.TOPIC, "t"), permission=DENY)
        assert await codes_of_sends(client) == {ResponseCode.NO_PERMISSION}
        assert (await client.send(b"x", "u")).code == ResponseCode.SUCCESS
