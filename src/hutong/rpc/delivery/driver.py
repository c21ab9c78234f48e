"""The call memory of a service: executes its machine's instructions, with a table as store.

Strategy: the machine runs on the loop that opens the memory. Bindings may be in any context: execution and callbacks
happen there. All requesters of a call, the first included, are parked under it until it has an outcome. A Store writes
each of its changes, and is stored when all of them are.

Knows no transport and no client library.
"""

import asyncio
import itertools
import logging
from asyncio import _get_running_loop
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, Protocol

from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, OwnerGone, ProtocolError
from hutong.foundation.timers import Timer, TimerWheel
from hutong.foundation.waiting.table import WaitTable
from hutong.rpc.call import Done, IncomingCall, Outcome
from hutong.rpc.delivery.fingerprints import fingerprint_of
from hutong.rpc.delivery.ids import CallId, parse_acked_below, parse_request_id
from hutong.rpc.delivery.machine import Memory
from hutong.rpc.delivery.messages import (
    Answer,
    Asked,
    Event,
    Execute,
    Executed,
    Fingerprint,
    Loaded,
    MemorySettings,
    NotStored,
    Reason,
    Refusal,
    Replayed,
    Settle,
    Store,
    Stored,
    Tick,
    Wait,
)
from hutong.rpc.delivery.outcomes import decode_outcome, encode_outcome, refused
from hutong.rpc.delivery.records import decode_change, encode_key, encode_record
from hutong.rpc.delivery_port import ACKED_BELOW, REQUEST_ID
from hutong.rpc.delivery_port import Execute as ExecuteHere
from hutong.rpc.errors import DISPATCH_CODE, OUTCOME_UNKNOWN_CODE, BadArguments, Failure
from hutong.runtime.contexts.contexts import Context, current_context

TICK_MS: Final = 1_000
WAITING_MAX: Final = 100_000
"""Requests that wait for a call in progress, of all callers together."""

_log = logging.getLogger("hutong.rpc.delivery")


class Table(Protocol):
    """The store of a memory; `hutong.bus.durable.table` has one. Every method except `open` may raise a HutongError."""

    @property
    def failure(self) -> HutongError | None:
        """The reason why nothing is written any more, or None."""

    async def open(self, apply: Callable[[bytes, bytes | None], None], /) -> None: ...
    def put(self, key: bytes, value: bytes | None, settled: Callable[[HutongError | None], None], /) -> None: ...
    async def close(self) -> None: ...


class _Asker(NamedTuple):
    """A requester and its callback."""

    call: CallId
    context: Context | None
    execute: ExecuteHere
    done: Done
    deadline_ms: int | None
    fingerprint: Fingerprint
    caller: str

    def tell(self, outcome: Outcome | HutongError) -> None:
        if not isinstance(outcome, Outcome):
            outcome = Outcome(
                failure=Failure(OUTCOME_UNKNOWN_CODE, f"nobody waits for the outcome any more: {outcome}")
            )
        self.run(self.done, outcome)

    def run(self, handler: Callable[[Outcome], object] | Callable[[Done], object], argument: object) -> None:
        if self.context is None:
            handler(argument)  # type: ignore[arg-type]  # each with its own
        else:
            self.context.run(handler, argument)  # type: ignore[arg-type]


class CallMemory:
    """The calls that one service remembers (a `delivery_port.Memory`).

    `open` on the loop of `wheel`, `begin` in any context.

    Figures: executed_total, replayed_total (answered from memory), waited_total (for one in progress), refused_total.
    """

    def __init__(
        self,
        table: Table,
        clock: Clock,
        wheel: TimerWheel,
        settings: MemorySettings | None = None,
        *,
        waiting_max: int = WAITING_MAX,
    ) -> None:
        self.machine = Memory(settings)
        self.executed_total = 0
        self.replayed_total = 0
        self.waited_total = 0
        self.refused_total = 0
        self._table = table
        self._clock = clock
        self._wheel = wheel
        self._waiting_max = waiting_max
        self._waits: WaitTable[Outcome] = WaitTable("rpc_waiting_max", wheel, waiting_max)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._numbers = itertools.count()
        self._asking: dict[int, _Asker] = {}  # while the machine is asked
        self._first: dict[CallId, _Asker] = {}  # who will execute it
        self._running: set[CallId] = set()  # from its execution until its outcome is stored
        self._fresh: dict[CallId, Outcome] = {}  # executed here, until its outcome is stored
        self._timer: Timer | None = None

    async def open(self) -> None:
        """Read what is stored. Raises what keeps it from that: CorruptData, UsageError, or what the table raises."""
        self._loop = asyncio.get_running_loop()
        try:
            await self._table.open(self._replay)
        except BaseException:
            await self._table.close()
            raise
        self._tell(Loaded(self._clock.wall_ms()))
        self._arm()

    def begin(self, call: IncomingCall, execute: ExecuteHere, done: Done) -> None:
        headers = call.headers
        request_id = headers.get(REQUEST_ID)
        if request_id is None:
            execute(done)  # its caller asked for no memory
            return
        try:
            call_id = parse_request_id(request_id)
            acked_below = parse_acked_below(headers.get(ACKED_BELOW))
            fingerprint = fingerprint_of(call)
        except (ProtocolError, BadArguments) as error:
            done(Outcome(failure=Failure(DISPATCH_CODE, str(error))))
            return
        asker = _Asker(call_id, current_context(), execute, done, call.deadline_ms, fingerprint, _caller_of(call))
        assert self._loop is not None, "open comes first"
        if _get_running_loop() is self._loop:
            self._ask(asker, acked_below)
        else:
            self._loop.call_soon_threadsafe(self._ask, asker, acked_below)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waits.close(OwnerGone("the service has been unbound"))
        await self._table.close()

    @property
    def waiting(self) -> int:
        """Requests that wait for an outcome, those that are executed included."""
        return len(self._waits)

    def _replay(self, key: bytes, value: bytes | None) -> None:
        changed, record = decode_change(key, value)
        self.machine.handle(Replayed(changed, record))

    def _ask(self, asker: _Asker, acked_below: int) -> None:
        if self._table.failure is not None:
            self._refuse(asker, Refusal(Reason.NOT_STORED))
        elif len(self._waits) >= self._waiting_max:
            self._refuse(asker, Refusal(Reason.FULL, self._waits.name, self._waiting_max))
        else:
            number = next(self._numbers)
            self._asking[number] = asker
            now_ms = self._clock.wall_ms()
            self._tell(Asked(number, asker.call, acked_below, now_ms, asker.fingerprint, asker.caller))
            self._asking.pop(number, None)

    def _refuse(self, asker: _Asker, refusal: Refusal) -> None:
        self.refused_total += 1
        asker.tell(refused(refusal))

    def _tell(self, event: Event) -> None:
        for instruction in self.machine.handle(event):
            match instruction:
                case Wait(number, call):
                    self._wait(self._asking.pop(number), call)
                case Answer(number, outcome):
                    self._answer(self._asking.pop(number), outcome)
                case Store():
                    _Writes(self, instruction).begin(self._table)
                case Execute(call):
                    self._execute(call)
                case Settle(call, outcome):
                    self._settle(call, outcome)

    def _wait(self, asker: _Asker, call: CallId) -> None:
        is_first = call not in self._first and call not in self._running
        if is_first:
            self._first[call] = asker
        else:
            self.waited_total += 1
        self._waits.park(call, asker.tell, deadline_ms=None if is_first else asker.deadline_ms)

    def _answer(self, asker: _Asker, outcome: bytes | Refusal) -> None:
        if isinstance(outcome, Refusal):
            self._refuse(asker, outcome)
        else:
            self.replayed_total += 1
            asker.tell(decode_outcome(outcome))

    def _execute(self, call: CallId) -> None:
        asker = self._first.pop(call)
        self._running.add(call)
        self.executed_total += 1
        asker.run(asker.execute, partial(self._executed, call))

    def _executed(self, call: CallId, outcome: Outcome) -> None:
        """In the binding's context."""
        kept = encode_outcome(outcome)
        assert self._loop is not None
        if _get_running_loop() is self._loop:
            self._take_over(call, outcome, kept)
        else:
            self._loop.call_soon_threadsafe(self._take_over, call, outcome, kept)

    def _take_over(self, call: CallId, outcome: Outcome, kept: bytes | None) -> None:
        self._fresh[call] = outcome
        self._tell(Executed(call, kept or b"", self._clock.wall_ms(), kept is not None))

    def _settle(self, call: CallId, outcome: bytes | Refusal) -> None:
        self._first.pop(call, None)
        self._running.discard(call)
        fresh = self._fresh.pop(call, None)
        if isinstance(outcome, Refusal):
            fresh = refused(outcome)
        assert fresh is not None, "what is settled was executed here"
        self._waits.resume_all(call, fresh)

    def stored(self, store: Store, error: HutongError | None) -> None:
        """For the writes of one Store: the last of them has ended."""
        if error is None:
            self._tell(Stored(store.number))
            return
        if self._table.failure is None:
            _log.warning("the memory of calls could not be stored, it is tried again: %s", error)
        self._tell(NotStored(store.number))
        if (
            self._table.failure is not None
        ):  # another process may have taken the table over, and does not know of this execution
            self._waits.close(self._table.failure)

    def _arm(self) -> None:
        self._timer = self._wheel.add(self._clock.monotonic_ms() + TICK_MS, self._tick)

    def _tick(self) -> None:
        self._arm()
        if not self.machine.is_empty and self._table.failure is None:
            self._tell(Tick(self._clock.wall_ms()))


def _caller_of(call: IncomingCall) -> str:
    """Return the owner of a call's share: its user at any address, else its address."""
    return f"user {call.user}" if isinstance(call.user, str) and call.user else call.origin


class _Writes:
    """The writes of one Store."""

    __slots__ = ("_error", "_left", "_memory", "_store")

    def __init__(self, memory: CallMemory, store: Store) -> None:
        self._memory = memory
        self._store = store
        self._left = len(store.changes)
        self._error: HutongError | None = None

    def begin(self, table: Table) -> None:
        for key, record in self._store.changes:
            try:
                table.put(encode_key(key), encode_record(record), self._settled)
            except HutongError as error:
                assert self._memory._loop is not None
                self._memory._loop.call_soon(self._settled, error)  # never during a step of the machine

    def _settled(self, error: HutongError | None) -> None:
        self._left -= 1
        self._error = self._error or error
        if not self._left:
            self._memory.stored(self._store, self._error)
