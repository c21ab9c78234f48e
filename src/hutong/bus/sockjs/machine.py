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

from hutong.bus.sockjs import messages
from hutong.bus.sockjs.limits import SockJSLimits
from hutong.bus.sockjs.messages import Event, Instruction
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
        self._room_bytes: int | None = None  # of the receiver, as in ReceiverAttached
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
        # Nothing below can change by it: messages of the client neither fill the buffer nor end the session.
        if isinstance(event, messages.MessagesReceived):
            return self._receive_messages(event.texts, now_ms)
        done = self._with_congestion(self._decide(event, now_ms))
        # No other receiver can ask for a WebSocket's session by name, so its closing need not be remembered.
        if self._is_single and self._closed is not None and self._receiver is None and not self._is_forgotten:
            self._is_forgotten = True
            self._gone_at_ms = None
            done.append(messages.ForgetSession())
        return done

    def _decide(self, event: Event, now_ms: int) -> list[Instruction]:
        match event:
            case messages.MessageQueued(message):
                return self._queue_message(message)
            case messages.ReceiverAttached(receiver, room_bytes):
                return self._attach_receiver(receiver, room_bytes, now_ms)
            case messages.ReceiverLost(receiver):
                # A refused receiver, or one whose response was complete, says nothing about the session.
                return self._lose_receiver(now_ms) if receiver == self._receiver else []
            case messages.ReceiverBlocked(receiver, is_blocked):
                if receiver == self._receiver:
                    self._is_blocked = is_blocked
                return self._flush(now_ms)
            case messages.CloseRequested(code, reason):
                return self._close_session(code, reason, now_ms)
            case messages.SessionTick():
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

    def _attach_receiver(self, receiver: int, room_bytes: int | None, now_ms: int) -> list[Instruction]:
        # SockJS 0.3.4: one receiver at a time, and the second one gets the error. Order would be lost between two.
        if self._receiver is not None:
            return [
                messages.SendFrame(receiver, encode_close(*STILL_OPEN)),
                messages.EndReceiver(receiver, *STILL_OPEN),
            ]
        self._receiver, self._room_bytes, self._is_blocked = receiver, room_bytes, False
        # A closed session keeps its timer: this receiver may never read the close frame.
        if self._closed is None:
            self._gone_at_ms = None
        self._heartbeat_at_ms = now_ms + self._limits.heartbeat_ms
        if self.is_open or self._closed is not None:
            return self._flush(now_ms)
        self.is_open = True
        self._silent_at_ms = now_ms + self._limits.ping_timeout_ms
        return [*self._send_frame(OPEN, now_ms), messages.SessionOpened()]

    def _detach_receiver(self, now_ms: int) -> None:
        self._receiver = self._heartbeat_at_ms = None
        self._is_blocked = False
        self._gone_at_ms = now_ms + self._limits.disconnect_ms

    def _send_frame(self, frame: str, now_ms: int) -> list[Instruction]:
        """The frame, and the receiver's end where it has no more room."""
        receiver = self._receiver
        assert receiver is not None
        # Any frame shows proxies that the connection is alive, so the next heartbeat is due only a period after it.
        self._heartbeat_at_ms = now_ms + self._limits.heartbeat_ms
        if self._is_raw:  # nothing but messages travels there: neither "o" nor heartbeats
            return []
        if self._room_bytes is None:
            return [messages.SendFrame(receiver, frame)]
        # At least one frame goes, however large: a poll has no room and takes exactly one.
        self._room_bytes -= len(frame)
        if self._room_bytes > 0:
            return [messages.SendFrame(receiver, frame)]
        self._detach_receiver(now_ms)
        return [messages.SendFrame(receiver, frame), messages.EndReceiver(receiver)]

    def _flush(self, now_ms: int) -> list[Instruction]:
        done: list[Instruction] = []
        if self._is_raw and self.wants_flush:
            done += self._send_raw()
        while self.wants_flush:
            done += self._send_frame(encode_messages(self._next_messages()), now_ms)
        # The close frame comes behind everything that the application sent before it closed.
        if self._closed is not None and self._receiver is not None and not self._unsent:
            receiver, (code, reason) = self._receiver, self._closed
            self._detach_receiver(now_ms)
            if not self._is_raw:
                done.append(messages.SendFrame(receiver, encode_close(code, reason)))
            done.append(messages.EndReceiver(receiver, code, reason))
        return done

    def _queue_message(self, message: bytes) -> list[Instruction]:
        # After the close frame nobody would read it.
        if self._closed is None:
            self._unsent.append(message)
            self.unsent_bytes += len(message)
        return []

    def _send_raw(self) -> list[Instruction]:
        assert self._receiver is not None
        done: list[Instruction] = [messages.SendFrame(self._receiver, message.decode()) for message in self._unsent]
        self._unsent.clear()
        self.unsent_bytes = 0
        return done

    def _next_messages(self) -> list[bytes]:
        """As many as go into one frame."""
        batch: list[bytes] = []
        size = 0
        while self._unsent and (not batch or size + len(self._unsent[0]) <= self._limits.response_bytes_max):
            message = self._unsent.popleft()
            size += len(message)
            batch.append(message)
        self.unsent_bytes -= size
        return batch

    # The client.

    def _receive_messages(self, texts: list[str], now_ms: int) -> list[Instruction]:
        # A request may have been under way when the session was closed.
        if not self.is_open:
            return []
        self._silent_at_ms = now_ms + self._limits.ping_timeout_ms
        return [messages.GiveMessages(texts)]

    def _lose_receiver(self, now_ms: int) -> list[Instruction]:
        """The receiver broke off."""
        was_open = self.is_open
        self._detach_receiver(now_ms)
        # Frames may be lost on the way, and the protocol has no acknowledgements: resuming would hide a gap.
        self._close(*(self._closed or INTERRUPTED), now_ms)
        self._unsent.clear()
        self.unsent_bytes = 0
        return [messages.SessionEnded()] if was_open else []

    # Endings.

    def _close(self, code: int, reason: str, now_ms: int) -> None:
        self.is_open = False
        self._silent_at_ms = None
        self._closed = (code, reason)
        self._gone_at_ms = now_ms + self._limits.disconnect_ms

    def _close_session(self, code: int, reason: str, now_ms: int) -> list[Instruction]:
        if not self.is_open:
            return []
        self._close(code, reason, now_ms)
        return [*self._flush(now_ms), messages.SessionEnded()]

    def _tick(self, now_ms: int) -> list[Instruction]:
        # Vert.x's clients ping their bridge; one that does not is gone, though its connection may look alive.
        if self._silent_at_ms is not None and now_ms >= self._silent_at_ms:
            return self._close_session(*GO_AWAY, now_ms)
        if self._gone_at_ms is not None and now_ms >= self._gone_at_ms:
            return self._expire(now_ms)
        if self._heartbeat_at_ms is not None and now_ms >= self._heartbeat_at_ms:
            return self._heartbeat(now_ms)
        return []

    def _expire(self, now_ms: int) -> list[Instruction]:
        """No receiver came back, or a closed session's receiver does not take what is left."""
        done: list[Instruction] = [messages.SessionEnded()] if self.is_open else []
        self._close(*(self._closed or GO_AWAY), now_ms)
        # It never read its close frame: its connection ends without it.
        if self._receiver is not None:
            done.append(messages.EndReceiver(self._receiver, *GO_AWAY))
            self._receiver = self._heartbeat_at_ms = None
        self._gone_at_ms = None
        self._is_forgotten = True
        return [*done, messages.ForgetSession()]

    def _heartbeat(self, now_ms: int) -> list[Instruction]:
        if self._is_blocked:  # it has enough to read
            self._heartbeat_at_ms = now_ms + self._limits.heartbeat_ms
            return []
        return self._send_frame(HEARTBEAT, now_ms)

    def _with_congestion(self, done: list[Instruction]) -> list[Instruction]:
        is_congested = self._is_blocked or self.unsent_bytes > self._limits.buffered_bytes_max
        # Changes only: the application pauses and resumes all its senders on each.
        if is_congested is not self._is_congested:
            self._is_congested = is_congested
            if self.is_open:
                done.append(messages.Congested(is_congested))
        return done
