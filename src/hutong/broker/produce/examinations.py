"""Examinations of the record batches that clients send, before any of them is appended: on the loop, or on a worker.

Strategy: what is known to be little (plain records up to PLAIN_BYTES_MAX in one request) is checked where it is
appended. Packed records are unpacked on the loop as far as they are small, and while that has not taken more than a
share of its time. All else goes to a worker: the request is held in its connection, with all that come behind it,
and the outcomes are kept until it is looked at again; so nothing overtakes it, as in Kafka, which mutes a channel while
a request of it is handled. Held requests are counted as memory of their connection.

Workers are few, and their turns are fair among clients (`scheduler/`), so a client with many connections full of large
batches delays only its own. A turn examines batches for SLICE_US, at least one. Each worker holds the unpacked records
of one batch at a time, at most `unpacked_bytes_max`.

Knows nothing of logs: outcomes are sound batches and refusals, by their places in the request.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from hutong.broker.produce.record_checks import BatchRules, CheckedBatch, check_batch, check_contents, check_header
from hutong.foundation.errors import HutongError, LimitExceeded, Refused
from hutong.foundation.histograms import Histogram
from hutong.reactor.connections.channel import HELD, Held
from hutong.scheduler.driver import UNFINISHED, FairExecutor, Unfinished
from hutong.wire.kafka.batch.record_contents import IS_COMPILED, LOOP_BYTES_MAX
from hutong.wire.kafka.batch.records import COMPRESSION_MASK, HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from hutong.broker.handling.session import ClientSession
    from hutong.foundation.clock import Clock
    from hutong.runtime.threads.offload import Offload
    from hutong.wire.kafka.apis.k00_produce import TopicProduceData

T = TypeVar("T")

WORKERS: Final = 2
PLAIN_BYTES_MAX: Final = 1_114_112 if IS_COMPILED else LOOP_BYTES_MAX
"""Of one request: a largest batch of Kafka's default and some more. The compiled walk takes 1.7 ms for the worst."""
PACKED_BYTES_MAX: Final = LOOP_BYTES_MAX // 4
"""Of one request, to be unpacked on the loop: more would seldom stay below LOOP_BYTES_MAX."""
WINDOW_US: Final = 10_000
WINDOW_SHARE_US: Final = 2_000  # of each window, for unpacking on the loop
SLICE_US: Final = 5_000
_ATTRIBUTES_LOW_AT: Final = 22

Outcome = CheckedBatch | HutongError


class Submitted(NamedTuple):
    """The records of one request for one partition, and their rules; None where it is refused for other reasons."""

    records: memoryview | None
    rules: BatchRules | None


class _HeldExamination:
    """The outcomes of one connection's held request, in its order; None where nothing is to be examined."""

    __slots__ = ("batches", "began_us", "is_held", "is_over", "outcomes")

    def __init__(self, batches: Sequence[Submitted]) -> None:
        self.batches = batches
        self.outcomes: list[Outcome | None] = []
        self.began_us = 0
        self.is_over = False
        self.is_held = False

    def is_of(self, batches: Sequence[Submitted]) -> bool:
        """Compare by place in memory: the views keep it from being used for anything else."""
        return len(batches) == len(self.batches) and all(
            _is_same(old.records, new.records) and (old.rules is None) == (new.rules is None)
            for old, new in zip(self.batches, batches, strict=True)
        )


class Examinations:
    """The examinations of all connections.

    Figures: on_loop_total and on_worker_total count batches (on the loop the packed ones), loop_us and worker_us the
    time that they took; waiting is the number of requests that wait for a worker now, wait_us the time that each did,
    and refused_total the number of those refused for want of room.
    """

    def __init__(self, executor: FairExecutor, workers: Offload, clock: Clock, unpacked_bytes_max: int) -> None:
        self.unpacked_bytes_max = unpacked_bytes_max
        self.on_loop_total = 0
        self.on_worker_total = 0
        self.loop_us = 0
        self.worker_us = 0
        self.waiting = 0
        self.wait_us = Histogram()
        self.refused_total = 0
        self._executor = executor
        self._workers = workers
        self._clock = clock
        self._kept: dict[ClientSession, _HeldExamination] = {}
        self._window_began_us = 0
        self._window_used_us = 0

    @property
    def kept(self) -> int:
        """Requests that are being examined, or wait to be looked at again."""
        return len(self._kept)

    def forget(self, session: ClientSession) -> None:
        """Drop the outcomes: the request is appended, or its connection has ended."""
        self._kept.pop(session, None)

    def examine(self, batches: Sequence[Submitted], session: ClientSession) -> Sequence[Outcome | None] | Held:
        """The outcome of each batch, kept until `forget`; or HELD, and the session is released once all are there."""
        kept = self._kept.get(session)
        # The held request has come again, and its outcomes are there.
        if kept is not None and kept.is_of(batches):
            return kept.outcomes
        kept = self._kept[session] = _HeldExamination(batches)
        if sum(len(each.records or b"") for each in batches) <= PACKED_BYTES_MAX and self._try_on_loop(kept):
            return kept.outcomes
        is_held = self._begin(kept, session)
        return HELD if is_held else kept.outcomes

    def try_packed(self, check: Callable[[], T]) -> T | None:
        """Do a check that unpacks a little on the loop; None where it is too much, or the loop has done enough.

        Raises what the check raises, except LimitExceeded.
        """
        began_us = self._clock.monotonic_us()
        # A share of a fixed window bounds the loop's time for all clients together, however many send packed batches.
        if began_us - self._window_began_us >= WINDOW_US:
            self._window_began_us, self._window_used_us = began_us, 0
        elif self._window_used_us >= WINDOW_SHARE_US:
            return None
        self.on_loop_total += 1
        try:
            return check()
        # It unpacks to more than the loop should hold: a packed batch does not tell its size before.
        except LimitExceeded:
            self.on_loop_total -= 1  # a worker will count it
            return None
        finally:
            used_us = self._clock.monotonic_us() - began_us
            self._window_used_us += used_us
            self.loop_us += used_us

    def close(self, error: HutongError) -> None:
        """End what waits for a worker."""
        self._executor.close(error)

    def _try_on_loop(self, kept: _HeldExamination) -> bool:
        """Examine little batches on the loop. Return True if that was all of them."""
        for records, rules in kept.batches:
            if rules is None:
                kept.outcomes.append(None)
                continue
            try:
                header = check_header(records, rules)
                assert records is not None, "null records are refused"
                check = partial(check_contents, header, records, rules, LOOP_BYTES_MAX, is_on_loop=True)
                found = self.try_packed(check)
            except Refused as refused:
                kept.outcomes.append(_without_frames(refused))
                continue
            # The outcomes so far stay; a worker examines the rest.
            if found is None:
                return False
            kept.outcomes.append(found)
        return True

    def _begin(self, kept: _HeldExamination, session: ClientSession) -> bool:
        """Examine the rest of a request on workers; False where that has come to its end already."""
        kept.began_us = self._clock.monotonic_us()
        self._send(kept, session)
        kept.is_held = not kept.is_over
        self.waiting += kept.is_held
        return kept.is_held

    def _send(self, kept: _HeldExamination, session: ClientSession) -> None:
        """Have one slice examined. Not a closure that refers to itself: such a cycle would keep the request's bytes."""
        slice_ = _ExaminationSlice(
            self._workers, self._clock, kept.batches[len(kept.outcomes) :], self.unpacked_bytes_max
        )
        self._executor.send(
            self._key_of(session), slice_.step, partial(self._ended, kept, session, slice_), owner=session.owner
        )

    def _ended(
        self,
        kept: _HeldExamination,
        session: ClientSession,
        slice_: _ExaminationSlice,
        outcome: list[Outcome | None] | HutongError,
    ) -> None:
        self.worker_us += slice_.took_us
        self.on_worker_total += slice_.examined
        # Nobody is left to answer. The slice may have ended after the connection.
        if session.owner.has_ended:
            self.waiting -= kept.is_held
            self._kept.pop(session, None)
            return
        if isinstance(outcome, HutongError):  # no room, or the node stops: clients come again
            self.refused_total += 1
            outcome = [outcome] * (len(kept.batches) - len(kept.outcomes))
        kept.outcomes += outcome
        # The slice's time was over: the client's next one waits for its turn like any other.
        if len(kept.outcomes) < len(kept.batches):
            self._send(kept, session)
            return
        kept.is_over = True
        if kept.is_held:
            self.waiting -= 1
            self.wait_us.record(self._clock.monotonic_us() - kept.began_us)
            session.release()

    def _key_of(self, session: ClientSession) -> Hashable:
        """The client's actor: one for each name, address and worker."""
        return session.principal.name, session.address, session.id % WORKERS


class _ExaminationSlice:
    """One turn of a client: batches until the time is over. A work of the scheduler, in two steps."""

    __slots__ = ("_batches", "_clock", "_outcome", "_unpacked_bytes_max", "_workers", "examined", "took_us")

    def __init__(self, workers: Offload, clock: Clock, batches: Sequence[Submitted], unpacked_bytes_max: int) -> None:
        self.examined = 0  # batches with records
        self.took_us = 0
        self._workers = workers
        self._clock = clock
        self._batches = batches
        self._unpacked_bytes_max = unpacked_bytes_max
        self._outcome: list[Outcome | None] | BaseException | None = None

    def step(self, wake: Callable[[], None]) -> list[Outcome | None] | Unfinished:
        outcome = self._outcome
        if outcome is None:

            def done(outcome: list[Outcome | None] | BaseException) -> None:
                self._outcome = outcome
                wake()

            self._workers.submit(self._examine, done)
            return UNFINISHED
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def _examine(self) -> list[Outcome | None]:
        """Examine batches on a worker until the slice is over."""
        began_us = now_us = self._clock.monotonic_us()
        outcomes: list[Outcome | None] = []
        for records, rules in self._batches:
            try:
                outcomes.append(None if rules is None else check_batch(records, rules, self._unpacked_bytes_max))
            except Refused as refused:
                outcomes.append(_without_frames(refused))
            self.examined += rules is not None
            now_us = self._clock.monotonic_us()
            # Checked after a batch, not within: one batch is bounded by `unpacked_bytes_max`.
            if now_us - began_us >= SLICE_US:
                break
        self.took_us = now_us - began_us
        return outcomes


def _without_frames(refused: Refused) -> Refused:
    """Drop the traceback and the causes of a refusal that is kept.

    Their frames hold the unpacked records and the list of outcomes: a cycle, so that up to `unpacked_bytes_max` bytes
    of each refused batch would stay until the collector looks at old objects.
    """
    refused.__traceback__ = refused.__cause__ = refused.__context__ = None
    return refused


def is_little(topics: Iterable[TopicProduceData]) -> bool:
    """True if the batches of one request are plain, and together small enough to be walked on the loop."""
    size = 0
    for topic in topics:
        for data in topic.partition_data:
            view = data.records
            if view is not None and len(view) >= HEADER_BYTES:
                # Packed records may become a thousand times as many bytes (a decompression bomb), so their size tells
                # nothing.
                if view[_ATTRIBUTES_LOW_AT] & COMPRESSION_MASK:
                    return False
                size += len(view)
    return size <= PLAIN_BYTES_MAX


def _is_same(old: memoryview | None, new: memoryview | None) -> bool:
    if old is None or new is None:
        return old is new
    return old.obj is new.obj and len(old) == len(new)
