"""References of a peer that is no client of ours: what it makes up, what has expired, and what it does not answer."""

import struct
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from tests.support.rpc_peer import FAILURE, RawPeer, call, frame, header
from tests.unit.rpc.listeners import Feed, Speaking
from tests.unit.rpc.scenes import until

import hutong

FORGED = "12345678-1234-4234-8234-123456789012"


@pytest.fixture
async def peer() -> AsyncIterator[RawPeer]:
    async with hutong.Node(rpc="127.0.0.1:0") as node:
        await node.rpc.bind(Feed, Speaking())
        assert node.rpc_address is not None
        async with RawPeer(node.rpc_address) as peer:
            yield peer


async def called_back(peer: RawPeer) -> tuple[int, Any]:
    """The next call from the node: its opaque and its arguments."""
    length, lengths = struct.unpack(">II", await peer.reader.readexactly(8))
    rest = await peer.reader.readexactly(length - 4)
    opaque, flag = struct.unpack_from(">ii", rest, 5)
    assert not flag & 1, "a call"
    assert FORGED.encode() in rest
    return opaque, msgspec.msgpack.decode(rest[lengths & 0xFFFFFF :])


async def test_a_made_up_reference_leads_back_to_the_peer_that_made_it_up(peer: RawPeer) -> None:
    peer.send(call(1, "feed", "tell", {"listener": FORGED, "text": "x"}))
    opaque, arguments = await called_back(peer)
    assert arguments == {"text": "x"}
    peer.send(frame(header(opaque, b"", code=0, flag=1), msgspec.msgpack.encode("made up")))
    assert await peer.receive() == (1, 0, "", msgspec.msgpack.encode("made up"))


@pytest.mark.parametrize(
    "listener", ["tree", "feed", "hutong.rpc", "", FORGED + "\n", "12345678-1234-4234-8234-12345678901A", "a" * 100_000]
)
async def test_an_address_that_can_be_guessed_is_no_reference(peer: RawPeer, listener: str) -> None:
    peer.send(call(1, "feed", "tell", {"listener": listener, "text": "x"}))
    opaque, code, remark, _ = await peer.receive()
    assert (opaque, code, remark) == (1, FAILURE, "tell: the argument 'listener' is wrong: that is no reference")


async def test_too_many_references_in_a_list(peer: RawPeer) -> None:
    peer.send(call(1, "feed", "everybody", {"listeners": [FORGED] * 100_000, "text": "x"}))
    _, code, remark, _ = await peer.receive()
    assert code == FAILURE
    assert remark == "everybody: the argument 'listeners' is wrong: references_per_call_max is 1000, and there are more"


@pytest.mark.parametrize("answer", [b"", b"\xc1", msgspec.msgpack.encode(["no text"])])
async def test_a_callback_that_is_answered_with_nonsense(peer: RawPeer, answer: bytes) -> None:
    peer.send(call(1, "feed", "tell", {"listener": FORGED, "text": "x"}))
    opaque, _ = await called_back(peer)
    peer.send(frame(header(opaque, b"", code=0, flag=1), answer))
    _, code, remark, _ = await peer.receive()
    assert (code, remark) == (FAILURE, "the implementation of 'tell' raised BadReply")


async def test_a_reference_that_was_closed_is_nobodys(peer: RawPeer) -> None:
    peer.send(call(1, "feed", "some", {"count": 1}))
    _, _, _, body = await peer.receive()
    (address,) = msgspec.msgpack.decode(body)
    for number, action in ((2, "hear"), (3, "bye")):
        peer.send(call(number, address, action, {"text": "x"} if action == "hear" else {}))
        assert (await peer.receive())[:2] == (number, 0)
    peer.send(call(4, address, "hear", {"text": "x"}))
    opaque, code, remark, _ = await peer.receive()
    assert (opaque, code) == (4, FAILURE)
    assert "nobody is bound" in remark or "has been unbound" in remark


async def test_a_peer_that_goes_during_a_callback_holds_nothing() -> None:
    ended: list[BaseException] = []

    class Noting(Speaking):
        async def tell(self, listener: Any, text: str) -> str:
            try:
                return await super().tell(listener, text)
            except BaseException as error:
                ended.append(error)
                raise

    async with hutong.Node(rpc="127.0.0.1:0") as node:
        await node.rpc.bind(Feed, Noting())
        assert node.rpc_address is not None
        async with RawPeer(node.rpc_address) as peer:
            peer.send(call(1, "feed", "tell", {"listener": FORGED, "text": "x"}))
            await called_back(peer)
        listener = node.rpc_listener
        assert listener is not None
        await until(lambda: not listener.incoming.calls)
        assert [type(error).__name__ for error in ended] == ["ConnectionLost"]
