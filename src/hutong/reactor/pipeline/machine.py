"""A pipeline of handlers for one connection: bytes and time go in, bytes and a wish to close come out.

Strategy: as Netty's. Handlers are linked in a list. What comes from the peer passes from the first to the last, what is
sent from the last to the first; each handler passes on what it likes, in the form it likes. A link that is removed
keeps its place, so that a handler which is removed while it handles still passes on.

What the last handler passes on goes to the tail: the program of a client, or the endpoint of remoting. The tail is no
handler, so that one which is added later, as the last, still sees all values.

A ProtocolError of a handler is the peer's fault: it goes to `failed` of this handler and those behind it, and closes
the connection where none takes it. Any other error is ours, and leaves the pipeline.

Knows nothing of sockets and loops: time arrives with each call, `next_deadline_ms` is the time of `handle_timer`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from hutong.foundation.errors import LimitExceeded, ProtocolError
from hutong.reactor.pipeline.checks import check_handler, check_handlers
from hutong.reactor.pipeline.ends import ConnectionEnded, ConnectionOpened, PipelinePeer, PipelineTail
from hutong.wire.buffer import Buffer

HANDLERS_MAX: Final = 64
"""Of one pipeline: handlers call each other, and a program that adds one for each frame must be noticed."""
OUTPUT_BYTES_MAX: Final = 256 * 1024
"""Of one pass; above it framings cut no more frames until `resume`, so that short questions for long answers wait."""


class PipelineHandler:
    """The base of handlers: every method passes on, so a handler overrides only what it changes.

    `bytes_held` counts the bytes of a begun frame that a framing keeps.
    """

    bytes_held = 0

    def inbound(self, value: Any, link: "PipelineLink") -> None:
        """Take what the peer sent, as the handler before passed it on."""
        link.pass_inbound(value)

    def outbound(self, value: Any, link: "PipelineLink") -> None:
        """Take what is to be sent, as the handler behind passed it on."""
        link.pass_outbound(value)

    def event(self, event: object, link: "PipelineLink") -> None:
        """Take a ConnectionOpened, ConnectionEnded, or an event of another handler before."""
        link.pass_event(event)

    def failed(self, error: ProtocolError, link: "PipelineLink") -> None:
        """Take a fault of the peer; passed on by all, it closes the connection."""
        link.pass_failure(error)

    def timer(self, link: "PipelineLink") -> None:
        """Called once, at the `deadline_ms` that was set for this link."""

    def closing(self, link: "PipelineLink") -> None:
        """Called before the connection is closed from this side, the last handler first: the last word to the peer."""

    def removed(self, link: "PipelineLink") -> None:
        """Called when it is removed; it may still pass on."""

    def resume(self, link: "PipelineLink") -> None:
        """Called when output was taken: cut on where `link.may_continue` was False."""


class PipelineLink:
    """The place of one handler in its pipeline, given to each of its methods."""

    __slots__ = ("_after", "_before", "_deadline_ms", "_pipeline", "handler", "is_removed", "name")

    def __init__(self, pipeline: "ConnectionPipeline", handler: PipelineHandler, name: str) -> None:
        self._pipeline = pipeline
        self._before: PipelineLink | None = None
        self._after: PipelineLink | None = None
        self._deadline_ms: int | None = None
        self.handler = handler
        self.name = name
        self.is_removed = False

    @property
    def pipeline(self) -> "ConnectionPipeline":
        """The whole pipeline: `send`, `fire_event`, `close`, `add`, `remove`, `now_ms`."""
        return self._pipeline

    @property
    def may_continue(self) -> bool:
        """False for a framing that should cut no more frames now: it is resumed."""
        return self._pipeline.may_continue

    @property
    def deadline_ms(self) -> int | None:
        """The time of the handler's `timer`, which may be set, or None."""
        return self._deadline_ms

    @deadline_ms.setter
    def deadline_ms(self, at_ms: int | None) -> None:
        self._deadline_ms = at_ms
        # Set from a task of a handler, for one: the driver has looked at the deadlines already.
        self._pipeline._wake_outside()

    def pass_inbound(self, value: Any) -> None:
        """Give a value to the handler behind."""
        self._pipeline._give_inbound(self._next(), value)

    def pass_outbound(self, value: Any) -> None:
        """Give a value to the handler before; the first one's is sent, and must be bytes."""
        before = self._before
        # A removed link keeps the links of that time, and some may be gone as well.
        while before is not None and before.is_removed:
            before = before._before
        self._pipeline._give_outbound(before, value)

    def pass_event(self, event: object) -> None:
        self._pipeline._give_event(self._next(), event)

    def pass_failure(self, error: ProtocolError) -> None:
        self._pipeline._give_failure(self._next(), error)

    def remove(self) -> None:
        """Take this handler out of the pipeline."""
        self._pipeline.remove(self.name)

    def _next(self) -> "PipelineLink | None":
        after = self._after
        # The handlers behind may have been removed since this one was.
        while after is not None and after.is_removed:
            after = after._after
        return after


def _nobody() -> None:
    """Drop a notice: nothing drives this pipeline."""


class ConnectionPipeline:
    """The handlers of one connection, in order from the socket to the program."""

    def __init__(self, handlers: Sequence[PipelineHandler], now_ms: int = 0, tail: PipelineTail | None = None) -> None:
        """Without a `tail` the last handler passes nothing on: it does the work."""
        self.now_ms = now_ms
        self.tail = tail
        self.bytes_received_total = 0
        self.is_closing = False  # a handler or a fault asked for the end: nothing is taken or sent any more
        self.failure: ProtocolError | None = None
        self.frames_total = 0  # cut by framings: the driver gives each frame its own deadline
        self._links: dict[str, PipelineLink] = {}
        self._first: PipelineLink | None = None
        self._last: PipelineLink | None = None
        self._output: list[Buffer] = []
        self._output_bytes = 0
        self._is_stalled = False
        self._holds: set[object] = set()  # a handler and the tail hold for reasons of their own
        self._has_said_goodbye = False
        self._peer: PipelinePeer | None = None
        self._is_running = False  # within a call of the driver, which looks at the output afterwards
        self.wake: Callable[[], None] = _nobody
        """Set by the driver: called when something is to be sent or closed outside of its own calls."""
        check_handlers(handlers, PipelineHandler)
        for handler in handlers:
            self.add(handler)

    # What the driver feeds in and asks.

    def open(self, now_ms: int, peer: PipelinePeer | None = None) -> None:
        self._peer = peer
        with self._running(now_ms):
            self.fire_event(ConnectionOpened())

    def receive_data(self, data: Buffer, now_ms: int) -> None:
        """Bytes from the peer; they are only lent."""
        # The size of what comes is known here alone: behind a codec values have none.
        self.bytes_received_total += len(data)
        with self._running(now_ms):
            self._give_inbound(self._first, bytes(data))

    def handle_timer(self, now_ms: int) -> None:
        """Call the handlers whose deadlines have passed."""
        with self._running(now_ms):
            for link in list(self):
                # A handler called before may have removed this one, or closed the connection.
                if link._deadline_ms is None or link._deadline_ms > now_ms or link.is_removed or self.is_closing:
                    continue
                # Before the call, which may set the next one.
                link._deadline_ms = None
                try:
                    link.handler.timer(link)
                except ProtocolError as error:
                    self._give_failure(link, error)

    def resume(self, now_ms: int) -> None:
        """Cut on after `data_to_send` took the output that stalled the framings, or after a `release`."""
        # Before the handlers: they may stall again.
        self._is_stalled = self.is_held
        with self._running(now_ms):
            # The tail keeps the oldest values, and may hold again.
            if self.tail is not None and not self.is_held:
                try:
                    self.tail.resume()
                except ProtocolError as error:
                    self._give_failure(None, error)
            # From the last: what is nearest to the program was received first.
            for link in reversed(list(self)):
                # Resumed handlers pass values on: those behind may close the connection, or remove any handler.
                if self.is_closing or link.is_removed:
                    continue
                try:
                    link.handler.resume(link)
                except ProtocolError as error:
                    self._give_failure(link, error)

    def end(self, now_ms: int) -> None:
        """The connection is gone: every handler hears of it, and nothing is sent any more."""
        # What handlers send at the end has nowhere to go.
        self.is_closing = True
        with self._running(now_ms):
            self.fire_event(ConnectionEnded())

    def data_to_send(self) -> list[Buffer]:
        # Counted from zero again: the bound is on what one pass makes, the reactor bounds what is unsent.
        output, self._output = self._output, []
        self._output_bytes = 0
        return output

    @property
    def has_output(self) -> bool:
        return bool(self._output)

    @property
    def next_deadline_ms(self) -> int | None:
        return min((link._deadline_ms for link in self if link._deadline_ms is not None), default=None)

    @property
    def bytes_held(self) -> int:
        """The bytes of begun frames."""
        return sum(link.handler.bytes_held for link in self)

    @property
    def is_stalled(self) -> bool:
        """True while framings cut no frames: the output has no room, or the pipeline is held."""
        return self._is_stalled and not self.is_closing

    @property
    def is_held(self) -> bool:
        """True from `hold` to `release`."""
        return bool(self._holds)

    @property
    def peer(self) -> PipelinePeer:
        """The other end: `address`, `port`, `certificate`, and `id`, a number of its own. RuntimeError without one."""
        if self._peer is None:
            raise RuntimeError("this pipeline was opened without a connection")
        return self._peer

    # What handlers and programs ask for.

    def send(self, value: Any) -> None:
        """Send a value by all outbound handlers, the last first."""
        self._give_outbound(self._last, value)

    def fire_event(self, event: object) -> None:
        """Give an event to all handlers, the first first."""
        self._give_event(self._first, event)
        self._wake_outside()

    def close(self) -> None:
        """End the connection once the output was sent."""
        self._say_goodbye()
        self._wake_outside()

    def hold(self, by: object = None) -> None:
        """Take nothing more from the peer until `release`: framings cut no frames, and the connection is not read.

        What a handler passes on all the same still passes. Several may hold at once, each `by` itself.
        """
        # Outside of a read nothing has to be woken: the driver looks at this behind the next one.
        self._holds.add(by)
        self._is_stalled = True

    def release(self, by: object = None) -> None:
        """End a `hold`; the driver resumes the framings soon. Nothing happens without one."""
        if by in self._holds:
            self._holds.discard(by)
            # Others may still hold: the last release resumes.
            if not self._holds:
                self._wake_outside()

    def add(
        self, handler: PipelineHandler, name: str | None = None, *, before: str | None = None, after: str | None = None
    ) -> PipelineLink:
        """Add a handler as the last one, or at a named one; a name is by default that of its class.

        It sees what passes from now on. Raises ValueError for a name that is taken, KeyError for one that is not there.
        """
        link = self._new_link(handler, name)
        if before is not None:
            behind = self._named(before)
            self._insert(link, behind._before, behind)
        elif after is not None:
            ahead = self._named(after)
            self._insert(link, ahead, ahead._after)
        else:
            self._insert(link, self._last, None)
        self._links[link.name] = link
        return link

    def remove(self, name: str) -> PipelineHandler:
        """Take a handler out; what it has held it may still pass on. Raises KeyError for a name that is not there."""
        link = self._named(name)
        del self._links[name]
        return self._take_out(link)

    def replace(self, name: str, handler: PipelineHandler, new_name: str | None = None) -> PipelineHandler:
        """Put a handler in the place of another, which passes on to it what it held; returns the other."""
        old = self._named(name)
        # First, so that the new one may have the name of the old one.
        del self._links[name]
        try:
            link = self._new_link(handler, new_name)
        except (TypeError, ValueError):
            self._links[name] = old
            raise
        # Behind it and before the removal: the bytes that the old one kept go to the new one.
        self._insert(link, old, old._after)
        self._links[link.name] = link
        return self._take_out(old)

    @property
    def names(self) -> list[str]:
        """The names of the handlers, in order."""
        return [link.name for link in self]

    @property
    def may_continue(self) -> bool:
        """True while framings may cut; asking at the bound counts as a stall."""
        if self.is_closing or self._holds:
            return False
        # Nobody takes output during a read, so without a bound one read of questions could make any size of answers.
        if self._output_bytes < OUTPUT_BYTES_MAX:
            return True
        self._is_stalled = True
        return False

    def __iter__(self) -> Iterator[PipelineLink]:
        link = self._first
        while link is not None:
            yield link
            link = link._after

    def check_invariants(self) -> None:
        links = list(self)
        assert {link.name: link for link in links} == self._links
        assert not any(link.is_removed for link in links)
        assert (links[0] if links else None) is self._first
        assert (links[-1] if links else None) is self._last
        assert all(link._before is before for before, link in zip([None, *links], links, strict=False))

    # Steps of the above.

    @contextmanager
    def _running(self, now_ms: int) -> Iterator[None]:
        self.now_ms = now_ms
        self._is_running = True
        try:
            yield
        finally:
            # Also after a fault of ours: its connection ends, and may still send its end to others.
            self._is_running = False

    def _say_goodbye(self) -> None:
        """Let handlers send their last words (TLS has one), once."""
        if self._has_said_goodbye or self.is_closing:
            return
        self._has_said_goodbye = True
        # From the last, as for all output: the words of one pass through the handlers before it.
        for link in reversed(list(self)):
            # A handler may be removed by the one before, or fail: the connection ends either way.
            if not link.is_removed:
                try:
                    link.handler.closing(link)
                except ProtocolError as error:
                    self.failure = self.failure or error
        self.is_closing = True

    def _wake_outside(self) -> None:
        # The driver looks at the pipeline behind its own calls.
        if not self._is_running:
            self.wake()

    def _named(self, name: str) -> PipelineLink:
        link = self._links.get(name)
        # The names are those of classes by default, which a program easily misspells.
        if link is None:
            raise KeyError(f"the pipeline has no handler {name!r}; it has {', '.join(self.names) or 'none'}")
        return link

    def _new_link(self, handler: PipelineHandler, name: str | None) -> PipelineLink:
        check_handler(handler, PipelineHandler)
        name = name or type(handler).__name__
        # Two handlers of a class need names of their own: changes while it runs find a handler by its name.
        if name in self._links:
            raise ValueError(f"the pipeline has a handler {name!r} already: give this one another name")
        if len(self._links) >= HANDLERS_MAX:
            raise LimitExceeded("HANDLERS_MAX", HANDLERS_MAX)
        return PipelineLink(self, handler, name)

    def _take_out(self, link: PipelineLink) -> PipelineHandler:
        link.is_removed = True
        # The link itself keeps both: its handler may be in the middle of a call.
        self._join(link._before, link._after)
        # Last, so that the handler finds the list as it will be.
        link.handler.removed(link)
        return link.handler

    def _insert(self, link: PipelineLink, before: PipelineLink | None, after: PipelineLink | None) -> None:
        self._join(before, link)
        self._join(link, after)

    def _join(self, before: PipelineLink | None, after: PipelineLink | None) -> None:
        """Make two links neighbours; None is an end of the list."""
        if before is None:
            self._first = after
        else:
            before._after = after
        if after is None:
            self._last = before
        else:
            after._before = before

    def _give_inbound(self, link: PipelineLink | None, value: Any) -> None:
        # The rest of a read after a close, as if it had never been read.
        if self.is_closing:
            return
        try:
            if link is not None:
                link.handler.inbound(value, link)
            elif self.tail is not None:
                self.tail.take_value(value)
            # Loud, as it is a fault of the program: a decoder, or the handler that does the work, is missing.
            else:
                raise TypeError(f"no handler of the pipeline takes a {type(value).__name__}: the last one passes it on")
        except ProtocolError as error:
            self._give_failure(link, error)

    def _give_event(self, link: PipelineLink | None, event: object) -> None:
        # Nobody has to take an event.
        if link is None:
            return
        try:
            link.handler.event(event, link)
        except ProtocolError as error:
            self._give_failure(link, error)

    def _give_outbound(self, link: PipelineLink | None, value: Any) -> None:
        if self.is_closing:
            return
        # A codec that refuses a value of the program raises its own error: that is our fault, not the peer's.
        if link is not None:
            link.handler.outbound(value, link)
            return
        if not isinstance(value, bytes | bytearray | memoryview):
            raise TypeError(
                f"the first handler passes a {type(value).__name__} to be sent: an encoder to bytes is missing"
            )
        self._output.append(value)
        self._output_bytes += len(value)
        # A handler may send later, from a task of its own, or by another connection's handler (a chat).
        if not self._is_running:
            self.wake()

    def _give_failure(self, link: PipelineLink | None, error: ProtocolError) -> None:
        # Nobody took it: the end of the connection, as for every fault of a peer.
        if link is None:
            self.failure = self.failure or error
            self._say_goodbye()
            return
        try:
            link.handler.failed(error, link)
        except ProtocolError as another:
            # A handler that cannot cope either: its error goes on behind it, so this ends.
            self._give_failure(link._next(), another)
