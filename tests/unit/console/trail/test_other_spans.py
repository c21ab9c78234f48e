"""Spans of other nodes as a stream: what is there comes at once, and who does not tell is named."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any, cast

import pytest
from tests.support.waiting import turning_until
from tests.unit.console.scene import ConsoleClient

from hutong.console.limits import TRAIL_NODES_MAX, TRAIL_TRACES_MAX
from hutong.console.trail.other_spans import OtherSpans
from hutong.foundation.errors import Expired, HutongError, NothingSent, ProtocolError
from hutong.testing import EmbeddedNode

TRACE = "a" * 32


class Nodes:
    """Other nodes with their answers; one that has none is silent."""

    def __init__(self, **answers: Any) -> None:
        self.told: dict[int, asyncio.Future[Any]] = {int(name[1:]): asyncio.Future() for name in answers}
        for name, answer in answers.items():
            if answer is not ...:
                self.tell(int(name[1:]), answer)

    def tell(self, node: int, answer: Any) -> None:
        future = self.told[node]
        future.set_exception(answer) if isinstance(answer, HutongError) else future.set_result(answer)

    def other_nodes(self) -> list[int]:
        return sorted(self.told)

    async def spans_of(self, node: int, traces: Sequence[str]) -> Any:
        assert list(traces) == [TRACE]
        return await self.told[node]


def streamed(nodes: Nodes) -> OtherSpans:
    return OtherSpans(cast(Any, nodes), [TRACE])


async def events(others: OtherSpans) -> list[tuple[str, Any]]:
    """Those of the next step."""
    lines = [each.decode().splitlines() for each in await others.step() or ()]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data, *_ in lines]


async def test_a_silent_node_holds_up_nobody_and_is_named() -> None:
    nodes = Nodes(n2=([{"id": "1"}], True), n3=..., n4=None)
    others = streamed(nodes)
    first = [told for _, told in [*await events(others)]]
    assert sorted(first, key=lambda told: told["node"]) == [
        {"node": 2, "is_traced": True, "spans": [{"id": "1"}], "truncated": True},
        {"node": 4, "is_traced": False, "spans": [], "truncated": False},
    ]
    nodes.tell(3, Expired("2,000 ms are over"))
    assert await events(others) == [("node", {"node": 3, "missing": "has not answered in time"})]
    assert await events(others) == [("end", {})]
    assert await others.step() is None


@pytest.mark.parametrize(
    ("error", "words"),
    [(NothingSent("no link"), "is not reached"), (ProtocolError("<script>"), "has given no usable answer")],
)
async def test_why_a_node_has_told_nothing(error: HutongError, words: str) -> None:
    assert await events(streamed(Nodes(n2=error))) == [("node", {"node": 2, "missing": words})]


async def test_a_node_alone_ends_at_once() -> None:
    assert await events(streamed(Nodes())) == [("end", {})]


async def test_too_many_nodes_are_named() -> None:
    others = streamed(Nodes(**{f"n{number}": None for number in range(TRAIL_NODES_MAX + 2)}))
    told = []
    while found := await events(others):
        told += found
    left_out = [each["node"] for _, each in told if "missing" in each]
    assert (len(told), left_out) == (TRAIL_NODES_MAX + 3, [TRAIL_NODES_MAX, TRAIL_NODES_MAX + 1])


async def test_a_browser_that_goes_ends_the_questions() -> None:
    nodes = Nodes(n2=...)
    others = streamed(nodes)
    step = asyncio.ensure_future(others.step())
    await turning_until(lambda: bool(nodes.told[2]._callbacks))  # it is awaited
    others.close()
    await asyncio.gather(step, return_exceptions=True)
    assert nodes.told[2].cancelled()


def test_the_stream_of_a_node_alone(client: ConsoleClient) -> None:
    assert list(client.stream(f"/api/trail/spans/others?traces={TRACE}")) == [("end", {})]


@pytest.mark.parametrize("traces", ["", "x", f"{TRACE},", ",".join([TRACE] * (TRAIL_TRACES_MAX + 1)), f"{TRACE}%0A"])
def test_odd_traces_are_refused(client: ConsoleClient, traces: str) -> None:
    assert client.ask("GET", f"/api/trail/spans/others?traces={traces}").status == 400


def test_without_a_session_nothing_is_told(node: EmbeddedNode) -> None:
    assert ConsoleClient(node).call("GET", f"/api/trail/spans/others?traces={TRACE}").status == 401
