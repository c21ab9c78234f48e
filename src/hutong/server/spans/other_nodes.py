"""Asks the other nodes of the cluster for the spans that they keep, over the links between nodes.

Decides nothing.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.broker.handling.listeners import Listener
from hutong.foundation.errors import Refused
from hutong.foundation.waiting.pending import settle_future
from hutong.server.spans.messages import SpansAnswer, decode_answer, encode_question
from hutong.server.spans.span_part import PART
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hutong.broker.broker import Broker
    from hutong.server.listeners.plans import OpenListener

ANSWER_MS_MAX: Final = 2_000


class OtherNodes:
    """The others, as this node's broker knows them. `own` is its number."""

    def __init__(self, broker: Broker, listeners: Sequence[OpenListener]) -> None:
        """`listeners` are those of this node: others are known by theirs of the same names."""
        self._cluster = broker.cluster
        self._listeners = [
            Listener(each.name, each.protocol, each.advertised.host, each.advertised.port) for each in listeners
        ]
        self.own = broker.identity.node_id

    def numbers(self) -> list[int]:
        """Those that are alive, and those that were a moment ago."""
        found = {each.node_id for listener in self._listeners for each in self._cluster.nodes(listener)}
        return sorted(found - {self.own})

    async def spans(self, node: int, traces: Sequence[str]) -> SpansAnswer:
        """The spans of these traces that another node keeps. Raises HutongError where it does not tell."""
        told: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        settle = partial(settle_future, told)
        self._cluster.ask_part(node, PART, encode_question(traces), settle, ANSWER_MS_MAX)
        try:
            return decode_answer(await told, traces)
        except Refused as refused:
            # Neither a console nor console.tracing there, or a version that has no such question.
            if refused.code == ErrorCode.UNSUPPORTED_VERSION:
                return SpansAnswer()
            raise
