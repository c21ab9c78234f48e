"""Puts one side on one connection of the reactor: it speaks and listens at once until all is said and heard.

Strategy: in each turn of the loop a block of questions leaves and a block of the answers that are owed, so that neither
holds up the other and whatever has come is heard between two turns. While the neighbour does not read, speaking is
parked; listening goes on (`Peer.is_duplex`), since two sides with full buffers would otherwise wait for each other for
ever. What is owed meanwhile is bounded: above three quarters of OWED_BYTES_MAX nothing is asked, above all of it the
neighbour is not listened to, until half of it is left.

Who gets longer answers than its questions are (Li) asks AHEAD_MAX meetings ahead of them, and further only while the
neighbour is silent: asking faster would but pile up what the other has to say. Towards the end it is less, so that both
come to it together. Nobody waits for an answer: a neighbour who says nothing hears a block every SILENCE_MS. Who leaves
last has the last word too, which it keeps until it has heard all or has heard nothing for FAREWELL_MS: there are
neighbours who leave the moment they have heard all, with answers of their own still to be said.

Two of these sides cannot both come to that. Take the one that asked last: it owed three quarters at most then, and what
has come since are questions that were on their way already. Those are UNSENT_BYTES_MAX and a block on the other side at
most and what two kernels hold between, and even their answers, half as long again, are less than the last quarter.

Decides no line: `machine` does. Knows nothing of processes.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hutong.cli.meet.machine import Side
from hutong.foundation.clock import Clock, SystemClock
from hutong.foundation.errors import Expired, HutongError, ProtocolError
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import WaitTable
from hutong.reactor.acceptor import Acceptor
from hutong.reactor.channel import HELD, Response
from hutong.reactor.connector import Connector
from hutong.reactor.handler import Peer
from hutong.reactor.limits import ReactorLimits
from hutong.runtime.timers import LoopTimers
from hutong.wire.buffer import Buffer

ASK_BYTES: Final = 64 * 1024  # of questions said in one turn of the loop, or half as many as of answers
BLOCK_BYTES: Final = 128 * 1024  # up to which answers are put together; those to one run stay together anyway
UNSENT_BYTES_MAX: Final = 256 * 1024  # above which nothing is said
KERNEL_BUFFER_BYTES: Final = 256 * 1024  # asked for; Linux doubles it, so two of them hold 1 MiB at most
AHEAD_MAX: Final = 8192  # meetings
AHEAD_AT_END: Final = 256
SILENCE_MS: Final = 4
FAREWELL_MS: Final = 250
OWED_BYTES_MAX: Final = 12 * 1024 * 1024  # answers not said yet
LEAVE_MS_MAX: Final = 5_000  # for the neighbour to hear our last lines and leave
_WAITS_MAX: Final = 8
_MOUTH, _SILENCE, _DONE, _GONE = "mouth", "silence", "done", "gone"


class Chunks:
    """The framing below the exercise's own: a frame is whatever was read, since `machine` takes many lines at once."""

    def __init__(self, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self.bytes_held = 0
        self.failure: ProtocolError | None = None

    def receive_data(self, data: Buffer) -> list[Buffer]:
        return [bytes(data)]


@dataclass(slots=True)
class Told:
    """How it went on one side. Memory in bytes of resident memory, 0 where the system does not tell."""

    seconds: float = 0.0
    memory_begin: int = 0
    memory_tenth: int = 0  # when a tenth of the lines was heard
    memory_end: int = 0
    pauses: int = 0  # times that the neighbour did not read and nothing was said
    holds: int = 0  # times that it was not listened to


@dataclass(slots=True)
class Stage:
    """What a side needs around it, on the running loop."""

    limits: ReactorLimits
    clock: Clock = field(default_factory=SystemClock)
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    wheel: TimerWheel = field(init=False)
    timers: LoopTimers = field(init=False)

    def __post_init__(self) -> None:
        self.wheel = TimerWheel(self.clock.monotonic_ms())
        self.timers = LoopTimers(self.loop, self.wheel, self.clock)


class Conversation:
    """The reactor's handler of one side and one connection; who comes second is sent away."""

    def __init__(self, side: Side, stage: Stage, *, leaves_first: bool, owed_bytes_max: int) -> None:
        self.told = Told()
        self._side = side
        self._stage = stage
        self._leaves_first = leaves_first
        self._owed_bytes_max = owed_bytes_max
        self._waits: WaitTable[None] = WaitTable("meet_waits_max", stage.wheel, _WAITS_MAX)
        self._peer: Peer | None = None
        self._is_paused = False
        self._is_deaf = False
        self._keeps_step = side.part.is_answered.size > side.part.asks.size
        self._is_patient = False  # whether the end of silence is waited for
        self._is_silent = False  # the neighbour said nothing for so long that a block may be asked
        self._is_finished = False  # all is said and heard
        self._is_speaking = False  # whether `_speak` is called in the next turn, or parked
        self._owed: deque[bytearray] = deque()
        self._owed_bytes = 0
        self._tenth = side.expected_total // 10
        self._begun_us = 0

    # Called by the reactor.

    def connection_opened(self, peer: Peer) -> None:
        if self._peer is not None:
            peer.close()
            return
        self._peer = peer
        peer.is_duplex = True
        peer.sending_changed = self._sending_changed
        self.told.memory_begin = resident_bytes()
        self._begun_us = self._stage.clock.monotonic_us()
        self._speak_soon()

    def request_received(self, frame: Buffer, peer: Peer) -> Response:
        side = self._side
        if self._is_deaf:
            return HELD
        for answer in side.receive_data(frame):
            self._owe(answer)
        if side.heard_total >= self._tenth and not self.told.memory_tenth:
            self.told.memory_tenth = resident_bytes()
        if side.failure is not None:
            raise side.failure
        if self._owed_bytes > self._owed_bytes_max:
            self._is_deaf = True
            self.told.holds += 1
        self._speak_soon()
        return None

    def connection_closed(self, peer: Peer) -> None:
        if peer is self._peer:
            if self._is_finished:
                self._note_time()
            self._waits.resume_all(_DONE, None)
            self._waits.resume_all(_GONE, None)

    # Called by whoever waits for the end.

    @property
    def has_begun(self) -> bool:
        return self._peer is not None

    async def ended(self) -> Told:
        """Once both sides have heard every line. Raises ProtocolError for a line that is wrong or missing."""
        if not self._is_finished and not self._is_gone:
            await self._waits.wait(_DONE)
        if not self._is_gone:
            await self._leave()
        if self._side.failure is not None:
            raise self._side.failure
        if not self._side.is_done:
            missing = ", ".join(f"{count} of {text!r}" for text, count in self._side.missing.items())
            raise ProtocolError(f"the neighbour left before it had said every line; missing are {missing or 'none'}")
        if not self._is_finished:
            raise ProtocolError("the neighbour left before it had heard every line")
        return self.told

    # Steps of the above.

    @property
    def _is_gone(self) -> bool:
        return self._peer is not None and self._peer.owner.has_ended

    def _speak_soon(self) -> None:
        if not self._is_speaking:
            self._is_speaking = True
            self._stage.loop.call_soon(self._speak)

    def _speak(self) -> None:
        """Say a block of each, and come again: in the next turn, or once the neighbour reads again."""
        peer = self._peer
        if peer is None or peer.owner.has_ended:
            return
        if self._is_paused:
            self._waits.park(_MOUTH, self._speak_again, owner=peer.owner)
            return
        self._is_speaking = False
        said = self._next_words()
        if said:
            peer.push(said)
            self._speak_soon()
        elif self._side.is_done:
            self._finish()
        if self._is_deaf and 2 * self._owed_bytes <= self._owed_bytes_max:
            self._is_deaf = False
            peer.release()

    def _next_words(self) -> list[Buffer]:
        """Answers and questions in a fair proportion, so that both come to their end at about the same time."""
        said: list[Buffer] = []
        may_ask = 4 * self._owed_bytes <= 3 * self._owed_bytes_max
        ask_bytes = ASK_BYTES
        if self._owed and not self._is_last_word():
            answers = self._owed.popleft()
            self._owed_bytes -= len(answers)
            ask_bytes = max(ASK_BYTES, len(answers) // 2)
            said.append(answers)
        if may_ask and self._side.asked < self._side.meetings:
            ask_bytes = self._in_step(ask_bytes)
            if ask_bytes:
                said.append(self._side.ask(ask_bytes))
        return said

    def _in_step(self, ask_bytes: int) -> int:
        """So many bytes of questions, or as many as the answers that came allow."""
        side = self._side
        if not self._keeps_step or self._is_silent:
            self._is_silent = False
            return ask_bytes
        ahead_max = max(AHEAD_AT_END, min(AHEAD_MAX, side.meetings - side.asked))
        allowed = ahead_max - side.unanswered
        if allowed > 0:
            return min(ask_bytes, allowed * side.part.asks.size)
        self._listen_for_silence(SILENCE_MS)
        return 0

    def _is_last_word(self) -> bool:
        """Whether what is owed is all that is left to be said, and better kept a little."""
        side = self._side
        if self._leaves_first or self._is_silent or len(self._owed) > 1 or side.asked < side.meetings:
            return False
        if side.heard_total == side.expected_total or not side.has_heard_questions:
            return False
        self._listen_for_silence(FAREWELL_MS)
        return True

    def _listen_for_silence(self, silence_ms: int) -> None:
        if self._is_patient:
            return
        assert self._peer is not None
        heard_total = self._side.heard_total
        self._is_patient = True

        def over(outcome: HutongError | None) -> None:
            self._is_patient = False
            if isinstance(outcome, Expired):
                self._is_silent = self._side.heard_total == heard_total
                self._speak_soon()

        deadline_ms = self._stage.clock.monotonic_ms() + silence_ms
        self._waits.park(_SILENCE, over, deadline_ms=deadline_ms, owner=self._peer.owner)

    def _owe(self, answers: Buffer) -> None:
        owed = self._owed
        if owed and len(owed[-1]) + len(answers) <= BLOCK_BYTES:
            owed[-1] += answers
        else:
            owed.append(bytearray(answers))
        self._owed_bytes += len(answers)

    def _speak_again(self, outcome: HutongError | None) -> None:
        if outcome is None:
            self._speak()

    def _sending_changed(self, is_paused: bool) -> None:
        self._is_paused = is_paused
        if is_paused:
            self.told.pauses += 1
        else:
            self._waits.resume_all(_MOUTH, None)

    def _finish(self) -> None:
        self._is_finished = True
        self._note_time()
        self._waits.resume_all(_DONE, None)

    def _note_time(self) -> None:
        self.told.seconds = (self._stage.clock.monotonic_us() - self._begun_us) / 1e6
        self.told.memory_end = resident_bytes()

    async def _leave(self) -> None:
        """Who dialled leaves first. The other sees by that when its neighbour has heard all, and is patient so long."""
        assert self._peer is not None
        deadline_ms = self._stage.clock.monotonic_ms() + LEAVE_MS_MAX
        try:
            if not self._leaves_first:
                await self._waits.wait(_GONE, deadline_ms=deadline_ms)
                return
        except Expired:
            pass
        self._peer.close()
        await self._waits.wait(_GONE)


async def listen(
    host: str,
    port: int,
    side: Side,
    *,
    ready: Callable[[tuple[str, int]], None],
    limits: ReactorLimits,
    owed_bytes_max: int = OWED_BYTES_MAX,
) -> Told:
    """Converse with the first who connects; `ready` is told the address. Raises OSError and as `Conversation.ended`."""
    stage = Stage(limits)
    conversation = Conversation(side, stage, leaves_first=False, owed_bytes_max=owed_bytes_max)
    acceptor = Acceptor(stage.loop, conversation, Chunks, clock=stage.clock, wheel=stage.wheel, limits=stage.limits)
    try:
        ready(await acceptor.listen(host, port))
        return await conversation.ended()
    finally:
        await acceptor.drain(0)
        stage.timers.close()


async def dial(
    host: str,
    port: int,
    side: Side,
    *,
    limits: ReactorLimits,
    owed_bytes_max: int = OWED_BYTES_MAX,
) -> Told:
    """Converse with who listens there. Raises OSError and Expired, and as `Conversation.ended`."""
    stage = Stage(limits)
    conversation = Conversation(side, stage, leaves_first=True, owed_bytes_max=owed_bytes_max)
    connector = Connector(stage.loop, conversation, Chunks, clock=stage.clock, wheel=stage.wheel, limits=stage.limits)
    try:
        try:
            await connector.connect(host, port)
        except ConnectionResetError:
            if not conversation.has_begun:  # who came and left at once is told of by the conversation
                raise
        return await conversation.ended()
    finally:
        await connector.close(0)
        stage.timers.close()


def limits_of(kernel_buffer_bytes: int = KERNEL_BUFFER_BYTES) -> ReactorLimits:
    """Those of the exercise. Small buffers of the kernel show what happens when both sides' are full."""
    return ReactorLimits(
        unsent_bytes_max=UNSENT_BYTES_MAX,
        send_buffer_bytes=kernel_buffer_bytes,
        receive_buffer_bytes=kernel_buffer_bytes,
    )


def resident_bytes() -> int:
    """Resident memory of this process now, 0 where there is no /proc."""
    return _status_bytes("VmRSS")


def peak_bytes() -> int:
    """The most that it was."""
    return _status_bytes("VmHWM")


def _status_bytes(name: str) -> int:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))
