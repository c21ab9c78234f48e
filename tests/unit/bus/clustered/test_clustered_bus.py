"""Nodes of ours that talk to each other: what holds for one bus holds for several."""

import asyncio
import contextlib
import socket
import struct
from collections import Counter
from functools import partial
from typing import Any

import pytest
from tests.support.waiting import turning_until
from tests.unit.bus.clustered.scenes import Cluster, ClusterNode
from tests.unit.bus.scenes import Seen, turns

from hutong.bus import Delivery, DeliveryOptions, FailureType, Headers, Message, ReplyError
from hutong.bus.clustered.limits import ClusteredLimits
from hutong.bus.envelope.java_objects import ClusterSerializable, JavaSerialized
from hutong.bus.envelope.service_failure import ServiceFailure
from hutong.foundation.errors import LimitExceeded, OwnerGone
from hutong.wire.vertx.cluster_frames import PING_CODEC, PONG, ClusterFrame, decode, encode, encode_ping
from hutong.wire.vertx.cluster_nodes import NodeInfo

pytestmark = pytest.mark.timeout(30)
BODIES: list[Any] = [
    None, True, False, 0, -1, 2**31, -(2**63), 1.5, "", "ü😀", b"", b"\x00\xff",
    {}, {"a": [1, {"b": None}]}, [], [1, "x"],
    ClusterSerializable("io.vertx.Thing", b"\x01"), JavaSerialized(b"\xac\xed"),
]  # fmt: skip


async def failure_of(reply: Any) -> ReplyError:
    with pytest.raises(ReplyError) as caught:
        await reply
    return caught.value


def note(seen: Seen, name: str, message: Message) -> None:
    seen.note((name, message.body, message.is_send))


async def test_a_request_is_answered_by_another_node() -> None:
    async with Cluster() as cluster:
        a, b = await cluster.pair()
        b.bus.consumer("echo", lambda message: message.reply(message.body, headers={"seen": message.address}))
        await a.until_receivers("echo", 1)
        for body in BODIES:
            reply = await a.bus.request("echo", body)
            assert reply.body == body
            assert reply.headers.get("seen") == "echo"
        assert not b.errors


async def test_the_first_requests_wait_for_the_connection_in_order() -> None:
    async with Cluster() as cluster:
        a, b = await cluster.pair()
        seen = Seen()
        b.bus.consumer("numbers", seen)
        await a.until_receivers("numbers", 1)
        for number in range(1_000):
            a.bus.send("numbers", number)
        assert await seen.wait_for(1_000) == list(range(1_000))


async def test_each_consumer_has_its_turn_wherever_it_is() -> None:
    async with Cluster() as cluster:
        a, b = await cluster.pair()
        seen = Seen()
        for node, name in ((a, "a1"), (b, "b1"), (b, "b2")):
            node.bus.consumer("shared", partial(note, seen, name))
        await a.until_receivers("shared", 3)
        for _ in range(30):
            a.bus.send("shared")
        assert Counter(await seen.wait_for(30)) == {(name, None, True): 10 for name in ("a1", "b1", "b2")}


async def test_a_publication_reaches_every_consumer_once() -> None:
    async with Cluster() as cluster:
        a, b = await cluster.pair()
        c = await cluster.node("c")
        seen = Seen()
        for node, name in ((a, "a1"), (b, "b1"), (b, "b2"), (c, "c1")):
            node.bus.consumer("news", partial(note, seen, name))
        await a.until_receivers("news", 4)
        a.bus.publish("news", "text")
        assert Counter(await seen.wait_for(4)) == {(name, "text", False): 1 for name in ("a1", "b1", "b2", "c1")}


async def test_local_only_means_this_process() -> None:
    async with Cluster() as cluster:
        a, b = await cluster.pair()
        seen = Seen()
        b.bus.consumer("place", lambda message: seen.note(("shown", message.body)))
        b.bus.consumer("place", lambda message: seen.note(("hidden", message.body)), local_only=True)
        await a.until_receivers("place", 1)
        for _ in range(3):
            a.bus.send("place", "sent")
        a.bus.publish("place", "published")
        assert await seen.wait_for(4) == [("shown", "sent")] * 3 + [("shown", "published")]
        # A message for this process alone does not leave it.
        failure = await failure_of(a.bus.request("place", 1, DeliveryOptions(local_only=True)))
        assert failure.failure_type is FailureType.NO_HANDLERS
        a.bus.publish("place", "own", DeliveryOptions(local_only=True))
        with pytest.raises(ReplyError, match="no handlers"):
            await a.bus.sender("place", DeliveryOptions(local_only=True)).write(1)
        await a.bus.sender("place").write("last")
        assert (await seen.wait_for(5))[4:] == [("shown", "last")]


async def test_failures_travel() -> None:
    def raising(_: Message) -> None:
        raise RuntimeError("a secret of this process")

    async with Cluster() as cluster:
        a, b = await cluster.pair()
        b.bus.consumer("fail", lambda message: message.fail(7, "no"))
        b.bus.consumer("service", lambda message: message.reply(ServiceFailure(5, "busy", {"asked": 1})))
        b.bus.consumer("raise", raising)
        b.bus.consumer("unsayable", lambda message: message.reply(2**70))
        b.bus.consumer("silent", lambda message: None)
        await a.until_receivers("silent", 1)
        failure = await failure_of(a.bus.request("fail"))
        assert (failure.failure_type, failure.failure_code, failure.message) == (
            FailureType.RECIPIENT_FAILURE, 7, "no",
        )  # fmt: skip
        service = await failure_of(a.bus.request("service"))
        assert isinstance(service, ServiceFailure)
        assert (service.failure_code, service.message, service.debug_info) == (5, "busy", {"asked": 1})
        raised = await failure_of(a.bus.request("raise"))
        assert (raised.failure_type, raised.message) == (FailureType.RECIPIENT_FAILURE, "the handler raised an error")
        unsayable = await failure_of(a.bus.request("unsayable"))
        assert unsayable.failure_type is FailureType.ERROR
        assert "64 bits" in unsayable.message
        unsent = await failure_of(a.bus.request("silent", 2**70))
        assert "64 bits" in unsent.message
        assert (await failure_of(a.bus.request("silent", timeout=0.05))).failure_type is FailureType.TIMEOUT


async def test_a_reply_may_ask_back() -> None:
    async with Cluster() as cluster:
        a, b = await cluster.pair()
        answers = Seen()

        async def ask_back(message: Message) -> None:
            answer = await message.reply_and_request("which?")
            answers.note(answer.body)

        b.bus.consumer("order", ask_back)
        await a.until_receivers("order", 1)
        question = await a.bus.request("order", "noodles")
        question.reply("the long ones")
        assert await answers.wait_for(1) == ["the long ones"]


async def test_headers_repeat_and_keep_their_order() -> None:
    async with Cluster() as cluster:
        a, b = await cluster.pair()
        b.bus.consumer("who", lambda message: [list(pair) for pair in message.headers.items()])
        await a.until_receivers("who", 1)
        headers = Headers({"user": "mei"}).add("tag", "b").add("Tag", "ä")
        assert (await a.bus.request("who", headers=headers)).body == [["user", "mei"], ["tag", "b"], ["Tag", "ä"]]


def pass_on(seen: list[tuple[str, str, Any]], name: str, way: str, step: Delivery) -> None:
    seen.append((name, way, step.body))
    step.next()


async def test_interceptors_of_both_sides_see_messages_and_replies() -> None:
    async with Cluster() as cluster:
        a, b = await cluster.pair()
        seen: list[tuple[str, str, Any]] = []
        for node in (a, b):
            for way in ("outbound", "inbound"):
                add = getattr(node.bus, f"add_{way}_interceptor")
                add(partial(pass_on, seen, node.name, way))
        b.bus.consumer("echo", lambda message: "answer")
        await a.until_receivers("echo", 1)
        assert (await a.bus.request("echo", "question")).body == "answer"
        assert seen == [
            ("a", "outbound", "question"),
            ("b", "inbound", "question"),
            ("b", "outbound", "answer"),
            ("a", "inbound", "answer"),
        ]


async def test_an_unregistered_consumer_is_gone_for_all() -> None:
    async with Cluster() as cluster:
        a, b = await cluster.pair()
        consumer = b.bus.consumer("short", lambda message: 1)
        await a.until_receivers("short", 1)
        consumer.unregister()
        # The sender does not know yet, and learns it at once from the node that it asks.
        assert (await failure_of(a.bus.request("short"))).failure_type is FailureType.NO_HANDLERS
        await a.until_receivers("short", 0)
        assert (await failure_of(a.bus.request("short"))).failure_type is FailureType.NO_HANDLERS


async def test_a_consumer_that_is_ready_is_found_by_a_node_that_comes_then() -> None:
    async with Cluster() as cluster:
        a = await cluster.node("a")
        consumer = a.bus.consumer("place", partial(answer, "here"))
        await consumer.ready()
        b = await cluster.node("b")
        assert (await b.bus.request("place")).body == "here"
        await consumer.ready()
        # Nobody else will ever know this one.
        assert a.bus.consumer("own", partial(answer, "here"), local_only=True).ready().done()


async def test_a_consumer_is_not_ready_while_the_registry_is_not_reached() -> None:
    async with Cluster() as cluster:
        a, b = await cluster.pair()
        cluster.registry.cut("a")
        late = a.bus.consumer("late", partial(answer, "late"))
        first, second = late.ready(), late.ready()
        await b.bus.consumer("other", partial(answer, "other")).ready()
        assert not first.done()
        cluster.registry.heal("a")
        await first
        await second
        await b.until_receivers("late", 1)
        assert (await b.bus.request("late")).body == "late"


async def test_who_waits_for_a_consumer_hears_that_it_is_gone() -> None:
    async with Cluster() as cluster:
        a = await cluster.node("a")
        cluster.registry.cut("a")
        consumers = [a.bus.consumer(address, partial(answer, address)) for address in ("one", "two")]
        waits = [consumer.ready() for consumer in consumers]
        consumers[0].unregister()
        for wait in (waits[0], consumers[0].ready()):
            with pytest.raises(OwnerGone, match="the consumer of 'one' has unregistered"):
                await wait
        await a.close()
        with pytest.raises(OwnerGone, match="this node has left the cluster"):
            await waits[1]


def answer(value: str, _: Message) -> str:
    return value


async def test_a_node_that_leaves_in_order_is_missed_by_nobody() -> None:
    async with Cluster() as cluster:
        a, b = await cluster.pair()
        for node in (a, b):
            node.bus.consumer("work", partial(answer, node.name))
        await a.until_receivers("work", 2)
        assert {(await a.bus.request("work")).body for _ in range(4)} == {"a", "b"}
        await b.close()
        await a.until_receivers("work", 1)
        assert {(await a.bus.request("work")).body for _ in range(4)} == {"a"}


async def test_a_node_that_dies_fails_what_it_owes_long_before_its_session_ends() -> None:
    async with Cluster() as cluster:
        a, b = await cluster.pair()
        got = Seen()
        b.bus.consumer("slow", got)
        await a.until_receivers("slow", 1)
        reply = a.bus.request("slow", timeout=60.0)
        await got.wait_for(1)
        await kill(b)
        failure = await failure_of(reply)
        assert failure.failure_type is FailureType.ERROR
        assert "node b cannot answer" in failure.message
        # Its entries are there still.
        assert "b" in cluster.registry.nodes
        await a.until_receivers("slow", 0)
        assert (await failure_of(a.bus.request("slow"))).failure_type is FailureType.NO_HANDLERS
        cluster.registry.expire("b")
        await turning_until(lambda: "b" not in a.clustered._links)


async def kill(node: ClusterNode) -> None:
    """End its sockets without a word to the registry."""
    node.membership.vanish()
    node.clustered._acceptor.cut(lambda _: True)
    node.clustered._connector.cut(lambda _: True)
    await node.clustered._acceptor.drain(0)


async def test_a_line_that_breaks_is_mended_at_once() -> None:
    async with Cluster() as cluster:
        a, b = await cluster.pair()
        b.bus.consumer("echo", lambda message: message.body)
        await a.until_receivers("echo", 1)
        for number in range(5):
            assert (await a.bus.request("echo", number)).body == number
            # It has stood for so long.
            a.clock.ahead_ms += ClusteredLimits().stable_ms_min
            b.clustered._acceptor.cut(lambda _: True)
            await turning_until(lambda: a.clustered._links["b"].peer is None)
        assert (await a.bus.request("echo", "at last")).body == "at last"


async def test_a_node_that_loses_its_session_registers_again() -> None:
    async with Cluster() as cluster:
        a, b = await cluster.pair()
        b.bus.consumer("echo", lambda message: message.body)
        await a.until_receivers("echo", 1)
        cluster.registry.expire("b")
        await a.until_receivers("echo", 0)
        await a.until_receivers("echo", 1)
        assert (await a.bus.request("echo", 1)).body == 1


async def test_known_nodes_talk_while_the_registry_is_not_reached() -> None:
    async with Cluster() as cluster:
        a, b = await cluster.pair()
        b.bus.consumer("echo", lambda message: message.body)
        await a.until_receivers("echo", 1)
        for node in (a, b):
            cluster.registry.cut(node.name)
        assert (await a.bus.request("echo", 1)).body == 1
        b.bus.consumer("later", lambda message: 2)
        for node in (a, b):
            cluster.registry.heal(node.name)
        await a.until_receivers("later", 1)
        assert (await a.bus.request("later")).body == 2


async def test_sends_from_threads_keep_their_order() -> None:
    async with Cluster() as cluster:
        a, b = await cluster.pair()
        seen = Seen()
        b.bus.consumer("numbers", seen)
        await a.until_receivers("numbers", 1)

        def work(thread: int) -> None:
            for number in range(500):
                a.bus.send("numbers", [thread, number])

        await asyncio.gather(*[asyncio.to_thread(work, thread) for thread in range(3)])
        items = await seen.wait_for(1_500)
        for thread in range(3):
            assert [item[1] for item in items if item[0] == thread] == list(range(500))  # type: ignore[index]
        # What three threads have counted is exact.
        assert a.clustered._links["b"].outbox.sizes == (0, 0)


async def test_a_producer_waits_for_a_node_that_does_not_read() -> None:
    """Its credits come back when the connection takes the messages."""
    async with Cluster(ClusteredLimits(unsent_bytes_max=1)) as cluster:
        a = await cluster.node("a")
        with socket.create_server(("127.0.0.1", 0)) as listener:
            fake = cluster.registry.connect()
            await fake.start("deaf", NodeInfo(*listener.getsockname()), Deaf())
            fake.announce("place", 1)
            await a.until_receivers("place", 1)
            sender = a.bus.sender("place", write_queue_max=10)
            body, written = "x" * 100_000, 1
            sender.write(body)
            connection, _ = await asyncio.to_thread(listener.accept)
            with connection:
                await asyncio.to_thread(read_some, connection, len(encode_ping("deaf")))
                connection.send(PONG)
                await turning_until(lambda: a.clustered.figures()[0].sent_total == 1)
                while not sender.is_full:
                    sender.write(body)
                    written += 1
                    await turns(3)
                # What the kernel took, what the connection holds, and ten that wait.
                assert written > 10
                await asyncio.to_thread(read_some, connection, written * 100_000)
            await turning_until(lambda: not sender.is_full)


async def test_what_waits_for_a_node_is_bounded_by_bytes() -> None:
    async with Cluster(ClusteredLimits(queued_bytes_max=10_000)) as cluster:
        a, b = await cluster.pair()
        seen = Seen()
        b.bus.consumer("place", seen)
        await a.until_receivers("place", 1)
        sent = 10  # each frame is a little more than its body
        # The loop does not turn, so nothing leaves meanwhile.
        for _ in range(sent):
            a.bus.send("place", "x" * 1_000)
        with pytest.raises(LimitExceeded, match="queued_bytes_max is 10000"):
            a.bus.send("place", "x")
        for options in ({}, {"headers": {"a": "b"}}):
            with pytest.raises(LimitExceeded, match="queued_bytes_max"):
                a.bus.request("place", 1, **options)  # type: ignore[arg-type]
        with pytest.raises(LimitExceeded, match="queued_bytes_max"):
            a.bus.publish("place", 1)
        assert a.bus.replies_waiting == 0
        assert await seen.wait_for(sent) == ["x" * 1_000] * sent
        a.bus.send("place", "more")
        assert (await seen.wait_for(sent + 1))[-1] == "more"


async def test_a_publication_reaches_all_others_where_one_node_is_full() -> None:
    async with Cluster(ClusteredLimits(queued_bytes_max=10_000)) as cluster:
        a, b = await cluster.pair()
        c = await cluster.node("c")
        seen = Seen()
        for node in (a, b, c):
            node.bus.consumer("place", partial(note, seen, node.name))
        b.bus.consumer("of-b", lambda message: None)
        await a.until_receivers("place", 3)
        await a.until_receivers("of-b", 1)
        # The loop does not turn, so nothing leaves meanwhile.
        a.bus.send("of-b", "x" * 10_000)
        with pytest.raises(LimitExceeded, match="queued_bytes_max"):
            a.bus.publish("place", 1)
        await turning_until(lambda: a.clustered._links["b"].outbox.sizes == (0, 0))
        a.bus.publish("place", 2)
        found = await seen.wait_for(5)
        assert sorted(found) == sorted(  # type: ignore[type-var]
            [("a", 1, False), ("c", 1, False), ("a", 2, False), ("b", 2, False), ("c", 2, False)]
        )


@pytest.mark.parametrize("address", ["3f2c1d7e-0a4b-4c6d-8e9f-a0b1c2d3e4f5", "no-reference"])
async def test_a_service_in_a_reply_may_be_called_before_the_news_of_it(address: str) -> None:
    async with Cluster() as cluster:
        a, b = await cluster.pair()

        def make(message: Message) -> None:
            b.bus.consumer(address, lambda message: message.body)
            message.reply(None, headers={"proxyaddr": address})

        b.bus.consumer("make", make)
        await a.until_receivers("make", 1)
        # No news comes to it any more.
        cluster.registry.cut("a")
        assert (await a.bus.request("make")).headers.get("proxyaddr") == address
        if address == "no-reference":
            # Nobody else may be at such an address, but at any other.
            assert (await failure_of(a.bus.request(address, 1))).failure_type is FailureType.NO_HANDLERS
        else:
            assert (await a.bus.request(address, 1)).body == 1
        a.clustered.check_invariants()


async def test_figures_of_other_nodes() -> None:
    async with Cluster() as cluster:
        a, b = await cluster.pair()
        b.bus.consumer("place", lambda message: None)
        await a.until_receivers("place", 1)
        a.bus.send("place", "x")
        [waiting] = a.clustered.figures()
        assert (waiting.node, waiting.is_connected, waiting.sent_total, waiting.queued) == ("b", False, 0, 1)
        assert waiting.queued_bytes > 0
        await turning_until(lambda: b.clustered.figures()[0].received_total == 1)
        [sent], [received] = a.clustered.figures(), b.clustered.figures()
        assert (sent.is_connected, sent.sent_total, sent.sent_bytes_total) == (True, 1, waiting.queued_bytes)
        assert (sent.queued, sent.queued_bytes) == (0, 0)
        assert (received.node, received.received_bytes_total) == ("a", sent.sent_bytes_total)
        # A node that nobody has heard of is not counted, whatever it says.
        async with Stranger(a) as stranger:
            stranger.send(encode(ClusterFrame(0, "nobody", "stranger")) + encode_ping("a"))
            assert await stranger.receive(1) == b"\x01"
        await b.close()
        await turning_until(lambda: a.clustered.figures() == [])


async def test_answers_to_a_node_that_does_not_take_them_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    async with Cluster(ClusteredLimits(queued_bytes_max=1_000)) as cluster:
        a, b = await cluster.pair()
        a.bus.consumer("long", lambda message: "x" * 1_000)
        await b.until_receivers("long", 1)
        # It has no entry, so its answers wait.
        async with Stranger(a) as stranger:
            stranger.send(3 * encode(ClusterFrame(0, "long", "late", reply_address="r")))
            await turning_until(lambda: len(a.errors) == 2)
        assert [type(error) for error in a.errors] == [LimitExceeded] * 2
        assert caplog.text.count("an answer to node late is lost: queued_bytes_max is 1000") == 2
        assert (await b.bus.request("long")).body == "x" * 1_000


def read_some(connection: socket.socket, size: int) -> None:
    while size > 0:
        size -= len(connection.recv(1 << 20))


class Deaf:
    """A listener of a membership that hears nothing."""

    def nodes_changed(self, nodes: object) -> None: ...

    def registrations_changed(self, address: str, counts: object) -> None: ...

    def announced(self, number: int) -> None: ...


class FakeNode:
    """A listener that answers pings, and puts every other frame into `received`."""

    def __init__(self) -> None:
        self.received: asyncio.Queue[ClusterFrame] = asyncio.Queue()

    async def __aenter__(self) -> "FakeNode":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.info = NodeInfo(*self._server.sockets[0].getsockname())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                frame = decode(await reader.readexactly(int.from_bytes(await reader.readexactly(4))))
                if frame.codec == PING_CODEC:
                    writer.write(PONG)
                else:
                    self.received.put_nowait(frame)
        writer.close()


class Stranger:
    """A socket at a node's listener that writes any bytes."""

    def __init__(self, node: ClusterNode) -> None:
        self._info = node.info

    async def __aenter__(self) -> "Stranger":
        self._reader, self._writer = await asyncio.open_connection(self._info.host, self._info.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def receive(self, count: int) -> bytes:
        return await self._reader.readexactly(count)

    async def must_be_closed(self) -> None:
        assert await self._reader.read() == b""


async def test_a_ping_is_answered_with_one_byte() -> None:
    async with Cluster() as cluster:
        a = await cluster.node("a")
        async with Stranger(a) as stranger:
            stranger.send(2 * encode_ping("a"))
            assert await stranger.receive(2) == b"\x01\x01"


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 1 << 30),
        struct.pack(">iBb", 2, 1, 9),
        struct.pack(">i", 3) + b"abc",
        encode(ClusterFrame(9, "a", "one")) + encode(ClusterFrame(9, "a", "two")),
    ],
    ids=["negative", "huge", "version 1", "no frame", "two senders"],
)
async def test_a_stranger_that_breaks_the_format_is_cut_off(data: bytes) -> None:
    async with Cluster() as cluster:
        a, b = await cluster.pair()
        async with Stranger(a) as stranger:
            stranger.send(data)
            await stranger.must_be_closed()
        b.bus.consumer("echo", lambda message: message.body)
        await a.until_receivers("echo", 1)
        assert (await a.bus.request("echo", 1)).body == 1


async def test_a_codec_that_is_not_known_fails_the_request_alone() -> None:
    """The answer goes to the node that the frame names, by a connection of its own."""
    async with Cluster() as cluster:
        a, b = await cluster.pair()
        seen = Seen()
        b.bus.consumer("place", seen)
        await a.until_receivers("place", 1)
        a.bus.register_codec(Points(), default_for=complex)
        failure = await failure_of(a.bus.request("place", 1 + 2j))
        assert failure.failure_type is FailureType.ERROR
        assert "no codec is named 'points'" in failure.message
        await failure_of(a.bus.request("place", 3j))
        b.bus.register_codec(Points(), default_for=complex)
        a.bus.send("place", 4 + 5j)
        assert await seen.wait_for(1) == [4 + 5j]


class Points:
    name = "points"

    def encode(self, body: complex) -> bytes:
        return struct.pack(">dd", body.real, body.imag)

    def decode(self, data: bytes) -> complex:
        return complex(*struct.unpack(">dd", data))

    def transform(self, body: complex) -> complex:
        return body


async def test_an_answer_of_a_node_that_was_not_asked_is_dropped() -> None:
    async with Cluster() as cluster:
        a, b = await cluster.pair()
        got = Seen()
        b.bus.consumer("slow", lambda message: got.note(message.reply_address))
        await a.until_receivers("slow", 1)
        reply = a.bus.request("slow", timeout=0.3)
        [address] = await got.wait_for(1)
        async with Stranger(a) as stranger:
            stranger.send(encode(ClusterFrame(0, str(address), "stranger")) + encode_ping("a"))
            assert await stranger.receive(1) == b"\x01"
        assert (await failure_of(reply)).failure_type is FailureType.TIMEOUT


async def test_a_node_without_an_entry_waits_for_its_answer_until_it_has_one() -> None:
    async with Cluster() as cluster:
        a = await cluster.node("a")
        a.bus.consumer("echo", lambda message: message.reply(message.body))
        # As a Vert.x node whose first request is faster than the news of its entry.
        async with Stranger(a) as stranger:
            stranger.send(encode(ClusterFrame(0, "echo", "late", reply_address="r")))
            await turning_until(lambda: "late" in a.clustered._links)
            async with FakeNode() as late:
                fake = cluster.registry.connect()
                await fake.start("late", late.info, Deaf())
                answer = await late.received.get()
                assert (answer.address, answer.sender) == ("r", "a")


async def test_a_node_that_leaves_before_a_connection_to_it_is_begun_is_forgotten() -> None:
    async with Cluster() as cluster:
        a, b = await cluster.pair()
        b.bus.consumer("place", lambda message: None)
        await a.until_receivers("place", 1)
        reply = a.bus.request("place")
        a.clustered._links["b"].outbox._pass()
        a.clustered.nodes_changed({"a": a.info})
        assert "it has left the cluster" in (await failure_of(reply)).message
        await turns(20)
        assert a.errors == []
        a.clustered.check_invariants()


async def test_a_node_that_is_back_at_its_place_gets_nothing_twice() -> None:
    """Its entry of before stays until its session ends, and to a node that joins only now both are news."""
    async with Cluster() as cluster:
        b = await cluster.node("b")
        seen = Seen()
        b.bus.consumer("place", seen)
        await b.bus.consumer("place", seen).ready()
        former = cluster.registry.connect()
        await former.start("former", b.info, Deaf())
        former.announce("place", 1)
        await turning_until(lambda: "place" in cluster.registry.registrations)
        await turning_until(lambda: len(cluster.registry.registrations["place"]) == 3)
        a = await cluster.node("a")
        await a.until_receivers("place", 3)
        a.bus.publish("place", "news")
        await a.until_receivers("place", 2)
        a.bus.publish("place", "more")
        assert await seen.wait_for(4) == ["news", "news", "more", "more"]


def said(text: str) -> bytes:
    """The frame of a string from the node `other`."""
    return encode(ClusterFrame(9, "place", "other", struct.pack(">i", len(text)) + text.encode()))


async def test_the_newest_connection_of_a_node_counts() -> None:
    """What a node has sent by one that it has given up would come behind later messages."""
    async with Cluster() as cluster:
        a = await cluster.node("a")
        seen = Seen()
        a.bus.consumer("place", seen)
        async with Stranger(a) as first, Stranger(a) as second:
            # Each is accepted in its turn.
            for stranger in (first, second):
                stranger.send(encode_ping("a"))
                assert await stranger.receive(1) == PONG
            first.send(said("1"))
            assert await seen.wait_for(1) == ["1"]
            second.send(said("2"))
            await first.must_be_closed()
        assert await seen.wait_for(2) == ["1", "2"]


async def test_what_comes_last_by_an_older_connection_is_dropped() -> None:
    async with Cluster() as cluster:
        a = await cluster.node("a")
        seen = Seen()
        a.bus.consumer("place", seen)
        async with Stranger(a) as first, Stranger(a) as second:
            for stranger in (first, second):
                stranger.send(encode_ping("a"))
                assert await stranger.receive(1) == PONG
            second.send(said("2"))
            await seen.wait_for(1)
            first.send(said("1"))
            await first.must_be_closed()
            second.send(said("3"))
            assert await seen.wait_for(2) == ["2", "3"]


async def test_frames_are_taken_in_order_however_the_reads_cut_them() -> None:
    async with Cluster() as cluster:
        a = await cluster.node("a")
        seen = Seen()
        a.bus.consumer("place", seen)
        with_headers = ClusterFrame(9, "place", "other", struct.pack(">i", 1) + b"3", None, (("a", "b"),))
        data = said("1") + said("2") + encode(with_headers) + encode_ping("a") + said("4") + said("5")
        async with Stranger(a) as stranger:
            for cut in (len(data), 1, 50, len(data) - 1):
                stranger.send(data[:cut])
                await turning_until(lambda: a.clustered._acceptor.figures.bytes_received_total)
                await turns(3)
                stranger.send(data[cut:])
                assert await stranger.receive(1) == PONG
        assert await seen.wait_for(20) == ["1", "2", "3", "4", "5"] * 4
        async with Stranger(a) as stranger:
            stranger.send(said("6") + said("7") + said("8").replace(b"other", b"third") + said("9"))
            await stranger.must_be_closed()
        assert await seen.wait_for(22) == [*["1", "2", "3", "4", "5"] * 4, "6", "7"]


async def test_a_ping_for_another_node_ends_the_connection() -> None:
    async with Cluster() as cluster:
        a = await cluster.node("a")
        async with Stranger(a) as stranger:
            stranger.send(encode_ping("former"))
            await stranger.must_be_closed()
