"""The group `metadata` as one node sees it: who leads it, and who is in sync. Its leader is the controller.

    never written     ──▶ this node founds it, alone
    its leader lives  ──▶ the leader takes out who is gone, takes its own proposals, and adds a replica
    it is out of reach  ──▶ the leader lets a member lead that reaches a majority, also one that has left a small set
    its leader is gone ─▶ the first live member is a candidate at once, each further one a while later
                                    │
                                    ▼
                              WriteRegister ──▶ written: ApplyState    refused: read first    unknown: the same again

Strategy: every node has such a machine, and they agree by compare-and-set on the register alone. One write at a time,
each from the newest value that was read. A write of unknown outcome is repeated as it was, for both cannot succeed;
nothing else is written meanwhile. While the coordinator does not answer, nobody is elected and everything goes on.

A proposal that names a life of a node which is not known here yet is held for a while: a leader that were refused at
once would propose the same at once. So is one after which a minority would commit, without a majority that lives: if
they reach each other, one of them shall lead, and only a member may. One that names a life which is over, or a node
that is short of space, is refused at once: until then the leader waits for acknowledgements of that node.

Knows nothing of coordinators, connections or clocks.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Final

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
from hutong.cluster.set_rules import (
    candidates,
    elected,
    founded,
    is_led,
    needed_in_sync,
    problem_of,
    with_proposal,
    with_replicas,
    without_nodes,
)
from hutong.foundation.machine import Tick
from hutong.replication.group_state import PartitionGroupState

METADATA_NAME: Final = "metadata"
STAND_MS: Final = 500  # between one candidate and the next
RETRY_MS: Final = 1_000  # before a write of unknown outcome is repeated
HOLD_MS_MAX: Final = 1_000  # for a proposal that names a life of a node that is not registered here yet
REPLICAS_DEFAULT: Final = 3


class MetadataElection:
    """The machine of one life of one node. `state` is the newest that was read or written."""

    def __init__(
        self,
        node: int,
        incarnation: int,
        *,
        replica_count: int = REPLICAS_DEFAULT,
        min_in_sync: int = 0,
        may_found: bool = True,
    ) -> None:
        """`may_found` False: this node was a part of a cluster before, so a register without a value is a fault."""
        self.state: PartitionGroupState | None = None
        self._node = node
        self._incarnation = incarnation
        self._replica_count = replica_count
        self._min_in_sync = min_in_sync
        self._may_found = may_found
        self._live: Mapping[int, int] | None = None  # until it is known nobody is taken for dead
        self._departed: set[tuple[int, int]] = set()  # lives of nodes that were live, and are not
        self._restarted: set[int] = set()  # members that have another life than when they became members
        self._withdrawn: frozenset[int] = frozenset()  # they replicate until another node does
        self._forgotten: frozenset[int] = frozenset()
        self._out_of_reach: frozenset[int] = frozenset()  # they reach no majority, and others do
        self._short: dict[
            int, int
        ] = {}  # lives of nodes that cannot write for now: this one; all that its leader knows
        self._register_version: int | None = None  # of the value that was read; None: another one must be read first
        self._spare_version: int | None = None  # while an older value was read: the version of the newest one
        self._write: WriteRegister | None = None  # on its way, or of unknown outcome
        self._retry_at_ms: int | None = None  # not None while the outcome of the write is unknown
        self._proposal: SetProposedHere | None = None
        self._vacant_since_ms: int | None = None

    # ---- questions

    @property
    def is_leading(self) -> bool:
        """Return True if this life of this node leads, as far as it knows."""
        state = self.state
        return state is not None and (state.leader, state.leader_incarnation) == (self._node, self._incarnation)

    def next_tick_ms(self) -> int | None:
        due_ms = [self._retry_at_ms]
        # While a write is on its way, or a value must be read first, nothing can be decided.
        if self._write is None and self._proposal is not None:
            due_ms.append(self._proposal.now_ms + HOLD_MS_MAX)
        if self._write is None and self._register_version is not None:
            due_ms.append(self._stand_at_ms())
        return min((each for each in due_ms if each is not None), default=None)

    def check_invariants(self) -> None:
        assert self.state is None or problem_of(self.state) is None
        assert self._write is None or problem_of(self._write.state) is None
        assert self._retry_at_ms is None or self._write is not None

    # ---- events

    def handle(self, event: MetadataEvent) -> list[MetadataInstruction]:
        match event:
            case RegisterRead(version, state, now_ms):
                instructions = self._read(version, state, now_ms)
            case LiveChanged(live, now_ms):
                instructions = self._live_changed(live)
            case RegisterWritten(version, state, now_ms):
                self._write = self._retry_at_ms = None
                instructions = self._read(version, state, now_ms)
            case RegisterRefused(now_ms):
                instructions = self._refused()
            case RegisterUnknown(now_ms):
                self._retry_at_ms = now_ms + RETRY_MS
                instructions = []
            case SetProposedHere(now_ms=now_ms):
                instructions = self._proposed(event)
            case MetadataShort(now_ms=now_ms) | ReachChanged(now_ms=now_ms) | IntentsChanged(now_ms=now_ms):
                self._note(event)
                instructions = []
            case Tick(now_ms):
                instructions = self._expire(now_ms)
        return [*instructions, *self._refuse_unable(), *self._decide(now_ms)]

    def _read(self, version: int, state: PartitionGroupState | None, now_ms: int) -> list[MetadataInstruction]:
        known = self.state
        if known is not None and (state is None or _age(state) < _age(known)):
            return self._read_older(version)
        self._register_version, self._spare_version = version, None
        if self._write is not None and self._retry_at_ms is not None:
            # The value is another one: the write of unknown outcome was this one, or can never succeed.
            if version > self._write.version:
                self._write = self._retry_at_ms = None
            else:
                self._retry_at_ms = now_ms  # the coordinator answers again
        # Written values are read too, so the same one comes twice.
        if state is None or state == known:
            return []
        # The others tell their leader alone, and each one anew.
        if known is None or known.leader != state.leader:
            self._short = {node: life for node, life in self._short.items() if node == self._node}
        self.state, self._vacant_since_ms = state, None
        self._restarted &= state.in_sync
        return [ApplyState(state), *self._refuse_overtaken()]

    def _read_older(self, version: int) -> list[MetadataInstruction]:
        """Note a value that is older than the known one: it comes late, or the coordinator has lost its memory.

        The leader tries to write the present state over it, which can succeed in the second case alone.
        """
        if self.is_leading and version != self._register_version and self._spare_version is None:
            self._register_version, self._spare_version = version, self._register_version
            if self._retry_at_ms is not None:
                self._write = self._retry_at_ms = None
        return []

    def _refused(self) -> list[MetadataInstruction]:
        assert self._write is not None
        # What made it fail may have been read already; else it is read before anything else is done.
        if self._register_version == self._write.version:
            self._register_version, self._spare_version = self._spare_version, None
        self._write = self._retry_at_ms = None
        return []

    def _live_changed(self, live: Mapping[int, int]) -> list[MetadataInstruction]:
        before, self._live = self._live or {}, dict(live)
        self._departed = (self._departed | set(before.items())) - set(live.items())
        members = set() if self.state is None else set(self.state.in_sync)
        if self._write is not None:
            members |= self._write.state.in_sync
        self._restarted |= {node for node in members if node in before and live.get(node) != before[node]}
        self._forgotten = self._forgotten - live.keys()
        return []

    def _note(self, event: MetadataShort | ReachChanged | IntentsChanged) -> None:
        """Note who should not lead, or not replicate: decisions go by it."""
        match event:
            case MetadataShort(node, incarnation, True):
                self._short[node] = incarnation
            case MetadataShort(node):
                self._short.pop(node, None)
            case ReachChanged(out_of_reach):
                self._out_of_reach = out_of_reach
            case IntentsChanged(withdrawn, forgotten):
                self._withdrawn = withdrawn
                self._forgotten = self._forgotten | forgotten

    def _unable(self, state: PartitionGroupState, live: Mapping[int, int]) -> frozenset[int]:
        """The nodes that are short of space, unless all members are: then they go on as they are."""
        short = frozenset(node for node, life in self._short.items() if live.get(node) == life)
        able = [node for node in state.in_sync if node in live and node not in short]
        return short if able else frozenset()

    def _proposed(self, event: SetProposedHere) -> list[MetadataInstruction]:
        earlier, self._proposal = self._proposal, event
        refused = [] if earlier is None or earlier.version == event.version else [RefuseProposal(earlier.version)]
        return [*refused, *self._refuse_overtaken()]

    def _refuse_overtaken(self) -> Iterator[MetadataInstruction]:
        """Refuse a proposal for another version than the present one, or of one who leads no more."""
        proposal = self._proposal
        if proposal is None or self.state is None:
            return
        if proposal.version != self.state.version or not self.is_leading:
            self._proposal = None
            yield RefuseProposal(proposal.version)

    def _refuse_unable(self) -> Iterator[MetadataInstruction]:
        """Refuse a proposal to take in a life that is over, or that cannot write."""
        proposal, state = self._proposal, self.state
        if proposal is None or state is None or self._write is not None:
            return
        unable = self._departed | {(node, self._short[node]) for node in self._unable(state, self._live or {})}
        if any(node not in state.in_sync for node, _ in unable.intersection(proposal.followers)):
            self._proposal = None
            yield RefuseProposal(proposal.version)

    def _expire(self, now_ms: int) -> list[MetadataInstruction]:
        proposal = self._proposal
        # It waits for its turn while a write is on its way; nothing can be said of it before.
        if proposal is None or self._write is not None or now_ms < proposal.now_ms + HOLD_MS_MAX:
            return []
        self._proposal = None
        return [RefuseProposal(proposal.version)]

    # ---- decisions

    def _decide(self, now_ms: int) -> list[MetadataInstruction]:
        if self._write is not None:
            return self._repeat(now_ms)
        if self._register_version is None or self._live is None:
            return []
        state = self._wanted(self._live, now_ms)
        return [] if state is None else self._start_write(state)

    def _start_write(self, state: PartitionGroupState) -> list[MetadataInstruction]:
        assert self._register_version is not None
        self._write = WriteRegister(self._register_version, state)
        return [self._write]

    def _repeat(self, now_ms: int) -> list[MetadataInstruction]:
        assert self._write is not None
        if self._retry_at_ms is None or now_ms < self._retry_at_ms:
            return []
        self._retry_at_ms = None
        is_election = self.state is not None and self._write.state.epoch > self.state.epoch
        if is_election and self.state is not None and is_led(self.state, self._live or {}):
            # The leader is back. Should the write succeed after all, it is read as any other.
            self._write = None
            return self._decide(now_ms)
        return [self._write]

    def _wanted(self, live: Mapping[int, int], now_ms: int) -> PartitionGroupState | None:
        """The next state that this node would have, or None."""
        state = self.state
        if state is None:
            # Another node's value may be unreadable to us, but then its version is not 0.
            may_found = self._may_found and self._register_version == 0
            return founded(METADATA_NAME, (self._node,), self._incarnation, self._min_in_sync) if may_found else None
        if not is_led(state, live):
            return self._stand(state, live, now_ms)
        self._vacant_since_ms = None
        if not self.is_leading:
            return None
        if self._spare_version is not None:
            return replace(state, version=state.version + 1)
        return self._improved(state, live)

    def _stand(self, state: PartitionGroupState, live: Mapping[int, int], now_ms: int) -> PartitionGroupState | None:
        if self._vacant_since_ms is None:
            self._vacant_since_ms = now_ms
        stand_at_ms = self._stand_at_ms()
        if stand_at_ms is None or now_ms < stand_at_ms:
            return None
        staying = live.keys() - self._restarted
        return elected(state, self._node, self._incarnation, staying)

    def _stand_at_ms(self) -> int | None:
        """The time at which this node may be elected, or None while it cannot, or somebody leads."""
        if self._vacant_since_ms is None or self.state is None or self._live is None:
            return None
        # Who led before, in another life, has lost what it held in memory alone.
        avoided = {self.state.leader, *self._restarted, *self._withdrawn, *self._short, *self._out_of_reach}
        order = candidates(self.state, self._live, avoided)
        if self._node not in order:
            return None
        return self._vacant_since_ms + order.index(self._node) * STAND_MS

    def _improved(self, state: PartitionGroupState, live: Mapping[int, int]) -> PartitionGroupState | None:
        """The next state that its leader wants."""
        unable = self._unable(state, live)
        gone = {node for node in state.in_sync if node not in live or node in self._restarted or node in unable}
        without = without_nodes(state, gone - {self._node})
        if without is not state:
            return without
        if self._proposal is not None and not self._leaves_a_majority(self._proposal, state, live):
            able = {node: life for node, life in live.items() if node not in unable}
            proposed = with_proposal(state, self._proposal.followers, able, self._needed(state.replicas))
            if proposed is not None:
                self._proposal = None
                return proposed
        return self._handed_over(state, live) or self._with_other_replicas(state, live)

    def _leaves_a_majority(self, proposal: SetProposedHere, state: PartitionGroupState, live: Collection[int]) -> bool:
        """Return True if the set would commit without members that may be a majority by themselves.

        Only with `cluster.min_in_sync` below the majority: who leaves a set that commits may not lead any more.
        """
        staying = {self._node, *(node for node, _ in proposal.followers)}
        outside = {node for node in state.replicas if node in live} - staying
        is_majority = 2 * len(outside) > len(state.replicas)
        return is_majority and len(staying) >= state.min_in_sync and not outside.isdisjoint(state.in_sync)

    def _handed_over(self, state: PartitionGroupState, live: Mapping[int, int]) -> PartitionGroupState | None:
        """Let another member lead, if this one shall not."""
        # Who is short of space or out of reach leaves the set, too: nothing would be committed until it has stored it.
        leaving = self._unable(state, live) | self._out_of_reach
        avoided = self._withdrawn | leaving
        # A leader out of reach is soon alone in a set that commits nothing, and those who left it have all there is.
        able = state.in_sync | state.eligible if self._node in self._out_of_reach else state.in_sync
        successors = [node for node in candidates(state, live) if node in able and node not in avoided]
        if self._node not in avoided or not successors:
            return None
        return elected(state, successors[0], live[successors[0]], live.keys() - leaving)

    def _with_other_replicas(self, state: PartitionGroupState, live: Mapping[int, int]) -> PartitionGroupState | None:
        known = tuple(node for node in state.replicas if node not in self._forgotten)
        if known != state.replicas and state.in_sync & frozenset(known):
            return with_replicas(state, known, self._needed(known))
        # One at a time: the next one comes when all that live are in sync.
        if any(node in live and node not in state.in_sync for node in state.replicas):
            return None
        staying = tuple(node for node in state.replicas if node not in self._withdrawn or node == self._node)
        free = sorted(node for node in live if node not in state.replicas and node not in self._withdrawn)
        replicas = (*state.replicas, *free[:1]) if len(staying) < self._replica_count else staying
        return None if replicas == state.replicas else with_replicas(state, replicas, self._needed(replicas))

    def _needed(self, replicas: tuple[int, ...]) -> int:
        count = min(len(replicas), self._replica_count)
        # A majority is enough, however many replicas records need: somebody must lead what a dead node has led.
        return min(needed_in_sync(count, self._min_in_sync), needed_in_sync(count))


def _age(state: PartitionGroupState) -> tuple[int, int]:
    return state.epoch, state.version
