"""Publications to consumers that promise to change nothing: one body for all of them, and none of the others'."""

import asyncio
from typing import Any

import pytest

from hutong.bus import Consumer, EventBus


@pytest.mark.parametrize("sharing", ["", "a", "ab", "abc", "bc", "ac", "c"])
async def test_who_shares_gets_one_body_and_everybody_else_one_of_their_own(bus: EventBus, sharing: str) -> None:
    arrived: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()

    def listen(name: str) -> None:
        consumer = bus.consumer("news", lambda message: arrived.put_nowait((name, message.body)))
        consumer.shares_bodies = name in sharing

    for name in "abc":
        listen(name)
    sent = {"list": [1]}
    bus.publish("news", sent)
    bodies = dict([await arrived.get() for _ in range(3)])
    assert all(body == {"list": [1]} for body in bodies.values())
    assert len({id(bodies[name]) for name in sharing}) == min(1, len(sharing))
    own = [bodies[name] for name in "abc" if name not in sharing]
    others = [id(body["list"]) for body in (*own, sent, *(bodies[name] for name in sharing[:1]))]
    assert len(set(others)) == len(others)


async def test_thousands_come_and_go_at_one_address_in_any_order(bus: EventBus) -> None:
    heard: list[int] = []

    def listen(number: int) -> Consumer:
        consumer: Consumer = bus.consumer("room", lambda message: heard.append(number))
        return consumer

    consumers = [listen(number) for number in range(2_000)]
    for consumer in consumers[::2]:
        consumer.unregister()
    bus.send("room", 1)
    for consumer in consumers[:-1:-1]:
        consumer.unregister()
    bus.publish("room", 2)
    done = asyncio.Event()
    consumers[-1].context.run(lambda _: done.set(), None)
    await done.wait()
    assert sorted(heard) == sorted([1, *range(1, 2_000, 2)])
