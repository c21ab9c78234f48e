"""One SockJS session: its rules on every transport (SockJS 0.3.4, "Session-based URLs").

Strategy: frames leave through one receiver at a time; a second one is refused (2010). A receiver takes any number of
frames (WebSocket), some bytes of them (streaming) or one (polling). Between two receivers messages wait here; a session
without one for too long is lost. One whose receiver breaks off is interrupted (1002) for good, since nobody knows what
arrived. A closed session is remembered for a while, so that its client learns that it is.

All frames of one loop iteration leave together: a poll that carried the first message alone would cost a round trip for
each further one.

Knows nothing of HTTP, of loops, or of what the messages mean; time comes with each event.
"""

from collections import deque

from hutong.bus.sockjs.limits import SockJSLimits
from hutong.bus.sockjs.messages import (
    Attached,
    Blocked,
    Came,
    Congested,
    Ended,
    EndSession,
    Event,
    Forget,
    Give,
    HeartbeatTick,
    Instruction,
    Put,
    ReceiverLost,
    Said,
    SessionOpened,
    Shut,
)
from hutong.bus.sockjs.web.frames import HEARTBEAT, OPEN, encode_close, encode_messages

GO_AWAY = (3000, "Go away!")
INTERRUPTED = (1002, "Connection interrupted")
STILL_OPEN = (2010, "Another connection still open")


class SockJsSession:
    """One session, which begins with its first receiver.

    `is_single`: that is the only one, and the session ends with it. `is_raw`: messages travel as they are, without
    SockJS's frames around them.
    """

    def __init__(self, limits: SockJSLimits, *, is_single: bool = False, is_raw: bool = False) -> None:
        self.is_open = False
        self.unsent_bytes = 0
        self._limits = limits
        self._is_single = is_single
        self._is_raw = is_raw
        self._closed: tuple[int, str] | None = None  # with which code and reason
        self._receiver: int | None = None
        self._room_bytes: int | None = None  # of the receiver, as in Attached
        self._is_blocked = False
        self._is_congested = False
        self._is_forgotten = False
        self._unsent: deque[bytes] = deque()
        self._heartbeat_at_ms: int | None = None  # while there is a receiver
        self._gone_at_ms: int | None = None  # while there is none
        self._silent_at_ms: int | None = None  # while it is open

    @property
    def wants_flush(self) -> bool:
        """True when a Flush would send something."""
        return bool(self._unsent) and self._receiver is not None and not self._is_blocked

    def get_timer(self) -> int | None:
        """The time of the next HeartbeatTick."""
        due = [at for at in (self._heartbeat_at_ms, self._gone_at_ms, self._silent_at_ms) if at is not None]
        return min(due, default=None)

    def handle(self, event: Event, now_ms: int) -> list[Instruction]:
        """The instructions that follow from the event."""
        if isinstance(event, Came):
            return self._came(event.texts, now_ms)
        done = self._with_congestion(self._decide(event, now_ms))
        if self._is_single and self._closed is not None and self._receiver is None and not self._is_forgotten:
            self._is_forgotten = True
            self._gone_at_ms = None
            done.append(Forget())
        return done

    def _decide(self, event: Event, now_ms: int) -> list[Instruction]:
        match event:
            case Said(message):
                return self._say(message)
            case Attached(receiver, room_bytes):
                return self._attach(receiver, room_bytes, now_ms)
            case ReceiverLost(receiver):
                return self._lose(now_ms) if receiver == self._receiver else []
            case Blocked(receiver, is_blocked):
                if receiver == self._receiver:
                    self._is_blocked = is_blocked
                return self._flush(now_ms)
            case Shut(code, reason):
                return self._shut(code, reason, now_ms)
            case HeartbeatTick():
                return self._tick(now_ms)
            case _:
                return self._flush(now_ms)

    def check_invariants(self) -> None:
        assert self.unsent_bytes == sum(len(message) for message in self._unsent)
        assert not self.is_open or (self._receiver is None) == (self._gone_at_ms is not None)
        assert (self._receiver is None) == (self._heartbeat_at_ms is None)
        assert not (self.is_open and self._closed)
        assert self.is_open == (self._silent_at_ms is not None)

    # Receivers.

    def _attach(self, receiver: int, room_bytes: int | None, now_ms: int) -> list[Instruction]:
        if self._receiver is not None:
            return [Put(receiver, encode_close(*STILL_OPEN)), EndSession(receiver, *STILL_OPEN)]
        self._receiver, self._room_bytes, self._is_blocked = receiver, room_bytes, False
        if self._closed is None:
            self._gone_at_ms = None
        self._heartbeat_at_ms = now_ms + self._limits.heartbeat_ms
        if self.is_open or self._closed is not None:
            return self._flush(now_ms)
        self.is_open = True
        self._silent_at_ms = now_ms + self._limits.ping_timeout_ms
        return [*self._put(OPEN, now_ms), SessionOpened()]

    def _detach(self, now_ms: int) -> None:
        self._receiver = self._heartbeat_at_ms = None
        self._is_blocked = False
        self._gone_at_ms = now_ms + self._limits.disconnect_ms

    def _put(self, frame: str, now_ms: int) -> list[Instruction]:
        """The frame, and the receiver's end where it has no more room."""
        receiver = self._receiver
        assert receiver is not None
        self._heartbeat_at_ms = now_ms + self._limits.heartbeat_ms
        if self._is_raw:
            return []
        if self._room_bytes is None:
            return [Put(receiver, frame)]
        self._room_bytes -= len(frame)
        if self._room_bytes > 0:
            return [Put(receiver, frame)]
        self._detach(now_ms)
        return [Put(receiver, frame), EndSession(receiver)]

    def _flush(self, now_ms: int) -> list[Instruction]:
        done: list[Instruction] = []
        if self._is_raw and self.wants_flush:
            done += self._put_raw()
        while self.wants_flush:
            done += self._put(encode_messages(self._next_messages()), now_ms)
        if self._closed is not None and self._receiver is not None and not self._unsent:
            receiver, (code, reason) = self._receiver, self._closed
            self._detach(now_ms)
            if not self._is_raw:
                done.append(Put(receiver, encode_close(code, reason)))
            done.append(EndSession(receiver, code, reason))
        return done

    def _say(self, message: bytes) -> list[Instruction]:
        if self._closed is None:
            self._unsent.append(message)
            self.unsent_bytes += len(message)
        return []

    def _put_raw(self) -> list[Instruction]:
        assert self._receiver is not None
        done: list[Instruction] = [Put(self._receiver, message.decode()) for message in self._unsent]
        self._unsent.clear()
        self.unsent_bytes = 0
        return done

    def _next_messages(self) -> list[bytes]:
        """As many as go into one frame."""
        messages: list[bytes] = []
        size = 0
        while self._unsent and (not messages or size + len(self._unsent[0]) <= self._limits.response_bytes_max):
            message = self._unsent.popleft()
            size += len(message)
            messages.append(message)
        self.unsent_bytes -= size
        return messages

    # The client.

    def _came(self, texts: list[str], now_ms: int) -> list[Instruction]:
        if not self.is_open:
            return []
        self._silent_at_ms = now_ms + self._limits.ping_timeout_ms
        return [Give(texts)]

    def _lose(self, now_ms: int) -> list[Instruction]:
        """The receiver broke off."""
        was_open = self.is_open
        self._detach(now_ms)
        self._close(*(self._closed or INTERRUPTED), now_ms)
        self._unsent.clear()
        self.unsent_bytes = 0
        return [Ended()] if was_open else []

    # Endings.

    def _close(self, code: int, reason: str, now_ms: int) -> None:
        self.is_open = False
        self._silent_at_ms = None
        self._closed = (code, reason)
        self._gone_at_ms = now_ms + self._limits.disconnect_ms

    def _shut(self, code: int, reason: str, now_ms: int) -> list[Instruction]:
        if not self.is_open:
            return []
        self._close(code, reason, now_ms)
        return [*self._flush(now_ms), Ended()]

    def _tick(self, now_ms: int) -> list[Instruction]:
        if self._silent_at_ms is not None and now_ms >= self._silent_at_ms:
            return self._shut(*GO_AWAY, now_ms)
        if self._gone_at_ms is not None and now_ms >= self._gone_at_ms:
            return self._expire(now_ms)
        if self._heartbeat_at_ms is not None and now_ms >= self._heartbeat_at_ms:
            return self._heartbeat(now_ms)
        return []

    def _expire(self, now_ms: int) -> list[Instruction]:
        """No receiver came back, or a closed session's receiver does not take what is left."""
        done: list[Instruction] = [Ended()] if self.is_open else []
        self._close(*(self._closed or GO_AWAY), now_ms)
        if self._receiver is not None:
            done.append(EndSession(self._receiver, *GO_AWAY))
            self._receiver = self._heartbeat_at_ms = None
        self._gone_at_ms = None
        self._is_forgotten = True
        return [*done, Forget()]

    def _heartbeat(self, now_ms: int) -> list[Instruction]:
        if self._is_blocked:  # it has enough to read
            self._heartbeat_at_ms = now_ms + self._limits.heartbeat_ms
            return []
        return self._put(HEARTBEAT, now_ms)

    def _with_congestion(self, done: list[Instruction]) -> list[Instruction]:
        is_congested = self._is_blocked or self.unsent_bytes > self._limits.buffered_bytes_max
        if is_congested is not self._is_congested:
            self._is_congested = is_congested
            if self.is_open:
                done.append(Congested(is_congested))
        return done
