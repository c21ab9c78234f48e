"""The coordinator of share groups: executes the decisions of their machines, and is their API for the node.

Strategy: a heartbeat is an event of one group, in a `MachineHost`. Its answer waits only if the group's epoch has
changed, until that is on disk. Members themselves are not stored: after a restart each gets UNKNOWN_MEMBER_ID, and
joins again under its own id at once, as Kafka's clients do. The progress in the partitions is stored by those who lead
them (`delivery/driver.py`). A silent member loses its records when its session expires; a member that leaves keeps them
until its share session ends.

Contains no decision about members (`members/machine.py`) or records (`delivery/machine.py`). Belongs to one loop.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError
from hutong.foundation.fair_shares import NOBODY
from hutong.foundation.machine_host import MachineEntry, MachineHost, StatePort
from hutong.foundation.timers import TimerWheel
from hutong.groups.directory import GroupDirectory, GroupKind
from hutong.groups.memory import GroupMemory
from hutong.groups.refusals import GroupRefusals
from hutong.groups.share.delivery.driver import Deliveries
from hutong.groups.share.delivery.progress import ProgressPort
from hutong.groups.share.members.machine import LEFT_EPOCH, ShareGroup
from hutong.groups.share.members.messages import (
    Event,
    Gone,
    Instruction,
    LeaveShareGroup,
    PersistEpoch,
    SharedTopicsChanged,
    ShareHeartbeat,
    ShareReply,
    TopicShape,
    declared_bytes,
)
from hutong.groups.share.records import (
    PartitionKey,
    ProgressSummary,
    decode_group,
    decode_key,
    encode_group,
    encode_group_key,
)
from hutong.groups.share.settings import GroupRules, ShareSettings
from hutong.wire.kafka.error_codes import ErrorCode

UNAVAILABLE: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE
PROTOCOL_TYPE: Final = "share"
NO_ROOM: Final = "Members of this client's groups take up as much memory as they may: let some of them leave."
EMPTY: Final = "Empty"
STABLE: Final = "Stable"
_log = logging.getLogger("hutong.share")


ShareGroupEntry: TypeAlias = MachineEntry[str, ShareGroup]


class ShareCoordinator:
    """All share groups of this node.

    Start: `replay` every record of the state topic, then `start`. A `then` is called exactly once, on the loop.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        timers: TimerWheel,
        state: StatePort,
        progress: ProgressPort,
        deliveries: Deliveries,
        directory: GroupDirectory,
        rules_of: Callable[[str], GroupRules],
        find_topic: Callable[[str], TopicShape | None],
        settings: ShareSettings | None = None,
    ) -> None:
        self.settings = settings or ShareSettings()
        self.rules_of = rules_of
        self.on_gone: Callable[[str, str], None] = lambda _group_id, _member_id: None  # (group, member) is silent
        self.progress = progress
        self._deliveries = deliveries
        self._clock = clock
        self._state = state
        self._directory = directory
        self._find_topic = find_topic
        self._refusals = GroupRefusals(clock)
        self._memory = GroupMemory("groups_bytes_max", self.settings.groups_bytes_max)
        self._host: MachineHost[ShareGroupEntry, Event, Instruction] = MachineHost(clock, timers, state, self._feed)
        self._stored: dict[str, int] = {}  # group -> epoch; filled by replay, emptied by start

    # ---- start and stop

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one record of a group, oldest first. Raises CorruptData."""
        group_id = decode_key(key)
        assert isinstance(group_id, str), "the progress in partitions is kept elsewhere"
        if value is None:
            self._stored.pop(group_id, None)
        else:
            self._stored[group_id] = decode_group(value)

    def start(self, in_progress: Iterable[str] = ()) -> None:
        """Restore the groups as replayed; those with progress but no record of their own, too."""
        for group_id in {*self._stored, *in_progress}:
            # Another kind has claimed the id: its progress stays on disk, unused.
            if self._directory.claim(group_id, GroupKind.SHARE):
                self._put(group_id, self._stored.get(group_id, 0))
        self._stored.clear()

    def close(self) -> None:
        # Heartbeats park nothing: their answers follow appends, which still end.
        self._host.close()

    # ---- membership

    def heartbeat(
        self, event: ShareHeartbeat, group_id: str, then: Callable[[ShareReply], None], holder: str = NOBODY
    ) -> None:
        """Handle a member's heartbeat; epoch 0 joins, -1 leaves. `holder` is its client, as `GroupCaller.holder`."""
        entry = self._host.get(group_id)
        # Only a join creates a group; any other heartbeat of an unknown group gets an error.
        is_new = entry is None and event.member_epoch == 0
        if is_new:
            entry = self._new_entry(group_id, holder)
            # No kind has the id, so the table of groups is full.
            if entry is None and self._directory.kind(group_id) is None:
                then(ShareReply(UNAVAILABLE, "There are too many groups."))
                return
            if entry is None:
                then(ShareReply(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group."))
                return
        if entry is None:
            then(ShareReply(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found."))
        # A member that leaves declares nothing, so no bound can refuse it.
        elif event.member_epoch == LEFT_EPOCH:
            self._feed(entry, LeaveShareGroup(event.member_id), then)
        elif not self._has_room(entry, event, holder):
            # A refused join must leave nothing in memory.
            if is_new:
                self._drop(entry)
            then(ShareReply(ErrorCode.GROUP_MAX_SIZE_REACHED, NO_ROOM))
        else:
            self._feed(entry, event, then)

    def topics_changed(self, topic: str) -> None:
        """A topic has come or gone, or has more partitions."""
        for entry in self._host:
            # Groups that do not read the topic need no epoch for it.
            if entry.machine.subscribes_to(topic):
                self._feed(entry, SharedTopicsChanged())

    # ---- administration

    def get(self, group_id: str) -> ShareGroup | None:
        """A group to look at, or None."""
        entry = self._host.get(group_id)
        return entry.machine if entry is not None else None

    def __iter__(self) -> Iterator[ShareGroup]:
        return (entry.machine for entry in self._host)

    def __len__(self) -> int:
        return len(self._host)

    def ensure(self, group_id: str, holder: str = NOBODY) -> bool:
        """Return True if there is a share group of that id, or it could be created now."""
        return self._host.get(group_id) is not None or self._new_entry(group_id, holder) is not None

    def begin_at(
        self, group_id: str, offsets: Mapping[PartitionKey, int | None], then: Callable[[HutongError | None], None]
    ) -> None:
        """Let a group that is there begin at these offsets, or forget its progress in partitions (None)."""
        if not offsets:
            then(None)
            return

        def stored(error: HutongError | None) -> None:
            if error is not None:
                then(error)
            else:
                self._deliveries.replace(offsets, then)

        self.keep(group_id, stored)

    def keep(self, group_id: str, then: Callable[[HutongError | None], None]) -> None:
        """Let a group that is there outlive its members."""
        entry = self._host.get(group_id)
        assert entry is not None, "the caller has made sure of it"
        # The progress may be on another node: without a record of its own the group would be unknown after a restart.
        self._host.append(entry, [(encode_group_key(group_id), encode_group(entry.machine.epoch))], then)

    def delete(self, group_id: str, then: Callable[[ErrorCode], None]) -> None:
        """Delete an empty group with all its progress."""
        entry = self._host.get(group_id)
        if entry is None:
            then(ErrorCode.GROUP_ID_NOT_FOUND)
            return
        # As in Kafka only empty groups are deleted.
        if len(entry.machine):
            then(ErrorCode.NON_EMPTY_GROUP)
            return

        def ended(error: HutongError | None) -> None:
            # A member may have joined while the tombstones were being written.
            if error is None and not len(entry.machine) and self._host.hosts(entry):
                self._drop(entry)
            then(UNAVAILABLE if error is not None else ErrorCode.NONE)

        def forgotten(error: HutongError | None) -> None:
            # A member joined while the progress was being deleted: the group stays, and starts again in the partitions.
            if error is not None or len(entry.machine):
                then(UNAVAILABLE if error is not None else ErrorCode.NON_EMPTY_GROUP)
            else:
                self._state.append_all([(encode_group_key(group_id), None)], ended)

        def found(outcome: Mapping[PartitionKey, ProgressSummary] | HutongError) -> None:
            if isinstance(outcome, HutongError):
                then(UNAVAILABLE)
            else:
                self._deliveries.replace(dict.fromkeys(outcome), forgotten)

        self.progress.summaries(group_id, found)

    # ---- inside

    def _put(self, group_id: str, epoch: int) -> ShareGroupEntry:
        group = ShareGroup(
            group_id,
            epoch,
            members_max=self.settings.max_size,
            session_timeout_ms=lambda: self.rules_of(group_id).session_timeout_ms,
            find_topic=self._find_topic,
        )
        return self._host.put(MachineEntry(group_id, group))

    def _has_room(self, entry: ShareGroupEntry, event: ShareHeartbeat, holder: str) -> bool:
        """Return True if the group's client has memory for this heartbeat. No more bytes than before always pass."""
        # The member declares nothing new.
        if event.topics is None:
            return True
        group_id = entry.key
        wanted_bytes = declared_bytes(
            event.topics, (event.member_id, event.client_id, event.client_host, event.rack_id)
        )
        more_bytes = wanted_bytes - entry.machine.footprint_bytes(event.member_id)
        # The group's client pays, not the member's: the memory lasts as long as the group.
        if more_bytes <= 0 or self._memory.has_room(self._directory.holder(group_id), more_bytes):
            return True
        self._refusals.log_refusal(group_id, holder, "its client's groups take up too much")
        return False

    def _new_entry(self, group_id: str, holder: str) -> ShareGroupEntry | None:
        """A group that nobody has named before; None if there are too many, or the name is another kind's."""
        # A client names as many groups as it likes, so each client has a share of the ids.
        if not self._directory.has_room(group_id, holder):
            self._refusals.log_refusal(group_id, holder, f"there are {len(self._directory)} groups")
            return None
        # Another kind has the id, though there is room for more groups.
        if not self._directory.claim(group_id, GroupKind.SHARE, holder):
            return None
        return self._put(group_id, 0)

    def _drop(self, entry: ShareGroupEntry) -> None:
        self._host.remove(entry)
        self._memory.forget(entry.key)
        self._directory.release(entry.key, GroupKind.SHARE)

    def _feed(self, entry: ShareGroupEntry, event: Event, then: Callable[[ShareReply], None] | None = None) -> None:
        epoch: int | None = None
        answer: ShareReply | None = None
        gone: list[str] = []
        for instruction in self._host.handle(entry, event):
            match instruction:
                case ShareReply():
                    answer = instruction
                # The answer waits for the epoch: after a restart the group's epoch must not fall behind a member's.
                case PersistEpoch(epoch):
                    pass
                case Gone(member_id):
                    gone.append(member_id)
        self._memory.note(entry.key, self._directory.holder(entry.key), entry.machine.memory_bytes)
        # Most heartbeats change nothing, and are answered at once.
        if epoch is None:
            if then is not None and answer is not None:
                then(answer)
        else:
            self._persist(entry, epoch, answer, then)
        # Their records become available last, when the group itself is consistent again.
        for member_id in gone:
            self.on_gone(entry.key, member_id)

    def _persist(
        self,
        entry: ShareGroupEntry,
        epoch: int,
        answer: ShareReply | None,
        then: Callable[[ShareReply], None] | None,
    ) -> None:
        def persisted(error: HutongError | None) -> None:
            if error is not None:
                _log.error("group %s could not be stored: %s", entry.key, error)
            if then is not None and answer is not None:
                # The epoch is not on disk, so the member must not act on it.
                then(answer if error is None else ShareReply(UNAVAILABLE, str(error)))

        self._host.append(entry, [(encode_group_key(entry.key), encode_group(epoch))], persisted)


def state_of(group: ShareGroup) -> str:
    """As Kafka's tools show it."""
    return STABLE if len(group) else EMPTY
