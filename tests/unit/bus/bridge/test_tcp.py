"""The TCP bridge's framing, and what only a socket shows: order while an authenticator thinks, a refused client."""

import asyncio
import struct

import pytest
from tests.support.bridge import OPEN, RawClient, bridged_bus

from hutong.bus.bridge.hooks import BridgeEvent, BridgePeer, EventKind, Verdict
from hutong.bus.bridge.tcp import BridgeFraming
from hutong.server.bus.bridge_settings import BridgeHooks
from hutong.wire.vertx.client_frames import ClientFrame

LIMIT = 100


def framed(*frames: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


@pytest.mark.parametrize("length", [-1, LIMIT + 1, 2**31 - 1])
@pytest.mark.parametrize("step", [1, 3, 1000])
def test_where_the_stream_breaks_one_more_frame_says_so(length: int, step: int) -> None:
    data = framed(b"one", b"", b"x" * LIMIT) + struct.pack(">i", length) + framed(b"never seen")
    framing = BridgeFraming(LIMIT)
    frames = [frame for at in range(0, len(data), step) for frame in framing.receive_data(data[at : at + step])]
    assert [bytes(frame) for frame in frames] == [b"one", b"", b"x" * LIMIT, b""]
    assert isinstance(frames[1], bytes)
    assert isinstance(frames[3], memoryview)
    assert framing.failure is not None


def test_frames_keep_their_order_while_an_authenticator_thinks() -> None:
    async def slow(peer: BridgePeer, frame: ClientFrame) -> Verdict:
        for _ in range(3):
            await asyncio.sleep(0)
        return Verdict.ALLOWED if frame.body != 13 else Verdict.DENIED

    with bridged_bus(OPEN, BridgeHooks(authenticator=slow)) as bus, RawClient(bus.port) as client:
        for number in range(100):
            client.send(type="send", address="echo", replyAddress=str(number), body=number)
        client.send(type="ping")
        answers = [client.receive() for _ in range(101)]
        assert answers[-1] == {"type": "pong"} or answers[-2] == {"type": "pong"}  # not before all frames are begun
        told = {int(answer["address"]): answer.get("body", "denied") for answer in answers if "address" in answer}
        assert told == {number: number if number != 13 else "denied" for number in range(100)}


def test_a_client_that_the_event_hook_refuses_is_closed() -> None:
    def hook(event: BridgeEvent) -> bool:
        return event.kind is not EventKind.OPENED

    with bridged_bus(OPEN, BridgeHooks(event_hook=hook)) as bus, RawClient(bus.port) as client:
        client.must_be_closed()
        assert bus.bridge.figures.clients_total == 0


def test_a_bridge_that_ends_closes_its_clients_and_leaves_nothing() -> None:
    with bridged_bus() as bus:
        with RawClient(bus.port) as client:
            client.send(type="register", address="a")
            client.must_be_alive()
            for deployment in bus.runtime.deployments:
                bus.thread.run(bus.runtime.undeploy(deployment))
            client.must_be_closed()
        assert bus.bridge.figures.clients == bus.bridge.figures.registrations == 0
