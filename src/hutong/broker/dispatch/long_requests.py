"""Long requests: of so many things that decoding, handling and encoding them at once would hold the loop.

Strategy: a byte of a request can become an object many times its size. What is longer than LONG_FROM_BYTES is decoded
on a worker, handled part by part (`request_parts`) in turns of the loop that others have between, and its answer is
encoded on a worker. The request is held in its connection meanwhile, with all that come behind it, and the
finished answer is found when it is given again: so nothing overtakes it. Kinds without parts are only decoded here.

Produce is not among them: its bytes are records. Knows nothing of frames, nor of what the things are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hutong.broker.dispatch.request_parts import is_divisible, joined, parts_of
from hutong.broker.handling.context import Later
from hutong.foundation.errors import HutongError, ProtocolError
from hutong.reactor.channel import HELD, Held
from hutong.scheduler.driver import WAITING, FairExecutor, Waiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from hutong.broker.handling.context import RequestContext
    from hutong.foundation.clock import Clock
    from hutong.reactor.handler import Peer
    from hutong.runtime.offload import Offload
    from hutong.wire.buffer import Buffer

LONG_FROM_BYTES: Final = 64 * 1024
SLICE_US: Final = 3_000
LONG_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of frames whose requests are under way at a time; as objects they take about eight times as much."""


class LongRequest(NamedTuple):
    """What it takes to answer one: `handle` is the handler of its kind, the other functions are pure."""

    frame: Buffer
    api_key: int
    decode: Callable[[], Any]
    handle: Callable[[Any, RequestContext], Any]
    encode: Callable[[Any], list[Buffer]]
    errors_in: Callable[[Any], set[int] | None]
    context: RequestContext


class Finished(NamedTuple):
    """A request that is decoded, and answered if it has parts: then with the encoded answer."""

    request: Any
    answer: Any
    encoded: list[Buffer] | None
    errors: set[int] | None  # codes in the answer


class _Kept:
    __slots__ = ("frame", "outcome")

    def __init__(self, frame: Buffer) -> None:
        self.frame = frame
        self.outcome: Finished | BaseException | None = None


class LongRequests:
    """Those of all connections. Figure: begun_total."""

    def __init__(self, executor: FairExecutor, workers: Offload, clock: Clock) -> None:
        self.begun_total = 0
        self._executor = executor
        self._workers = workers
        self._clock = clock
        self._kept: dict[Peer, _Kept] = {}

    def forget(self, peer: Peer) -> None:
        """The connection has ended."""
        self._kept.pop(peer, None)

    def look(self, long: LongRequest) -> Finished | Held:
        """The request as far as it is to be done here, or HELD: then the peer is released once it is done.

        Raises ProtocolError for bytes that are no request.
        """
        peer = long.context.peer
        kept = self._kept.get(peer)
        if kept is None or kept.frame is not long.frame:
            kept = self._kept[peer] = _Kept(long.frame)
            self._begin(long, kept)
        outcome = kept.outcome
        if outcome is None:
            return HELD
        del self._kept[peer]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def close(self, error: HutongError) -> None:
        """End those that are under way."""
        self._executor.close(error)

    def _begin(self, long: LongRequest, kept: _Kept) -> None:
        self.begun_total += 1
        peer = long.context.peer

        def ended(outcome: Finished | HutongError) -> None:
            if peer.owner.has_ended:
                self._kept.pop(peer, None)
                return
            if isinstance(outcome, HutongError) and not isinstance(outcome, ProtocolError):
                outcome = ProtocolError(f"a long request cannot be answered now: {outcome}")  # clients come again
            kept.outcome = outcome
            peer.release()

        work = _Work(long, self._workers, self._clock)
        self._executor.send(peer, work.step, ended, cost=len(long.frame), owner=peer.owner)


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
        self._request: Any = None
        self._parts: list[Any] | None = None
        self._next = 0
        self._answers: list[Any] = []
        self._encoded: list[Buffer] | None = None
        self._errors: set[int] | None = None
        self._error: BaseException | None = None

    def step(self, wake: Callable[[], None]) -> Finished | Waiting:
        if self._error is not None:
            raise self._error
        if self._parts is None:
            return self._on_worker(self._decode, wake)
        if not is_divisible(self._long.api_key):
            return Finished(self._request, None, None, None)
        if self._next < len(self._parts):
            self._handle_parts(self._parts, wake)
            return WAITING
        if self._encoded is None:
            return self._on_worker(self._encode, wake)
        return Finished(self._request, self._answers[0], self._encoded, self._errors)

    def _handle_parts(self, parts: list[Any], wake: Callable[[], None]) -> None:
        """Handle as many as there is time for, or up to one that is answered later."""
        ends_at_us = self._clock.monotonic_us() + SLICE_US
        while self._next < len(parts) and self._clock.monotonic_us() < ends_at_us:
            answer = self._long.handle(parts[self._next], self._long.context)
            self._next += 1
            if isinstance(answer, Later):

                def answered(answer: Any) -> None:
                    self._answers.append(answer)
                    wake()

                answer.then(answered)
                return
            self._answers.append(answer)
        wake()

    def _on_worker(self, work: Callable[[], None], wake: Callable[[], None]) -> Waiting:
        def done(outcome: BaseException | None) -> None:
            self._error = outcome
            wake()

        self._workers.submit(work, done)
        return WAITING

    def _decode(self) -> None:
        self._request = self._long.decode()
        self._parts = parts_of(self._request, self._long.context.api_version)

    def _encode(self) -> None:
        self._answers = [joined(self._answers)]
        self._errors = self._long.errors_in(self._answers[0])
        self._encoded = self._long.encode(self._answers[0])
