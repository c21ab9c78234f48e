"""Spans over the links between nodes: asked for, answered, and refused."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from tests.support.waiting import turning_until

from hutong.broker.handling.cluster_view import NodeAddress
from hutong.broker.handling.listeners import SecurityProtocol
from hutong.foundation.errors import Expired, HutongError, ProtocolError, Refused
from hutong.foundation.waiting.pending import Continuation
from hutong.server.configuration.sections.facts import Address
from hutong.server.listeners.plans import OpenListener
from hutong.server.spans.messages import SpansAnswer, decode_answer, encode_answer, encode_question
from hutong.server.spans.other_nodes import ANSWER_MS_MAX, OtherNodes
from hutong.server.spans.span_part import PART, SpanPart
from hutong.tracing.kept import KeptSpan, KeptSpans
from hutong.wire.kafka.error_codes import ErrorCode

TRACE = f"{7:032x}"


class Links:
    """The cluster of node 1, with a listener of two names. Asked nodes answer by what serves this part."""

    def __init__(self) -> None:
        self.cluster = self.identity = self.broker = self.sources = self
        self.node_id = 1
        self.by_listener = {"PLAINTEXT": (1, 2), "SSL": (1, 2, 3)}
        self.handle: Callable[[bytes, Continuation[bytes]], None] | None = None
        self.outcome: bytes | HutongError | None = None
        self.asked: list[tuple[int, int]] = []

    def nodes(self, listener: Any) -> list[NodeAddress]:
        return [NodeAddress(node, "h", 1) for node in self.by_listener[listener.name]]

    def ask_part(self, node: int, part: str, question: bytes, then: Continuation[bytes], timeout_ms: int) -> None:
        assert part == PART
        self.asked.append((node, timeout_ms))
        if self.outcome is not None:
            then(self.outcome)
        else:
            assert self.handle is not None
            self.handle(question, then)

    def serve_part(self, part: str, handle: Callable[[bytes, Continuation[bytes]], None] | None) -> None:
        assert part == PART
        self.handle = handle


def others(links: Links) -> OtherNodes:
    address = Address("h", 1)
    listeners = [OpenListener(name, SecurityProtocol(name), address, address) for name in links.by_listener]
    return OtherNodes(cast(Any, links), listeners)


class TracedNode:
    def __init__(self, kept: KeptSpans | None) -> None:
        self.kept_spans = kept


async def serving(links: Links, kept: KeptSpans | None) -> SpanPart:
    part = SpanPart(cast(Any, links))
    await part.open(cast(Any, TracedNode(kept)))
    return part


async def test_the_others_are_known_by_all_listeners() -> None:
    assert others(Links()).numbers() == [2, 3]
    alone = Links()
    alone.by_listener = {"PLAINTEXT": (1,)}
    assert others(alone).numbers() == []


async def test_a_node_tells_what_it_keeps() -> None:
    links, kept = Links(), KeptSpans()
    await serving(links, kept)
    assert kept.is_on
    kept.add(KeptSpan(7, 1, None, "send", "producer", 1, 2, None, ()))
    kept.add(KeptSpan(8, 1, None, "of another trace", "producer", 1, 2, None, ()))
    found = await others(links).spans(2, [TRACE])
    assert [(each.trace, each.name) for each in found.spans] == [(TRACE, "send")]
    assert found.is_traced
    assert links.asked == [(2, ANSWER_MS_MAX)]


async def test_a_node_that_traces_nothing_says_so() -> None:
    links = Links()
    part = await serving(links, None)
    assert await others(links).spans(2, [TRACE]) == SpansAnswer()
    part.closing()
    assert links.handle is None
    links.outcome = Refused(ErrorCode.UNSUPPORTED_VERSION, "Node 2 has no spans.")
    assert await others(links).spans(2, [TRACE]) == SpansAnswer()


@pytest.mark.parametrize("error", [Expired("late"), Refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "busy")])
async def test_a_node_that_does_not_tell(error: HutongError) -> None:
    links = Links()
    links.outcome = error
    with pytest.raises(type(error)):
        await others(links).spans(2, [TRACE])


async def test_an_answer_about_other_traces_is_none() -> None:
    links = Links()
    strange = b'{"is_traced":true,"spans":[{"trace":"%b"}]}' % (b"f" * 32)
    for links.outcome in (strange, b"", encode_answer(SpansAnswer(True)) * 2):
        with pytest.raises(ProtocolError):
            await others(links).spans(2, [TRACE])


async def test_a_strange_question_is_refused() -> None:
    links = Links()
    await serving(links, KeptSpans())
    told: list[bytes | HutongError] = []
    assert links.handle is not None
    for question in (b"", b'{"traces": ["x"]}', encode_question([TRACE])):
        links.handle(question, told.append)
    assert [isinstance(each, ProtocolError) for each in told] == [True, True, False]
    assert decode_answer(cast(bytes, told[2]), [TRACE]).is_traced


async def test_nobody_waits_for_an_asker_that_is_gone() -> None:
    links = Links()
    waiting: list[Continuation[bytes]] = []
    links.handle = lambda _question, then: waiting.append(then)
    task = asyncio.ensure_future(others(links).spans(2, [TRACE]))
    await turning_until(lambda: bool(waiting))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    waiting[0](b"too late")  # it raises nothing
    assert task.cancelled()
