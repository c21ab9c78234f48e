"""A consumer of a durable address: carries out on a loop what its machine decides.

Strategy: the machine is in a host (`foundation/machine_host.py`) on the loop of the consumer's context. Handlers run in
that context and report back to the loop. The fetcher's thread brings records and carries commits and notes to the
broker. Handled offsets are committed every COMMIT_INTERVAL_MS, and the rest at a rebalance or at the end.

Knows nothing of the client library.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hutong.bus.durable.consume.call_later import CallLaterTimers
from hutong.bus.durable.consume.commits import ConsumerCommits
from hutong.bus.durable.consume.dead_letters import DeadLetters, stored_record
from hutong.bus.durable.consume.fetcher import Fetcher, Start
from hutong.bus.durable.consume.iteration import DurableIteration
from hutong.bus.durable.consume.log import ConsumerLog
from hutong.bus.durable.consume.machine import DurableConsumerMachine
from hutong.bus.durable.consume.messages import (
    Arrived,
    DeadLetterNotStored,
    DeadLetterStored,
    Deliver,
    Demand,
    Event,
    Failed,
    Handled,
    Instruction,
    NoteWritten,
    PartitionAssigned,
    Pause,
    RecordEntry,
    Resume,
    RevertNote,
    Revoked,
    SendDeadLetter,
    Stop,
    WriteNote,
)
from hutong.bus.durable.message import DurableMessage
from hutong.bus.durable.options import ConsumerOptions
from hutong.bus.durable.outcomes import ConsumerStopped, PublishFailed, Stored
from hutong.bus.durable.records import StoredRecord, UnreadableBody
from hutong.bus.waiting.promise import Promise, settle_all
from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, LimitExceeded, UsageError
from hutong.foundation.machine_host import MachineEntry, MachineHost
from hutong.runtime.contexts.contexts import Context

if TYPE_CHECKING:
    from hutong.bus.waiting.context_state import ContextState

GRACE_MS: Final = 5_000  # for what is in hand to be handled, when a consumer is unregistered

Handler = Callable[[DurableMessage], object]
HandlerT = TypeVar("HandlerT", bound=Handler)
_ConsumerEntry = MachineEntry[str, DurableConsumerMachine]
_log = logging.getLogger("hutong.bus.durable")


class DurableConsumer:
    """A member of a group at a durable address, made by `EventBus.consumer`. Methods may be called from any thread.

    `end_handler()` is called in its context once it has left the group. `failure` says why it stopped by itself, if it
    did. Figures: handled_total, failed_total (attempts), buried_total.
    """

    # Slots: `consumer.handler = f` instead of `consumer.handler(f)` is a mistake that raises.
    __slots__ = (
        "__weakref__",
        "_clock",
        "_commits",
        "_dead_letters",
        "_entry",
        "_fetcher",
        "_grace",
        "_handler",
        "_host",
        "_is_paused",
        "_is_ready",
        "_iteration",
        "_log",
        "_logged_troubles",
        "_loop",
        "_machine",
        "_over",
        "_ready",
        "_state",
        "address",
        "buried_total",
        "context",
        "end_handler",
        "failed_total",
        "failure",
        "handled_total",
        "is_over",
        "is_registered",
        "options",
    )

    def __init__(
        self, log: ConsumerLog, state: "ContextState", context: Context, address: str, options: ConsumerOptions
    ) -> None:
        self.address = address
        self.context = context
        self.options = options
        self.end_handler: Callable[[], object] | None = None
        self.failure: ConsumerStopped | None = None
        self.is_registered = True
        self.handled_total = 0
        self.failed_total = 0
        self.buried_total = 0
        self._log = log
        self._state = state
        self._loop = context.loop
        self._clock: Clock = log.clock
        self._handler: Handler | None = None
        self._is_paused = False
        self._iteration: DurableIteration | None = None
        machine = DurableConsumerMachine(
            options.retry,
            options.order,
            random.Random().random,  # the jitter of back-off
            options.bounds,
            has_dead_letters=options.dead_letter is not None,
        )
        self._machine = machine
        # No state port: a commit replaces positions that still wait, and may lose them in a rebalance. It is no append.
        self._host: MachineHost[_ConsumerEntry, Event, Instruction] = MachineHost(
            self._clock, CallLaterTimers(self._loop, self._clock), None, lambda _entry, tick: self._feed_machine(tick)
        )
        self._entry = self._host.put(MachineEntry(address, machine))
        self._dead_letters = DeadLetters(log, options, self._post)
        self._fetcher = Fetcher(
            self._loop,
            self,
            log.consumer_settings(options),
            options.topic,
            from_latest=options.from_latest,
        )
        # The client library lets one thread at a time use a consumer, so commits are made on the fetcher's thread.
        self._commits = ConsumerCommits(self._fetcher.commit, machine, self._loop, self._warn)
        self._grace: asyncio.TimerHandle | None = None
        self._is_ready = False
        self.is_over = False
        self._ready: list[Promise[None]] = []
        self._over: list[Promise[None]] = []
        self._logged_troubles: set[str] = set()  # troubles since the last success, so that each is logged once
        self._fetcher.start()

    # The API for users

    def handler(self, handler: Handler | None) -> "DurableConsumer":
        """Receive with `handler` from now on; with None nothing more is begun."""
        if handler is not None and not callable(handler):
            raise TypeError(f"a handler is called with each message; {type(handler).__name__} is not callable")
        self._handler = handler
        # Demand is the switch: without it, records that have arrived wait in the machine, and keep their order.
        self._set_demand(None if handler is not None and not self._is_paused else 0)
        return self

    def __call__(self, handler: HandlerT) -> HandlerT:
        """Decorate a handler, as that of a `Consumer`. Raises UsageError where there is a handler or a loop already."""
        if self._handler is not None or self._iteration is not None:
            raise UsageError(f"the consumer of {self.address!r} has a handler already; register another consumer.")
        self.handler(handler)
        return handler

    def pause(self) -> "DurableConsumer":
        """Begin nothing more, until `resume` or `fetch`. What is in hand is finished; the group keeps its member."""
        self._is_paused = True
        self._set_demand(0)
        return self

    def resume(self) -> "DurableConsumer":
        self._is_paused = False
        self._set_demand(None if self._handler is not None else 0)
        return self

    def fetch(self, count: int) -> "DurableConsumer":
        """Begin `count` messages more than asked for already. Raises ValueError for less than one."""
        if count < 1:
            raise ValueError(f"fetch asks for one message or more, not {count}")
        self._set_demand(count)
        return self

    def ready(self) -> Promise[None]:
        """Await it to know that the group has given this consumer its share. Fails with ConsumerStopped."""
        return self._promise(self._ready, lambda: self._is_ready)

    def unregister(self) -> Promise[None]:
        """Begin nothing more, give what is in hand GRACE_MS to end, commit, leave the group. May be awaited."""
        promise = self._promise(self._over, lambda: self.is_over)
        self._post(self._begin_leaving)
        return promise

    def __aiter__(self) -> "DurableIteration":
        """`async for message in consumer`: a message is handled when the next one is asked for, or failed by `fail`."""
        if self._iteration is None:
            self._iteration = DurableIteration(self)
        return self._iteration

    async def __aenter__(self) -> "DurableConsumer":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.unregister()

    def __repr__(self) -> str:
        return f"<DurableConsumer {self.address!r} of {self.options.group!r}{'' if self.is_registered else ', ended'}>"

    # Called by the fetcher, on the loop

    def assigned(self, starts: Sequence[Start]) -> None:
        for partition, offset, note in starts:
            # The last owner crashed, and the machine will search for the message that ended its process.
            if note is not None:
                _log.warning(
                    "%s, partition %d: its last owner in group %s left no goodbye at offset %d; going on carefully",
                    self.address, partition, self.options.group, offset,
                )  # fmt: skip
            self._feed_machine(PartitionAssigned(partition, offset, note))
        # Also with no partition at all: a group may have more members than the topic has partitions.
        self._is_ready = True
        settle_all(self._ready, None)

    def revoked(self, partitions: Sequence[int], answer: "Future[dict[int, int]]") -> None:
        self._fetcher.forget(partitions)
        self._commits.forget(partitions)
        # The client library's rebalance callback waits for the offsets, and commits them before the partitions go.
        answer.set_result(self._machine.final_positions(partitions))
        self._feed_machine(Revoked(partitions))

    def lost(self, partitions: Sequence[int] | None) -> None:
        # No commit here: others may own the partitions already, and it could move their offsets back.
        partitions = self._machine.assigned if partitions is None else partitions
        self._fetcher.forget(partitions)
        self._commits.forget(partitions)
        self._feed_machine(Revoked(partitions))

    def committed(self, error: str | None) -> None:
        self._commits.settled(error)

    def arrived(self, records: Mapping[int, Sequence[StoredRecord]]) -> None:
        # Records arrive again: trouble after this is new, and is logged again.
        self._logged_troubles.clear()
        for partition, of_it in records.items():
            self._feed_machine(Arrived(partition, of_it))

    def troubled(self, code: str, text: str, *, is_hopeless: bool) -> None:
        # The client library reports the same trouble with each of its own attempts.
        if code not in self._logged_troubles:
            self._logged_troubles.add(code)
            _log.warning("%s, group %s: %s", self.address, self.options.group, text)
        if is_hopeless:
            self._stop(text)

    def ended(self, error: BaseException | None) -> None:
        self._host.close()
        self._commits.close()
        if self._grace is not None:
            self._grace.cancel()
        # The fetcher's thread has failed: without this, a consumer that receives nothing would look healthy.
        if error is not None and self.failure is None:
            self._stop(f"{type(error).__name__}: {error}")
        self.is_registered = False
        self.is_over = True
        self._log.forget_consumer(self)
        self._state.consumers.pop(self, None)
        settle_all(self._ready, self._over_error())
        # After its removal from the log and the context: a close that waits for this meets no consumer any more.
        settle_all(self._over, None)
        if self._iteration is not None:
            # Its loop may wait for a message that never comes: awake, it ends or raises `failure`.
            self._iteration.end()
        if self.end_handler is not None:
            self.context.run(lambda handler: handler(), self.end_handler)

    # Instructions of the machine

    def _feed_machine(self, event: Event) -> None:
        for instruction in self._host.handle(self._entry, event):
            self._carry_out(instruction)

    def _carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case Deliver(entry):
                self._deliver(entry)
            case SendDeadLetter(entry):
                self._dead_letters.send(entry, self._dead_letter_ended)
            case WriteNote(entry, note):
                positions = {entry.partition.number: (entry.offset, str(note))}
                self._commits.add(positions, lambda _error: self._note_written(entry), is_urgent=True)
            # Not urgent: without it, a crash from another cause would count once too often against this message.
            case RevertNote(partition, offset, note):
                self._commits.add({partition: (offset, str(note))}, lambda _error: None, is_urgent=False)
            case Pause(partition):
                self._fetcher.pause(partition)
            case Resume(partition):
                self._fetcher.resume(partition)
            case Stop(reason):
                self._stop(reason)

    def _deliver(self, entry: RecordEntry) -> None:
        record = stored_record(entry)
        try:
            message = DurableMessage.of(self.address, record, entry.attempts)
            self.context.run(self._handle, (entry, message))
        # A body that cannot be decoded is a failure of this message, not of the consumer.
        except (UnreadableBody, LimitExceeded) as error:
            self.post_outcome(entry, error, None)

    def _handle(self, in_hand: tuple[RecordEntry, DurableMessage]) -> object:
        """In the consumer's context."""
        entry, message = in_hand
        if self._iteration is not None:
            self._iteration.receive(entry, message)
            return None
        try:
            if self._handler is None:
                # `handler(None)` came between the delivery and this call. It counts as an attempt that failed.
                raise _Unhandled("the handler was taken away")
            # A tracer calls the handler itself, so that spans of the handler are children of the message's.
            tracer = self._state.bus.tracer
            if tracer is None:
                result = self._handler(message)
            else:
                result = tracer.handling_record(message, self.options.group, self._handler)
        except BaseException as error:
            self.post_outcome(entry, error, message)
            if not isinstance(error, Exception):
                raise
            return None
        # Its slot stays taken until it ends: a coroutine that awaits is still at work on the message.
        if asyncio.iscoroutine(result):
            return self._await_coroutine(entry, message, result)
        self.post_outcome(entry, message.failure, message)
        return None

    async def _await_coroutine(
        self, entry: RecordEntry, message: DurableMessage, coroutine: Coroutine[Any, Any, object]
    ) -> None:
        try:
            await coroutine
        except BaseException as error:
            self.post_outcome(entry, error, message)
            if not isinstance(error, Exception):
                raise
        else:
            self.post_outcome(entry, message.failure, message)

    def post_outcome(self, entry: RecordEntry, error: BaseException | None, message: DurableMessage | None) -> None:
        if asyncio._get_running_loop() is self._loop and message is not None:
            self._take_outcome(entry, error, message)
        # From a worker, or while the machine's instructions are carried out: it must not be fed before their end.
        else:
            self._post(lambda: self._take_outcome(entry, error, message))

    def _take_outcome(self, entry: RecordEntry, error: BaseException | None, message: DurableMessage | None) -> None:
        if error is None:
            self.handled_total += 1
            self._feed_machine(Handled(entry))
            self._commits.commit_soon()
        else:
            self.failed_total += 1
            after_ms = message.retry_after_ms if message is not None else None
            now_ms, wall_ms = self._clock.monotonic_ms(), self._clock.wall_ms()
            # The body stays unreadable, however often it is tried.
            is_final = isinstance(error, UnreadableBody)
            _log.warning("%s failed attempt %d: %s", self._place(entry), entry.attempts, _error_text(error))
            self._feed_machine(Failed(entry, type(error).__name__, str(error), now_ms, wall_ms, after_ms, is_final))
        # The consumer is leaving and the last handler has ended, so the rest of the grace period is not needed.
        if self._grace is not None and self._is_idle():
            self._leave_group()

    def _dead_letter_ended(self, entry: RecordEntry, outcome: Stored | HutongError) -> None:
        # An error: a message that nobody handles needs the eyes of an operator.
        if isinstance(outcome, Stored):
            self.buried_total += 1
            _log.error(
                "%s was given up after %d attempts (%s: %s); it is in %s",
                self._place(entry), entry.attempts, entry.error_type, entry.error_text, outcome.topic,
            )  # fmt: skip
            # Only now may the committed offset pass the message: its dead letter is acknowledged.
            self._feed_machine(DeadLetterStored(entry))
            self._commits.commit_soon()
        else:
            # No permission or a letter that is too large, for example: a repeat would be refused like this one.
            is_hopeless = isinstance(outcome, PublishFailed) and outcome.is_hopeless
            _log.warning("%s: its dead letter was not stored: %s", self._place(entry), outcome)
            self._feed_machine(DeadLetterNotStored(entry, str(outcome), is_hopeless, self._clock.monotonic_ms()))

    def _note_written(self, entry: RecordEntry) -> None:
        # Also after a failure: a message must not wait for a note that is only a precaution.
        self._feed_machine(NoteWritten(entry))

    def _stop(self, reason: str) -> None:
        if self.failure is None:
            self.failure = ConsumerStopped(
                f"the consumer of {self.address} in group {self.options.group} stopped: {reason}"
            )
            self.context.fail(self.failure)
        # Later: this may be an instruction of the machine, and those behind it are to be carried out first.
        self._post(self._leave_group)

    # Timers and work

    def _warn(self, error: str) -> None:
        # At the end open commits are reported as failed, although the revocation has committed their offsets.
        if self.is_registered:
            _log.warning("%s, group %s: a commit failed: %s", self.address, self.options.group, error)

    def _set_demand(self, count: int | None) -> None:
        self._post(lambda: self._feed_machine(Demand(count)))

    def _post(self, call: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(call)

    # The end

    def _begin_leaving(self) -> None:
        if not self.is_registered:
            return
        self.is_registered = False
        self._feed_machine(Demand(0))
        if self._is_idle():
            self._leave_group()
        else:
            # A handler cannot be stopped. The next owner handles what has not ended by then, a second time.
            self._grace = self._loop.call_later(GRACE_MS / 1000, self._leave_group)

    def _is_idle(self) -> bool:
        """True when no handler is at work that may still end."""
        # Messages that an `async for` holds do not count: their loop may never ask for the next one.
        return self._machine.handling <= (0 if self._iteration is None else self._iteration.held)

    def _leave_group(self) -> None:
        self.is_registered = False
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None
        self._fetcher.stop()

    def promise(self) -> Promise[None]:
        """Parked with the caller's other waits."""
        return self._state.bus.callers_state().promise()

    def _promise(self, waiting: list[Promise[None]], is_so: Callable[[], bool]) -> Promise[None]:
        promise = self.promise()

        def enter() -> None:
            # It ended before it had a share, so nobody would settle this promise later.
            if self.is_over and waiting is self._ready:
                promise.fail(self._over_error())
            elif is_so():
                promise.resume(None)
            else:
                waiting.append(promise)

        self._post(enter)
        return promise

    def _over_error(self) -> ConsumerStopped:
        return self.failure or ConsumerStopped(f"the consumer of {self.address} has been unregistered")

    def _place(self, entry: RecordEntry) -> str:
        return f"{self.address}, partition {entry.partition.number}, offset {entry.offset}, group {self.options.group}"


class _Unhandled(HutongError):
    """A message was on its way to a handler that is gone; it is tried again."""


def _error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
