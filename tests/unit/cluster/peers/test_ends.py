"""Ends of links: silence, too much unsent, a newer one, a new life, a close; and streams of much content."""

import asyncio
from dataclasses import replace

import pytest
from tests.unit.cluster.peers.raw_peer import RawPeer
from tests.unit.cluster.peers.scene import SECRET, PeerNode, peer_scene

from hutong.cluster.peers.identity import PeerIdentity
from hutong.cluster.peers.port import PeerMessage
from hutong.cluster.peers.questions import BODY_BYTES_MAX, answer_of
from hutong.foundation.errors import LimitExceeded, OwnerGone, Refused
from hutong.foundation.waiting.pending import Continuation
from hutong.replication.replica_messages import ChunksAcknowledged, ChunksShipped, CommitTold, ReplicaMessage
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.rocketmq.command import encode_binary

OWN = PeerIdentity("the cluster", 1, 101, "1.0")
MEBIBYTE = 1024 * 1024
WINDOW_BYTES = 8 * MEBIBYTE


async def test_a_peer_that_is_silent() -> None:
    async with peer_scene(silence_ms_max=100, heartbeat_ms=20) as scene:
        two = await scene.start(2)
        peer = await RawPeer.linked(two.address, OWN, SECRET, 2)
        await two.listener.heard(("opened", 1, OWN.incarnation))
        heard_ms = two.network.heard_ms(1)
        await peer.ended()
        await two.listener.heard(("closed", 1, False))
        assert two.network.heard_ms(1) == heard_ms
        assert two.network.figures[1].silent_total == 1
        await peer.close()


async def test_a_peer_that_does_not_read() -> None:
    async with peer_scene(unsent_bytes_max=MEBIBYTE) as scene:
        two = await scene.start(2)
        peer = await RawPeer.linked(two.address, OWN, SECRET, 2)
        await two.listener.heard(("opened", 1, OWN.incarnation))
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        message = ChunksShipped("days", 1, 0, 0, bytes(MEBIBYTE))
        sent = 0
        while two.network.is_open(1):
            two.network.send(1, message)
            sent += 1
            # Nothing is answered within the call.
            assert two.listener.news == [("opened", 1, OWN.incarnation)]
            assert sent < 100
            if sent % 4 == 0 and two.network.is_open(1):
                await asyncio.sleep(0)
        await two.listener.heard(("closed", 1, False))
        assert two.network.figures[1].unsent_total == 1
        two.network.send(1, message)
        assert two.network.unsent_bytes(1) == 0
        await peer.close()


async def test_a_single_message_may_be_larger_than_the_bound_of_what_is_unsent() -> None:
    async with peer_scene(unsent_bytes_max=MEBIBYTE) as scene:
        one, two = await scene.linked(1, 2)
        message = ChunksShipped("days", 1, 0, 0, bytes(3 * MEBIBYTE))
        one.network.send(2, message)
        await two.listener.until(lambda: len(two.listener.messages) == 1)
        assert two.listener.messages == [(1, message)]


async def test_a_message_that_cannot_be_sent_ends_the_link() -> None:
    async with peer_scene(frame_bytes_max=MEBIBYTE) as scene:
        one, two = await scene.linked(1, 2)
        one.network.send(2, ChunksShipped("days", 1, 0, 0, bytes(2 * MEBIBYTE)))
        await one.listener.heard(("closed", 2, False))
        await two.listener.heard(("closed", 1, False))
        assert two.listener.messages == []


async def test_a_newer_connection_takes_the_place_of_an_older_one() -> None:
    async with peer_scene() as scene:
        two = await scene.start(2)
        old = await RawPeer.linked(two.address, OWN, SECRET, 2)
        await two.listener.heard(("opened", 1, OWN.incarnation))
        new = await RawPeer.linked(two.address, replace(OWN, incarnation=7), SECRET, 2)
        await two.listener.heard(("opened", 1, 7))
        assert two.listener.news == [("opened", 1, OWN.incarnation), ("closed", 1, False), ("opened", 1, 7)]
        await old.ended()
        assert two.network.is_open(1)
        two.network.send(1, CommitTold("days", 1, 2))
        while (await new.read()).code != 0x5005:
            pass
        for peer in (old, new):
            await peer.close()


async def test_another_life_at_the_same_address() -> None:
    async with peer_scene() as scene:
        one, two = await scene.linked(1, 2)
        await scene.stop(two)
        again = await scene.start(2, 7, port=two.address[1])
        # Nobody has said to node 1 that it is registered.
        await one.listener.heard(("opened", 2, 7))
        assert one.listener.news[:2] == [("opened", 2, two.incarnation), ("closed", 2, False)]
        assert one.listener.news[-2:] == [("closed", 2, True), ("opened", 2, 7)]
        scene.introduce(one, again)
        assert one.network.is_open(2)


async def test_a_life_that_is_registered_at_another_address() -> None:
    async with peer_scene() as scene:
        one, two = await scene.linked(1, 2)
        again = await scene.start(2, 7)
        one.network.set_addresses({2: again.address})
        await one.listener.heard(("opened", 2, 7))
        assert one.listener.news == [("opened", 2, two.incarnation), ("closed", 2, False), ("opened", 2, 7)]


async def test_a_node_that_is_no_longer_registered_is_not_dialled() -> None:
    async with peer_scene() as scene:
        one, two = await scene.linked(1, 2)
        one.network.set_addresses({})
        assert one.network.is_open(2)
        await scene.stop(two)
        await one.listener.heard(("closed", 2, False))
        again = await scene.start(2, 7, port=two.address[1])
        scene.introduce(again, await scene.start(3))
        await again.listener.heard(("opened", 3, 103))
        assert not one.network.is_open(2)
        assert one.listener.news[-1] == ("closed", 2, False)


@pytest.mark.parametrize("number", [1, 3])
async def test_a_process_that_was_gone_before_there_was_a_link(number: int) -> None:
    async with peer_scene(back_off_ms=1) as scene:
        gone = await scene.start(number)
        await scene.stop(gone)
        two = await scene.start(2)
        two.network.set_addresses({number: gone.address})
        await two.listener.heard(("closed", number, True))
        # Once for each registration.
        two.network.set_addresses({number: gone.address})
        other = await scene.start(4)
        two.network.set_addresses({number: gone.address, 4: other.address})
        await two.listener.heard(("opened", 4, other.incarnation))
        assert two.listener.news.count(("closed", number, True)) == 1


async def test_a_close_reports_every_link_and_no_more_after_it() -> None:
    async with peer_scene() as scene:
        one, two, three = await scene.linked(1, 2, 3)
        for _ in range(100):
            two.network.send(3, CommitTold("days", 1, 2))
        await scene.stop(two)
        assert two.listener.news[2:] == [("closed", 1, False), ("closed", 3, False)]
        for node in (one, three):
            await node.listener.heard(("closed", 2, True))
        # What was sent before it has arrived.
        assert len(three.listener.messages) == 100
        assert len(two.listener.news) == 4
        two.network.set_addresses({1: one.address})
        assert one.network.is_open(3)


async def test_questions_have_a_bound() -> None:
    async with peer_scene(questions_max=3) as scene:
        one, two = await scene.linked(1, 2)
        waiting: list[Continuation[PeerMessage]] = []
        are_there = asyncio.Event()

        def asked_two(_: int, __: PeerMessage, then: Continuation[PeerMessage]) -> None:
            waiting.append(then)
            if len(waiting) == 3:
                are_there.set()

        two.network.register(7, asked_two)
        asked = [one.ask(2, PeerMessage(7, {})) for _ in range(4)]
        with pytest.raises(LimitExceeded):
            await asked[3]
        await are_there.wait()
        for then in waiting:
            then(PeerMessage(0, {}))
        assert [(await answer).code for answer in asked[:3]] == [0, 0, 0]


async def test_one_who_asks_too_much_is_refused() -> None:
    async with peer_scene(questions_max=3) as scene:
        two = await scene.start(2)
        two.network.register(7, lambda *_: None)
        peer = await RawPeer.linked(two.address, OWN, SECRET, 2)
        for opaque in range(4):
            peer.writer.write(encode_binary(7, opaque, 0))
        while not (command := await peer.read()).is_response:
            pass
        assert command.opaque == 3
        refused = answer_of(command)
        assert isinstance(refused, Refused)
        assert refused.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        await peer.close()


async def test_what_no_frame_has_room_for_is_refused() -> None:
    async with peer_scene() as scene:
        one, two = await scene.linked(1, 2)
        large = bytes(BODY_BYTES_MAX + 1)
        two.network.register(7, lambda _, question, then: then(PeerMessage(0, {}, large[len(question.body) :])))
        for size in (len(large), 0):
            with pytest.raises(Refused) as refused:
                await one.ask(2, PeerMessage(7, {}, large[:size]))
            assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
        assert len((await one.ask(2, PeerMessage(7, {}, b"!"))).body) == BODY_BYTES_MAX
        assert len((await one.ask(2, PeerMessage(7, {"a": "b" * 1_000_000}, large[1:]))).body) == 1


async def test_a_fault_of_the_one_who_is_asked_is_a_refusal() -> None:
    async with peer_scene() as scene:
        one, two = await scene.linked(1, 2)
        faults: list[object] = []
        scene.loop.set_exception_handler(lambda _, context: faults.append(context["exception"]))

        def asked(node: int, question: PeerMessage, then: Continuation[PeerMessage]) -> None:
            if question.body == b"refuse":
                raise Refused(ErrorCode.NOT_CONTROLLER)
            raise RuntimeError("broken")

        two.network.register(7, asked)
        with pytest.raises(Refused, match="broken") as refused:
            await one.ask(2, PeerMessage(7, {}))
        assert refused.value.code == ErrorCode.UNKNOWN_SERVER_ERROR
        with pytest.raises(Refused) as refused:
            await one.ask(2, PeerMessage(7, {}, b"refuse"))
        assert refused.value.code == ErrorCode.NOT_CONTROLLER
        assert len(faults) == 1
        assert one.network.is_open(2)


async def test_a_link_that_ends_fails_what_was_asked_and_a_code_is_checked() -> None:
    async with peer_scene() as scene:
        one, two = await scene.linked(1, 2)
        came = asyncio.Event()
        two.network.register(7, lambda *_: came.set())
        answer = one.ask(2, PeerMessage(7, {}))
        await came.wait()
        one.network.set_addresses({2: ("127.0.0.1", two.address[1], 7)})
        with pytest.raises(OwnerGone):
            await answer
        for node in (2, 9):
            with pytest.raises(ValueError, match="code of a question"):
                one.ask(node, PeerMessage(0x5001, {}))


async def test_ten_thousand_messages_arrive_in_order() -> None:
    async with peer_scene() as scene:
        one, two = await scene.linked(1, 2)
        sent: list[ReplicaMessage] = [ChunksShipped("days-2", 4, at, 0, b"%105d" % at) for at in range(10_000)]
        for at, message in enumerate(sent):
            one.network.send(2, message)
            two.network.send(1, CommitTold("days-2", 4, at))
        await two.listener.until(lambda: len(two.listener.messages) == 10_000)
        await one.listener.until(lambda: len(one.listener.messages) == 10_000)
        assert [message for _, message in two.listener.messages] == sent
        assert [message for _, message in one.listener.messages] == [
            CommitTold("days-2", 4, at) for at in range(10_000)
        ]


async def test_a_stream_of_chunks_with_back_pressure() -> None:
    """As replication does it: so much is shipped as is not acknowledged yet."""
    async with peer_scene(unsent_bytes_max=2 * WINDOW_BYTES) as scene:
        one, two = await scene.linked(1, 2)
        total, size = 128 * MEBIBYTE, MEBIBYTE - 7
        content = bytes(range(256)) * 4_096
        shipped = held = 0

        def ship() -> None:
            nonlocal shipped
            while shipped < total and shipped - held < WINDOW_BYTES:
                one.network.send(2, ChunksShipped("days", 1, shipped, 0, memoryview(content)[:size]))
                shipped += size

        def taken(node: int, message: ReplicaMessage) -> None:
            assert isinstance(message, ChunksShipped)
            assert message.start_position == two_holds[0]
            assert len(message.content) == size
            two_holds[0] += size
            two.network.send(node, ChunksAcknowledged("days", 1, two_holds[0], 0))

        def acknowledged(_: int, message: ReplicaMessage) -> None:
            nonlocal held
            assert isinstance(message, ChunksAcknowledged)
            held = message.held_position
            ship()

        two_holds = [0]
        two.listener.on_message, one.listener.on_message = taken, acknowledged
        ship()
        await one.listener.until(lambda: held >= total)
        assert figures_of(one, two) == figures_of(two, one)[::-1]
        assert one.network.is_open(2)


def figures_of(one: PeerNode, other: PeerNode) -> tuple[int, int]:
    figures = one.network.figures[other.node]
    return figures.messages_out_total, figures.messages_in_total
