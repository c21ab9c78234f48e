"""The controller's driver: stores what its machine decides in the metadata, and answers when that is on disk.

Strategy: made when this node leads the metadata and has applied all of it, and closed when it steps down. A caller
gets an error where a decision could not be stored: then it is unknown whether it holds, and the next controller knows.

Contains no decision (`machine.py`). Knows no connections. Belongs to one loop.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from hutong.cluster.controller.commands import CommandReply, ControllerCommand
from hutong.cluster.controller.machine import ControllerMachine
from hutong.cluster.controller.messages import (
    AskToYield,
    CommandAsked,
    ControllerEvent,
    ControllerInstruction,
    LiveNode,
    NodesChanged,
    ProposalReply,
    ReplicaFailed,
    ReplicaShort,
    SetProposed,
    StoreDecisions,
    Yielded,
)
from hutong.cluster.controller.preferred import PREFERRED_WAIT_MS
from hutong.cluster.controller.proposals import GroupProposal
from hutong.cluster.image import ClusterImage
from hutong.cluster.records import FoundingSettings
from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, OwnerGone
from hutong.foundation.machine import Answer, Tick
from hutong.foundation.machine_host import MachineEntry, MachineHost, ParkedCallers, StatePort
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.pending import Continuation

CALLERS_MAX: Final = 10_000
_log = logging.getLogger("hutong.cluster")

_Entry: TypeAlias = MachineEntry[str, ControllerMachine]


class ControllerDriver:
    """One time of this node as controller. `load`, then `nodes_changed` with each change of who is alive."""

    def __init__(
        self,
        clock: Clock,
        timers: TimerWheel,
        state: StatePort,
        on_failure: Callable[[HutongError], None],
        ask_to_yield: Callable[[AskToYield, Continuation[None]], None],
        *,
        preferred_wait_ms: int = PREFERRED_WAIT_MS,
    ) -> None:
        """`on_failure` is called once, when a decision could not be stored: this controller decides nothing more.

        `ask_to_yield` asks a leader; an error means that it did not answer.
        """
        self._ask_to_yield = ask_to_yield
        self._clock = clock
        self._preferred_wait_ms = preferred_wait_ms
        self._on_failure = on_failure
        self._failure: HutongError | None = OwnerGone("the controller has not begun")
        self._host: MachineHost[_Entry, ControllerEvent, ControllerInstruction] = MachineHost(
            clock, timers, state, self._feed
        )
        self._callers = ParkedCallers("controller waits", timers, CALLERS_MAX)
        self._entry: _Entry | None = None

    @property
    def machine(self) -> ControllerMachine | None:
        """The machine, to look at."""
        return None if self._entry is None else self._entry.machine

    def load(self, image: ClusterImage, settings: FoundingSettings, names: Iterable[str]) -> None:
        """Begin from what the metadata says. A cluster that has no settings yet is founded with these.

        `names` are all groups that there shall be, without `metadata`.
        """
        machine = ControllerMachine(image, settings, names, preferred_wait_ms=self._preferred_wait_ms)
        self._entry, self._failure = self._host.put(MachineEntry("controller", machine)), None

    def nodes_changed(self, live: Mapping[int, LiveNode]) -> None:
        if self._entry is not None and self._failure is None:
            self._feed(self._entry, NodesChanged(live, self._clock.monotonic_ms()))

    def replica_failed(self, node: int, incarnation: int, group: str) -> None:
        """Note that a life of a node can neither lead nor follow the group any more."""
        if self._entry is not None and self._failure is None:
            self._feed(self._entry, ReplicaFailed(node, incarnation, group, self._clock.monotonic_ms()))

    def replica_short(self, node: int, incarnation: int, group: str, *, is_short: bool) -> None:
        """Note that a life of a node cannot write the group for now, or can again."""
        if self._entry is not None and self._failure is None:
            event = ReplicaShort(node, incarnation, group, is_short, self._clock.monotonic_ms())
            self._feed(self._entry, event)

    def propose(self, node: int, incarnation: int, proposal: GroupProposal, then: Continuation[ProposalReply]) -> None:
        """Take the proposal of a life of a node. After an error its outcome is unknown: it may be asked again."""
        ticket = self._park(then)
        if ticket is None:
            return
        assert self._entry is not None
        now_ms, followers = self._clock.monotonic_ms(), frozenset(proposal.followers)
        event = SetProposed(
            ticket, node, incarnation, proposal.group, proposal.epoch, proposal.version, followers, now_ms
        )
        self._feed(self._entry, event)

    def ask(self, command: ControllerCommand, then: Continuation[CommandReply]) -> None:
        """Carry out an operator's command. After an error its outcome is unknown."""
        ticket = self._park(then)
        if ticket is None:
            return
        assert self._entry is not None
        self._feed(self._entry, CommandAsked(ticket, command, self._clock.monotonic_ms()))

    def close(self) -> None:
        """Decide nothing more: this node does not lead the metadata any more, or is stopping."""
        self._failure = self._failure or OwnerGone("this node is the controller no more")
        self._host.close()
        self._callers.close(self._failure)

    def _park(self, then: Callable[[Any], None]) -> int | None:
        if self._failure is not None:
            then(self._failure)
            return None
        return self._callers.park_with_errors(then)

    def _feed(self, entry: _Entry, event: ControllerEvent | Tick) -> None:
        if self._failure is not None:
            return
        for instruction in self._host.handle(entry, event):
            match instruction:
                case StoreDecisions(records):
                    self._host.append(entry, records, self._stored)
                case AskToYield():
                    self._ask_to_yield(instruction, partial(self._yielded, instruction))
                case Answer(ticket, reply):
                    self._host.when_durable(entry, partial(self._callers.settle, ticket, reply))

    def _yielded(self, asked: AskToYield, error: HutongError | None) -> None:
        if error is None and self._entry is not None:
            self._feed(self._entry, Yielded(asked.group, asked.epoch, self._clock.monotonic_ms()))

    def _stored(self, error: HutongError | None) -> None:
        if error is None or self._failure is not None:
            return
        _log.warning("a decision of the controller could not be stored: %s", error)
        self._failure = error
        self._host.close()
        self._callers.close(error)
        self._on_failure(error)
