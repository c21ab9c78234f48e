"""What a bad caller can do to services, and bad services to callers: the documented failure, and nothing is left.

Every test ends with a look: no call under way at the node, none awaited at a client, no reply awaited on the bus; and
a good caller beside the bad one is served.
"""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

import msgspec
import pytest
from tests.support import rpc_peer
from tests.support.rpc_peer import CALL, FAILURE, RawPeer

import hutong
from hutong.rpc import (
    BadReply,
    CallFailed,
    CallTimeout,
    Client,
    ConnectionLost,
    DispatchFailed,
    NoService,
    Overloaded,
    ServiceFault,
    connect,
    service,
)
from hutong.rpc.calling.caller import Caller

pytestmark = pytest.mark.fault
MEBIBYTE = 1024 * 1024
FRAME_BYTES_MAX = 16 * MEBIBYTE


@service("victim")
class Victim(Protocol):
    async def add(self, a: int, b: int) -> int: ...
    async def echo(self, data: bytes) -> bytes: ...
    async def unsendable(self) -> Any: ...
    async def endless(self) -> Any: ...
    async def huge(self) -> Any: ...
    async def wrong(self) -> int: ...
    async def fail(self) -> None: ...
    async def wait(self) -> str: ...
    async def long(self, size: int) -> bytes: ...
    async def measure(self, data: bytes) -> int: ...


@service("victim")
class Misremembered(Protocol):
    """The same service, as somebody has it who did not read its declaration."""

    async def add(self, a: str, b: int) -> int: ...
    async def subtract(self, a: int) -> int: ...
    async def echo(self) -> bytes: ...
    async def unsendable(self, more: int) -> Any: ...


class Implementation:
    def __init__(self) -> None:
        self.waiting = 0
        self.gate = asyncio.Event()

    async def add(self, a: int, b: int) -> int:
        return a + b

    async def echo(self, data: bytes) -> bytes:
        return data

    async def unsendable(self) -> Any:
        return object()

    async def endless(self) -> Any:
        endless: list[object] = []
        endless.append(endless)
        return endless

    async def huge(self) -> Any:
        return 1 << 64

    async def wrong(self) -> int:
        return "no number"  # type: ignore[return-value]

    async def fail(self) -> None:
        raise KeyError("secret")

    async def long(self, size: int) -> bytes:
        return bytes(size)

    async def measure(self, data: bytes) -> int:
        return len(data)

    async def wait(self) -> str:
        self.waiting += 1
        try:
            await self.gate.wait()
        finally:
            self.waiting -= 1
        return "waited"


class Scene:
    """A node with the service, a good client, and callers over the connection and over the bus."""

    def __init__(self, node: hutong.Node, client: Client, service: Implementation) -> None:
        self.node = node
        self.client = client
        self.service = service
        self.callers: dict[str, Caller] = {"connection": client, "bus": node.rpc}

    @property
    def address(self) -> str:
        assert self.node.rpc_address is not None
        return self.node.rpc_address

    @property
    def is_empty(self) -> bool:
        listener = self.node.rpc_listener
        assert listener is not None
        return not (listener.incoming.calls or self.client.calls_awaited or self.node.bus.replies_waiting)

    async def must_be_fine(self) -> None:
        for caller in self.callers.values():
            assert await caller.proxy(Victim).add(1, 2) == 3
        await until(lambda: self.is_empty)


async def until(is_so: Callable[[], object]) -> None:
    """Let the loop turn until it is so."""
    async with asyncio.timeout(20):
        while not is_so():  # noqa: ASYNC110  # it is what the test is about; an event would be one more thing to trust
            await asyncio.sleep(0)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    implementation = Implementation()
    async with hutong.Node(rpc="127.0.0.1:0") as node:
        await node.rpc.bind(Victim, implementation)
        assert node.rpc_address is not None
        async with connect(node.rpc_address) as client:
            scene = Scene(node, client, implementation)
            yield scene
            await scene.must_be_fine()


@pytest.fixture(params=["connection", "bus"])
def caller(scene: Scene, request: pytest.FixtureRequest) -> Caller:
    return scene.callers[request.param]


async def test_arguments_of_the_wrong_type(caller: Caller) -> None:
    with pytest.raises(DispatchFailed, match="the argument 'a' is wrong: Expected int, got str"):
        await caller.proxy(Misremembered).add("1", 2)
    wrong: list[object] = [None, 1.5, [], {}, "1"]
    for value in wrong:
        with pytest.raises(DispatchFailed):
            await caller.call("victim", "add", {"a": value, "b": 2})


async def test_arguments_that_are_missing_or_too_many(caller: Caller) -> None:
    with pytest.raises(DispatchFailed, match="the argument 'data' is missing"):
        await caller.proxy(Misremembered).echo()
    with pytest.raises(DispatchFailed, match="there is no parameter 'more'"):
        await caller.proxy(Misremembered).unsendable(1)
    with pytest.raises(DispatchFailed, match="the argument 'a' is missing"):
        await caller.call("victim", "add")


async def test_an_action_that_there_is_not(caller: Caller) -> None:
    with pytest.raises(DispatchFailed, match="Invalid action: subtract"):
        await caller.proxy(Misremembered).subtract(1)
    for action in ("", "__init__", "x" * 10_000, "\u2028"):
        with pytest.raises(DispatchFailed):
            await caller.call("victim", action)


async def test_an_address_where_nobody_is(caller: Caller) -> None:
    with pytest.raises(NoService):
        await caller.proxy(Victim, address="nobody").add(1, 2)


async def test_arguments_that_cannot_be_sent_are_not(caller: Caller) -> None:
    endless: list[object] = []
    endless.append(endless)
    for value in (object(), {1, object()}, endless):
        with pytest.raises((TypeError, ValueError)):
            await caller.call("victim", "echo", {"data": value})


@pytest.mark.parametrize("action", ["unsendable", "endless"])
async def test_a_result_that_cannot_be_encoded(caller: Caller, action: str) -> None:
    with pytest.raises(DispatchFailed, match="cannot be sent"):
        await caller.call("victim", action)


async def test_a_number_of_more_than_64_bits_cannot_be_sent_over_a_connection(scene: Scene) -> None:
    with pytest.raises(DispatchFailed, match="cannot be sent"):
        await scene.client.proxy(Victim).huge()


async def test_a_result_that_is_not_what_was_promised(caller: Caller) -> None:
    with pytest.raises(BadReply):
        await caller.proxy(Victim).wrong()


async def test_a_fault_tells_its_kind_and_no_more(caller: Caller) -> None:
    with pytest.raises(ServiceFault) as fault:
        await caller.proxy(Victim).fail()
    assert "secret" not in str(fault.value)


async def test_a_reply_after_the_deadline_is_dropped(caller: Caller, scene: Scene) -> None:
    with pytest.raises(CallTimeout):
        await caller.proxy(Victim, timeout=0.05).wait()
    assert scene.service.waiting == 1
    scene.service.gate.set()


async def test_a_cancelled_call_leaves_nothing_at_the_caller(caller: Caller, scene: Scene) -> None:
    calls = [asyncio.ensure_future(caller.proxy(Victim).wait()) for _ in range(10)]
    await until(lambda: scene.service.waiting == 10)
    for call in calls:
        call.cancel()
    assert {type(outcome) for outcome in await asyncio.gather(*calls, return_exceptions=True)} == {
        asyncio.CancelledError
    }
    assert scene.client.calls_awaited == 0
    assert scene.node.bus.replies_waiting == 0
    scene.service.gate.set()


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">I", 0),
        struct.pack(">I", 3) + b"abc",
        struct.pack(">i", -1) + b"x" * 100,
        struct.pack(">I", FRAME_BYTES_MAX + 1) + b"x" * 100,
        struct.pack(">I", 0x7FFFFFFF),
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">II", 25, rpc_peer.BINARY | 22) + b"\0" * 21,
        struct.pack(">II", 25, rpc_peer.BINARY | 0xFFFFFF) + b"\0" * 21,
        struct.pack(">II", 25, rpc_peer.BINARY | 20) + b"\0" * 21,
        struct.pack(">II", 25, rpc_peer.BINARY) + b"\0" * 21,
        struct.pack(">II", 25, (7 << 24) | 21) + b"\0" * 21,
        rpc_peer.frame(struct.pack(">hBhiii", CALL, 3, 1, 1, 0, 1_000) + b"\0" * 4),
        rpc_peer.frame(struct.pack(">hBhiii", CALL, 3, 1, 1, 0, -1) + b"\0" * 4),
        rpc_peer.frame(struct.pack(">hBhiiii", CALL, 3, 1, 1, 0, 0, 1_000)),
        rpc_peer.frame(struct.pack(">hBhiiii", CALL, 3, 1, 1, 0, 0, -1)),
        struct.pack(">II", 4, 0),
        struct.pack(">II", 10, 6) + b"{nope}",
        struct.pack(">II", 4 + 100_000, 100_000) + b"[" * 100_000,
    ],
    ids=lambda data: data[:30].hex(),
)
async def test_lengths_that_lie_close_the_connection(scene: Scene, data: bytes) -> None:
    async with RawPeer(scene.address) as peer:
        peer.send(rpc_peer.call(7, "victim", "add", {"a": 1, "b": 2}))
        assert await peer.receive() == (7, 0, "", b"\x03")
        peer.send(data)
        await peer.must_be_closed()


@pytest.mark.parametrize(
    "ext",
    [
        b"",
        b"\x00",
        b"\xff\xff",
        b"\x00\x01s\x7f\xff\xff\xff",
        b"\x00\x01\xff\x00\x00\x00\x00",
        rpc_peer.fields([("s", "victim")]),
        rpc_peer.fields([("s", "victim"), ("a", "add"), ("t", "soon")]),
        rpc_peer.fields([("s", "victim"), ("a", "add")] + [("h.x", "y")] * 1_000),
        rpc_peer.fields([("s", "victim"), ("a", "add"), ("h.x", "y" * 100_000)]),
    ],
    ids=lambda ext: ext[:20].hex() or "none",
)
async def test_a_call_whose_fields_cannot_be_read_is_answered(scene: Scene, ext: bytes) -> None:
    async with RawPeer(scene.address) as peer:
        peer.send(rpc_peer.frame(rpc_peer.header(9, ext), b"\x80"))
        opaque, code, text, _ = await peer.receive()
        assert (opaque, code) == (9, FAILURE)
        assert text
        peer.send(rpc_peer.call(10, "victim", "add", {"a": 1, "b": 2}))
        assert await peer.receive() == (10, 0, "", b"\x03")


@pytest.mark.parametrize(
    "body", [b"", b"\xc1", b"\x93\x01\x02\x03", b"\xc0", b"\xdf\xff\xff\xff\xff", b"\x91" * 200_000, b"\x81\xa1a"]
)
async def test_a_body_that_is_no_map_of_arguments_is_answered(scene: Scene, body: bytes) -> None:
    async with RawPeer(scene.address) as peer:
        ext = rpc_peer.fields([("s", "victim"), ("a", "add")])
        peer.send(rpc_peer.frame(rpc_peer.header(9, ext), body))
        opaque, code, text, _ = await peer.receive()
        assert (opaque, code) == (9, FAILURE)
        assert text.startswith("add: ")


async def test_a_frame_of_the_largest_size_is_served_and_a_larger_one_refused(scene: Scene) -> None:
    ext = rpc_peer.fields([("s", "victim"), ("a", "measure")])
    head = rpc_peer.header(1, ext)
    around = len(msgspec.msgpack.encode({"data": b"x" * MEBIBYTE})) - MEBIBYTE
    size = FRAME_BYTES_MAX - 4 - len(head) - around
    async with RawPeer(scene.address) as peer:
        peer.send(rpc_peer.frame(head, msgspec.msgpack.encode({"data": b"x" * size})))
        assert await peer.receive() == (1, 0, "", msgspec.msgpack.encode(size))
    async with RawPeer(scene.address) as peer:
        peer.send(rpc_peer.frame(head, msgspec.msgpack.encode({"data": b"x" * (size + 1)})))
        await peer.must_be_closed()


async def test_a_result_larger_than_a_frame_is_a_failure(scene: Scene) -> None:
    with pytest.raises(ValueError, match="bytes; 16711680 are allowed"):
        await scene.client.proxy(Victim).echo(b"x" * FRAME_BYTES_MAX)
    with pytest.raises(DispatchFailed, match="bytes; 16711680 are allowed"):
        await scene.client.proxy(Victim).long(FRAME_BYTES_MAX)


async def test_a_peer_that_stops_reading_holds_up_nobody_else(scene: Scene) -> None:
    body = b"x" * 256 * 1024
    async with RawPeer(scene.address) as peer:
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for number in range(400):
            peer.send(rpc_peer.call(number, "victim", "echo", {"data": body}))
        listener = scene.node.rpc_listener
        assert listener is not None
        await until(lambda: listener.figures.reading_pauses_total)
        assert await scene.client.proxy(Victim).add(1, 2) == 3
        assert listener.incoming.calls <= listener.incoming.limits.calls_per_connection_max


async def test_more_both_ways_than_the_kernel_keeps(scene: Scene) -> None:
    """Neither side waits for the other to read first."""
    body = bytes(MEBIBYTE)
    answers = await asyncio.gather(*[scene.client.proxy(Victim).echo(body) for _ in range(60)])
    assert {len(answer) for answer in answers} == {MEBIBYTE}


async def test_a_server_that_asks_and_reads_no_answers_is_not_listened_to(scene: Scene) -> None:
    asked = rpc_peer.call(1, "victim", "echo", {"data": bytes(MEBIBYTE)})

    async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(64):
            writer.write(asked)
        await ended.wait()
        writer.transport.abort()

    ended = asyncio.Event()
    async with await asyncio.start_server(ask, "127.0.0.1", 0) as server:
        client = connect(address_of(server), services=scene.node.rpc)
        await client.connect()
        await until(lambda: client.remoting.reactor_figures.reading_pauses_total)
        assert client.incoming is not None
        await until(lambda: not client.incoming or not client.incoming.calls)
        (channel,) = client.remoting.channels
        assert channel.peer.unsent_bytes() < 40 * MEBIBYTE
        ended.set()
        await until(lambda: not client.is_connected)
        await client.close()


async def test_calls_with_headers_in_json(scene: Scene) -> None:
    head = msgspec.json.encode({"code": CALL, "opaque": 5, "extFields": {"s": "victim", "a": "add", "t": 30_000}})
    body = msgspec.msgpack.encode({"a": 1, "b": 2})
    async with RawPeer(scene.address) as peer:
        peer.send(struct.pack(">II", 4 + len(head) + len(body), len(head)) + head + body)
        length, head_bytes = struct.unpack(">II", await peer.reader.readexactly(8))
        answer = await peer.reader.readexactly(length - 4)
        assert msgspec.json.decode(answer[:head_bytes])["opaque"] == 5
        assert answer[head_bytes:] == b"\x03"


async def test_a_connection_cut_in_the_middle_of_calls(scene: Scene) -> None:
    async with RawPeer(scene.address) as peer:
        for number in range(50):
            peer.send(rpc_peer.call(number, "victim", "wait", {}))
        await until(lambda: scene.service.waiting == 50)
        peer.send(rpc_peer.call(51, "victim", "wait", {})[:20])
    assert await scene.client.proxy(Victim).add(1, 2) == 3
    scene.service.gate.set()


async def test_a_client_whose_connection_is_cut_is_told(scene: Scene) -> None:
    calls = [asyncio.ensure_future(scene.client.proxy(Victim).wait()) for _ in range(20)]
    await until(lambda: scene.service.waiting == 20)
    listener = scene.node.rpc_listener
    assert listener is not None
    for channel in listener.remoting.channels:
        channel.close()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {ConnectionLost}
    scene.service.gate.set()


async def test_more_calls_than_may_be_under_way_are_refused_by_name(scene: Scene) -> None:
    most = 1_024
    calls = [asyncio.ensure_future(scene.client.proxy(Victim).wait()) for _ in range(most)]
    await until(lambda: scene.service.waiting == most)
    with pytest.raises(Overloaded, match="calls_per_connection_max is 1024"):
        await scene.client.proxy(Victim).add(1, 2)
    scene.service.gate.set()
    assert set(await asyncio.gather(*calls)) == {"waited"}


async def test_answers_that_nobody_awaits_and_answers_that_lie(scene: Scene) -> None:
    """A server of the worst kind."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answered in (
            [(1, 0, b"", b"\xc1")],
            [(1, 0, b"", b"\xa3abc")],
            [(1, FAILURE, b"\xff", b"")],
            [(1, FAILURE, rpc_peer.fields([("c", "x"), ("k", "service")]), b"")],
            [(1, FAILURE, rpc_peer.fields([("c", "1"), ("k", "service")]), b"\x91" * 100_000)],
            [(1, 4_711, b"", b"")],
            [(999, 0, b"", b"\x01"), (1, 0, b"", b"\x01"), (1, 0, b"", b"\x02")],
        ):
            length, _ = struct.unpack(">II", await reader.readexactly(8))
            rest = await reader.readexactly(length - 4)
            (opaque,) = struct.unpack_from(">i", rest, 5)
            for number, code, ext, body in answered:
                asked = opaque if number == 1 else opaque + number
                writer.write(rpc_peer.frame(rpc_peer.header(asked, ext, code=code, flag=1), body))
        await reader.read()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server, connect(address_of(server)) as client:
        liar = client.proxy(Victim)
        for expected in (BadReply, BadReply, BadReply, BadReply, BadReply, CallFailed):
            with pytest.raises(expected):
                await liar.add(1, 2)
        assert await liar.add(1, 2) == 1
        assert client.calls_awaited == 0


def address_of(server: asyncio.Server) -> str:
    return f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_any_bytes_harm_nobody(scene: Scene) -> None:
    """A good frame with one byte changed: answered, or closed; the node goes on."""
    good = rpc_peer.call(3, "victim", "add", {"a": 1, "b": 2})
    for at in range(len(good)):
        async with RawPeer(scene.address) as peer:
            peer.send(good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :])
            peer.writer.write_eof()
            await peer.must_be_closed()
