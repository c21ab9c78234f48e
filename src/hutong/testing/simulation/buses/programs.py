"""The programs on the nodes: senders and listeners, each for one life of its node.

Strategy: a message has a name that says who sent it, and a number that rises. Handlers note what they get before they
do anything else.
"""

import asyncio
from functools import partial
from random import Random
from typing import Any, Final

from hutong.bus import EventBus, Message, ReplyError
from hutong.foundation.errors import HutongError, LimitExceeded
from hutong.testing.simulation.buses.history import BusHistory, ListenerLife, SentMessage
from hutong.testing.simulation.buses.plan import PlannedListener, PlannedSender
from hutong.testing.simulation.hosts.host import SimProcess

REFUSAL_CODE: Final = 17
KINDS: Final = ("send", "publish", "request")
_SEPARATOR: Final = " "


class SimBusSender:
    """Sends to all addresses of the plan until it is stopped."""

    def __init__(
        self, bus: EventBus, process: SimProcess, history: BusHistory, plan: PlannedSender, addresses: list[str]
    ) -> None:
        self._bus = bus
        self._process = process
        self._history = history
        self._plan = plan
        self._addresses = addresses
        self._name = f"{plan.name}.{process.host.processes_total}"
        self._random = Random(process.random_bytes(8))
        self._number = 0
        self.is_stopping = False

    async def run(self) -> None:
        plan, random = self._plan, self._random
        while not self.is_stopping:
            await asyncio.sleep(plan.pause_ms / 1_000 * 2 * random.random())
            for _ in range(random.randint(1, plan.together)):
                self.send_one(random.choice(self._addresses), random.choice(KINDS))

    async def send_each(self) -> None:
        """Send one message of each kind to each address."""
        for address in self._addresses:
            for kind in KINDS:
                self.send_one(address, kind)

    def send_one(self, address: str, kind: str) -> SentMessage:
        """Send, publish or request now."""
        plan = self._plan
        self._number += 1
        message = SentMessage(
            f"{self._name}-{self._number}",
            self._name,
            self._number,
            plan.node,
            self._process.name,
            address,
            kind == "publish",
            self._history.now_us,
            plan.timeout_ms * 1_000 if kind == "request" else None,
        )
        self._history.sent(message)
        body = message.name + _SEPARATOR + "x" * plan.padding_characters
        try:
            if kind == "send":
                self._bus.send(address, body)
            elif kind == "publish":
                self._bus.publish(address, body)
            else:
                reply = self._bus.request(address, body, timeout=plan.timeout_ms / 1_000)
                reply.then(partial(self._ended, message))
        except LimitExceeded:
            message.is_refused = True
        return message

    def _ended(self, message: SentMessage, outcome: Message | HutongError) -> None:
        if isinstance(outcome, Message):
            name, _, answered = outcome.body.partition(_SEPARATOR)
            if answered != message.name:
                self._history.problems.append(f"{message.name} got the answer to {answered}")
            self._history.ended(message, f"answered by {name}")
        else:
            assert isinstance(outcome, ReplyError), "requests fail with errors of the bus"
            self._history.ended(message, outcome.failure_type.name)


class SimBusListener:
    """Registers a consumer; those that do not stay unregister and register again, as others."""

    def __init__(self, bus: EventBus, process: SimProcess, history: BusHistory, plan: PlannedListener) -> None:
        self._bus = bus
        self._process = process
        self._history = history
        self._plan = plan
        self._random = Random(process.random_bytes(8))
        self._life = 0
        self.is_stopping = False

    async def run(self) -> None:
        """End once it is stopped: one that is registered then stays."""
        random, stays_ms = self._random, self._plan.stays_ms
        while not self.is_stopping:
            name = self._register()
            begin_us = self._history.now_us
            while stays_ms is None or self._history.now_us - begin_us < stays_ms * 1_000:
                await asyncio.sleep((stays_ms or 500) / 1_000 * (0.1 + random.random()))
                if self.is_stopping:
                    break
                if self._plan.pauses:
                    self._consumer.pause()
                    await asyncio.sleep(random.choice((0.01, 0.3)))
                    self._consumer.resume()
            # Also where it is stopping: others then have to forget it.
            if stays_ms is not None:
                await self._consumer.unregister()
                self._history.unregistered(name)
                await asyncio.sleep(stays_ms / 1_000 * random.random())
        if stays_ms is not None and random.random() < 0.5:
            self._register()

    def _register(self) -> str:
        plan, process = self._plan, self._process
        self._life += 1
        name = f"{plan.name}.{process.host.processes_total}-{self._life}"
        self._history.registered(
            ListenerLife(
                name, plan.node, process.name, plan.address, plan.local_only, self._history.now_us,
                may_discard=plan.pauses,
            )
        )  # fmt: skip
        self._consumer = self._bus.consumer(
            plan.address,
            partial(self._handle, name),
            local_only=plan.local_only,
            max_buffered_messages=plan.buffered_max,
        )
        self._consumer.ready().then(partial(self._ready, name))
        return name

    def _ready(self, name: str, outcome: object) -> None:
        if not isinstance(outcome, HutongError):
            self._history.ready(name)

    def _handle(self, listener: str, message: Message) -> Any:
        name = message.body.partition(_SEPARATOR)[0]
        self._history.received(listener, name)
        chance = self._random.random()
        if message.reply_address is None or chance < 0.1:  # some requests get no answer
            return None
        if chance < 0.2:
            message.fail(REFUSAL_CODE, "no")
            return None
        answer = f"{listener}{_SEPARATOR}{name}"
        return self._work(answer) if self._plan.work_ms else answer

    async def _work(self, answer: str) -> str:
        await asyncio.sleep(self._plan.work_ms / 1_000 * self._random.random())
        return answer
