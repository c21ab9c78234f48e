"""Networks of two and three nodes on loopback: links, messages, questions, and their ends."""

import asyncio
from collections.abc import Callable
from functools import partial

import pytest
from tests.unit.cluster.peers.scene import PeerNode, peer_scene

from hutong.cluster.peers.port import PeerMessage
from hutong.foundation.errors import Expired, HutongError, OwnerGone, Refused
from hutong.foundation.waiting.pending import Continuation
from hutong.replication.replica_messages import ChunksShipped, CommitTold
from hutong.wire.kafka.error_codes import ErrorCode

QUESTION = 7


class ClosedPaths:
    """Implements `PeerPaths`: none is open. `was_asked` is set once links were refused several times."""

    def __init__(self) -> None:
        self.was_asked = asyncio.Event()
        self._questions_left = 8

    def is_open(self, _node: int) -> bool:
        self._questions_left -= 1
        if not self._questions_left:
            self.was_asked.set()
        return False

    def watch(self, _cut: Callable[[int], None]) -> None: ...


def has_heard(node: PeerNode, count: int) -> bool:
    return len(node.listener.messages) == count


async def test_three_nodes_link_and_tell_each_other_in_order() -> None:
    async with peer_scene() as scene:
        nodes = await scene.linked(1, 2, 3)
        sent = [CommitTold("days-1", 3, position) for position in range(1_000)]
        for one in nodes:
            for other in nodes:
                assert one.network.is_open(other.node) is (one is not other)
                for message in sent:
                    one.network.send(other.node, message)
        for one in nodes:
            await one.listener.until(partial(has_heard, one, 2_000))
            for other in nodes:
                heard = [message for node, message in one.listener.messages if node == other.node]
                assert heard == ([] if one is other else sent)


async def test_content_of_any_size_arrives_as_it_is() -> None:
    async with peer_scene() as scene:
        one, two = await scene.linked(1, 2)
        sent = [
            ChunksShipped("hours", 1, size, 0, bytes([size % 251]) * size) for size in (0, 1, 4_096, 4_097, 20 << 20)
        ]
        for message in sent:
            two.network.send(1, message)
        await one.listener.until(lambda: len(one.listener.messages) == len(sent))
        assert [message for _, message in one.listener.messages] == sent


async def test_questions_and_answers_both_ways() -> None:
    async with peer_scene() as scene:
        one, two = await scene.linked(1, 2)
        waiting: list[Continuation[PeerMessage]] = []

        def asked(node: int, question: PeerMessage, then: Continuation[PeerMessage]) -> None:
            if question.fields.get("how") == "refuse":
                then(Refused(ErrorCode.NOT_CONTROLLER, "ask node 3"))
            elif question.fields.get("how") == "later":
                waiting.append(then)
            else:
                then(PeerMessage(0, {"node": str(node)}, bytes(question.body) + b"!"))

        for node in (one, two):
            node.network.register(QUESTION, asked)
        answer = await one.ask(2, PeerMessage(QUESTION, {}, b"x" * 100_000))
        assert (answer.code, answer.fields, bytes(answer.body)) == (0, {"node": "1"}, b"x" * 100_000 + b"!")
        assert (await two.ask(1, PeerMessage(QUESTION, {}))).fields == {"node": "2"}
        with pytest.raises(Refused, match="ask node 3") as refused:
            await one.ask(2, PeerMessage(QUESTION, {"how": "refuse"}))
        assert refused.value.code == ErrorCode.NOT_CONTROLLER
        with pytest.raises(Refused) as unknown:
            await one.ask(2, PeerMessage(QUESTION + 1, {}))
        assert unknown.value.code == ErrorCode.UNSUPPORTED_VERSION
        later = one.ask(2, PeerMessage(QUESTION, {"how": "later"}))
        assert (await one.ask(2, PeerMessage(QUESTION, {}))).code == 0
        waiting.pop()(PeerMessage(0, {"at": "last"}))
        assert (await later).fields == {"at": "last"}
        with pytest.raises(Expired):
            await one.ask(2, PeerMessage(QUESTION, {"how": "later"}), 20)


async def test_a_question_without_a_link_or_whose_link_ends() -> None:
    async with peer_scene() as scene:
        one, two = await scene.linked(1, 2)
        asked: list[HutongError | PeerMessage] = []
        came = asyncio.Event()
        two.network.register(QUESTION, lambda *_: came.set())
        with pytest.raises(OwnerGone):
            await one.ask(3, PeerMessage(QUESTION, {}))
        one.network.ask(2, PeerMessage(QUESTION, {}), 5_000, asked.append)
        await came.wait()
        await scene.stop(two)
        await one.listener.heard(("closed", 2, False))
        await asyncio.sleep(0)
        assert [type(outcome) for outcome in asked if isinstance(outcome, OwnerGone)] != []
        assert not one.network.is_open(2)


@pytest.mark.parametrize("number", [1, 2])
async def test_a_process_that_is_gone(number: int) -> None:
    async with peer_scene() as scene:
        nodes = await scene.linked(1, 2)
        gone, left = nodes[number - 1], nodes[2 - number]
        await scene.stop(gone)
        await left.listener.heard(("closed", number, True))
        assert left.listener.news == [
            ("opened", number, gone.incarnation),
            ("closed", number, False),
            ("closed", number, True),
        ]
        again = await scene.start(number, 500, port=gone.address[1])
        scene.introduce(again, left)
        await left.listener.heard(("opened", number, 500))


@pytest.mark.parametrize("cut", [1, 2])
async def test_one_that_is_cut_off_is_linked_with_nobody_not_even_for_a_moment(cut: int) -> None:
    async with peer_scene() as scene:
        paths = ClosedPaths()
        nodes = [await scene.start(number, paths=paths if number == cut else None) for number in (1, 2)]
        scene.introduce(*nodes)
        await paths.was_asked.wait()
        assert [node.listener.news for node in nodes] == [[], []]
