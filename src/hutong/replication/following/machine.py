"""A follower of one partition group: finds where its stream parts from the leader's, cuts it there, and takes chunks.

    LeaderConnected ──> AskToJoin ──> Diverged ──> CutAt ──> JournalCut ──> AskToJoin ──> ... ──> JoinAccepted

    ChunksArrived ──> TakeChunks ──> ReplicaGrew ──> AcknowledgeChunks
    CommitArrived ──> NoteCommitted

Strategy: the leader's stream is the truth. What is cut is surely not in it: chunks of epochs that the leader does not
have, or behind the end that an epoch has there (KIP-101). Nothing that is known to be committed is ever cut. Every
message has the leader's epoch, and one of an older leader changes nothing.

Knows nothing of connections or files: it has the list of the journal's epochs.
"""

from collections.abc import Callable
from typing import Final

from hutong.foundation.machine import Tick
from hutong.journal.append.leader_epochs import LeaderEpochs
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
    JournalCut,
    LeaderChosen,
    LeaderConnected,
    LeaderLost,
    NoteCommitted,
    ReplicaGrew,
    TakeChunks,
)

HEARTBEATS: Final = 4  # in the time after which the leader takes a silent follower for late
HEARTBEAT_INTERVAL_MS: Final = 500
UNSAID_BYTES_MAX: Final = 1 << 20  # held, and not acknowledged before the end of a flush: an eighth of what is shipped


class FollowerReplication:
    """Follows one group. `epochs_of` gives the journal's list, which is another one after each cut."""

    def __init__(
        self,
        epochs_of: Callable[[], LeaderEpochs],
        end_position: int,
        committed_position: int,
        heartbeat_interval_ms: int = HEARTBEAT_INTERVAL_MS,
    ) -> None:
        """All of the stream is on disk when a journal was opened."""
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._epochs_of = epochs_of
        self._end_position = end_position
        self._flushed_position = end_position
        self.committed_position = committed_position
        self._leader_position = committed_position  # as far as the leader has said that all is committed
        self.epoch = -1  # of the newest leader that was heard of
        self._is_connected = False
        self._is_joined = False  # the leader has compared the streams; before that no position of its own says anything
        self._is_cutting = False
        self._heartbeat_ms = 0
        self._said_position = 0  # the leader knows that everything before it is held

    def handle(self, event: FollowerEvent) -> list[FollowerInstruction]:
        match event:
            case ChunksArrived() | CommitArrived() if event.epoch != self.epoch or not self._is_joined:
                return []
            case ChunksArrived():
                return self._arrived(event)
            case CommitArrived(_, position):
                return self._committed(position)
            case ReplicaGrew():
                return self._grew(event)
            case Tick(now_ms):
                return self._acknowledge(now_ms) if self._is_joined else []
            case _:
                return self._changed(event)

    def _changed(
        self, event: LeaderChosen | LeaderConnected | LeaderLost | JoinAccepted | Diverged | JournalCut
    ) -> list[FollowerInstruction]:
        """The rare events: of leaders, and of cuts."""
        match event:
            case LeaderChosen(epoch):
                return self._chosen(epoch)
            case LeaderConnected(epoch, now_ms):
                return self._connected(epoch, now_ms)
            case LeaderLost():
                self._is_connected = self._is_joined = False
                return []
            case JoinAccepted(position, now_ms):
                self._is_joined = self._is_connected and not self._is_cutting
                # At once: with nothing to ship the leader would not know before the next heartbeat what is on disk.
                return [*self._acknowledge(now_ms), *self._committed(position)] if self._is_joined else []
            case Diverged(epoch, end_position):
                return self._diverged(epoch, end_position)
            case JournalCut(end_position, now_ms):
                return self._cut(end_position, now_ms)

    @property
    def is_joined(self) -> bool:
        """True while the leader sends its chunks."""
        return self._is_joined

    def next_tick_ms(self) -> int | None:
        return self._heartbeat_ms if self._is_joined else None

    def check_invariants(self) -> None:
        assert self.committed_position <= self._flushed_position <= self._end_position
        assert self._is_connected or not self._is_joined

    def _chosen(self, epoch: int) -> list[FollowerInstruction]:
        is_news, self.epoch = epoch > self.epoch, max(epoch, self.epoch)
        if not is_news or not self._is_connected:
            return []
        return [Disconnect(f"there is a leader of epoch {epoch}")]

    def _connected(self, epoch: int, now_ms: int) -> list[FollowerInstruction]:
        if epoch < self.epoch:
            return [Disconnect(f"the leader of epoch {epoch} does not know of epoch {self.epoch}")]
        self.epoch, self._is_connected, self._is_joined = epoch, True, False
        # A cut that an earlier leader asked for is under way; the end of the stream is known after it.
        return [] if self._is_cutting else self._ask(now_ms)

    def _ask(self, now_ms: int) -> list[FollowerInstruction]:
        self._heartbeat_ms = now_ms + self._heartbeat_interval_ms
        self._is_joined = False
        return [AskToJoin(self._end_position, self._epochs_of().last_before(self._end_position))]

    def _diverged(self, epoch: int, end_position: int) -> list[FollowerInstruction]:
        if not self._is_connected or self._is_cutting:
            return []
        _, own_end = self._epochs_of().end_of(epoch, self._end_position)
        position = min(own_end, end_position)
        # The leader was in sync when it was chosen, so it has all that was committed. Else nothing may be touched.
        if position < self.committed_position:
            return [Disconnect(f"the leader ends at position {position}, {self.committed_position} is committed")]
        self._is_cutting, self._is_joined = True, False
        return [CutAt(position)]

    def _cut(self, end_position: int, now_ms: int) -> list[FollowerInstruction]:
        self._is_cutting = False
        self._end_position = self._flushed_position = end_position
        return self._ask(now_ms) if self._is_connected else []

    def _arrived(self, event: ChunksArrived) -> list[FollowerInstruction]:
        if event.start_position > self._end_position:
            return [Disconnect(f"chunks begin at {event.start_position}, behind the end at {self._end_position}")]
        return [TakeChunks(event.start_position, event.content)]

    def _committed(self, position: int) -> list[FollowerInstruction]:
        self._leader_position = max(self._leader_position, position)
        return self._note_committed()

    def _note_committed(self) -> list[FollowerInstruction]:
        # A follower that is not in sync may not have it yet, or only in memory, where a crash can take it.
        position = min(self._leader_position, self._flushed_position)
        if position <= self.committed_position:
            return []
        self.committed_position = position
        return [NoteCommitted(position)]

    def _grew(self, event: ReplicaGrew) -> list[FollowerInstruction]:
        is_flushed = event.flushed_position > self._flushed_position
        self._end_position, self._flushed_position = event.end_position, event.flushed_position
        if not self._is_joined:
            return []
        # The end of the flush under way tells of both positions: one message for each flush, not two. No client waits
        # for what is only held, but the leader's window does.
        unsaid_bytes = event.end_position - self._said_position
        if event.is_flushing and not is_flushed and unsaid_bytes < UNSAID_BYTES_MAX:
            return self._note_committed()
        return [*self._acknowledge(event.now_ms), *self._note_committed()]

    def _acknowledge(self, now_ms: int) -> list[FollowerInstruction]:
        # At the same moments in all groups of a node: one wake-up and one write for the heartbeats of all of them.
        interval_ms = self._heartbeat_interval_ms
        self._heartbeat_ms = now_ms - now_ms % interval_ms + interval_ms
        self._said_position = self._end_position
        return [AcknowledgeChunks(self._end_position, self._flushed_position)]
