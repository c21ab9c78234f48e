"""Leading a partition group: the leader's machine with a journal and links.

Strategy: the journal says when it has grown or flushed, followers what they have, the cluster what is in sync. The
machine draws the conclusions; here they become messages, and progress of the journal.

Knows nothing of connections, nor of how the cluster agrees.
"""

from hutong.foundation.errors import OwnerGone
from hutong.foundation.timers import Timer
from hutong.journal.journal import Journal
from hutong.replication.group_state import PartitionGroupState
from hutong.replication.journal_tie import JournalTie
from hutong.replication.leading.file_service import FileService
from hutong.replication.leading.machine import LeaderReplication
from hutong.replication.leading.messages import (
    Acknowledged,
    FollowerJoined,
    FollowerLeft,
    LeaderEvent,
    LeaderInstruction,
    ProposalRefused,
    ProposeSet,
    ReplicaSet,
    ReplicasMissing,
    Replicated,
    SetCommitted,
    Ship,
    Shipped,
    StreamGrew,
    TellCommitted,
    TellDivergence,
    TellJoined,
)
from hutong.replication.leading.shipments import Shipments
from hutong.replication.replica_messages import (
    AskedToJoin,
    ChunksAcknowledged,
    DivergenceTold,
    FilePartAsked,
    FilesAsked,
    JoinAnswered,
    ReplicaMessage,
)
from hutong.replication.replica_ports import ReplicaPorts
from hutong.replication.role import Role


class LeadingReplica(Role[LeaderReplication, LeaderEvent, LeaderInstruction]):
    """Leads a group in one epoch. `is_leading` is True from `events.led` on."""

    def __init__(
        self, node: int, origin: int, state: PartitionGroupState, journal: Journal, tie: JournalTie, ports: ReplicaPorts
    ) -> None:
        self.epoch = state.epoch
        self.is_leading = False
        self._state = state
        self._journal = journal
        self._tie = tie
        self._ports = ports
        self._asked: set[int] = set()  # the machine knows these followers
        self._telling: Timer | None = None  # while followers may not have heard of a commit
        tie.on_sealed = lambda: None  # there is no machine before the epoch's first chunk
        journal.lead(state.epoch, origin)
        self._own_end = journal.position
        now_ms = ports.clock.monotonic_ms()
        lag_ms_max = ports.settings.lag_ms_max
        machine = LeaderReplication(node, _set_of(state), journal.epochs, journal.position, now_ms, lag_ms_max)
        super().__init__(machine, ports.clock, ports.timers)
        self._shipments = Shipments(
            state.name,
            state.epoch,
            journal.stream_reads,
            ports.links,
            ports.clock,
            ports.timers,
            ports.settings,
            lambda shipped_to, start, end: self.feed(Shipped(shipped_to, start, end)),
            ports.pace,
            lambda receiver: receiver not in self._state.in_sync,
            lambda: self.machine.committed_position,
        )
        self._files = FileService(state.name, state.epoch, journal.segment_files, ports.links, ports.settings)
        tie.on_sealed = self.grew

    def start(self) -> None:
        """Begin, once the owner knows of this role."""
        if len(self._state.in_sync) < self._state.min_in_sync:
            self.obey(ReplicasMissing(len(self._state.in_sync), self._state.min_in_sync))
        self.grew()

    def grew(self) -> None:
        """Note that the journal has grown, or has flushed."""
        self.feed(StreamGrew(self._journal.position, self._journal.flushed_position))

    def set_changed(self, state: PartitionGroupState) -> None:
        """Note a newer state of this epoch."""
        gone = {*self._state.replicas} - {*state.replicas}
        self._state = state
        # One that is no replica any more must not be proposed again.
        for node in gone:
            self.link_closed(node)
        self.feed(SetCommitted(_set_of(state), self.now_ms))

    def proposal_refused(self, version: int) -> None:
        """Let the machine propose again a little later: the cluster may go on refusing."""
        at_ms = self.now_ms + self._ports.settings.propose_again_ms
        self._ports.timers.add(at_ms, lambda: self._propose_again(version))

    def _propose_again(self, version: int) -> None:
        if not self.has_ended:
            self.feed(ProposalRefused(version, self.now_ms))

    def link_closed(self, node: int) -> None:
        self._shipments.leave(node)
        self._files.leave(node)
        self.feed(FollowerLeft(node, self.now_ms))

    def told(self, node: int, message: ReplicaMessage) -> None:
        """Take a message of this epoch."""
        match message:
            case AskedToJoin(_, _, incarnation, end_position, last_epoch) if node in self._state.replicas:
                self._asked.add(node)
                self._files.leave(node)
                self._shipments.join(node, end_position)
                self.feed(FollowerJoined(node, incarnation, end_position, last_epoch, self.now_ms))
            case ChunksAcknowledged(_, _, held_position, stored_position) if node in self._asked:
                self.feed(Acknowledged(node, held_position, stored_position, self.now_ms))
                self._shipments.acknowledged(node, held_position, stored_position)
            case FilesAsked() | FilePartAsked() if node in self._asked:
                self._files.told(node, message)
            case _:
                pass

    def end(self) -> None:
        super().end()
        self._shipments.end()
        if self._telling is not None:
            self._telling.cancel()

    def obey(self, instruction: LeaderInstruction) -> None:
        group, epoch = self._state.name, self.epoch
        match instruction:
            case Ship(node, start_position):
                self._shipments.ship(node, start_position)
            case Replicated(held_position, stored_position):
                self._tie.progress.replicated(held_position, stored_position)
            case TellCommitted(position):
                self._committed(position)
            case TellJoined(node, committed_position):
                self._ports.links.send(node, JoinAnswered(group, epoch, committed_position))
            case TellDivergence(node, last_epoch, end_position):
                self._ports.links.send(node, DivergenceTold(group, epoch, last_epoch, end_position))
            case ProposeSet():
                self._ports.events.propose(self._state, instruction)
            case ReplicasMissing(in_sync, needed):
                self._tie.progress.replication_failed(OwnerGone(f"{in_sync} of {needed} replicas are in sync"))

    def _committed(self, position: int) -> None:
        group = self._state.name
        # Mostly the next chunks tell of it, and a busy leader sends no message for commits alone.
        if not self._ports.settings.commit_told_ms:
            self._shipments.tell_committed()
        elif self._telling is None:
            self._tell_later(position)
        self._ports.events.committed(group, position)
        # Everything before the epoch's first chunk is committed with it (Raft, 5.4.2), and can be read.
        if not self.is_leading and position >= self._own_end and not self.has_ended:
            self.is_leading = True
            self._ports.events.led(group, self.epoch)

    def _tell_later(self, position: int) -> None:
        at_ms = self.now_ms + self._ports.settings.commit_told_ms
        self._telling = self._ports.timers.add(at_ms, lambda: self._tell_committed(position))

    def _tell_committed(self, position: int) -> None:
        """Tell of this commit, unless chunks have; of newer ones a little later, as chunks may yet."""
        self._telling = None
        committed_position = self.machine.committed_position
        if not self._shipments.is_told(position):
            self._shipments.tell_committed()
        elif not self._shipments.is_told(committed_position):
            self._tell_later(committed_position)


def _set_of(state: PartitionGroupState) -> ReplicaSet:
    return ReplicaSet(state.epoch, state.version, state.in_sync, state.min_in_sync)
