"""Run actors on a loop: one actor in each loop iteration, so that everything else on the loop makes progress.

Strategy: the sender of a message parks its continuation under the message's number, with a deadline and an owner; it
ends exactly once: with the result, with the error of the work, with Expired, with OwnerGone, or with LimitExceeded
where the message was refused. Work that has to wait for something returns UNFINISHED and is called again once that has
come; the time between does not count as its actor's.

Decides nothing (`machine.py`). Knows nothing of what the work is.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, Generic, TypeVar

from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, LimitExceeded
from hutong.foundation.waiting.pending import Continuation
from hutong.foundation.waiting.table import Owner, ParkedWait, WaitTable
from hutong.scheduler.machine import (
    Instruction,
    Key,
    Process,
    Processed,
    Refuse,
    Scheduler,
    Sent,
    TurnBegun,
    Wake,
    Withdrawn,
    Woken,
)

T = TypeVar("T")


class Unfinished(Enum):
    UNFINISHED = 0


UNFINISHED: Final = Unfinished.UNFINISHED
"""Returned by work that must be called again after it was woken."""

Work = Callable[[Callable[[], None]], T | Unfinished]
"""Does a message's work, or a part of it. It is given what wakes it, to be called once or not at all, also before it
returns. Raises HutongError to end the message with an error."""


class _ParkedMessage(Generic[T]):
    __slots__ = ("is_begun", "key", "ticket", "work")

    def __init__(self, key: Key, work: Work[T]) -> None:
        self.key = key
        self.work = work
        self.ticket: ParkedWait[T] | None = None  # until it is parked
        self.is_begun = False


class FairExecutor:
    """Actors on one loop. `call_soon` runs a callback in the next loop iteration.

    Figures: turns_total, busy_us, held, refused_total.
    """

    def __init__(
        self,
        machine: Scheduler,
        waits: WaitTable[Any],
        clock: Clock,
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self.refused_total = 0
        self.busy_us = 0  # time that turns took on the loop
        self._machine = machine
        self._waits = waits
        self._clock = clock
        self._call_soon = call_soon
        self._messages: dict[int, _ParkedMessage[Any]] = {}  # those that the machine knows
        self._sent_total = 0
        self._is_armed = False

    def send(
        self,
        key: Key,
        work: Work[T],
        then: Continuation[T],
        *,
        cost: int = 0,
        weight: int = 1,
        deadline_ms: int | None = None,
        owner: Owner | None = None,
    ) -> None:
        """Let the actor `key` do `work` when its turn comes; `then` is called exactly once, perhaps at once.

        `cost` counts against the bound of all messages in flight. `weight` is the actor's share from now on.
        `deadline_ms` is absolute, in monotonic milliseconds.
        """
        self._sent_total += 1
        number = self._sent_total
        message = _ParkedMessage(key, work)

        def ended(outcome: T | HutongError) -> None:
            self._withdraw(number, key)
            then(outcome)

        try:
            message.ticket = self._waits.park(number, ended, deadline_ms=deadline_ms, owner=owner)
        except LimitExceeded as error:
            self.refused_total += 1
            then(error)
            return
        # Not so if the owner or the table has ended: then `park` has called `then` already.
        if message.ticket.is_waiting:
            self._messages[number] = message
            self._follow(self._machine.handle(Sent(key, number, cost, weight)))

    @property
    def turns_total(self) -> int:
        return self._machine.turns_total

    @property
    def held(self) -> int:
        """Messages that are not done."""
        return len(self._messages)

    def close(self, error: HutongError) -> None:
        """Fail every message that is not done, and from now on each new one at once."""
        self._waits.close(error)

    def _turn(self) -> None:
        self._is_armed = False
        self._follow(self._machine.handle(TurnBegun()))

    def _follow(self, instructions: list[Instruction]) -> None:
        """Carry out the machine's instructions, up to the end of the turn if there is one."""
        while instructions:
            process: Process | None = None
            for instruction in instructions:
                match instruction:
                    case Process():
                        process = instruction
                    case Refuse():
                        self._refuse(instruction)
                    case Wake():
                        self._arm()
            if process is None:
                return
            instructions = self._process(process)

    def _arm(self) -> None:
        # One turn in each iteration: sockets and timers get theirs between two.
        if not self._is_armed:
            self._is_armed = True
            self._call_soon(self._turn)

    def _refuse(self, refuse: Refuse) -> None:
        self.refused_total += 1
        ticket = self._messages.pop(refuse.message).ticket
        assert ticket is not None
        ticket.fail(LimitExceeded(refuse.limit, refuse.maximum))

    def _process(self, process: Process) -> list[Instruction]:
        message = self._messages[process.message]
        ticket = message.ticket
        assert ticket is not None
        message.is_begun = True
        begun_us = self._clock.monotonic_us()
        is_done = is_fault = True
        try:
            if ticket.is_waiting:  # else its continuation has ended: only its cost is given back
                is_done = self._work(process.message, message, ticket)
            is_fault = False
        finally:  # also when a fault of ours passes through here, the others go on
            if is_done:
                del self._messages[process.message]
            used_us = self._clock.monotonic_us() - begun_us
            self.busy_us += used_us
            instructions = self._machine.handle(Processed(used_us, is_done, ends_turn=is_fault))
            # The exception passes on, so nobody would carry out these instructions.
            if is_fault:
                self._follow(instructions)
        return instructions

    def _work(self, number: int, message: _ParkedMessage[T], ticket: ParkedWait[T]) -> bool:
        """Do one step of the work. Returns True when it is done."""
        is_woken = False

        def wake() -> None:
            nonlocal is_woken
            # Work may pass `wake` on to several events: the message continues once.
            if not is_woken:
                is_woken = True
                self._follow(self._machine.handle(Woken(message.key, number)))

        try:
            result = message.work(wake)
        except HutongError as error:
            # It needs no second step any more, although something may still wake it.
            is_woken = True
            ticket.fail(error)
            return True
        # `wake` may have been called before: then the machine lets the message continue in a later turn.
        if result is UNFINISHED:
            return False
        is_woken = True
        ticket.resume(result)
        return True

    def _withdraw(self, number: int, key: Key) -> None:
        """The continuation has ended. Its message goes too, unless it was begun: then its work must come to an end."""
        message = self._messages.get(number)
        if message is not None and not message.is_begun:
            del self._messages[number]
            self._follow(self._machine.handle(Withdrawn(key, number)))
