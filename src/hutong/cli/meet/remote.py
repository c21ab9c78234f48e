"""The same exercise over remoting: each question is a command, each answer the answer to it.

Strategy: a line, in the exercise's own framing, is the body of a command, so that `machine` checks what is said here as
it does there; serials are its own, and remoting matches answers to questions by its opaques besides. Remoting awaits so
many answers on a connection and no more (`invocations_max`): who would ask beyond that asks again when answers have
come, and both sides read on whatever they have to say, so neither waits for the other for ever.

Knows nothing of frames: `remoting` does.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from hutong.cli.meet.driver import LEAVE_MS_MAX, Stage, Told, limits_of, resident_bytes
from hutong.cli.meet.lines import encode_line
from hutong.cli.meet.machine import Side
from hutong.foundation.errors import Expired, HutongError, ProtocolError
from hutong.foundation.waiting.numbered import Wait
from hutong.foundation.waiting.table import WaitTable
from hutong.remoting.answers import Answer
from hutong.remoting.channel import Channel
from hutong.remoting.client import RemotingClient
from hutong.remoting.endpoint import Endpoint
from hutong.remoting.events import ChannelEvent, ChannelEventKind
from hutong.remoting.limits import RemotingLimits
from hutong.remoting.server import RemotingServer
from hutong.wire.rocketmq.command import IS_RESPONSE, Command, encode_binary

SAY: Final = 4_500  # the code of a question; no code of RocketMQ's is near
ASK_TOGETHER: Final = 64  # meetings asked about in one turn of the loop
WAITING_MAX: Final = 1024  # questions unanswered
ANSWER_MS: Final = 60_000
_LIMITS: Final = RemotingLimits(invocations_max=WAITING_MAX + 2 * ASK_TOGETHER)
_DONE, _GONE = "done", "gone"


class RemoteConversation:
    """One side and one channel."""

    def __init__(self, side: Side, stage: Stage, endpoint: Endpoint) -> None:
        self.told = Told()
        self._side = side
        self._stage = stage
        self._waits: WaitTable[None] = WaitTable("meet_waits_max", stage.wheel, 8)
        self._channel: Channel | None = None
        self._is_asking = False
        self._failure: HutongError | None = None
        self._begun_us = 0
        endpoint.register(SAY, self._answer)
        endpoint.events.listeners.append(self._event)

    async def ended(self, *, leaves_first: bool) -> Told:
        """As `driver.Conversation.ended`."""
        if not self._side.is_done and not self._is_gone:
            await self._waits.wait(_DONE)
        self._note_time()
        if not self._is_gone and not leaves_first and self._failure is None:
            deadline_ms = self._stage.clock.monotonic_ms() + LEAVE_MS_MAX
            try:
                await self._waits.wait(_GONE, deadline_ms=deadline_ms)
                self._note_time()
            except Expired:
                pass
        if self._failure is not None:
            raise self._failure
        if not self._side.is_done:
            missing = ", ".join(f"{count} of {text!r}" for text, count in self._side.missing.items())
            raise ProtocolError(f"the neighbour left before it had said every line; missing are {missing}")
        return self.told

    @property
    def _is_gone(self) -> bool:
        return self._channel is not None and not self._channel.is_open

    def _event(self, event: ChannelEvent) -> None:
        if event.kind is ChannelEventKind.CONNECT and self._channel is None:
            self._channel = event.channel
            self.told.memory_begin = resident_bytes()
            self._begun_us = self._stage.clock.monotonic_us()
            self._ask_soon()
        elif event.kind is ChannelEventKind.CLOSE and event.channel is self._channel:
            self._waits.resume_all(_DONE, None)
            self._waits.resume_all(_GONE, None)

    def _answer(self, command: Command, channel: Channel) -> Answer:
        answers = self._hear(command.body)
        return [encode_binary(0, command.opaque, IS_RESPONSE, b"", b"".join(answers))]

    def heard(self, outcome: Command | HutongError) -> None:
        """The answer to a question, or why there is none."""
        if isinstance(outcome, HutongError):
            self._failure = self._failure or outcome
            self._waits.resume_all(_DONE, None)
            return
        self._hear(outcome.body)
        self._ask_soon()

    def _hear(self, body: bytes | bytearray | memoryview) -> list[bytes | bytearray | memoryview]:
        side = self._side
        answers = side.receive_data(body)
        if not self.told.memory_tenth and 10 * side.heard_total >= side.expected_total:
            self.told.memory_tenth = resident_bytes()
        if side.failure is not None:
            self._failure = side.failure
            self._waits.resume_all(_DONE, None)
            raise side.failure
        if side.is_done:
            self._stage.loop.call_soon(partial(self._waits.resume_all, _DONE, None))
        return answers

    def _ask_soon(self) -> None:
        if not self._is_asking and self._side.asked < self._side.meetings:
            self._is_asking = True
            self._stage.loop.call_soon(self._ask)

    def _ask(self) -> None:
        """Some meetings' questions; the rest when answers have come, or in the next turn."""
        self._is_asking = False
        side, channel = self._side, self._channel
        if channel is None or not channel.is_open or channel.awaited >= WAITING_MAX:
            return
        texts = side.part.asks.texts
        for serial in range(side.asked, min(side.meetings, side.asked + ASK_TOGETHER)):
            side.ask(1)
            for text in texts:
                channel.begin(SAY, b"", encode_line(serial, text), ANSWER_MS, _Heard(self))
        self._ask_soon()

    def _note_time(self) -> None:
        self.told.seconds = (self._stage.clock.monotonic_us() - self._begun_us) / 1e6
        self.told.memory_end = resident_bytes()


class _Heard(Wait[Command]):
    __slots__ = ("_conversation",)

    def __init__(self, conversation: RemoteConversation) -> None:
        self._conversation = conversation

    def end(self, outcome: Command | HutongError) -> None:
        self._conversation.heard(outcome)


async def listen(host: str, port: int, side: Side, *, ready: Callable[[tuple[str, int]], None]) -> Told:
    """As `driver.listen`."""
    stage = Stage(limits_of())
    server = RemotingServer(stage.loop, clock=stage.clock, wheel=stage.wheel, limits=_LIMITS)
    conversation = RemoteConversation(side, stage, server)
    try:
        ready(await server.listen(host, port))
        return await conversation.ended(leaves_first=False)
    finally:
        await server.close(0)
        stage.timers.close()


async def dial(host: str, port: int, side: Side) -> Told:
    """As `driver.dial`; raises RemotingConnectFailed where nobody listens."""
    stage = Stage(limits_of())
    client = RemotingClient(stage.loop, clock=stage.clock, wheel=stage.wheel, limits=_LIMITS)
    conversation = RemoteConversation(side, stage, client)
    try:
        await client.connect(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        return await conversation.ended(leaves_first=True)
    finally:
        await client.close()
        stage.timers.close()
