"""Carries out what sessions decide: frames to receivers, messages to the application, timers, the table of sessions.

Strategy: each session has one timer, which is only a reminder: when it fires the machine is asked what is due. What the
application sends within a loop iteration is flushed at its end. While the application takes no messages, they are kept
here, and the request that brought them is not answered, or not read further.

Knows no HTTP: a receiver is something that takes frames.
"""

from collections import Counter, deque
from collections.abc import Callable
from itertools import count
from typing import Final, Protocol

from hutong.bus.bridge.driver import Outlet
from hutong.bus.bridge.hooks import BridgePeer
from hutong.bus.sockjs import messages
from hutong.bus.sockjs.limits import SockJSLimits
from hutong.bus.sockjs.machine import GO_AWAY, SockJsSession
from hutong.bus.sockjs.messages import Event, Instruction
from hutong.foundation.clock import Clock
from hutong.foundation.errors import LimitExceeded
from hutong.foundation.timers import Timer, TimerWheel

GIVEN_PER_ITERATION_MAX: Final = 256
"""Messages of one client in one loop iteration: an array may have hundreds of thousands."""
Soon = Callable[[Callable[[], None]], object]
"""Calls back at the end of this loop iteration, as `call_soon` does."""


class SockJsClient(Protocol):
    """The application's side of one session."""

    def receive(self, data: str) -> bool:
        """A message of the client. False: not now; keep it, and those behind it, until `Outlet.resume`."""

    def frame_too_large(self) -> None:
        """A message came that is longer than `frame_characters_max`."""

    def sending_changed(self, is_paused: bool) -> None:
        """True while more is unsent to this client than the bound."""

    def ended(self) -> None:
        """The session is over."""


class Application(Protocol):
    def connect(self, peer: BridgePeer, outlet: Outlet) -> SockJsClient | None:
        """A session has begun; None to close it at once."""


class Receiver(Protocol):
    """A response or a WebSocket."""

    def put(self, frame: str) -> None:
        """Send one frame."""

    def end(self, code: int, reason: str) -> None:
        """It is done."""


class Sessions:
    """All sessions of one server. Those of WebSockets are not found by name: they end with their connection."""

    def __init__(
        self, application: Application, limits: SockJSLimits, clock: Clock, wheel: TimerWheel, soon: Soon
    ) -> None:
        self.limits = limits
        self.application = application
        self.clock = clock
        self.wheel = wheel
        self.soon = soon
        self._named: dict[str, SessionDriver] = {}
        self._by_address: Counter[str] = Counter()  # how many of the named were opened from there
        self._all: set[SessionDriver] = set()

    def __len__(self) -> int:
        return len(self._all)

    def find(self, name: str) -> "SessionDriver | None":
        return self._named.get(name)

    def find_or_make(self, name: str, peer: BridgePeer) -> "SessionDriver":
        """Raises LimitExceeded at `sessions_max` and `sessions_per_address_max`."""
        found = self._named.get(name)
        if found is None:
            if len(self._named) >= self.limits.sessions_max:
                raise LimitExceeded("sessions_max", self.limits.sessions_max)
            # Anybody may open a session by one request: one address must not take the place of all others.
            if self._by_address[peer.host] >= self.limits.sessions_per_address_max:
                raise LimitExceeded("sessions_per_address_max", self.limits.sessions_per_address_max)
            found = SessionDriver(self, SockJsSession(self.limits), peer, name)
            self._named[name] = found
            self._by_address[peer.host] += 1
            self._all.add(found)
        return found

    def make_single(self, peer: BridgePeer, *, is_raw: bool) -> "SessionDriver":
        """A session of a WebSocket: connections are bounded already."""
        made = SessionDriver(self, SockJsSession(self.limits, is_single=True, is_raw=is_raw), peer, "")
        self._all.add(made)
        return made

    def forget(self, session: "SessionDriver") -> None:
        self._all.discard(session)
        # WebSockets share the empty name, and none of them is in the table.
        if self._named.get(session.name) is session:
            del self._named[session.name]
            self._by_address[session.host] -= 1
            if not self._by_address[session.host]:
                del self._by_address[session.host]

    def close(self) -> None:
        """End every session: nobody can reach them any more."""
        for session in list(self._all):
            session.close(*GO_AWAY)
            session.forget()


class SessionDriver:
    """One session; towards the application it is the `Outlet`."""

    def __init__(self, sessions: Sessions, session: SockJsSession, peer: BridgePeer, name: str) -> None:
        self.name = name
        self.host = peer.host
        self._sessions = sessions
        self._session = session
        self._peer = peer
        self._client: SockJsClient | None = None
        self._receivers: dict[int, Receiver] = {}
        self._numbers = count(1)
        self._held: deque[str] = deque()  # messages that the application does not take yet
        self._takers: list[Callable[[], None]] = []  # called once nothing is held
        self._is_flush_due = False
        self._is_giving = False  # `_give_held` is due in the next iteration
        self._timer: Timer | None = None
        self._timer_at_ms = 0

    @property
    def is_open(self) -> bool:
        return self._session.is_open

    @property
    def is_holding(self) -> bool:
        """True while messages wait for the application: bring no further ones."""
        return bool(self._held)

    # What a transport brings.

    def attach(self, receiver: Receiver, room_bytes: int | None) -> int:
        """The number by which the receiver is known here."""
        number = next(self._numbers)
        self._receivers[number] = receiver
        self.handle(messages.ReceiverAttached(number, room_bytes))
        return number

    def lost(self, number: int) -> None:
        """The receiver's connection is gone."""
        if self._receivers.pop(number, None) is not None:
            self.handle(messages.ReceiverLost(number))

    def blocked(self, number: int, is_blocked: bool) -> None:
        if number in self._receivers:
            self.handle(messages.ReceiverBlocked(number, is_blocked))

    def messages_received(self, texts: list[str], taken: Callable[[], None]) -> None:
        """Messages of the client; `taken` is called once the application has them all, or never will."""
        self._takers.append(taken)
        self.handle(messages.MessagesReceived(texts))
        self._settle_takers()

    def when_taken(self, taken: Callable[[], None]) -> None:
        """Call back once nothing is held."""
        self._takers.append(taken)
        self._settle_takers()

    # The application's outlet.

    def write(self, frame: bytes) -> None:
        self.handle(messages.MessageQueued(frame))

    def resume(self) -> None:
        """Later, since the application calls this from within its own work."""
        if not self._is_giving:
            self._is_giving = True
            self._sessions.soon(self._give_held)

    def close(self, code: int = GO_AWAY[0], reason: str = GO_AWAY[1]) -> None:
        self.handle(messages.CloseRequested(code, reason))

    # Steps of the above.

    def handle(self, event: Event) -> None:
        for instruction in self._session.handle(event, self._sessions.clock.monotonic_ms()):
            self._carry_out(instruction)
        self._remind()
        if self._session.wants_flush and not self._is_flush_due:
            self._is_flush_due = True
            self._sessions.soon(self._flush)

    def forget(self) -> None:
        self._sessions.forget(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def check_invariants(self) -> None:
        self._session.check_invariants()
        assert not self._held or self._client is not None

    def _carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case messages.SendFrame(number, frame):
                self._receivers[number].put(frame)
            case messages.EndReceiver(number, code, reason):
                self._receivers.pop(number).end(code, reason)
            case messages.SessionOpened():
                self._open()
            case messages.GiveMessages(texts):
                # Others are held already: they go first, and giving them continues by `resume`.
                is_first = not self._held
                self._held.extend(texts)
                if is_first:
                    self._give_held()
            case messages.Congested(is_congested):
                if self._client is not None:
                    self._client.sending_changed(is_congested)
            case messages.SessionEnded():
                self._end()
            case messages.ForgetSession():
                self.forget()

    def _open(self) -> None:
        self._client = self._sessions.application.connect(self._peer, self)
        if self._client is None:
            self.close()

    def _end(self) -> None:
        client, self._client = self._client, None
        self._held.clear()
        self._settle_takers()
        if client is not None:
            client.ended()

    def _give_held(self) -> None:
        """Give messages, oldest first, until one is not taken or other clients should be served."""
        self._is_giving = False
        for _ in range(GIVEN_PER_ITERATION_MAX):
            # The message stays in front until it is taken: the application gets the same one again.
            if not self._held or self._client is None or not self._is_taken(self._client, self._held[0]):
                break
            if self._held:  # it may have closed the session meanwhile
                self._held.popleft()
        else:
            self.resume()
        self._settle_takers()

    def _is_taken(self, client: SockJsClient, text: str) -> bool:
        if len(text) <= self._sessions.limits.frame_characters_max:
            return client.receive(text)
        client.frame_too_large()
        return True

    def _settle_takers(self) -> None:
        if self._held:
            return
        takers, self._takers = self._takers, []
        for taken in takers:
            taken()

    def _flush(self) -> None:
        self._is_flush_due = False
        self.handle(messages.Flush())

    def _remind(self) -> None:
        # A timer that is too early stays: most events only postpone a deadline, and an early one asks again.
        due_at_ms = self._session.get_timer()
        if due_at_ms is None or (self._timer is not None and self._timer_at_ms <= due_at_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at_ms = due_at_ms
        self._timer = self._sessions.wheel.add(due_at_ms, self._reminded)

    def _reminded(self) -> None:
        self._timer = None
        self.handle(messages.SessionTick())
