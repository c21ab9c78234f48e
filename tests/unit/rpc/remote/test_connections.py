"""Services called over connections: a node that listens, clients that connect, all on one loop."""

import asyncio
import pathlib
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Protocol
from uuid import UUID

import pytest
import trustme
from tests.unit.rpc.scenes import Line, OutOfStock, Shop, Store, until

import hutong
from hutong.foundation.errors import UsageError
from hutong.reactor.accept.reserved_port import ReservedPort
from hutong.reactor.tls.server_contexts import server_context
from hutong.rpc import (
    CallFailed,
    CallLimits,
    CallTimeout,
    Client,
    ConnectionLost,
    Delivery,
    NoService,
    NotConnected,
    Overloaded,
    ServiceError,
    caller_of,
    connect,
    current_call,
    service,
)
from hutong.rpc.calling.caller import Caller
from hutong.runtime.contexts.contexts import ContextKind
from hutong.testing.node.ports import HOST

NUMBER = UUID(int=7)


@service("listener")
class Listener(Protocol):
    async def hear(self, text: str) -> str: ...


@service("speaker")
class Speaker(Protocol):
    async def speak(self, text: str) -> str: ...


class Speaking:
    async def speak(self, text: str) -> str:
        return await caller_of(current_call()).proxy(Listener).hear(text)


class Hearing:
    async def hear(self, text: str) -> str:
        return f"heard {text}"


@pytest.fixture
async def node() -> AsyncIterator[hutong.Node]:
    async with hutong.Node(rpc="127.0.0.1:0") as node:
        yield node


@pytest.fixture
def place() -> Iterator[str]:
    """An address that is kept while nobody listens there."""
    port = ReservedPort()
    yield f"{HOST}:{port.number}"
    port.close()


@pytest.fixture
async def store(node: hutong.Node) -> Store:
    store = Store()
    await node.rpc.bind(Shop, store)
    return store


def address_of(node: hutong.Node) -> str:
    assert node.rpc_address is not None
    return node.rpc_address


@pytest.fixture
async def client(node: hutong.Node, store: Store) -> AsyncIterator[Client]:
    async with connect(address_of(node)) as client:
        yield client
        assert len(client.transport.waiting) == 0


async def test_a_proxy_calls_over_the_connection(client: Client) -> None:
    shop = client.proxy(Shop)
    assert await shop.add(2, 3) == 5
    assert await shop.add(2) == 3
    at = datetime(2026, 1, 2, tzinfo=UTC)
    assert await shop.buy(Line("apple", 2), at=at) == Line(f"apple at {at}", 2)
    assert await shop.price(NUMBER, b"\x00\xff") == {f"{NUMBER} {bytes([0, 255])!r}": Decimal("1.50")}


async def test_calls_between_two_attempts_end_with_their_client(node: hutong.Node) -> None:
    client = connect(address_of(node))
    calls = [client.go(client.proxy(Shop, delivery=Delivery.AT_LEAST_ONCE).add, 1, 2) for _ in range(3)]
    await until(lambda: client._reliability.waits.parked_total >= 6)  # hedges, then pauses: nobody is bound
    await client.close()
    for call in calls:
        with pytest.raises(CallFailed, match="the client is closed"):
            await call


async def test_calls_by_name_and_calls_begun(client: Client) -> None:
    assert await client.call("shop", "add", {"a": 1, "b": 2}) == 3
    assert await client.call("shop", "add", {"a": 1, "b": 2}, result=int) == 3
    assert await client.go(client.proxy(Shop).add, 1, 2) == 3


async def test_failures_are_those_of_the_service(client: Client) -> None:
    shop = client.proxy(Shop)
    with pytest.raises(OutOfStock, match="only 10 of pears") as declared:
        await shop.buy(Line("pears", 11))
    assert declared.value.debug_info == {"left": 10}
    with pytest.raises(ServiceError, match="no") as plain:
        await shop.refuse(18, "no")
    assert (plain.value.code, plain.value.debug_info) == (18, {"asked": 18})
    with pytest.raises(NoService, match="nobody is bound at 'cellar'"):
        await client.proxy(Shop, address="cellar").add(1, 2)


async def test_a_service_is_told_of_the_calls_headers_and_connection(client: Client) -> None:
    shop = client.proxy(Shop, headers=[("token", "abc"), ("token", "def")])
    assert await shop.header("token") == ["abc", "def"]


async def test_references_and_streams_are_read_over_the_connection(client: Client, store: Store) -> None:
    shop = client.proxy(Shop)
    cursor = await shop.open(3)
    assert await cursor.fetch(2) == [3, 4]
    assert await cursor.finish() == 5
    assert [number async for number in shop.count(100)] == list(range(100))


async def test_what_was_opened_for_a_connection_ends_with_it(node: hutong.Node, store: Store) -> None:
    async with connect(address_of(node)) as client:
        shop = client.proxy(Shop)
        numbers = aiter(shop.count(1_000_000))
        assert await anext(numbers) == 0
        await shop.open(1)
    await until(lambda: store.ended == ["count"] and store.cursors[0].is_closed)


async def test_a_call_that_takes_too_long_is_given_up_and_its_answer_dropped(client: Client, store: Store) -> None:
    shop = client.proxy(Shop, timeout=0.05)
    with pytest.raises(CallTimeout, match="in time"):
        await shop.wait("gate")
    store.gates["gate"].set()
    assert await shop.add(1, 1) == 2


async def test_a_cancelled_call_is_forgotten(client: Client, store: Store) -> None:
    shop = client.proxy(Shop)
    call = asyncio.ensure_future(shop.wait("gate"))
    await until(lambda: "gate" in store.gates)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert client.calls_awaited == 0
    store.gates["gate"].set()
    assert await shop.add(1, 1) == 2


async def test_a_client_connects_when_it_is_needed_and_again_when_the_connection_was_lost(
    store: Store, place: str
) -> None:
    async with hutong.Node(rpc=place) as first:
        await first.rpc.bind(Shop, store)
        client = connect(place)
        assert not client.is_connected
        shop = client.proxy(Shop)
        assert await asyncio.gather(*[shop.add(number) for number in range(20)]) == list(range(1, 21))
        under_way = asyncio.ensure_future(shop.wait("gate"))
        await until(lambda: store.begun)
        under_way.cancel()
        store.gates["gate"].set()
    await until(lambda: not client.is_connected)
    with pytest.raises(NotConnected):
        await shop.add(1)
    async with hutong.Node(rpc=place) as second:
        await second.rpc.bind(Shop, store)
        assert await client.proxy(Shop, delivery=Delivery.AT_LEAST_ONCE).add(1) == 2  # it may be too soon once
        assert await shop.add(1) == 2
    await client.close()
    with pytest.raises(CallFailed, match="closed"):
        await shop.add(1)


async def test_calls_under_way_fail_with_their_connection(node: hutong.Node, store: Store) -> None:
    async with connect(address_of(node)) as client:
        under_way = asyncio.ensure_future(client.proxy(Shop).wait("gate"))
        await until(lambda: store.begun)
    with pytest.raises(ConnectionLost):
        await under_way
    store.gates["gate"].set()


async def test_calls_under_way_are_answered_when_the_node_stops(store: Store) -> None:
    async with hutong.Node(rpc="127.0.0.1:0") as stopping:
        await stopping.rpc.bind(Shop, store)
        client = connect(address_of(stopping))
        call = asyncio.ensure_future(client.proxy(Shop).wait("gate"))
        await until(lambda: store.begun)
        listener = stopping.rpc_listener
        assert listener is not None
        ending = asyncio.ensure_future(listener.close())
        with pytest.raises(NoService, match="the node stops"):
            await client.proxy(Shop).add(1)
        store.gates["gate"].set()
        assert await call == "gate"
        await ending
        await client.close()


async def test_nobody_listens() -> None:
    with pytest.raises(NotConnected):
        async with connect("127.0.0.1:1"):
            pass
    for address, text in {
        "here": "write HOST:PORT",
        "127.0.0.1": "write HOST:PORT",
        "127.0.0.1:": "write HOST:PORT",
        "127.0.0.1:0": "has port 0: a port is a number from 1",
        "127.0.0.1:65536": "has port 65536",
        ":1": "has no host",
    }.items():
        with pytest.raises(UsageError, match=text):
            connect(address)


async def test_calls_that_may_be_tried_again_survive_a_restart(store: Store, place: str) -> None:
    client = connect(place)
    call = client.go(client.proxy(Shop, delivery=Delivery.AT_LEAST_ONCE).add, 1)
    await until(lambda: client.calls_awaited == 0)  # the first attempt has found nobody
    async with hutong.Node(rpc=place) as second:
        await second.rpc.bind(Shop, store)
        assert await call == 2
        await client.close()


async def test_calls_wait_for_a_connection_no_longer_than_their_time(store: Store) -> None:
    """The other side accepts, and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = connect(f"127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(CallTimeout):
            await client.proxy(Shop, timeout=0.05).add(1)
        await client.close()


async def test_a_server_calls_back_over_the_same_connection(node: hutong.Node) -> None:
    await node.rpc.bind(Speaker, Speaking())
    async with hutong.Node() as other:
        await other.rpc.bind(Listener, Hearing())
        async with connect(address_of(node), services=other.rpc) as client:
            assert await client.proxy(Speaker).speak("hello") == "heard hello"
    async with connect(address_of(node)) as deaf:
        with pytest.raises(ServiceError, match="NoService"):
            await deaf.proxy(Speaker).speak("hello")


async def test_calling_back_is_for_calls_that_came_over_a_connection(node: hutong.Node) -> None:
    await node.rpc.bind(Speaker, Speaking())
    with pytest.raises(ServiceError, match="UsageError"):
        await node.rpc.proxy(Speaker).speak("hello")


async def test_so_many_calls_may_be_under_way(store: Store) -> None:
    async with hutong.Node(rpc="127.0.0.1:0", rpc_limits=CallLimits(2, 3)) as node:
        await node.rpc.bind(Shop, store)
        async with connect(address_of(node)) as first, connect(address_of(node)) as second:
            calls = [asyncio.ensure_future(first.proxy(Shop).wait(name)) for name in "ab"]
            await until(lambda: len(store.begun) == 2)
            with pytest.raises(Overloaded, match="calls_per_connection_max is 2"):
                await first.proxy(Shop).add(1)
            assert await second.proxy(Shop).add(1) == 2
            calls.append(asyncio.ensure_future(second.proxy(Shop).wait("c")))
            await until(lambda: len(store.begun) == 3)
            with pytest.raises(Overloaded, match="calls_max is 3"):
                await second.proxy(Shop).add(1)
            for gate in store.gates.values():
                gate.set()
            assert await asyncio.gather(*calls) == ["a", "b", "c"]
            assert await first.proxy(Shop).add(1) == 2
    with pytest.raises(ValueError, match="calls_max"):
        CallLimits(1, 0)


async def test_encrypted_connections(tmp_path: pathlib.Path, store: Store) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_and_cert_chain_pem.write_to_path(tmp_path / "node.pem")
    async with hutong.Node(rpc="127.0.0.1:0", rpc_tls=server_context(tmp_path / "node.pem", None, None)) as node:
        await node.rpc.bind(Shop, store)
        trusting = ssl.create_default_context()
        authority.configure_trust(trusting)
        async with connect(address_of(node), tls=trusting) as client:
            assert await client.proxy(Shop).add(1) == 2
        with pytest.raises(NotConnected):
            async with connect(address_of(node), tls=ssl.create_default_context()):
                pass


async def test_services_run_in_their_own_contexts(node: hutong.Node) -> None:
    """Of a worker: the answer is sent from another thread."""
    store = Store()
    await node.rpc.bind(Shop, store, context=node.runtime.context(ContextKind.WORKER, name="shop"))
    async with connect(address_of(node)) as client:
        shop = client.proxy(Shop)
        assert await asyncio.gather(*[shop.add(number) for number in range(50)]) == list(range(1, 51))


async def test_nobody_is_called_back_once_the_connection_has_ended(node: hutong.Node) -> None:
    kept: list[Caller] = []

    class Keeping:
        async def speak(self, text: str) -> str:
            kept.append(caller_of(current_call()))
            return text

    await node.rpc.bind(Speaker, Keeping())
    async with connect(address_of(node)) as client:
        assert await client.proxy(Speaker).speak("hello") == "hello"
    listener = node.rpc_listener
    assert listener is not None
    await until(lambda: not listener.figures.connections_open)
    with pytest.raises(NotConnected):
        await kept[0].proxy(Listener).hear("hello")


async def test_an_address_that_cannot_be_listened_at(node: hutong.Node) -> None:
    for address, text in ((address_of(node), "Cannot listen"), ("nonsense", "HOST:PORT")):
        with pytest.raises(UsageError, match=text):
            async with hutong.Node(rpc=address):
                pass
