"""The call memory of a service: executes its machine's instructions, with a table as store.

Strategy: the machine is in a host (`foundation/machine_host.py`) on the loop that opens the memory. Bindings may be in
any context: execution and callbacks happen there. Every requester of a call, the first included, is parked under its
ticket until the machine answers it.

Knows no transport and no client library.
"""

import asyncio
import logging
from asyncio import _get_running_loop
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, Protocol

from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, LimitExceeded, OwnerGone, ProtocolError
from hutong.foundation.machine import Answer, Tick
from hutong.foundation.machine_host import MachineEntry, MachineHost, ParkedCallers, StatePort
from hutong.foundation.timers import TimerWheel
from hutong.rpc.call import Done, IncomingCall, Outcome
from hutong.rpc.delivery.fingerprints import fingerprint_of
from hutong.rpc.delivery.ids import CallId, parse_acked_below, parse_request_id
from hutong.rpc.delivery.machine import CallMemoryMachine
from hutong.rpc.delivery.messages import (
    Asked,
    CallRefusal,
    ChangesNotStored,
    ChangesStored,
    Event,
    Execute,
    Executed,
    Fingerprint,
    Instruction,
    Loaded,
    MemorySettings,
    Reason,
    Replayed,
    Store,
)
from hutong.rpc.delivery.outcomes import decode_outcome, encode_outcome, refused
from hutong.rpc.delivery.records import decode_change, encode_key, encode_record
from hutong.rpc.delivery_port import ACKED_BELOW, REQUEST_ID
from hutong.rpc.delivery_port import Execute as ExecuteHere
from hutong.rpc.errors import DISPATCH_CODE, OUTCOME_UNKNOWN_CODE, BadArguments, Failure
from hutong.runtime.contexts.contexts import Context, current_context

WAITING_MAX: Final = 100_000
"""Requests that wait for an outcome, of all callers together."""

_log = logging.getLogger("hutong.rpc.delivery")


class Table(StatePort, Protocol):
    """The store of a memory; `hutong.bus.durable.table` has one."""

    @property
    def failure(self) -> HutongError | None:
        """The reason why nothing is written any more, or None."""

    async def open(self, apply: Callable[[bytes, bytes | None], None], /) -> None: ...
    async def close(self) -> None: ...


_MemoryEntry = MachineEntry[str, CallMemoryMachine]


class _Asker(NamedTuple):
    """A requester and its callback."""

    call: CallId
    context: Context | None
    execute: ExecuteHere
    done: Done
    deadline_ms: int | None
    fingerprint: Fingerprint
    caller: str

    def run(self, handler: Callable[[Outcome], object] | Callable[[Done], object], argument: object) -> None:
        # A binding outside of every context is called where the outcome appears.
        if self.context is None:
            handler(argument)  # type: ignore[arg-type]  # each with its own
        else:
            self.context.run(handler, argument)  # type: ignore[arg-type]


class CallMemory:
    """The calls that one service remembers (a `delivery_port.Memory`).

    `open` on the loop of `wheel`, `begin` in any context.

    Figures: executed_total, replayed_total (answered from memory), waited_total (for one in progress).
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
        self.machine = CallMemoryMachine(settings)
        self.executed_total = 0
        self.replayed_total = 0
        self._table = table
        self._clock = clock
        self._callers = ParkedCallers("rpc_waiting_max", wheel, waiting_max)
        # Wall time: the machine's times are stored, and outlive the process.
        self._host: MachineHost[_MemoryEntry, Event, Instruction] = MachineHost(
            clock, wheel, table, self._tick, uses_wall_time=True
        )
        self._entry = self._host.put(MachineEntry("calls", self.machine))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting: dict[int, _Asker] = {}  # by ticket; asked, and neither executed nor answered yet

    @property
    def waited_total(self) -> int:
        return self.machine.waited_total

    async def open(self) -> None:
        """Read what is stored. Raises what keeps it from that: CorruptData, UsageError, or what the table raises."""
        self._loop = asyncio.get_running_loop()
        try:
            await self._table.open(self._replay)
        except BaseException:
            await self._table.close()
            raise
        self._feed(Loaded(self._clock.wall_ms()))

    def begin_call(self, call: IncomingCall, execute: ExecuteHere, done: Done) -> None:
        headers = call.headers
        request_id = headers.get(REQUEST_ID)
        if request_id is None:
            execute(done)  # its caller asked for no memory
            return
        try:
            call_id = parse_request_id(request_id)
            acked_below = parse_acked_below(headers.get(ACKED_BELOW))
            # Taken before any execution: an implementation may change its arguments.
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
        self._host.close()
        self._callers.close(OwnerGone("the service has been unbound"))
        await self._table.close()

    @property
    def waiting(self) -> int:
        """Requests that wait for an outcome, those that are executed included."""
        return len(self._callers)

    def _replay(self, key: bytes, value: bytes | None) -> None:
        changed, record = decode_change(key, value)
        # Not by the host: the table is read on another thread, and nothing is due before all of it is loaded.
        self.machine.handle(Replayed(changed, record))

    def _ask(self, asker: _Asker, acked_below: int) -> None:
        if self._table.failure is not None:
            self._end(asker, CallRefusal(Reason.NOT_STORED))
            return
        is_repeat = self.machine.is_in_progress(asker.call)
        ticket = self._callers.park_with_errors(
            partial(self._end, asker),
            # The first request has no deadline: its execution goes on, and must be answered when it ends.
            deadline_ms=asker.deadline_ms if is_repeat else None,
        )
        # There is no room for one more, and the caller has its refusal.
        if ticket is None:
            return
        if not is_repeat:
            self._starting[ticket] = asker
        self._feed(Asked(ticket, asker.call, acked_below, self._clock.wall_ms(), asker.fingerprint, asker.caller))

    def _end(self, asker: _Asker, reply: object) -> None:
        """Call back a requester with the machine's reply, or with the error that ended its wait."""
        # The wait table was full: nothing was asked of the machine, so the caller may ask again.
        if isinstance(reply, LimitExceeded):
            reply = CallRefusal(Reason.FULL, reply.limit, reply.maximum)
        if isinstance(reply, CallRefusal):
            outcome = refused(reply)
        # From the store, perhaps of an earlier process. Decoded here: most kept outcomes are never asked for.
        elif isinstance(reply, bytes):
            self.replayed_total += 1
            outcome = decode_outcome(reply)
        elif isinstance(reply, Outcome):
            outcome = reply
        else:
            outcome = Outcome(failure=Failure(OUTCOME_UNKNOWN_CODE, f"nobody waits for the outcome any more: {reply}"))
        asker.run(asker.done, outcome)

    def _feed(self, event: Event) -> None:
        for instruction in self._host.handle(self._entry, event):
            match instruction:
                case Answer(ticket, reply):
                    self._starting.pop(ticket, None)
                    self._callers.answer(ticket, reply)
                case Store(number, changes):
                    records = [(encode_key(key), encode_record(record)) for key, record in changes]
                    self._host.append(self._entry, records, partial(self._stored, number))
                case Execute(ticket, call):
                    self.executed_total += 1
                    asker = self._starting.pop(ticket)
                    asker.run(asker.execute, partial(self._executed, call))

    def _executed(self, call: CallId, outcome: Outcome) -> None:
        """In the binding's context."""
        # Encoded here: a binding in a worker does that work on its own thread.
        event = Executed(call, outcome, encode_outcome(outcome), self._clock.wall_ms())
        assert self._loop is not None
        if _get_running_loop() is self._loop:
            self._feed(event)
        else:
            self._loop.call_soon_threadsafe(self._feed, event)

    def _stored(self, number: int, error: HutongError | None) -> None:
        if error is None:
            self._feed(ChangesStored(number))
            return
        if self._table.failure is None:
            _log.warning("the memory of calls could not be stored, it is tried again: %s", error)
        self._feed(ChangesNotStored(number))
        # Another process may have taken the table over, and does not know of these executions.
        if self._table.failure is not None:
            self._callers.close(self._table.failure)

    def _tick(self, _entry: _MemoryEntry, tick: Tick) -> None:
        # A table that is lost stores nothing any more: trying again would only fail, every second.
        if self._table.failure is None:
            self._feed(tick)


def _caller_of(call: IncomingCall) -> str:
    """Return the owner of a call's share: its user at any address, else its address."""
    return f"user {call.user}" if isinstance(call.user, str) and call.user else call.origin
