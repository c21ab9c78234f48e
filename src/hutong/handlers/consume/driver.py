"""A consumer of topics on an event loop: carries out what its machine decides.

Strategy: one worker task for each slot, which lives as long as the consumer. A handler that does not wait costs no
task and no turn of the loop. Outcomes of publishing come from the client library's thread, many at a time. Positions
are committed every COMMIT_INTERVAL_MS, one commit at a time.

Knows nothing of the client library.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from hutong.bus.durable.outcomes import PublishFailed, Stored
from hutong.bus.durable.records import OutgoingRecord
from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError
from hutong.foundation.machine import Tick
from hutong.handlers.consume.machine import HandlingMachine
from hutong.handlers.consume.messages import (
    AttemptFailed,
    Begin,
    HandlerReturned,
    HandlingEvent,
    HandlingInstruction,
    HandlingRules,
    OutputsRefused,
    OutputsStored,
    PartitionQuiet,
    PausePartition,
    Place,
    PositionTaken,
    PublishOutputs,
    RecordsTaken,
    ResumePartition,
    SharesGiven,
    SharesGone,
    SharesLeaving,
    TakenRecord,
    WorkItem,
)
from hutong.handlers.consume.outputs import letters_of, results_of
from hutong.handlers.consume.taker import LastWords, RecordTaker
from hutong.handlers.declare.context import MessageContext
from hutong.handlers.declare.models import UndecodableMessage
from hutong.handlers.declare.options import RejectMessage, TopicHandler

if TYPE_CHECKING:
    from hutong.handlers.consume.spans import HandlerSpans

COMMIT_INTERVAL_MS: Final = 100
CALLS_IN_A_TURN_MAX: Final = 64  # of one worker, before others of the loop get their turn
NO_TOPIC: Final = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC"})
THREADS_MAX: Final = 64  # for handlers that are plain functions

_UNTRACED: Final[AbstractContextManager[None]] = nullcontext()
_log = logging.getLogger("hutong.handlers")


class OutputLog(Protocol):
    """The log to which results and dead letters go."""

    def publish_record(self, record: OutgoingRecord, settle: Callable[[Stored | PublishFailed], object]) -> None: ...
    def make_dead_letter_topic(self, name: str, then: Callable[[], None]) -> None: ...


class HandlingHalted(HutongError):
    """A consumer stopped by itself: going on would have lost a message, or the broker refuses it for good."""


class TopicConsumer:
    """One handler at work. `make_taker` gives the thread, with this as its listener.

    `halted` is called once where it stops by itself. Figures: handled_total (calls), failed_total (attempts),
    buried_total (messages).
    """

    def __init__(
        self,
        handler: TopicHandler,
        log: OutputLog,
        clock: Clock,
        chance: Callable[[], float],
        make_taker: "Callable[[TopicConsumer], RecordTaker]",
        halted: Callable[[HandlingHalted], None],
        spans: "HandlerSpans | None" = None,
    ) -> None:
        self.handler = handler
        self.handled_total = 0
        self.failed_total = 0
        self.buried_total = 0
        self._log = log
        self._clock = clock
        self._halted = halted
        self._spans = spans
        self._loop = asyncio.get_running_loop()
        self._machine = HandlingMachine(handler.retry, chance, _rules(handler))
        self._taker = make_taker(self)
        self._begun: deque[WorkItem] = deque()  # given a slot, no worker yet
        self._idle: list[asyncio.Future[None]] = []
        self._workers: set[asyncio.Task[None]] = set()
        self._threads = (
            None if handler.signature.is_async else ThreadPoolExecutor(min(handler.concurrency, THREADS_MAX))
        )
        self._outcomes: deque[tuple[WorkItem, Stored | HutongError]] = deque()  # from the client library's thread
        self._outcomes_due = False
        self._tick: asyncio.TimerHandle | None = None
        self._tick_ms = 0
        self._commit_timer: asyncio.TimerHandle | None = None
        self._committing: dict[Place, PositionTaken] | None = None
        self._quiet: list[tuple[set[Place], Callable[[], None]]] = []  # waits for leaving partitions
        self._logged_troubles: set[str] = set()
        self._over: asyncio.Future[None] = self._loop.create_future()

    def start(self) -> None:
        self._taker.start()

    async def stop(self) -> None:
        """Begin nothing more, wait for what runs, within the handler's grace; commit, and leave the group."""
        if not self._over.done():
            await self._leave_in_order()
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        for timer in (self._tick, self._commit_timer):
            if timer is not None:
                timer.cancel()
        if self._threads is not None:
            self._threads.shutdown(wait=False)

    async def _leave_in_order(self) -> None:
        self._feed(SharesLeaving(None))
        quiet: asyncio.Future[None] = self._loop.create_future()

        def now_quiet() -> None:
            if not quiet.done():
                quiet.set_result(None)

        self._when_quiet(self._machine.places, now_quiet)
        await asyncio.wait([quiet], timeout=self.handler.grace)
        # The positions are committed by the revocation that comes with leaving.
        self._taker.stop()
        await self._over

    # -- the taker's callbacks

    def given(self, places: Sequence[Place]) -> None:
        self._feed(SharesGiven(places))

    def leaving(self, places: Sequence[Place], answer: "Future[LastWords]") -> None:
        self._feed(SharesLeaving(places))
        timer = self._loop.call_later(self.handler.grace, self._answer, places, answer)

        def answer_now() -> None:
            timer.cancel()
            self._answer(places, answer)

        self._when_quiet(places, answer_now)

    def gone(self, places: Sequence[Place] | None) -> None:
        self._taker.forget_places(self._machine.places if places is None else places)
        self._feed(SharesGone(places))

    def taken(self, records: Mapping[Place, Sequence[TakenRecord]]) -> None:
        now_ms = self._clock.monotonic_ms()
        self._logged_troubles.clear()
        decode = self.handler.decode
        for place, taken in records.items():
            for record in taken:
                try:
                    record.model = decode(record.message.value())
                except UndecodableMessage as error:
                    record.problem = error
            self._feed(RecordsTaken(place, taken, now_ms))

    def committed(self, error: str | None) -> None:
        taken, self._committing = self._committing, None
        if taken is None:
            return
        if error is None:
            self._carry_out(self._machine.committed(taken))
        else:
            self._trouble("commit", f"the commit failed, and is repeated: {error}")
            self._machine.give_back(taken)
        self._commit_soon()

    def troubled(self, code: str, text: str, *, is_hopeless: bool) -> None:
        if is_hopeless:
            self._halt(text)
        else:
            self._trouble(code, text)

    def ended(self, error: BaseException | None) -> None:
        if not self._over.done():
            self._over.set_result(None)
        if error is not None:
            self._halt(f"{type(error).__name__}: {error}")

    # -- the machine

    def _feed(self, event: HandlingEvent) -> None:
        self._carry_out(self._machine.handle(event))
        due_ms = self._machine.next_tick_ms()
        if due_ms is not None and (self._tick is None or due_ms < self._tick_ms):
            self._arm(due_ms)

    def _carry_out(self, instructions: Sequence[HandlingInstruction]) -> None:
        for instruction in instructions:
            if isinstance(instruction, Begin):
                self._begun.append(instruction.item)
                self._wake_worker()
            elif isinstance(instruction, PublishOutputs):
                self._publish(instruction.item)
            elif isinstance(instruction, PausePartition):
                self._taker.pause_place(instruction.place)
            elif isinstance(instruction, ResumePartition):
                self._taker.resume_place(instruction.place)
            elif isinstance(instruction, PartitionQuiet):
                self._partition_quiet(instruction.place)
            else:
                self._halt(instruction.reason)

    def _arm(self, due_ms: int) -> None:
        if self._tick is not None:
            self._tick.cancel()
        self._tick_ms = due_ms
        # One more: the clock is cut to whole milliseconds, and a tick that comes too early would need a second timer.
        self._tick = self._loop.call_later(max(0, due_ms - self._clock.monotonic_ms() + 1) / 1_000, self._ticked)

    def _ticked(self) -> None:
        self._tick = None
        self._feed(Tick(self._clock.monotonic_ms()))

    # -- handlers

    def _wake_worker(self) -> None:
        if self._idle:
            self._idle.pop().set_result(None)
        elif len(self._workers) < self.handler.concurrency:
            worker = self._loop.create_task(self._work(), name=f"handler {self.handler.name}")
            self._workers.add(worker)
            worker.add_done_callback(self._worker_ended)

    def _worker_ended(self, worker: "asyncio.Task[None]") -> None:
        self._workers.discard(worker)
        if not worker.cancelled() and worker.exception() is not None:
            self._halt(f"{type(worker.exception()).__name__}: {worker.exception()}")  # our own fault: loudly

    async def _work(self) -> None:
        while True:
            calls = 0
            while self._begun:
                await self._call(self._begun.popleft())
                calls += 1
                if calls >= CALLS_IN_A_TURN_MAX:
                    calls = 0
                    await asyncio.sleep(0)
            idle = self._loop.create_future()
            self._idle.append(idle)
            await idle

    async def _call(self, item: WorkItem) -> None:
        try:
            with _UNTRACED if self._spans is None else self._spans.calling(item):
                await self._handle(item)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            self._failed(item, error)  # by the handler itself: something that it waits for was cancelled
        except Exception as error:  # noqa: BLE001  # a supervisor: handlers are other people's code
            self._failed(item, error)
        else:
            self.handled_total += 1
            self._feed(HandlerReturned(item))
            self._commit_soon()

    async def _handle(self, item: WorkItem) -> None:
        handler = self.handler
        signature = handler.signature
        if item.attempts > 1:  # the last attempt may have changed it
            for record in item.records:
                record.model = handler.decode(record.message.value())
        if handler.batch is None:
            message: Any = item.records[0].model
        else:
            message = [record.model for record in item.records]
        arguments = signature.arguments(message, partial(self._context, item))
        if self._threads is None:
            returned = await signature.function(*arguments)
        else:
            run = partial(copy_context().run, signature.function, *arguments)
            returned = await self._loop.run_in_executor(self._threads, run)
        if returned is not None and handler.to is not None:
            item.outputs = results_of(handler, item, returned)
            # Here, while the span of the call is the current one.
            if self._spans is not None:
                self._spans.mark_results(item.outputs)

    def _context(self, item: WorkItem) -> Any:
        contexts = [MessageContext(record.message, item.attempts) for record in item.records]
        return contexts[0] if self.handler.batch is None else contexts

    def _failed(self, item: WorkItem, error: BaseException) -> None:
        self.failed_total += 1
        item.outputs = ()
        _log.warning(
            "%s: attempt %d of %s failed: %s: %s",
            self.handler.name,
            item.attempts,
            _shown(item),
            type(error).__name__,
            error,
            exc_info=error if _log.isEnabledFor(logging.DEBUG) else None,
        )
        is_final = isinstance(error, RejectMessage)
        now_ms, wall_ms = self._clock.monotonic_ms(), self._clock.wall_ms()
        self._feed(AttemptFailed(item, type(error).__name__, str(error), now_ms, wall_ms, is_final))

    # -- outputs

    def _publish(self, item: WorkItem) -> None:
        if not item.is_buried:
            self._publish_all(item)
            return
        item.outputs = letters_of(self.handler, item)
        topic = self.handler.dead_letters
        assert topic is not None, "there is a dead letter"
        # The topic is made with its first letter, as most handlers never need it.
        self._log.make_dead_letter_topic(topic, lambda: self._post(lambda: self._publish_letters(item)))

    def _publish_letters(self, item: WorkItem) -> None:
        if not self.handler.exactly_once:
            self._publish_all(item)
            return
        # In the transaction of its offset.
        self._settled(item, Stored(item.outputs[0].topic, -1, -1))

    def _publish_all(self, item: WorkItem) -> None:
        settle: Callable[[Stored | PublishFailed], object] = partial(self._outcome, item)
        if len(item.outputs) > 1:
            settle = _LastOutcome(len(item.outputs), settle).settle
        for record in item.outputs:
            try:
                self._log.publish_record(record, settle)
            except HutongError as error:  # too much is under way
                settle(PublishFailed(str(error), code="REFUSED"))

    def _outcome(self, item: WorkItem, outcome: Stored | HutongError) -> None:
        """From any thread."""
        self._outcomes.append((item, outcome))
        if not self._outcomes_due:
            self._outcomes_due = True
            self._post(self._settle_outcomes)

    def _post(self, work: Callable[[], object]) -> None:
        try:
            self._loop.call_soon_threadsafe(work)
        except RuntimeError:
            _log.debug("the loop has been closed, and the outcome is not needed")

    def _settle_outcomes(self) -> None:
        self._outcomes_due = False
        while self._outcomes:
            self._settled(*self._outcomes.popleft())
        self._commit_soon()

    def _settled(self, item: WorkItem, outcome: Stored | HutongError) -> None:
        if isinstance(outcome, Stored):
            if item.is_buried:
                self.buried_total += len(item.records)
                _log.error("%s: gave up %s: %s: %s", self.handler.name, _shown(item), item.error_type, item.error_text)
            self._feed(OutputsStored(item))
            self._commit_soon()
            return
        # A topic that is not there may still be made: messages wait for it, and the log says so.
        is_hopeless = isinstance(outcome, PublishFailed) and outcome.is_hopeless and outcome.code not in NO_TOPIC
        now_ms, wall_ms = self._clock.monotonic_ms(), self._clock.wall_ms()
        self._trouble("publish", f"not stored, {'given up' if is_hopeless else 'tried again'}: {outcome}")
        self._feed(OutputsRefused(item, str(outcome), is_hopeless, now_ms, wall_ms))

    # -- commits and leaving

    def _commit_soon(self) -> None:
        # One commit for all that is handled in the interval; one for each message would cost a request each.
        if self._commit_timer is None and self._committing is None and not self._over.done():
            self._commit_timer = self._loop.call_later(COMMIT_INTERVAL_MS / 1_000, self._commit)

    def _commit(self) -> None:
        self._commit_timer = None
        taken = self._machine.take_positions()
        if taken:
            self._committing = taken
            self._taker.commit(_words(taken))

    def _when_quiet(self, places: Sequence[Place], then: Callable[[], None]) -> None:
        running = {place for place in places if self._machine.running_of(place)}
        if running:
            self._quiet.append((running, then))
        else:
            then()

    def _partition_quiet(self, place: Place) -> None:
        for waiting in list(self._quiet):
            waiting[0].discard(place)
            if not waiting[0]:
                self._quiet.remove(waiting)
                waiting[1]()

    def _answer(self, places: Sequence[Place], answer: "Future[LastWords]") -> None:
        if not answer.done():
            answer.set_result(_words(self._machine.take_positions(places)))
            # What still runs counts for nothing from here on: its position would come after the commit.
            self._feed(SharesGone(places))

    def _trouble(self, code: str, text: str) -> None:
        """Once, until records come again."""
        if code not in self._logged_troubles:
            self._logged_troubles.add(code)
            _log.warning("%s: %s", self.handler.name, text)

    def _halt(self, reason: str) -> None:
        self._halted(HandlingHalted(f"{self.handler.name} stopped: {reason}"))


class _LastOutcome:
    """One outcome of several records: the refusal, if there is one. `settle` is called from any thread."""

    def __init__(self, count: int, then: Callable[[Stored | PublishFailed], object]) -> None:
        self._left = count
        self._then = then
        self._refused: PublishFailed | None = None
        self._lock = threading.Lock()  # over all of it

    def settle(self, outcome: Stored | PublishFailed) -> None:
        with self._lock:
            self._left -= 1
            if isinstance(outcome, PublishFailed):
                self._refused = outcome
            is_last = not self._left
        if is_last:
            self._then(self._refused or outcome)


def _shown(item: WorkItem) -> str:
    topic, partition = item.share.place
    first, last = item.records[0].offset, item.records[-1].offset
    return f"{topic}, partition {partition}, offset {first}" + (f" to {last}" if last > first else "")


def _rules(handler: TopicHandler) -> HandlingRules:
    return HandlingRules(
        concurrency=handler.concurrency,
        batch_max=handler.batch,
        batch_wait_ms=round(handler.batch_wait * 1_000),
        has_dead_letters=handler.dead_letters is not None,
        keeps_finished=handler.exactly_once,
        records_held_max=max(HandlingRules().records_held_max, 2 * (handler.batch or 0)),
    )


def _words(taken: Mapping[Place, PositionTaken]) -> LastWords:
    offsets = {place: position.offset for place, position in taken.items()}
    return offsets, [record for position in taken.values() for item in position.items for record in item.outputs]
