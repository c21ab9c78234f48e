"""Demand, against a model: for all orders of send, pause, fetch and resume, exactly the demand is delivered."""

import asyncio
from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.bus.scenes import turns

from hutong.bus import EventBus, Message
from hutong.foundation.clock import SystemClock
from hutong.runtime.runtime import Runtime

BUFFER_MAX = 3
STEPS = st.sampled_from(["send", "send", "fetch", "fetch", "pause", "resume", "pause in handler"])
SCRIPTS = st.lists(st.tuples(STEPS, st.integers(1, 4)), min_size=6, max_size=30)


class Model:
    """The promised behaviour of a consumer."""

    def __init__(self) -> None:
        self.demand: float = inf
        self.buffer: list[int] = []
        self.handed_over: list[int] = []
        self.discarded: list[int] = []
        self.pauses = 0  # how many of the next handlers pause

    def send(self, number: int) -> None:
        if not self.demand or self.buffer:
            (self.buffer if len(self.buffer) < BUFFER_MAX else self.discarded).append(number)
        else:
            self.buffer.append(number)
        self.go_on()

    def go_on(self) -> None:
        while self.buffer and self.demand:
            self.demand -= 1
            self.handed_over.append(self.buffer.pop(0))
            if self.pauses:
                self.pauses -= 1
                self.demand = 0


async def compare(script: list[tuple[str, int]]) -> None:
    async with Runtime(SystemClock()) as runtime, EventBus(runtime) as bus:
        model, seen, discarded = Model(), list[int](), list[int]()
        pauses = 0

        def handle(message: Message) -> None:
            nonlocal pauses
            seen.append(message.body)
            if pauses:
                pauses -= 1
                consumer.pause()

        consumer = bus.consumer("address", handle, max_buffered_messages=BUFFER_MAX)
        consumer.discard_handler = lambda message: discarded.append(message.body)
        for number, (step, amount) in enumerate(script):
            if step == "send":
                for index in range(amount):
                    bus.send("address", number * 10 + index)
                    model.send(number * 10 + index)
            elif step == "pause in handler":
                pauses = model.pauses = pauses + 1
            else:
                model.demand = {"pause": 0, "resume": inf, "fetch": model.demand + amount}[step]
                _ = consumer.fetch(amount) if step == "fetch" else getattr(consumer, step)()
                model.go_on()
            await turns(12)
            assert (seen, discarded) == (model.handed_over, model.discarded)
            assert [message.body for message in consumer._buffer] == model.buffer


@settings(max_examples=200, deadline=None)
@given(SCRIPTS)
def test_a_consumer_hands_over_exactly_what_was_asked_for(script: list[tuple[str, int]]) -> None:
    asyncio.run(compare(script))
