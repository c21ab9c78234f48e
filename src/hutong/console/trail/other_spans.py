"""The spans of other nodes: each answer as soon as it is there, each node without one by its name.

Decides nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from hutong.console.limits import TRAIL_NODES_MAX
from hutong.console.streams import event
from hutong.foundation.errors import Expired, HutongError, OwnerGone

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hutong.console.node_facts import NodeFacts

ENDED: Final = "end"
_TOO_MANY: Final = f"was not asked: at most {TRAIL_NODES_MAX} are"


class OtherSpans:
    """All nodes are asked at once; `step` gives events, the last one `end`."""

    def __init__(self, node: NodeFacts, traces: Sequence[str]) -> None:
        self._node = node
        self._traces = traces
        numbers = node.other_nodes()
        self._unasked = numbers[TRAIL_NODES_MAX:]
        start = asyncio.get_running_loop().create_task
        self._asked = {start(self._ask(number)) for number in numbers[:TRAIL_NODES_MAX]}
        self._is_over = False

    async def step(self) -> Iterable[bytes] | None:
        """The events of the nodes that have answered since; None at the end."""
        if self._is_over:
            return None
        if not self._asked:
            self._is_over = True
            left_out = [event("node", {"node": number, "missing": _TOO_MANY}) for number in self._unasked]
            return [*left_out, event(ENDED, {})]
        done, self._asked = await asyncio.wait(self._asked, return_when=asyncio.FIRST_COMPLETED)
        return [event("node", told.result()) for told in done]

    def close(self) -> None:
        """Wait for nobody any more."""
        for task in self._asked:
            task.cancel()

    async def _ask(self, number: int) -> dict[str, Any]:
        try:
            found = await self._node.spans_of(number, self._traces)
        except HutongError as error:
            return {"node": number, "missing": _why(error)}
        spans, is_cut = ([], False) if found is None else found
        return {"node": number, "is_traced": found is not None, "spans": spans, "truncated": is_cut}


def _why(error: HutongError) -> str:
    if isinstance(error, Expired):
        return "has not answered in time"
    if isinstance(error, OwnerGone):
        return "is not reached"
    return "has given no usable answer"
