"""A node in its cluster: its session with the coordinator, its links, its replicas, and who leads the metadata.

    coordinator ── members, register ──▶ ┌───────────────┐ ◀── links, replica messages ── peers
                                         │ ClusterDriver │
    metadata's log ── records ─────────▶ └───────────────┘ ──▶ news ── listener: the broker of this node
                                           │           ▲
                        states, messages ──▼           │ led, stepped down, proposals
                                         GroupReplica of each group

Strategy: everything that a replica, the controller and the broker must know of other nodes passes here, in the order in
which it happened. The group `metadata` is agreed on by the coordinator's register; all others by records of the
metadata's log, which every node applies as they are committed.

Decides nothing itself: the machines do. Knows nothing of topics.
"""

import logging
from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

from hutong.cluster.coordinator.port import Coordinator, CoordinatorRegister, NodeRegistration, SessionState
from hutong.cluster.liveness import Liveness
from hutong.cluster.metadata_driver import MetadataElectionDriver
from hutong.cluster.metadata_inquiry import MetadataInquiry
from hutong.cluster.metadata_machine import METADATA_NAME, MetadataElection
from hutong.cluster.nodes import ClusterNode, NodeDescription, decode_description, encode_description
from hutong.cluster.peers.port import Peers
from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, ProtocolError
from hutong.foundation.timers import Timer, TimerWheel
from hutong.journal.journal import Journal
from hutong.replication.driver import GroupReplica
from hutong.replication.group_state import NO_LEADER, PartitionGroupState
from hutong.replication.leading.messages import ProposeSet
from hutong.replication.replica_messages import ReplicaMessage

LISTED_MS: Final = 10_000
"""A node that has gone is shown to clients for so long, about as Kafka does by its session. librdkafka drops a broker
that is no longer listed, and takes the partitions that it was about to move away from it for a second with it."""
_log: Final = logging.getLogger("hutong.cluster")


class ClusterListener(Protocol):
    """The node around the driver. All calls come on the loop."""

    def nodes_changed(self, live: Mapping[int, ClusterNode]) -> None:
        """Note all nodes that are alive, this one included; also called when others are within its reach."""

    def doubted_changed(self, doubted: frozenset[int]) -> None:
        """Note the nodes that are alive, but may be gone: no client should be sent there."""

    def group_changed(self, state: PartitionGroupState) -> None:
        """Note the newest state of a group."""

    def journal_opened(self, group: str, journal: Journal) -> None: ...

    def led(self, group: str, epoch: int) -> None:
        """Note that this node leads the group, and all that was committed before can be read."""

    def stepped_down(self, group: str) -> None: ...

    def journal_failed(self, group: str, error: HutongError) -> None: ...

    def proposed(self, state: PartitionGroupState, proposal: ProposeSet) -> None:
        """Hand a proposal of a group's leader to the controller. A refusal goes to the replica."""


class LinkedPeers(Peers, Protocol):
    """The links of this node, with the nodes whose addresses it is given."""

    def set_addresses(self, addresses: Mapping[int, tuple[str, int, int]]) -> None:
        """Link with these nodes: (host, port, incarnation) by number."""


class ClusterDriver:
    """Put a replica of each group into `replicas`, then call `start` once, then `close` once.

    `live` has the nodes that are alive, `doubted` those of them that may be gone, `unreached` those that this node has
    no link with, `out_of_reach` those that reach no majority while others do, `groups` the newest states.
    """

    def __init__(
        self,
        own: ClusterNode,
        *,
        coordinator: Coordinator,
        clock: Clock,
        timers: TimerWheel,
        listener: ClusterListener,
    ) -> None:
        self.own = own
        self.live: Mapping[int, ClusterNode] = {}
        self.doubted: frozenset[int] = frozenset()
        self.unreached: frozenset[int] = frozenset()
        self.out_of_reach: frozenset[int] = frozenset()
        self.groups: dict[str, PartitionGroupState] = {}
        self.session = SessionState.LOST
        self.replicas: dict[str, GroupReplica] = {}
        self.peers: LinkedPeers | None = None
        self._departed: dict[int, tuple[ClusterNode, int]] = {}  # with the time until which they are listed
        self._coordinator = coordinator
        self._clock = clock
        self._timers = timers
        self._listener = listener
        self._liveness = Liveness(own)
        self._election: MetadataElectionDriver | None = None
        self._inquiry = MetadataInquiry(self.groups, self.group_heard, clock, timers)
        self._recheck: Timer | None = None
        self._knows_members = False  # until then nobody may be taken for dead
        self._lacks_metadata = False
        self._unlinked: tuple[int, ...] = ()  # as the others know
        self._is_unproven = False  # its disk is empty, and it is not known whether that was so before
        self.has_lost_disk = False
        self._is_started = False
        self._is_closed = False

    @property
    def controller(self) -> int:
        """The node that leads the metadata, NO_LEADER while there is none or it is gone."""
        state = self.groups.get(METADATA_NAME)
        if state is None or state.leader not in self.live:
            return NO_LEADER
        return state.leader

    @property
    def is_cut_off(self) -> bool:
        """True while this node hears of no other node that was alive before, and others may go on without it.

        They may where this node does not hear of the coordinator either, or where the others reach each other.
        """
        is_heard = self.session is SessionState.CONNECTED and self.own.node not in self.out_of_reach
        if is_heard or self.peers is None:
            return False
        others = self.live.keys() - {self.own.node}
        return bool(others) and not any(self.peers.is_open(node) for node in others)

    def listed(self) -> Mapping[int, ClusterNode]:
        """The nodes that clients should know: those that are alive, and those that were a moment ago.

        A node that is cut off leaves itself out: a client that came to it would stay, and wait for what it cannot do.
        """
        now_ms = self._clock.monotonic_ms()
        self._departed = {node: each for node, each in self._departed.items() if now_ms < each[1]}
        if not self._departed and not self.is_cut_off:
            return self.live
        listed = {**{node: each for node, (each, _) in self._departed.items()}, **self.live}
        if self.is_cut_off:
            del listed[self.own.node]
        return dict(sorted(listed.items()))

    async def start(self, cluster_id: str, election: MetadataElection, *, may_join: bool) -> str:
        """Register this node; returns the cluster's id. News come from now on. Raises UsageError.

        The journal of the metadata is open. With nothing in it this node is dead for others until the register says
        that it is not in the set: an empty disk in the place of a lost one must not lead what others have.
        """
        self._election = MetadataElectionDriver(
            election,
            self._coordinator,
            self._clock,
            self._timers,
            apply=self.group_changed,
            refuse=self._metadata_refused,
        )
        if self.peers is not None:
            self._inquiry.begin(self.peers, self._linked)
        self._is_unproven = self.replicas[METADATA_NAME].journal.epochs.last < 1
        self._describe_own(self.own.description)
        registration = NodeRegistration(self.own.node, self.own.incarnation, encode_description(self.own.description))
        found = await self._coordinator.start(registration, cluster_id, self, may_join=may_join)
        self._is_started = True
        return found

    def describe(self, description: NodeDescription) -> None:
        """Let the others have another description of this node."""
        self._publish(description)
        self._settle()

    def _publish(self, description: NodeDescription) -> None:
        self._describe_own(description)
        if self._is_started and not self._is_closed:
            self._coordinator.describe(encode_description(self.own.description))

    def _describe_own(self, description: NodeDescription) -> None:
        whole = msgspec.structs.replace(
            description,
            lacks_metadata=self._lacks_metadata or self._is_unproven,
            unlinked=self._unlinked,
            origin=self.own.description.origin,
        )
        self.own = ClusterNode(self.own.node, self.own.incarnation, whole)
        self._liveness.describe_own(self.own)

    async def close(self) -> None:
        """Leave: the others take this node for gone. Replicas are closed by their owner."""
        self._is_closed = True
        self._inquiry.close()
        if self._recheck is not None:
            self._recheck.cancel()
        if self._election is not None:
            self._election.close()
        await self._coordinator.close()

    def group_changed(self, state: PartitionGroupState) -> None:
        """Note the state of a group, from the metadata's log or from the register. An older one changes nothing."""
        known = self.groups.get(state.name)
        if known is not None and (state.epoch, state.version) <= (known.epoch, known.version):
            return
        self.groups[state.name] = state
        if state.name == METADATA_NAME and self._is_unproven:
            self._prove(state)
        replica = self.replicas.get(state.name)
        if replica is not None:
            replica.apply(state)
        self._listener.group_changed(state)

    def group_heard(self, state: PartitionGroupState) -> None:
        """Note a state that another node tells. One after a split is left to the log, which tells of that first."""
        known = self.groups.get(state.name)
        if state.splits <= (0 if known is None else known.splits):
            self.group_changed(state)

    def intents_changed(self, drained: frozenset[int], forgotten: frozenset[int]) -> None:
        """Note what operators want of nodes, which concerns the replicas of the metadata, too."""
        if self._election is not None and not self._is_closed:
            self._election.intents_changed(drained, forgotten)

    def metadata_short(self, node: int, incarnation: int, *, is_short: bool) -> None:
        """Note that a life of a node cannot write the metadata for now, or can again."""
        if self._election is not None and not self._is_closed:
            self._election.short_changed(node, incarnation, is_short=is_short)

    # -- news of the coordinator

    def members_changed(self, members: Mapping[int, NodeRegistration]) -> None:
        nodes = {}
        for node, registration in members.items():
            try:
                description = decode_description(registration.description)
            except ProtocolError as error:
                _log.error("node %d is registered with a description that cannot be read: %s", node, error)
                continue
            nodes[node] = ClusterNode(node, registration.incarnation, description)
        self._liveness.members_changed(nodes)
        self._knows_members = True
        self._settle()

    def register_changed(self, register: CoordinatorRegister) -> None:
        if self._election is not None and not self._is_closed:
            if not register.version and self._is_unproven:
                self._prove(None)
            self._election.register_read(register)

    def _prove(self, state: PartitionGroupState | None) -> None:
        """Find out whether this empty disk is one that has nothing to have: the set of the metadata says so."""
        # A founder that died before it stored anything is alone.
        node = self.own.node
        if state is None or node not in state.in_sync | state.eligible or state.replicas == (node,):
            self._is_unproven = False
            # Not within this call, which the election makes.
            self._timers.add(self._clock.monotonic_ms(), lambda: self.describe(self.own.description))
        else:
            self.has_lost_disk = True

    def session_changed(self, state: SessionState) -> None:
        self.session = state
        if not self._is_closed:
            self._inquiry.session_changed(state)
        self._liveness.session_changed(state, self._clock.monotonic_ms(), self._coordinator.session_ms)
        self._settle()

    # -- news of links

    def link_opened(self, node: int, incarnation: int) -> None:
        self._liveness.link_opened(node, incarnation)
        self._settle()
        for replica in list(self.replicas.values()):
            replica.link_opened(node, incarnation)

    def link_closed(self, node: int, *, is_process_gone: bool) -> None:
        self._liveness.link_closed(node, self._clock.monotonic_ms(), is_process_gone=is_process_gone)
        for replica in list(self.replicas.values()):
            replica.link_closed(node)
        self._settle()

    def replica_told(self, node: int, message: ReplicaMessage) -> None:
        replica = self.replicas.get(message.group)
        if replica is not None and not self._is_closed:
            replica.told(node, message)

    # -- news of replicas

    def journal_opened(self, group: str, journal: Journal) -> None:
        if group not in self.replicas:  # it was dropped meanwhile, and is about to be closed
            return
        self._listener.journal_opened(group, journal)

    def led(self, group: str, epoch: int) -> None:
        self._listener.led(group, epoch)

    def stepped_down(self, group: str) -> None:
        self._listener.stepped_down(group)

    def committed(self, group: str, position: int) -> None:
        """Logs tell their watchers themselves."""

    def journal_failed(self, group: str, error: HutongError) -> None:
        # Without the metadata this node hears of no new leader, of whatever group.
        if group == METADATA_NAME:
            self._lacks_metadata = True
            for replica in list(self.replicas.values()):
                replica.resign()
            self.describe(self.own.description)
        self._listener.journal_failed(group, error)

    def propose(self, state: PartitionGroupState, proposal: ProposeSet) -> None:
        if self._is_closed or self._election is None:
            return
        if state.name == METADATA_NAME:
            self._election.propose(proposal)
        else:
            self._listener.proposed(state, proposal)

    def _metadata_refused(self, version: int) -> None:
        self.replicas[METADATA_NAME].proposal_refused(version)

    # -- who is alive

    def _linked(self) -> list[int]:
        """The other nodes that this one has a link with."""
        peers = self.peers
        return [node for node in self.live if node != self.own.node and peers is not None and peers.is_open(node)]

    def _settle(self) -> None:
        """Tell everybody who is alive, if that has changed."""
        if self._is_closed or not self._knows_members:
            return
        self._link()
        now_ms = self._clock.monotonic_ms()
        unreached = self._liveness.unreached(now_ms)
        self._note_reach(now_ms)
        live = {node: each for node, each in self._liveness.live(now_ms).items() if not each.description.lacks_metadata}
        self._look_again(now_ms)
        self._doubt(now_ms)
        if live == self.live and unreached == self.unreached:
            return
        self.unreached = unreached
        until_ms = now_ms + LISTED_MS
        self._departed |= {node: (each, until_ms) for node, each in self.live.items() if node not in live}
        self.live = live
        assert self._election is not None, "it has started"
        self._election.live_changed({node: each.incarnation for node, each in live.items()})
        self._listener.nodes_changed(live)

    def _note_reach(self, now_ms: int) -> None:
        """Tell the others which links this node lacks, and note who is out of reach by what all say."""
        unlinked = self._liveness.unlinked(now_ms)
        if unlinked != self._unlinked:
            self._unlinked = unlinked
            self._publish(self.own.description)
        out_of_reach = self._liveness.out_of_reach(now_ms)
        if out_of_reach != self.out_of_reach:
            self.out_of_reach = out_of_reach
            assert self._election is not None, "it has started"
            self._election.reach_changed(out_of_reach)

    def _doubt(self, now_ms: int) -> None:
        doubted = self._liveness.doubted(now_ms)
        if doubted != self.doubted:
            self.doubted = doubted
            self._listener.doubted_changed(doubted)

    def _link(self) -> None:
        if self.peers is None:
            return
        others = {node: each for node, each in self._liveness.registered().items() if node != self.own.node}
        addresses = {
            node: (each.description.peer.host, each.description.peer.port, each.incarnation)
            for node, each in others.items()
            if each.description.peer.port  # a node that is starting listens a little later
        }
        self.peers.set_addresses(addresses)

    def _look_again(self, now_ms: int) -> None:
        """Look again when missing registrations begin to count, a doubt is over, or a node is out of reach."""
        changes_ms = (
            self._liveness.trusted_from_ms,
            self._liveness.doubted_until_ms(),
            self._liveness.unreached_from_ms(now_ms),
        )
        due_ms = min((each for each in changes_ms if each is not None and each > now_ms), default=None)
        if due_ms is None:
            return
        if self._recheck is not None:
            self._recheck.cancel()
        self._recheck = self._timers.add(due_ms, self._settle)
