"""Long requests: their decoding, handling and encoding at once would hold the loop.

Strategy: a byte of a request can become an object many times its size. A request longer than LONG_FROM_BYTES is decoded
on a worker; one that is shorter is decoded on the loop, and is long when it has very many elements. Long requests are
handled part by part (`request_parts`) in loop iterations that others have between, and their answers are encoded on a
worker. The request is held in its connection meanwhile, with all that come behind it, and the finished answer is found
when it is given again: so nothing overtakes it. Kinds without parts are only decoded here.

The bytes of a Produce are records, so it is long by its elements alone. Its parts do not wait for each other's
acknowledgement, and the connection is released once all of them are appended.

Knows nothing of frames, nor of what the elements are.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from hutong.broker.dispatch.request_parts import PRODUCE_KEY, elements_in, is_divisible, joined, parts_of
from hutong.foundation.errors import HutongError, LimitExceeded, ProtocolError
from hutong.foundation.waiting.pending import Continuation, Pending
from hutong.reactor.connections.channel import HELD, Held
from hutong.scheduler.driver import UNFINISHED, FairExecutor, Unfinished

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hutong.broker.handling.context import RequestContext
    from hutong.broker.handling.session import ClientSession
    from hutong.foundation.clock import Clock
    from hutong.runtime.threads.offload import Offload
    from hutong.wire.buffer import Buffer

T = TypeVar("T")

LONG_FROM_BYTES: Final = 32 * 1024
"""Up to so many bytes are decoded on the loop (measured: 5 ms for 10,000 topics of three bytes each)."""
MANY_FROM_BYTES: Final = 2 * 1024
"""Below, a request cannot have so many elements that it must be divided: the smallest take three bytes."""
SLICE_US: Final = 1_000
ELEMENT_COST: Final = 64
"""The cost of each element against LONG_BYTES_MAX where the bytes are records."""
LONG_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of frames whose requests are under way at a time; as objects they take about eight times as much."""


class LongRequest(NamedTuple):
    """The functions that answer one request: `handle` is the handler of its API, the others are pure.

    `request` is there if it is decoded already.
    """

    frame: Buffer
    request: Any
    api_key: int
    decode: Callable[[], Any]
    handle: Callable[[Any, RequestContext[Any]], Any]
    encode: Callable[[Any], list[Buffer]]
    errors_in: Callable[[Any], set[int] | None]
    context: RequestContext[Any]


class FinishedRequest(NamedTuple):
    """A request that is decoded, and answered if it has parts: with the encoded answer, or with a `Pending`."""

    request: Any
    answer: Any
    encoded: list[Buffer] | None
    errors: set[int] | None  # codes in the answer


class _HeldRequest:
    __slots__ = ("frame", "is_under_way", "outcome", "work")

    def __init__(self, frame: Buffer, work: _Work) -> None:
        self.frame = frame
        self.work = work
        self.is_under_way = False
        self.outcome: FinishedRequest | BaseException | None = None


class LongRequests:
    """The long requests of all connections."""

    def __init__(self, executor: FairExecutor, workers: Offload, clock: Clock) -> None:
        self._executor = executor
        self._workers = workers
        self._clock = clock
        self._kept: dict[ClientSession, _HeldRequest] = {}

    def forget(self, session: ClientSession) -> None:
        """Drop the request of a connection that has ended."""
        self._kept.pop(session, None)

    def has(self, session: ClientSession, frame: Buffer) -> bool:
        """Return True if this request is kept here already, so that it need not be decoded again."""
        kept = self._kept.get(session)
        return kept is not None and kept.frame is frame

    def advance(self, long: LongRequest) -> FinishedRequest | Held:
        """The request as far as it is to be done here, or HELD: then the session is released once it is done.

        Raises ProtocolError for bytes that are no request.
        """
        session = long.context.session
        kept = self._kept.get(session)
        # By identity: a client may send the same bytes twice, and each is a request of its own.
        if kept is None or kept.frame is not long.frame:
            kept = self._kept[session] = _HeldRequest(long.frame, _Work(long, self._workers, self._clock))
        outcome = kept.outcome
        if outcome is None:
            # A part whose handler answered HELD is tried again when its session is released, as a whole request is.
            if not kept.is_under_way:
                self._begin(long, kept)
            return HELD
        del self._kept[session]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def in_stretches(self, session: ClientSession, steps: Iterator[None], then: Continuation[None]) -> None:
        """Run `steps` to its end, for SLICE_US in each loop iteration that is this session's, then call `then` once.

        It gets an error where the steps could not be run to their end: no room, the client has left, the node stops.
        """

        def step(wake: Callable[[], None]) -> Unfinished | None:
            ends_at_us = self._clock.monotonic_us() + SLICE_US
            for _ in steps:
                # At least one step in each loop iteration, so that a slow clock cannot stop the work.
                if self._clock.monotonic_us() >= ends_at_us:
                    wake()
                    return UNFINISHED
            return None

        self._executor.send(session, step, then, owner=session.owner)

    def on_worker(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        """Do pure work on a worker, at once where there is no room; `then` is called on the loop with its result."""

        def done(outcome: T | BaseException) -> None:
            if isinstance(outcome, BaseException):
                raise outcome  # a fault of ours, which the loop's handler reports
            then(outcome)

        try:
            self._workers.submit(work, done)
        # Too much waits for workers: encoding here takes the loop's time, but the answer is not lost.
        except LimitExceeded:
            then(work())

    def close(self, error: HutongError) -> None:
        """Fail the requests that are under way."""
        self._executor.close(error)

    def _begin(self, long: LongRequest, kept: _HeldRequest) -> None:
        kept.is_under_way = True
        session = long.context.session

        def ended(outcome: FinishedRequest | HutongError | None) -> None:
            kept.is_under_way = False
            # The connection is gone, and with it the frame: nothing to release.
            if session.owner.has_ended:
                self._kept.pop(session, None)
                return
            if outcome is None:
                return  # the handler of the part, which is held, releases the session
            if isinstance(outcome, HutongError) and not isinstance(outcome, ProtocolError):
                # The connection ends, since only the request's handler knows an answer with an error in it.
                outcome = ProtocolError(f"a long request cannot be answered now: {outcome}")  # clients come again
            kept.outcome = outcome
            session.release()

        self._executor.send(session, kept.work.step, ended, cost=_cost_of(long), owner=session.owner)


def _cost_of(long: LongRequest) -> int:
    return len(long.frame) if long.request is None else ELEMENT_COST * elements_in(long.request)


class _Work:
    """One request on its way, in steps of the scheduler."""

    __slots__ = (
        "_answers",
        "_clock",
        "_encoded",
        "_error",
        "_errors",
        "_long",
        "_next",
        "_parts",
        "_request",
        "_workers",
    )

    def __init__(self, long: LongRequest, workers: Offload, clock: Clock) -> None:
        self._long = long
        self._workers = workers
        self._clock = clock
        self._request: Any = long.request
        self._parts: list[Any] | None = None
        self._next = 0
        self._answers: list[Any] = []
        self._encoded: list[Buffer] | None = None
        self._errors: set[int] | None = None
        self._error: BaseException | None = None

    def step(self, wake: Callable[[], None]) -> FinishedRequest | Unfinished | None:
        """Make the next step; None where the handler of a part answered HELD."""
        if self._error is not None:
            raise self._error
        if self._parts is None:
            return self._on_worker(self._decode, wake)
        # Only its decoding was long: the dispatcher handles it like any other.
        if not is_divisible(self._long.api_key):
            return FinishedRequest(self._request, None, None, None)
        if self._next < len(self._parts):
            return self._handle_parts(self._parts, wake)
        if self._long.api_key == PRODUCE_KEY:
            return FinishedRequest(self._request, self._together(), None, None)
        if self._encoded is None:
            return self._on_worker(self._encode, wake)
        return FinishedRequest(self._request, self._answers[0], self._encoded, self._errors)

    def _handle_parts(self, parts: list[Any], wake: Callable[[], None]) -> Unfinished | None:
        """Handle as many as there is time for, or up to one that is answered later."""
        ends_at_us = self._clock.monotonic_us() + SLICE_US
        while self._next < len(parts) and self._clock.monotonic_us() < ends_at_us:
            answer = self._long.handle(parts[self._next], self._long.context)
            if isinstance(answer, Held):
                return None
            self._next += 1
            # The next part waits for this answer: parts of one commit or creation keep their order.
            if isinstance(answer, Pending) and self._long.api_key != PRODUCE_KEY:

                def answered(answer: Any) -> None:
                    self._answers.append(answer)
                    wake()

                answer.then(answered)
                return UNFINISHED
            self._answers.append(answer)
        wake()
        return UNFINISHED

    def _together(self) -> Any:
        """The answer of a Produce whose parts are all appended; each of them may be there already, or come later."""
        answers = self._answers
        if answers[0] is None:  # acks=0
            return None
        pending: Pending[Any] = Pending()
        pending.is_large = True
        outstanding = len(answers)

        def answered(place: int, answer: Any) -> None:
            nonlocal outstanding
            answers[place] = answer
            outstanding -= 1
            if not outstanding:
                pending.complete(joined(answers))

        for place, answer in enumerate(answers):
            if isinstance(answer, Pending):
                answer.then(partial(answered, place))
            else:
                answered(place, answer)
        return pending

    def _on_worker(self, work: Callable[[], None], wake: Callable[[], None]) -> Unfinished:
        def done(outcome: BaseException | None) -> None:
            self._error = outcome
            wake()

        self._workers.submit(work, done)
        return UNFINISHED

    def _decode(self) -> None:
        # It is decoded already if only its elements made it long.
        if self._request is None:
            self._request = self._long.decode()
        self._parts = parts_of(self._request, self._long.context.api_version)

    def _encode(self) -> None:
        self._answers = [joined(self._answers)]
        self._errors = self._long.errors_in(self._answers[0])
        self._encoded = self._long.encode(self._answers[0])
