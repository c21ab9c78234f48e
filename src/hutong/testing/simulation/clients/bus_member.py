"""A program outside that is a member of the event bus, over the TCP bridge, as a client of Vert.x is.

Strategy: it publishes and sends messages with rising numbers, listens at the same addresses, and asks the service by
requests. Now and then it does not read for a while, so that messages wait for it. It connects again after a loss. In
the end a message to itself must arrive, and a request must be answered.
"""

import asyncio
from typing import Any, Final

from hutong.testing.simulation.call_history import (
    BusMessageReceived,
    BusMessageSent,
    CallAnswered,
    CallBegun,
    CallUnanswered,
)
from hutong.testing.simulation.clients.bridge_connection import BridgeConnection, Frame
from hutong.testing.simulation.clients.client import ClientContext
from hutong.testing.simulation.hosts.host import SimProcess
from hutong.testing.simulation.plan.clients import PlannedBusMember
from hutong.testing.simulation.services import BRIDGE_PORT, DESK, DeskRefusal

ADDRESSES: Final = ("news", "jobs")
LAST_TIMEOUT_MS: Final = 2_000
_RETRY_S: Final = 0.2
_ERRORS: Final = {"TIMEOUT": "CallTimeout", "NO_HANDLERS": "NoService"}
"""Failures of the bus itself by their types, as callers over connections have them."""


class SimBusMember:
    """A client of one node's bridge."""

    def __init__(self, context: ClientContext, plan: PlannedBusMember) -> None:
        self.context = context
        self._plan = plan
        self._random = context.random
        self._is_stopping = False
        self._connection: BridgeConnection | None = None
        self._session = 0
        self._messages = 0  # sent in this session
        self._calls_total = 0
        self._waiting: dict[str, asyncio.Future[Frame]] = {}  # for replies, by their addresses
        self._under_way: list[asyncio.Task[Any]] = []
        self._own = f"own-{context.name}"
        self._heard_itself = asyncio.Event()

    def stop(self) -> None:
        self._is_stopping = True

    async def run(self) -> None:
        random, plan = self._random, self._plan
        while not self._is_stopping:
            connection = await self._connected()
            if connection is not None:
                self._send_some(connection)
                if random.random() < 0.1:
                    self._under_way.append(self._process.loop.create_task(self._read_nothing(connection)))
            await asyncio.sleep(plan.pause_ms / 1_000 * 2 * random.random())
        if self._under_way:
            await asyncio.wait(self._under_way)
        await self._finish()

    async def _finish(self) -> None:
        while True:
            if await self._hears_and_is_answered():
                break
            await asyncio.sleep(_RETRY_S)
        if self._connection is not None:
            self._connection.close()

    @property
    def _process(self) -> SimProcess:
        assert self.context.host.process is not None
        return self.context.host.process

    @property
    def _now_us(self) -> int:
        return self._process.world.now_us

    async def _connected(self) -> BridgeConnection | None:
        """The open connection, or a new one; None where there is none to be made."""
        if self._connection is not None and self._connection.is_open:
            return self._connection
        try:
            place = (self.context.nodes[0][0], BRIDGE_PORT)
            connection = await BridgeConnection.connect(self._process, place, self._received, self._lost)
        except OSError:
            return None
        self._connection = connection
        self._session, self._messages = self._session + 1, 0
        connection.send({"type": "register", "address": self._own})
        for address in ADDRESSES if self._plan.is_listening else ():
            connection.send({"type": "register", "address": address})
        return connection

    def _send_some(self, connection: BridgeConnection) -> None:
        random = self._random
        self._under_way = [task for task in self._under_way if not task.done()]
        for _ in range(random.choice((1, 1, self._plan.messages_together))):
            # Requests between the messages: both take the same way through the bridge.
            if random.random() < 0.3:
                self._under_way.append(self._process.loop.create_task(self._ask(connection, self._plan.timeout_ms)))
            else:
                self._send(connection, random.choice(ADDRESSES), is_publication=random.random() < 0.5)

    def _send(self, connection: BridgeConnection, address: str, *, is_publication: bool) -> None:
        name, session = self.context.name, self._session
        self._messages += 1
        self.context.history.add(BusMessageSent(self._now_us, name, session, self._messages, address, is_publication))
        padding = "." * self._random.choice((0, self._plan.padding_characters))
        body = {"sender": name, "session": session, "number": self._messages, "padding": padding}
        connection.send({"type": "publish" if is_publication else "send", "address": address, "body": body})

    async def _ask(self, connection: BridgeConnection, timeout_ms: int) -> bool:
        """Ask the desk by a request; True where it was answered."""
        context, random = self.context, self._random
        self._calls_total += 1
        name = f"{context.name}/{self._calls_total}"
        work_ms = random.choice((0, self._plan.work_ms))
        order = {"name": name, "wait_before_ms": work_ms, "is_refused": random.random() < 0.1}
        context.history.add(CallBegun(self._now_us, context.name, name, 1, timeout_ms))
        reply = self._waiting[name] = self._process.loop.create_future()
        headers = {"action": "carry_out", "timeout": str(timeout_ms)}
        connection.send(
            {"type": "send", "address": DESK, "headers": headers, "body": {"order": order}, "replyAddress": name}
        )
        try:
            # The bridge sends a failure after the same time; this one also ends what it cannot reach.
            frame = await asyncio.wait_for(reply, timeout_ms / 1_000)
        except TimeoutError:
            frame = {"failureType": "TIMEOUT"}
        except ConnectionError:
            frame = {"failureType": "ConnectionLost"}
        finally:
            self._waiting.pop(name, None)
        end = _end_of(self._now_us, context.name, name, frame)
        context.history.add(end)
        return isinstance(end, CallAnswered)

    async def _read_nothing(self, connection: BridgeConnection) -> None:
        connection.set_reading(is_reading=False)
        await asyncio.sleep(self._random.random() * self._plan.not_reading_ms / 1_000)
        connection.set_reading(is_reading=True)

    async def _hears_and_is_answered(self) -> bool:
        connection = await self._connected()
        if connection is None:
            return False
        self._heard_itself.clear()
        self._send(connection, self._own, is_publication=True)
        try:
            await asyncio.wait_for(self._heard_itself.wait(), LAST_TIMEOUT_MS / 1_000)
        except TimeoutError:
            # As after a lost answer: the other side may have forgotten this connection.
            connection.close()
            return False
        return await self._ask(connection, LAST_TIMEOUT_MS)

    # -- the connection's side

    def _received(self, frame: Frame) -> None:
        reply = self._waiting.get(frame.get("address", ""))
        if reply is not None:
            # A connection may end in the same moment, or the time be over.
            if not reply.done():
                reply.set_result(frame)
        elif frame["type"] == "message" and "sender" in (body := frame["body"]):
            self.context.history.add(
                BusMessageReceived(
                    self._now_us,
                    self.context.name,
                    self._session,
                    frame["address"],
                    body["sender"],
                    body["session"],
                    body["number"],
                )
            )
            if frame["address"] == self._own:
                self._heard_itself.set()

    def _lost(self) -> None:
        for reply in self._waiting.values():
            if not reply.done():
                reply.set_exception(ConnectionResetError())


def _end_of(at_us: int, client: str, name: str, frame: Frame) -> CallAnswered | CallUnanswered:
    kind: str = frame.get("failureType", "")
    if not kind:
        return CallAnswered(at_us, client, name, frame["body"]["name"], frame["body"]["number"])
    # The service's own failure is its answer.
    if kind == "RECIPIENT_FAILURE" and frame["failureCode"] == DeskRefusal.code:
        answer, _, number = frame["message"].partition(" ")
        return CallAnswered(at_us, client, name, answer, number)
    return CallUnanswered(at_us, client, name, _ERRORS.get(kind, kind))
