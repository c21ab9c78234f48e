"""Permissions between nodes: who may send where, and who may receive what."""

import asyncio
from typing import Any

import pytest
from tests.support.waiting import turning_until
from tests.unit.bus.clustered.scenes import Cluster

from hutong.bus import FailureType, ReplyError
from hutong.bus.clustered import ClusterPermissions
from hutong.bus.clustered.permissions import ClusterRights
from hutong.foundation.errors import LimitExceeded, UsageError
from hutong.wire.vertx.cluster_frames import ClusterFrame, encode

HERE = "127.0.0.1"


async def failure_of(reply: Any) -> ReplyError:
    with pytest.raises(ReplyError) as caught:
        await reply
    return caught.value


async def test_only_permitted_consumers_are_announced() -> None:
    async with Cluster() as cluster:
        a = await cluster.node("a")
        b = await cluster.node("b", permissions=ClusterPermissions(inbound=["open[.].*"]))
        secret = b.bus.consumer("secret", lambda message: message.body)
        for consumer in (secret, b.bus.consumer("open.door", lambda message: message.body)):
            await consumer.ready()
        await a.until_receivers("open.door", 1)
        assert set(cluster.registry.registrations) == {"open.door"}
        assert (await a.bus.request("open.door", 1)).body == 1
        assert (await failure_of(a.bus.request("secret"))).failure_type is FailureType.NO_HANDLERS
        # This process is not concerned, and may unregister.
        assert (await b.bus.request("secret", 2)).body == 2
        await secret.unregister()
        # What b sends elsewhere is answered all the same: a reply needs no permission.
        a.bus.consumer("at-a", lambda message: message.body)
        await b.until_receivers("at-a", 1)
        assert (await b.bus.request("at-a", 3)).body == 3


async def test_messages_to_other_addresses_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    async with Cluster() as cluster:
        a = await cluster.node("a")
        b = await cluster.node("b", permissions=ClusterPermissions(inbound=["open"]))
        seen: list[Any] = []
        b.bus.consumer("secret", lambda message: seen.append(message.body))
        b.bus.consumer("open", lambda message: seen.append(message.body))
        await a.until_receivers("open", 1)
        # As one that does not care what is announced, or has known it for longer.
        cluster.registry.register("secret", "b", 77)
        await a.until_receivers("secret", 1)
        failure = await failure_of(a.bus.request("secret", 1))
        assert failure.failure_type is FailureType.ERROR
        assert failure.message == "other nodes may not send to 'secret' at node b"
        for _ in range(3):
            a.bus.send("secret", 2)
            a.bus.publish("secret", 3)
        a.bus.send("open", 4)
        await turning_until(lambda: seen)
        assert seen == [4]
        assert caplog.text.count("other nodes may not send to 'secret'") == 1


async def test_a_stranger_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    async with Cluster() as cluster:
        b = await cluster.node("b", permissions=ClusterPermissions(inbound=[]))
        reader, writer = await asyncio.open_connection(b.info.host, b.info.port)
        for number in range(100):
            writer.write(encode(ClusterFrame(9, f"address-{number}", "stranger", b"text")))
        await writer.drain()
        writer.write_eof()
        assert await reader.read() == b""
        assert "may not send" not in caplog.text
        writer.close()


async def test_only_permitted_nodes_receive() -> None:
    async with Cluster() as cluster:
        rules = {"orders": [HERE], "invoices": ["billing.example"], "events": []}
        a = await cluster.node("a", permissions=ClusterPermissions(outbound=rules))
        b = await cluster.node("b")
        for address in ("orders", "invoices", "events", "else"):
            b.bus.consumer(address, lambda message: message.body)
        # They are told in the order of their registrations.
        b.bus.consumer("orders", lambda message: message.body)
        await a.until_receivers("orders", 2)
        await turning_until(lambda: "else" in a.clustered._entry.machine._counts)
        assert [(await a.bus.request(address, 1)).body for address in ("orders", "events")] == [1, 1]
        for address in ("invoices", "else"):
            assert (await failure_of(a.bus.request(address))).failure_type is FailureType.NO_HANDLERS
        a.clustered.check_invariants()


def test_rights() -> None:
    everything = ClusterRights(ClusterPermissions())
    assert everything.may_send_here("a")
    assert everything.may_receive("a", "anywhere")
    nothing = ClusterRights(ClusterPermissions(inbound=(), outbound=()))
    assert not nothing.may_send_here("a")
    assert not nothing.may_receive("a", "anywhere")
    some = ClusterRights(ClusterPermissions(inbound=["a|b"], outbound=["a.*"]))
    assert [some.may_send_here(each) for each in ("a", "b", "ab")] == [True, True, False]
    assert [some.may_receive(each, "anywhere") for each in ("a", "ab", "b")] == [True, True, False]
    assert not some.may_receive("a" * 201, "anywhere")
    with pytest.raises(UsageError):
        ClusterRights(ClusterPermissions(inbound=["("]))
    with pytest.raises(LimitExceeded):
        ClusterRights(ClusterPermissions(inbound=["a"] * 1_001))
