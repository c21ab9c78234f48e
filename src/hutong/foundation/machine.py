"""The contract of every state machine: events in, instructions out, and the time of its next tick.

Strategy: a machine changes only in `handle`, and returns as instructions all that is to be done in the world. It reads
no clock: times arrive with its events. So a test plays any history without a loop, and a driver (`machine_host.py`) is
the only part with side effects. The model is etcd's raft: messages and ticks in, entries to persist and messages out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

EventT_contra = TypeVar("EventT_contra", contravariant=True)
InstructionT_co = TypeVar("InstructionT_co", covariant=True)
ReplyT_co = TypeVar("ReplyT_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Tick:
    """The time that `next_tick_ms` asked for has come. An early tick is allowed, and changes nothing."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class Answer(Generic[ReplyT_co]):
    """Answer the caller that waits under this ticket. A machine answers each ticket exactly once."""

    ticket: int
    reply: ReplyT_co


class Machine(Protocol[EventT_contra, InstructionT_co]):
    """A state machine. Each kind has its own events and instructions; `Tick` is an event of all that have time-outs."""

    def handle(self, event: EventT_contra, /) -> Sequence[InstructionT_co]:
        """Take one event, and return what is to be done, in order."""
        ...

    def next_tick_ms(self) -> int | None:
        """Return the time at which a `Tick` is due, never too late; None while nothing can time out."""
        ...
