"""Spans as a part of a node: it keeps them for consoles, its own and those of the other nodes of its cluster.

Decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.foundation.errors import ProtocolError
from hutong.server.composition import ComposedNode, NodePart
from hutong.server.spans.messages import decode_question, encode_answer
from hutong.server.spans.own_spans import own_spans

if TYPE_CHECKING:
    from hutong.broker.handling.cluster_view import ClusterView
    from hutong.foundation.waiting.pending import Continuation
    from hutong.server.monitoring.monitor_part import MonitorPart
    from hutong.wire.buffer import Buffer

PART: Final = "spans"
"""The name under which other nodes ask for them."""


class SpanPart(NodePart):
    """Opened after everything that is traced."""

    def __init__(self, monitor: MonitorPart) -> None:
        self._monitor = monitor
        self._node: ComposedNode
        self._cluster: ClusterView | None = None

    async def open(self, node: ComposedNode) -> None:
        self._node = node
        if node.kept_spans is not None:
            node.kept_spans.begin()
        broker = self._monitor.sources.broker
        assert broker is not None, "the broker is open"
        self._cluster = broker.cluster
        self._cluster.serve_part(PART, self._answer)

    def closing(self) -> None:
        if self._cluster is not None:
            self._cluster.serve_part(PART, None)

    def _answer(self, question: Buffer, then: Continuation[bytes]) -> None:
        try:
            asked = decode_question(bytes(question))
        except ProtocolError as error:
            then(error)
        else:
            then(encode_answer(own_spans(self._node.kept_spans, asked.traces)))
