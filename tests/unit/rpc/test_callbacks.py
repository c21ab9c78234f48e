"""Objects passed to services, over the bus and over connections: the service calls them back."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import create_autospec

import pytest
from tests.unit.rpc.listeners import Branch, Feed, Hearing, Listener, Node, Speaking
from tests.unit.rpc.scenes import until

import hutong
from hutong.bus import DeliveryOptions, EventBus, Headers
from hutong.rpc import (
    BadReply,
    CallFailed,
    CallLimits,
    CallTimeout,
    Client,
    ConnectionLost,
    Delivery,
    DispatchFailed,
    NoService,
    NotAuthorized,
    Overloaded,
    ReferenceGone,
    Rpc,
    ServiceError,
    ServiceFault,
    caller_of,
    connect,
    current_call,
    with_options,
)
from hutong.rpc.calling.caller import Caller
from hutong.rpc.descriptions.references import REFERENCES_PER_CALL_MAX
from hutong.runtime.contexts.contexts import ContextKind


@pytest.fixture
async def node() -> AsyncIterator[hutong.Node]:
    async with hutong.Node(rpc="127.0.0.1:0") as node:
        yield node


@pytest.fixture
async def speaking(node: hutong.Node) -> Speaking:
    speaking = Speaking()
    await node.rpc.bind(Feed, speaking)
    await node.rpc.bind(Node, Branch("root", Branch("left", Branch("leaf")), Branch("right")))
    return speaking


@pytest.fixture(params=["bus", "tcp"])
async def caller(request: pytest.FixtureRequest, node: hutong.Node, speaking: Speaking) -> AsyncIterator[Caller]:
    """The side that calls the feed."""
    if request.param == "bus":
        yield node.rpc
        return
    async with connect(address_of(node)) as client:
        yield client


def address_of(node: hutong.Node) -> str:
    assert node.rpc_address is not None
    return node.rpc_address


async def test_a_service_calls_the_object_that_a_caller_passed(caller: Caller) -> None:
    feed, listener = caller.proxy(Feed), Hearing()
    assert await feed.tell(listener, "one") == "me heard one"
    assert await caller.go(feed.tell, listener, "two") == "me heard two"
    assert listener.heard == ["one", "two"]


async def test_a_reference_may_be_left_out(caller: Caller) -> None:
    feed = caller.proxy(Feed)
    assert await feed.maybe() == "nobody"
    assert await feed.maybe(None) == "nobody"
    assert await feed.maybe(Hearing("one")) == "one heard maybe"
    assert await feed.maybe(other=Hearing("two")) == "two heard maybe"


async def test_references_in_lists_and_dicts(caller: Caller) -> None:
    feed = caller.proxy(Feed)
    assert await feed.everybody([Hearing("a"), Hearing("b")], "x") == ["a heard x", "b heard x"]
    assert await feed.everybody([], "x") == []
    assert await feed.by_name({"a": Hearing("b")}, "x") == {"a": "b heard x"}


async def test_references_in_lists_as_results(caller: Caller, speaking: Speaking) -> None:
    feed = caller.proxy(Feed)
    listeners = await feed.some(3)
    assert listeners is not None
    assert [await listener.hear("x") for listener in listeners] == ["0 heard x", "1 heard x", "2 heard x"]
    assert await feed.some(0) is None
    first = await feed.first(1)
    assert first is not None
    assert await first.hear("y") == "first heard y"
    assert await feed.first(0) is None
    await first.bye()
    with pytest.raises(ReferenceGone):
        await first.hear("z")


async def test_a_service_that_mentions_itself(caller: Caller) -> None:
    root = caller.proxy(Node)
    assert await root.parent() is None
    left, right = await root.children()
    (leaf,) = await left.children()
    assert [await node.name() for node in (left, right, leaf)] == ["left", "right", "leaf"]
    parent = await leaf.parent()
    assert parent is not None
    assert await parent.name() == "left"
    adopted = await root.adopt(await with_options(left, timeout=5).adopt(Branch("mine")))
    assert await adopted.name() == "mine"


async def test_a_callback_is_given_a_reference_and_calls_that_back(caller: Caller) -> None:
    """The service calls the caller, which calls the service, while the first call waits."""
    seen: list[str] = []

    class Naming:
        async def visit(self, node: Node) -> bool:
            seen.append(await node.name())
            return seen[-1] != "left"

    assert await caller.proxy(Node).visit(Naming()) == 3
    assert seen == ["root", "left", "right"]


async def test_the_same_object_is_the_same_reference(caller: Caller, speaking: Speaking) -> None:
    feed, listener = caller.proxy(Feed), Hearing()
    assert [await feed.subscribe(one) for one in (listener, listener, Hearing())] == [1, 1, 2]
    assert speaking.subscribed[0] != speaking.subscribed[1]
    assert len({*speaking.subscribed, with_options(speaking.subscribed[0], timeout=1)}) == 2
    assert await feed.unsubscribe(listener) == 1
    assert speaking.subscribed[0] not in {"something else"}  # type: ignore[comparison-overlap]


async def test_a_service_calls_after_the_call_that_passed_it(caller: Caller, speaking: Speaking) -> None:
    listener = Hearing()
    await caller.proxy(Feed).subscribe(listener)
    assert await speaking.subscribed[0].hear("later") == "me heard later"


async def test_a_released_object_is_called_no_more(caller: Caller, speaking: Speaking) -> None:
    listener = Hearing()
    await caller.proxy(Feed).subscribe(listener)
    assert caller.release(listener)
    assert not caller.release(listener)
    with pytest.raises(ReferenceGone, match=r"Listener.hear: the object is released"):
        await speaking.subscribed[0].hear("x")
    assert listener.heard == []
    assert await caller.proxy(Feed).tell(listener, "again") == "me heard again"


async def test_a_method_that_closes_releases_the_object(caller: Caller, speaking: Speaking) -> None:
    listener = Hearing()
    await caller.proxy(Feed).subscribe(listener)
    await speaking.subscribed[0].bye()
    with pytest.raises(NoService):
        await speaking.subscribed[0].hear("x")
    assert listener.heard == ["bye"]


def passed_by(caller: Caller) -> int:
    """The number of objects that can be called."""
    around = caller.passed.surroundings()[0] if isinstance(caller, Client) else caller.temporaries  # type: ignore[attr-defined]
    return len(around.open)


async def test_an_object_that_the_service_does_not_keep_is_released(caller: Caller) -> None:
    feed = caller.proxy(Feed)
    for number in range(100):
        await feed.tell(Hearing(), str(number))
    await feed.everybody([Hearing() for _ in range(200)], "x")
    listener = Hearing()
    await feed.everybody([listener] * 20, "x")
    await feed.by_name({"a": listener, "b": listener}, "x")
    await until(lambda: not passed_by(caller))


async def test_an_object_that_the_service_keeps_is_released_when_it_is_dropped(
    caller: Caller, speaking: Speaking
) -> None:
    feed, kept = caller.proxy(Feed), Hearing("kept")
    for _ in range(3):
        await feed.subscribe(kept)
        await feed.tell(kept, "x")
    await feed.subscribe(Hearing())
    speaking.subscribed.pop()
    await until(lambda: passed_by(caller) == 1)
    assert await speaking.subscribed[0].hear("y") == "kept heard y"
    hear = speaking.subscribed[0].hear
    await feed.unsubscribe(kept)
    assert await hear("its method is enough") == "kept heard its method is enough"
    del hear
    await until(lambda: not passed_by(caller))


async def test_an_object_that_no_service_has_seen_is_released(caller: Caller) -> None:
    with pytest.raises(NoService):
        await caller.proxy(Feed, address="nobody").subscribe(Hearing())
    with pytest.raises((TypeError, ValueError)):
        await caller.proxy(Feed).tell(Hearing(), object())  # type: ignore[arg-type]
    await until(lambda: not passed_by(caller))


async def test_a_released_count_must_be_one(caller: Caller, speaking: Speaking) -> None:
    await caller.proxy(Feed).subscribe(Hearing())
    address = speaking.subscribed[0]._hutong.address  # type: ignore[attr-defined]
    holder = speaking.subscribed[0]._hutong.caller  # type: ignore[attr-defined]
    for wrong in ({}, {"count": 0}, {"count": -1}, {"count": 1 << 60}, {"count": "1"}, {"count": 1, "more": 2}):
        with pytest.raises(DispatchFailed):
            await holder.call(address, "hutong.release", wrong)
    assert await speaking.subscribed[0].hear("x") == "me heard x"
    await holder.call(address, "hutong.release", {"count": 1})
    with pytest.raises(ReferenceGone):
        await speaking.subscribed[0].hear("x")


async def test_a_stream_may_take_a_reference(caller: Caller) -> None:
    heard = [text async for text in caller.proxy(Feed).watched(Hearing(), 3)]
    assert heard == ["me heard 0", "me heard 1", "me heard 2"]


async def test_a_reference_that_was_passed_may_be_returned_and_passed_on(caller: Caller) -> None:
    listener = Hearing()
    back = await caller.proxy(Feed).back(listener)
    assert await back.hear("round") == "me heard round"
    assert await caller.proxy(Feed).tell(back, "twice") == "me heard twice"


async def test_what_a_callback_raises(caller: Caller, speaking: Speaking) -> None:
    class Failing(Hearing):
        async def hear(self, text: str) -> str:
            raise ServiceError(text, code=42)

    await caller.proxy(Feed).subscribe(Failing())
    with pytest.raises(ServiceError, match="loud") as caught:
        await speaking.subscribed[0].hear("loud")
    assert caught.value.code == 42


async def test_what_is_no_such_service_is_refused_at_the_caller(caller: Caller) -> None:
    feed = caller.proxy(Feed)

    class Plain:
        def hear(self, text: str) -> str:
            return text

        def bye(self) -> None: ...

    for wrong, said in (
        ("text", "the argument 'listener' is wrong: str.hear is missing"),
        (None, "NoneType.hear is missing"),
        (Hearing, r"Hearing is a class: give an object of it, Hearing\(\)"),
        (Plain(), "is not async"),
    ):
        with pytest.raises(TypeError, match=said):
            await feed.tell(wrong, "x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a list is promised, and it is a set"):
        await feed.everybody({Hearing()}, "x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a dict is promised, and it is a list"):
        await feed.by_name([Hearing()], "x")  # type: ignore[arg-type]


async def test_so_many_references_may_be_passed_in_one_call(caller: Caller, speaking: Speaking) -> None:
    feed, listener = caller.proxy(Feed), Hearing()
    assert len(await feed.everybody([listener] * 50, "x")) == 50
    with pytest.raises(TypeError, match=f"references_per_call_max is {REFERENCES_PER_CALL_MAX}"):
        await feed.everybody([listener] * (REFERENCES_PER_CALL_MAX + 1), "x")
    with pytest.raises(ServiceError, match="references_per_call_max"):
        await feed.some(REFERENCES_PER_CALL_MAX + 1)


async def test_forged_references_are_refused(caller: Caller, speaking: Speaking) -> None:
    """The name of a service, a text that is none, and another type. A service is never called in the caller's place."""
    for forged, said in (
        ("tree", "'listener' is wrong: that is no reference"),
        ("", "that is no reference"),
        ("{12345678-1234-4234-8234-123456789012}", "that is no reference"),
        (7, "Expected str"),
        (None, "Expected str"),
    ):
        with pytest.raises(DispatchFailed, match=said.replace("str", "`?str`?") if "Expected" in said else said):
            await caller.call("feed", "subscribe", {"listener": forged})
    many = ["12345678-1234-4234-8234-123456789012"] * (REFERENCES_PER_CALL_MAX + 1)
    with pytest.raises(DispatchFailed, match="references_per_call_max"):
        await caller.call("feed", "everybody", {"listeners": many, "text": ""})
    assert speaking.subscribed == []


async def test_an_address_that_nobody_has_fails_at_once(caller: Caller, speaking: Speaking) -> None:
    await caller.call("feed", "subscribe", {"listener": "12345678-1234-4234-8234-123456789012"})
    with pytest.raises(ReferenceGone):
        await speaking.subscribed[0].hear("x")


async def test_a_worker_that_blocks_calls_back(node: hutong.Node, caller: Caller) -> None:
    class Blocking(Speaking):
        def tell(self, listener: Listener, text: str) -> str:  # type: ignore[override]
            return node.rpc.go_from_thread(listener.hear, text).result(20)

    context = node.runtime.context(ContextKind.WORKER, name="blocking")
    await node.rpc.bind(Feed, Blocking(), address="blocking", context=context)
    assert await caller.proxy(Feed, address="blocking").tell(Hearing(), "x") == "me heard x"


async def test_a_worker_that_awaits_calls_back(node: hutong.Node, caller: Caller) -> None:
    context = node.runtime.context(ContextKind.WORKER, name="awaiting")
    await node.rpc.bind(Feed, Speaking(), address="awaiting", context=context)
    feed = caller.proxy(Feed, address="awaiting")
    assert await asyncio.gather(*[feed.tell(Hearing(), str(number)) for number in range(20)]) == [
        f"me heard {number}" for number in range(20)
    ]


async def test_a_service_on_another_loop_calls_back(caller: Caller) -> None:
    async with hutong.Node(rpc="127.0.0.1:0", event_loops=3) as other:
        await other.rpc.bind(Feed, Speaking(), instances=3)
        async with connect(address_of(other)) as client:
            feed, listener = client.proxy(Feed), Hearing()
            for number in range(6):
                assert await feed.tell(listener, str(number)) == f"me heard {number}"


async def test_a_worker_that_blocks_is_called_back_in_another_context(node: hutong.Node, speaking: Speaking) -> None:
    """Its own thread waits for the call, which waits for the object."""

    class Plain:
        def hear(self, text: str) -> str:
            return f"plain {text}"

        def bye(self) -> None: ...

    feed, worker = node.rpc.proxy(Feed), node.runtime.context(ContextKind.WORKER, name="caller")

    tell: Any = feed.tell

    def blocking() -> str:
        return str(node.rpc.go_from_thread(tell, Plain(), "x").result(20))

    async def awaiting() -> str:
        return await feed.tell(Plain(), "y")  # type: ignore[arg-type]

    assert await worker.call(blocking) == "plain x"
    assert await worker.call(awaiting) == "plain y"


async def test_a_callback_that_takes_too_long(caller: Caller, speaking: Speaking) -> None:
    gate = asyncio.Event()
    listener = Hearing(gate=gate)
    await caller.proxy(Feed).subscribe(listener)
    with pytest.raises(CallTimeout):
        await with_options(speaking.subscribed[0], timeout=0.05).hear("x")
    gate.set()


async def test_doubles_are_passed_and_receive(node: hutong.Node, caller: Caller) -> None:
    listener, feed = create_autospec(Listener, instance=True), create_autospec(Feed, instance=True)
    listener.hear.return_value = "mocked"
    assert await caller.proxy(Feed).tell(listener, "x") == "mocked"
    listener.hear.assert_awaited_once_with("x")
    feed.subscribe.return_value = 7
    await node.rpc.bind(Feed, feed, address="double")
    assert await caller.proxy(Feed, address="double").subscribe(Hearing()) == 7
    (received,) = feed.subscribe.await_args.args
    assert await received.hear("y") == "me heard y"


async def test_results_with_references_are_not_remembered(bus: EventBus, rpc: Rpc) -> None:
    from hutong.rpc.call import Outcome
    from hutong.rpc.delivery.outcomes import encode_outcome

    assert encode_outcome(Outcome(["address"], has_references=True)) is None
    assert encode_outcome(Outcome(["address"])) is not None


async def test_what_retries_pass_is_released_by_the_caller(caller: Caller, speaking: Speaking) -> None:
    """The service may have received it more than once, so what it drops is not counted."""
    feed, listener = caller.proxy(Feed, delivery=Delivery.AT_LEAST_ONCE), Hearing()
    assert await feed.tell(listener, "x") == "me heard x"
    assert await feed.tell(Hearing("two"), "x") == "two heard x"
    assert passed_by(caller) == 2
    assert caller.release(listener)
    await until(lambda: passed_by(caller) == 1)


async def test_answers_that_are_no_references(rpc: Rpc, bus: EventBus) -> None:
    bus.consumer("feed", lambda message: message.reply(["tree"]))
    with pytest.raises(BadReply, match="'some' is not what its signature says: that is no reference"):
        await rpc.proxy(Feed).some(1)


async def test_what_a_client_of_a_bridge_sees(rpc: Rpc, bus: EventBus) -> None:
    """On the bus a reference is the text of an address that answers like any service."""
    speaking = Speaking()
    await rpc.bind(Feed, speaking)
    address = "12345678-1234-4234-8234-123456789012"
    bus.consumer(address, lambda message: message.reply(f"{message.headers.get('action')} {message.body['text']}"))
    options = DeliveryOptions(headers=Headers({"action": "tell"}))
    reply = await bus.request("feed", {"listener": address, "text": "x"}, options)
    assert reply.body == "hear x"
    returned = await bus.request("feed", {"count": 1}, DeliveryOptions(headers=Headers({"action": "first"})))
    heard = await bus.request(returned.body, {"text": "y"}, DeliveryOptions(headers=Headers({"action": "hear"})))
    assert heard.body == "first heard y"


async def test_an_idle_object_is_released_on_the_bus(speaking: Speaking) -> None:
    async with hutong.Node(rpc_reference_idle_time=0.03) as brief:
        await brief.rpc.bind(Feed, speaking)
        await brief.rpc.proxy(Feed).subscribe(Hearing())
        await until(lambda: not brief.rpc.temporaries.open, pause=0.005)
        with pytest.raises(ReferenceGone):
            await speaking.subscribed[0].hear("x")


async def test_an_object_is_not_idle_while_its_call_is_under_way(speaking: Speaking) -> None:
    gate = asyncio.Event()

    class Waiting(Speaking):
        async def tell(self, listener: Listener, text: str) -> str:
            await gate.wait()
            return await listener.hear(text)

    async with hutong.Node(rpc_reference_idle_time=0.01) as brief:
        await brief.rpc.bind(Feed, Waiting())
        calling = asyncio.ensure_future(brief.rpc.proxy(Feed).tell(Hearing(), "x"))
        await until(lambda: brief.rpc.temporaries.waits.expired_total > 2, pause=0.005)
        gate.set()
        assert await calling == "me heard x"
        await until(lambda: not brief.rpc.temporaries.open, pause=0.005)


async def test_idle_times_are_checked() -> None:
    for wrong in (0, -1, float("nan"), 1e12):
        with pytest.raises(ValueError, match="reference_idle_time"):
            connect("127.0.0.1:1", reference_idle_time=wrong)
    with pytest.raises(TypeError, match="reference_idle_time"):
        connect("127.0.0.1:1", reference_idle_time="1")  # type: ignore[arg-type]


class TestConnections:
    """Only a connection ends, and belongs to somebody."""

    async def test_objects_are_released_with_their_connection(self, node: hutong.Node, speaking: Speaking) -> None:
        async with connect(address_of(node)) as client:
            await client.proxy(Feed).subscribe(Hearing())
        with pytest.raises((ReferenceGone, ConnectionLost)):
            await speaking.subscribed[0].hear("x")
        await until(lambda: not len(client.passed.surroundings()[0].open))

    async def test_a_callback_under_way_fails_with_its_connection(self, node: hutong.Node, speaking: Speaking) -> None:
        listener = Hearing(gate=asyncio.Event())
        async with connect(address_of(node)) as client:
            await client.proxy(Feed).subscribe(listener)
            hearing = asyncio.ensure_future(speaking.subscribed[0].hear("x"))
            await until(lambda: listener.heard)
        with pytest.raises(ConnectionLost):
            await hearing

    async def test_a_lost_connection_releases_what_was_passed_over_it(
        self, node: hutong.Node, speaking: Speaking
    ) -> None:
        async with connect(address_of(node)) as client:
            await client.proxy(Feed).subscribe(Hearing())
            channel = client.transport.channel
            assert channel is not None
            channel.peer.close()
            await until(lambda: not client.is_connected)
            await until(lambda: not client.passed.surroundings()[0].open)
            assert await client.proxy(Feed).tell(Hearing(), "again") == "me heard again"
            with pytest.raises(ReferenceGone):
                await speaking.subscribed[0].hear("x")

    async def test_a_call_that_is_sent_again_passes_its_object_again(
        self, node: hutong.Node, speaking: Speaking
    ) -> None:
        """The first attempt is lost with its connection; the object is there for the second."""
        gate, told = asyncio.Event(), []

        class Waiting(Speaking):
            async def tell(self, listener: Listener, text: str) -> str:
                told.append(listener)
                if len(told) == 1:
                    await gate.wait()
                return await listener.hear(text)

        await node.rpc.bind(Feed, Waiting(), address="waiting")
        async with connect(address_of(node)) as client:
            feed = client.proxy(Feed, address="waiting", delivery=Delivery.AT_LEAST_ONCE)
            calling = asyncio.ensure_future(feed.tell(Hearing(), "x"))
            await until(lambda: told)
            channel = client.transport.channel
            assert channel is not None
            channel.peer.close()
            assert await calling == "me heard x"
            gate.set()
            assert len(told) == 2

    async def test_a_reference_is_for_the_connection_that_it_was_given_to(
        self, node: hutong.Node, speaking: Speaking
    ) -> None:
        async with connect(address_of(node)) as first, connect(address_of(node)) as second:
            (address,) = await first.call("feed", "some", {"count": 1})
            assert await first.call(address, "hear", {"text": "x"}) == "0 heard x"
            with pytest.raises(NoService):
                await second.call(address, "hear", {"text": "x"})
            on_the_bus = await node.rpc.call("feed", "first", {"count": 1})
            with pytest.raises(NoService):
                await first.call(on_the_bus, "hear", {"text": "x"})
            with pytest.raises(NoService):
                await node.rpc.call(address, "hear", {"text": "x"})

    async def test_one_connection_has_its_share_of_references(self, speaking: Speaking) -> None:
        limits = CallLimits(references_per_connection_max=3)
        async with hutong.Node(rpc="127.0.0.1:0", rpc_limits=limits) as node:
            await node.rpc.bind(Feed, speaking)
            async with connect(address_of(node)) as greedy, connect(address_of(node)) as other:
                listeners = await greedy.proxy(Feed).some(3)
                assert listeners is not None
                with pytest.raises(ServiceError, match="LimitExceeded"):
                    await greedy.proxy(Feed).first(1)
                held = await other.proxy(Feed).first(1)  # or it would be released at once
                await listeners[0].bye()
                await until(lambda: len(node.rpc.temporaries.open) == 3)
                assert await greedy.proxy(Feed).first(1) is not None
                assert held is not None

    async def test_a_client_passes_so_many_objects(self, node: hutong.Node, speaking: Speaking) -> None:
        limits = CallLimits(references_per_connection_max=2)
        async with connect(address_of(node), limits=limits) as client:
            feed = client.proxy(Feed)
            kept = Hearing(), Hearing()
            for one in kept:
                await feed.subscribe(one)
            with pytest.raises(Overloaded, match="references_per_connection_max is 2"):
                await feed.tell(Hearing(), "x")
            client.release(kept[0])
            assert await feed.tell(Hearing(), "x") == "me heard x"

    async def test_results_that_fail_half_way_open_nothing(self, node: hutong.Node, speaking: Speaking) -> None:
        class Broken(Speaking):
            async def some(self, count: int) -> list[Hearing] | None:
                return [Hearing(), None]  # type: ignore[list-item]

        await node.rpc.bind(Feed, Broken(), address="broken")
        async with connect(address_of(node)) as client:
            with pytest.raises(DispatchFailed, match="'some' returned what is no Listener"):
                await client.proxy(Feed, address="broken").some(2)
            assert not node.rpc.temporaries.open

    async def test_callers_of_a_call_pass_objects_too(self, node: hutong.Node) -> None:
        """The node calls a service that the client offers, and passes it an object."""

        class Turning(Speaking):
            async def tell(self, listener: Listener, text: str) -> str:
                return await caller_of(current_call()).proxy(Feed, address="client.feed").tell(Hearing("node"), text)

        await node.rpc.bind(Feed, Turning(), address="turning")
        async with hutong.Node() as own:
            await own.rpc.bind(Feed, Speaking(), address="client.feed")
            async with connect(address_of(node), services=own.rpc) as client:
                assert await client.proxy(Feed, address="turning").tell(Hearing(), "x") == "node heard x"
        await until(lambda: not node.rpc.temporaries.open)

    async def test_a_client_that_has_passed_nothing_answers_no_calls(
        self, node: hutong.Node, speaking: Speaking
    ) -> None:
        class Turning(Speaking):
            async def subscribe(self, listener: Listener | None) -> int:
                return await caller_of(current_call()).proxy(Feed).subscribe(Hearing())

        await node.rpc.bind(Feed, Turning(), address="turning")
        client: Client
        async with connect(address_of(node)) as client:
            with pytest.raises((ServiceFault, CallFailed), match="NoService"):
                await client.call("turning", "subscribe", {"listener": "12345678-1234-4234-8234-123456789012"})


async def test_an_object_of_a_refused_call_is_released(node: hutong.Node, caller: Caller) -> None:
    refused = Refusing()
    await node.rpc.bind(Feed, Speaking(), address="guarded", interceptors=[refused])
    feed = caller.proxy(Feed, address="guarded")
    with pytest.raises(NotAuthorized):
        await feed.tell(Hearing(), "x")
    with pytest.raises(NotAuthorized):
        await feed.everybody([Hearing() for _ in range(20)], "x")
    await until(lambda: not passed_by(caller))
    # It is refused all the same with arguments that cannot be read.
    with pytest.raises(NotAuthorized):
        await caller.call("guarded", "tell", {"listener": "tree"})


class Refusing:
    def __call__(self, _: object) -> None:
        raise NotAuthorized("not you")
