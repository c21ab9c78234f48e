"""A role in a partition group, with its machine: what leading and following have in common.

Strategy: events are handled one after the other. One that comes while another is handled waits for its turn, because
carrying out an instruction may cause further events: a watermark that moves lets somebody append. So a machine sees the
events in order, and its instructions are carried out in order.

Knows nothing of the events.
"""

from collections import deque
from typing import Any, Final, Generic, TypeVar

from hutong.foundation.clock import Clock
from hutong.foundation.machine import Machine, Tick
from hutong.foundation.machine_host import MachineEntry, MachineHost
from hutong.foundation.timers import TimerWheel

MachineT = TypeVar("MachineT", bound=Machine[Any, Any])
EventT = TypeVar("EventT")
InstructionT = TypeVar("InstructionT")

_KEY: Final = "role"


class Role(Generic[MachineT, EventT, InstructionT]):
    """One machine that runs until `end`."""

    def __init__(self, machine: MachineT, clock: Clock, timers: TimerWheel) -> None:
        self.machine = machine
        self.has_ended = False
        self._clock = clock
        self._events: deque[Any] = deque()
        self._is_busy = False
        self._host: MachineHost[MachineEntry[str, MachineT], Any, InstructionT] = MachineHost(
            clock, timers, None, self._ticked
        )
        self._entry = self._host.put(MachineEntry(_KEY, machine))

    @property
    def now_ms(self) -> int:
        return self._clock.monotonic_ms()

    def feed(self, event: EventT) -> None:
        """Handle the event now, or after the one that is being handled."""
        self._events.append(event)
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._events and not self.has_ended:
                for instruction in self._host.handle(self._entry, self._events.popleft()):
                    if not self.has_ended:
                        self.obey(instruction)
        finally:
            self._is_busy = False

    def obey(self, instruction: InstructionT) -> None:
        """Carry out an instruction."""
        raise NotImplementedError

    def end(self) -> None:
        """Do nothing more."""
        self.has_ended = True
        self._events.clear()
        self._host.remove(self._entry)
        self._host.close()

    def _ticked(self, _: MachineEntry[str, MachineT], tick: Tick) -> None:
        self.feed(tick)  # type: ignore[arg-type]  # both machines have it among their events
