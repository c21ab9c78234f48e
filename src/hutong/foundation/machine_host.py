"""The host of state machines: it feeds events, persists records before answers, arms due timers and parks callers.

Strategy: a driver keeps one `MachineEntry` for each machine in its host, feeds it through `MachineHost.handle`, and
carries out the instructions that come back. Everything that such drivers have in common is here, so that they differ
only in their instructions. After each event the host arms one timer for the machine's next tick. A timer that is
earlier than needed stays as it is: most events only postpone a deadline (a heartbeat renews a session), and one early
tick now and then costs less than a cancelled timer for each event.

A whole driver, of a machine that counts and answers when the new count is on disk:

    CounterEntry = MachineEntry[str, Counter]

    class Counters:
        def __init__(self, clock: Clock, timers: TimerWheel, state: StatePort) -> None:
            self._host: MachineHost[CounterEntry, Event, Instruction] = MachineHost(clock, timers, state, self._feed)
            self._callers = ParkedCallers("counter waits", timers, waits_max=1_000)

        def add(self, name: str, then: Callable[[int], None], owner: Owner) -> None:
            entry = self._host.get(name) or self._host.put(MachineEntry(name, Counter()))
            ticket = self._callers.park(then, -1, owner=owner)  # -1 is the reply where the count is never stored
            if ticket is not None:
                self._feed(entry, Add(ticket))

        def _feed(self, entry: CounterEntry, event: Event) -> None:
            for instruction in self._host.handle(entry, event):
                match instruction:
                    case Persist(count):
                        self._host.append(entry, [(entry.key.encode(), b"%d" % count)])
                    case Answer(ticket, count):
                        self._host.when_durable(entry, partial(self._callers.settle, ticket, count))

        def close(self) -> None:
            self._host.close()
            self._callers.close(OwnerGone("the node is stopping"))

Knows no machine's events or instructions, and decides nothing. Belongs to one loop.
"""

import itertools
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, LimitExceeded
from hutong.foundation.fair_shares import NOBODY, FairShares
from hutong.foundation.machine import Machine, Tick
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.pending import Continuation
from hutong.foundation.waiting.table import Owner, WaitTable

StateRecord: TypeAlias = tuple[bytes, bytes | None]
"""Key and value of a record in a compacted topic. None is a tombstone."""


KeyT = TypeVar("KeyT", bound=Hashable)
MachineT = TypeVar("MachineT", bound=Machine[Any, Any])
EventT = TypeVar("EventT")
InstructionT = TypeVar("InstructionT")
ReplyT = TypeVar("ReplyT")


class StatePort(Protocol):
    """The internal compacted topic that a driver keeps its machines' state in."""

    def append_all(self, records: Sequence[StateRecord], then: Continuation[None], /) -> None:
        """Append the records; `then` gets None once they are durable, in the order of appends."""
        ...


class PendingTimer(Protocol):
    """A timer that has not fired yet: one of a wheel, or a handle of asyncio."""

    def cancel(self) -> object: ...


class TimerPort(Protocol):
    """The timers of a host's loop: a wheel, or the loop's own."""

    def add(self, at_ms: int, callback: Callable[[], None], /) -> PendingTimer:
        """Call back once at `at_ms`, in monotonic milliseconds."""
        ...


class MachineEntry(Generic[KeyT, MachineT]):
    """One machine in its host. A driver that keeps more of each machine has a subclass."""

    __slots__ = ("appends_begun", "appends_ended", "failure", "held", "key", "machine", "timer", "timer_at_ms")

    def __init__(self, key: KeyT, machine: MachineT) -> None:
        self.key = key
        self.machine = machine
        self.timer: PendingTimer | None = None  # at the machine's next tick, or earlier
        self.timer_at_ms = 0
        self.appends_begun = 0
        self.appends_ended = 0  # of those begun, durable or failed; they end in the order of appends
        self.failure: HutongError | None = None  # of the append that ended last
        # Each is called when that many appends have ended.
        self.held: deque[tuple[int, Continuation[None]]] | None = None


EntryT = TypeVar("EntryT", bound=MachineEntry[Any, Any])


class MachineHost(Generic[EntryT, EventT, InstructionT]):
    """All machines of one kind on one loop, by key.

    `on_tick(entry, tick)` feeds a tick that is due: a driver passes its own feed method.
    """

    __slots__ = ("_clock", "_entries", "_is_closed", "_on_tick", "_repeated", "_state", "_timers", "_uses_wall_time")

    def __init__(
        self,
        clock: Clock,
        timers: TimerPort,
        state: StatePort | None,
        on_tick: Callable[[EntryT, Tick], None],
        *,
        uses_wall_time: bool = False,
    ) -> None:
        """With `uses_wall_time` the machines' times are wall time: for those that store them.

        `state` None: the driver never appends.
        """
        self._clock = clock
        self._timers = timers
        self._state = state
        self._on_tick = on_tick
        self._uses_wall_time = uses_wall_time
        self._entries: dict[Hashable, EntryT] = {}
        self._repeated: dict[Callable[[], None], PendingTimer] = {}
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def now_ms(self) -> int:
        """The time by which the machines live."""
        return self._clock.wall_ms() if self._uses_wall_time else self._clock.monotonic_ms()

    def close(self) -> None:
        """Stop every timer. Machines stay as they are; appends that are under way still end."""
        self._is_closed = True
        for timer in (*self._repeated.values(), *(each.timer for each in self._entries.values())):
            if timer is not None:
                timer.cancel()

    # ---- entries

    def get(self, key: Hashable) -> EntryT | None:
        return self._entries.get(key)

    def put(self, entry: EntryT) -> EntryT:
        """Host a machine from now on."""
        self._entries[entry.key] = entry
        return entry

    def remove(self, entry: EntryT) -> bool:
        """Forget a machine and its timer. False if the key has no entry any more, or another one."""
        if entry.timer is not None:
            entry.timer.cancel()
            entry.timer = None
        # The key may belong to a successor by now, which stays.
        if not self.hosts(entry):
            return False
        del self._entries[entry.key]
        return True

    def hosts(self, entry: EntryT) -> bool:
        """Return False for an entry that was removed: what it had begun may still end."""
        return self._entries.get(entry.key) is entry

    def __iter__(self) -> Iterator[EntryT]:
        """Iterate over the entries of this moment; later changes do not matter."""
        return iter(list(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)

    # ---- events and time

    def handle(self, entry: EntryT, event: EventT) -> Sequence[InstructionT]:
        """Feed an event to the machine, arm its timer, and return the instructions: the driver carries them out."""
        instructions: Sequence[InstructionT] = entry.machine.handle(event)
        due_ms = entry.machine.next_tick_ms()
        if due_ms is not None:
            self._arm_at(entry, due_ms)
        return instructions

    def arm(self, entry: EntryT) -> None:
        """Keep the timer at the machine's next tick, or earlier. Drivers call it after a change outside of `handle`."""
        due_ms = entry.machine.next_tick_ms()
        if due_ms is not None:
            self._arm_at(entry, due_ms)

    def _arm_at(self, entry: EntryT, due_ms: int) -> None:
        if entry.timer is not None and entry.timer_at_ms <= due_ms:
            return
        # What an entry had begun may end after its removal, and feeds it once more.
        if self._is_closed or not self.hosts(entry):
            return
        if entry.timer is not None:
            entry.timer.cancel()
        entry.timer_at_ms = due_ms
        # The wheel has monotonic time. If the wall clock is set back meanwhile, the tick is early and arms a new timer.
        at_ms = due_ms if not self._uses_wall_time else self._clock.monotonic_ms() + max(0, due_ms - self.now_ms)
        entry.timer = self._timers.add(at_ms, partial(self._tick, entry))

    def repeat(self, interval_ms: int, call: Callable[[], None]) -> None:
        """Call every `interval_ms` until the host is closed: retention and the like, that concerns all machines."""

        def fire() -> None:
            call()
            self.repeat(interval_ms, call)

        if not self._is_closed:
            self._repeated[call] = self._timers.add(self._clock.monotonic_ms() + interval_ms, fire)

    def _tick(self, entry: EntryT) -> None:
        entry.timer = None
        self._on_tick(entry, Tick(self.now_ms))

    # ---- append, then answer

    def append(self, entry: EntryT, records: Sequence[StateRecord], then: Continuation[None] | None = None) -> None:
        """Append records of this machine; `then` is called when they are durable, before what `when_durable` holds."""
        assert self._state is not None, "the machines of this host append nothing"
        entry.appends_begun += 1

        def appended(error: HutongError | None) -> None:
            entry.appends_ended += 1
            entry.failure = error
            if then is not None:
                then(error)
            self._release(entry, error)

        self._state.append_all(records, appended)

    def when_durable(self, entry: EntryT, then: Continuation[None]) -> None:
        """Call `then` when all that was appended for this machine so far is durable, or with the error of an append.

        An answer may rest on any of those records, and a crash must not revert an answer.
        """
        # Nothing is under way: no closure is held, as for most answers of a machine that only reads.
        if entry.appends_ended == entry.appends_begun:
            then(entry.failure)
            return
        if entry.held is None:
            entry.held = deque()
        entry.held.append((entry.appends_begun, then))

    def _release(self, entry: EntryT, error: HutongError | None) -> None:
        # After a failure all that is held fails: any of it may rest on what is not on disk.
        while entry.held and (error is not None or entry.held[0][0] <= entry.appends_ended):
            entry.held.popleft()[1](error)


class ParkedCallers:
    """Callers that wait for replies of machines, each under a ticket; at most `waits_max`, shared fairly by clients.

    A machine names a caller by its ticket alone, and never learns of connections: a caller that is gone is answered
    nowhere.
    """

    __slots__ = ("_shares", "_tickets", "_waits")

    def __init__(self, name: str, timers: TimerWheel, waits_max: int) -> None:
        self._waits: WaitTable[Any] = WaitTable(name, timers, waits_max)
        self._shares = FairShares(name, waits_max)
        self._tickets = itertools.count(1)

    def __len__(self) -> int:
        return len(self._waits)

    def park(
        self,
        then: Callable[[ReplyT], None],
        otherwise: ReplyT,
        *,
        owner: Owner | None = None,
        holder: str = NOBODY,
        deadline_ms: int | None = None,
    ) -> int | None:
        """Park a caller until its reply, and return its ticket. `then` is called exactly once.

        It gets `otherwise` if no reply comes: at `deadline_ms`, at the end of `owner`, after a failure, or at once if
        there is no room for one more caller of `holder`. In the last case None is returned, and no event shall be fed.
        """
        # Asked before the table is: one client with many waits must not fill it for all others.
        if not self._shares.may_take(holder):
            then(otherwise)
            return None

        def settle(reply: Any) -> None:
            self._shares.release(holder)
            then(otherwise if isinstance(reply, HutongError) else reply)

        return self._park(settle, holder, owner, deadline_ms)

    def park_with_errors(self, then: Callable[[Any], None], deadline_ms: int | None = None) -> int | None:
        """Park a caller like `park`, but pass it the error that ends its wait: LimitExceeded if there is no room."""

        def settle(reply: Any) -> None:
            self._shares.release(NOBODY)
            then(reply)

        return self._park(settle, NOBODY, None, deadline_ms)

    def _park(
        self, settle: Callable[[Any], None], holder: str, owner: Owner | None, deadline_ms: int | None
    ) -> int | None:
        ticket = next(self._tickets)
        self._shares.take(holder)
        try:
            self._waits.park(ticket, settle, deadline_ms=deadline_ms, owner=owner)
        except LimitExceeded as error:
            settle(error)
            return None
        return ticket

    def answer(self, ticket: int, reply: object) -> None:
        """Answer the caller, unless it is gone."""
        self._waits.resume(ticket, reply)

    def settle(self, ticket: int, reply: object, error: HutongError | None) -> None:
        """Answer the caller, or let it have its `otherwise` where there is an error."""
        if error is None:
            self._waits.resume(ticket, reply)
        else:
            self._waits.fail_all(ticket, error)

    def close(self, error: HutongError) -> None:
        """Answer all callers with their `otherwise`, and every later one at once."""
        self._waits.close(error)

    def check_invariants(self) -> None:
        self._waits.check_invariants()
        self._shares.check_invariants()
        assert self._shares.taken == len(self._waits)
