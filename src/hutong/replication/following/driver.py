"""Following the leader of a partition group: the follower's machine with a journal and the link to the leader.

Strategy: one of these for each opened journal, and for all leaders that come and go meanwhile. To be connected means
that there is a link to the leader, and that it was asked to let this replica join. Without an answer it is asked
again: the leader may not know yet that it leads. Who sends what cannot be taken is not listened to until it was asked
again.

Knows nothing of cuts: its owner reopens the journal, and makes another one of these.
"""

from collections.abc import Callable, Mapping

from hutong.foundation.errors import HutongError
from hutong.foundation.timers import Timer
from hutong.journal.journal import Journal
from hutong.replication.following.file_copy import FileCopy
from hutong.replication.following.machine import HEARTBEATS, FollowerReplication
from hutong.replication.following.messages import (
    AcknowledgeChunks,
    AskToJoin,
    ChunksArrived,
    CommitArrived,
    CutAt,
    Disconnect,
    Diverged,
    FollowerEvent,
    FollowerInstruction,
    JoinAccepted,
    LeaderChosen,
    LeaderConnected,
    LeaderLost,
    NoteCommitted,
    ReplicaGrew,
    TakeChunks,
)
from hutong.replication.group_state import NO_LEADER, PartitionGroupState
from hutong.replication.journal_tie import JournalTie
from hutong.replication.replica_messages import (
    AskedToJoin,
    ChunksAcknowledged,
    ChunksShipped,
    CommitTold,
    DivergenceTold,
    FilePartShipped,
    FilesListed,
    FilesOffered,
    JoinAnswered,
    ReplicaMessage,
)
from hutong.replication.replica_ports import ReplicaPorts
from hutong.replication.role import Role
from hutong.wire.buffer import Buffer


class FollowingReplica(Role[FollowerReplication, FollowerEvent, FollowerInstruction]):
    """Follows one group. `problem` is the reason for which it last stopped listening to the leader."""

    def __init__(
        self,
        name: str,
        incarnation: int,
        journal: Journal,
        tie: JournalTie,
        ports: ReplicaPorts,
        committed_position: int,
        cut: Callable[[int], None],
        install: Callable[[Mapping[str, int]], None],
    ) -> None:
        """Follow nobody yet. The role is over when one of the last two arguments is called.

        `cut` gets the position where the journal must end, `install` the names and sizes of files that were copied.
        """
        interval_ms = max(1, ports.settings.lag_ms_max // HEARTBEATS)
        machine = FollowerReplication(lambda: journal.epochs, journal.position, committed_position, interval_ms)
        super().__init__(machine, ports.clock, ports.timers)
        self.problem: str | None = None
        self._name = name
        self._incarnation = incarnation
        self._journal = journal
        self._tie = tie
        self._ports = ports
        self._cut = cut
        self._install = install
        self._copy: FileCopy | None = None
        self._source = -1  # the leader's incarnation
        self._leader = NO_LEADER
        self._epoch = -1
        self._is_connected = False
        self._attempt: Timer | None = None

    @property
    def committed_position(self) -> int:
        return self.machine.committed_position

    @property
    def copied_bytes(self) -> int:
        return self._copy.copied_bytes if self._copy is not None else 0

    def follow(self, state: PartitionGroupState, leader: int) -> None:
        """Follow this node from now on, or nobody (NO_LEADER)."""
        if (leader, state.epoch) != (self._leader, self._epoch):
            self._disconnect()
            self._leader, self._epoch, self._source = leader, state.epoch, state.leader_incarnation
            self.feed(LeaderChosen(state.epoch))
        self._connect()

    def link_opened(self, node: int) -> None:
        if node == self._leader:
            self._connect()

    def link_closed(self, node: int) -> None:
        if node == self._leader:
            self._disconnect()

    def grew(self) -> None:
        """Note that the journal has grown, or has flushed."""
        journal = self._journal
        self.feed(ReplicaGrew(journal.position, journal.flushed_position, self.now_ms, journal.is_flushing))

    def end(self) -> None:
        super().end()
        self._cancel_attempt()
        self._end_copy()

    # -- the leader

    def _connect(self) -> None:
        if self._leader == NO_LEADER or self._is_connected or not self._ports.links.is_open(self._leader):
            return
        self._is_connected = True
        self._ask()

    def _ask(self) -> None:
        self._cancel_attempt()
        at_ms = self.now_ms + self._ports.settings.ask_again_ms
        self._attempt = self._ports.timers.add(at_ms, self._ask_again)
        self.feed(LeaderConnected(self._epoch, self.now_ms))

    def _ask_again(self) -> None:
        self._attempt = None
        if not self._is_connected:
            self._connect()
        elif not self.machine.is_joined:
            self._ask()

    def _disconnect(self) -> None:
        self._is_connected = False
        self._cancel_attempt()
        self._end_copy()
        self.feed(LeaderLost())

    def _cancel_attempt(self) -> None:
        if self._attempt is not None:
            self._attempt.cancel()
            self._attempt = None

    # -- messages

    def told(self, node: int, message: ReplicaMessage) -> None:
        """Take a message of this epoch."""
        if node != self._leader or not self._is_connected:
            return
        match message:
            case ChunksShipped(_, epoch, start_position, committed_position, content):
                self.feed(ChunksArrived(epoch, start_position, content))
                # The leader may know no more than before.
                if committed_position > self.machine.committed_position:
                    self.feed(CommitArrived(epoch, committed_position))
            case CommitTold(_, epoch, position):
                self.feed(CommitArrived(epoch, position))
            case JoinAnswered(_, _, committed_position):
                self.feed(JoinAccepted(committed_position, self.now_ms))
            case DivergenceTold(_, _, last_epoch, end_position):
                self.feed(Diverged(last_epoch, end_position))
            case FilesOffered() if self._copy is None:
                self._begin_copy()
            case FilesListed() | FilePartShipped() if self._copy is not None:
                self._copy.told(message)
            case _:
                pass

    # -- files

    def _begin_copy(self) -> None:
        directory = self._journal.directory
        self._copy = FileCopy(
            self._name, self._epoch, self._leader, directory, self._ports, self._copied, self._turn_away
        )
        self._copy.begin(self._source)

    def _end_copy(self) -> None:
        if self._copy is not None:
            self._copy.end()
            self._copy = None

    def _copied(self, position: int, sizes: Mapping[str, int]) -> None:
        # A leader has everything that is committed, so its checkpoint can only be older than what is known here.
        if position < self._journal.position:
            self._turn_away(f"the leader's files end at position {position}, {self._journal.position} is here")
        else:
            self._install(sizes)

    # -- instructions

    def obey(self, instruction: FollowerInstruction) -> None:
        links = self._ports.links
        match instruction:
            case TakeChunks(start_position, content):
                self._take(start_position, content)
            case AcknowledgeChunks(held_position, stored_position):
                links.send(self._leader, ChunksAcknowledged(self._name, self._epoch, held_position, stored_position))
            case NoteCommitted(position):
                self._tie.progress.replicated(position, position)
                self._ports.events.committed(self._name, position)
            case AskToJoin(end_position, last_epoch):
                asked = AskedToJoin(self._name, self._epoch, self._incarnation, end_position, last_epoch)
                links.send(self._leader, asked)
            case CutAt(position):
                self._cut(position)
            case Disconnect(reason):
                self._turn_away(reason)

    def _take(self, start_position: int, content: Buffer) -> None:
        try:
            self._journal.replica.append(start_position, content)
        except HutongError as error:  # what the leader sent is not sound, or the journal takes nothing just now
            self._turn_away(str(error))
        self.grew()  # the chunks before the place were taken

    def _turn_away(self, reason: str) -> None:
        """Listen to the leader no more, and ask it again a little later."""
        self.problem = reason
        self._disconnect()
        at_ms = self.now_ms + self._ports.settings.ask_again_ms
        self._attempt = self._ports.timers.add(at_ms, self._ask_again)
