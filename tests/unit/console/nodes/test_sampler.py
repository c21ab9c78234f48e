"""When samples are taken: with a node that counts its pages, and a clock that stands still until it is moved."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from hutong.console.nodes.sampler import FULL_MS, INTERVAL_MS, INTERVAL_MS_MAX, LINES_PER_MS, NodeSampler
from hutong.foundation.clock import ManualClock


class CountedNode:
    def __init__(self, page: str = "hutong_connections_open 1\n") -> None:
        self.page = page
        self.asked: list[bool] = []

    async def metrics(self, *, is_full: bool = False) -> str:
        self.asked.append(is_full)
        await asyncio.sleep(0)
        return self.page


async def at_once(call: Callable[[], Any]) -> Any:
    return call()


def scene(node: CountedNode) -> tuple[NodeSampler, ManualClock]:
    clock = ManualClock()
    desk: Any = SimpleNamespace(clock=clock, blocking=at_once)
    facts: Any = node
    return NodeSampler(desk, facts), clock


async def test_all_browsers_share_the_samples() -> None:
    node = CountedNode()
    sampler, clock = scene(node)
    await asyncio.gather(*(sampler.look() for _ in range(10)))
    assert len(node.asked) == 1
    clock.advance(INTERVAL_MS // 2)
    await sampler.look()
    assert len(node.asked) == 1
    clock.advance(INTERVAL_MS // 2)
    await asyncio.gather(*(sampler.look() for _ in range(10)))
    assert len(node.asked) == 2


async def test_nobody_looks_and_nothing_is_asked() -> None:
    node = CountedNode()
    sampler, clock = scene(node)
    clock.advance(100 * INTERVAL_MS)
    assert node.asked == []
    assert sampler.history.newest is None


async def test_a_long_page_is_asked_for_less_often() -> None:
    lines = 5 * INTERVAL_MS * LINES_PER_MS
    node = CountedNode("unwanted 1\n" * lines)
    sampler, clock = scene(node)
    await sampler.look()
    clock.advance(4 * INTERVAL_MS)
    await sampler.look()
    assert len(node.asked) == 1
    clock.advance(INTERVAL_MS)
    await sampler.look()
    assert len(node.asked) == 2
    assert INTERVAL_MS_MAX > 5 * INTERVAL_MS


async def test_details_are_asked_for_while_somebody_needs_them() -> None:
    node = CountedNode()
    sampler, clock = scene(node)
    await sampler.look()
    await sampler.look(is_full=True)
    clock.advance(INTERVAL_MS)
    await sampler.look()
    clock.advance(FULL_MS)
    await sampler.look()
    assert node.asked == [False, True, True, False]


async def test_observers_see_each_sample_once() -> None:
    sampler, clock = scene(CountedNode())
    seen: list[int] = []
    sampler.observers.append(lambda history: seen.append(len(history)))
    for _ in range(3):
        await sampler.look()
        await sampler.look()
        clock.advance(INTERVAL_MS)
    assert seen == [1, 2, 3]
