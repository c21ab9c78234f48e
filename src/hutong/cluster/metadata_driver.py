"""Hosts the election of the group `metadata`: feeds it the register, and writes the register for it.

Decides nothing. All calls come on the loop.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from hutong.cluster.coordinator.port import Coordinator, CoordinatorRegister
from hutong.cluster.metadata_machine import METADATA_NAME, MetadataElection
from hutong.cluster.metadata_messages import (
    ApplyState,
    IntentsChanged,
    LiveChanged,
    MetadataEvent,
    MetadataInstruction,
    MetadataShort,
    ReachChanged,
    RefuseProposal,
    RegisterRead,
    RegisterRefused,
    RegisterUnknown,
    RegisterWritten,
    SetProposedHere,
    WriteRegister,
)
from hutong.cluster.records import decode_group, encode_group
from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, ProtocolError, Refused
from hutong.foundation.machine_host import MachineEntry, MachineHost, TimerPort
from hutong.replication.group_state import PartitionGroupState
from hutong.replication.leading.messages import ProposeSet

_log: Final = logging.getLogger("hutong.cluster")

ElectionEntry = MachineEntry[str, MetadataElection]


class MetadataElectionDriver:
    """One node's part in the election. `apply` gets each state, `refuse` the version of a proposal that is refused."""

    def __init__(
        self,
        election: MetadataElection,
        coordinator: Coordinator,
        clock: Clock,
        timers: TimerPort,
        *,
        apply: Callable[[PartitionGroupState], None],
        refuse: Callable[[int], None],
    ) -> None:
        self._coordinator = coordinator
        self._clock = clock
        self._apply = apply
        self._refuse = refuse
        self._host: MachineHost[ElectionEntry, MetadataEvent, MetadataInstruction] = MachineHost(
            clock, timers, None, self._feed
        )
        self._entry = self._host.put(MachineEntry(METADATA_NAME, election))

    @property
    def state(self) -> PartitionGroupState | None:
        return self._entry.machine.state

    def register_read(self, register: CoordinatorRegister) -> None:
        """Note the register's present value. One that no node can have written is logged, and changes nothing."""
        try:
            state = decode_group(register.value) if register.version else None
        except ProtocolError as error:
            _log.critical("the coordinator's register has what no node of this version writes: %s", error)
            return
        self._feed(self._entry, RegisterRead(register.version, state, self._host.now_ms))

    def live_changed(self, live: Mapping[int, int]) -> None:
        """Note the incarnations of all nodes that are alive."""
        self._feed(self._entry, LiveChanged(live, self._host.now_ms))

    def intents_changed(self, drained: frozenset[int], forgotten: frozenset[int]) -> None:
        """Note the nodes that shall have no replicas, and those that are gone for good."""
        self._feed(self._entry, IntentsChanged(drained, forgotten, self._host.now_ms))

    def short_changed(self, node: int, incarnation: int, *, is_short: bool) -> None:
        """Note that a life of a node cannot write the metadata for now, or can again."""
        self._feed(self._entry, MetadataShort(node, incarnation, is_short, self._host.now_ms))

    def reach_changed(self, out_of_reach: frozenset[int]) -> None:
        """Note the nodes that reach no majority while others do."""
        self._feed(self._entry, ReachChanged(out_of_reach, self._host.now_ms))

    def propose(self, proposal: ProposeSet) -> None:
        """Take a proposal of this node's replica, which leads."""
        self._feed(self._entry, SetProposedHere(proposal.version, proposal.followers, self._host.now_ms))

    def close(self) -> None:
        self._host.close()

    def _feed(self, entry: ElectionEntry, event: MetadataEvent) -> None:
        if self._host.is_closed:
            return
        for instruction in self._host.handle(entry, event):
            match instruction:
                case WriteRegister(version, state):
                    written = partial(self._written, state)
                    self._coordinator.compare_and_set(version, encode_group(state), written)
                case ApplyState(state):
                    self._apply(state)
                case RefuseProposal(version):
                    self._refuse(version)

    def _written(self, state: PartitionGroupState, outcome: CoordinatorRegister | HutongError) -> None:
        now_ms = self._host.now_ms
        if isinstance(outcome, CoordinatorRegister):
            self._feed(self._entry, RegisterWritten(outcome.version, state, now_ms))
        elif isinstance(outcome, Refused):
            self._feed(self._entry, RegisterRefused(now_ms))
        else:
            self._feed(self._entry, RegisterUnknown(now_ms))
