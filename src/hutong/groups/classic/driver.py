"""The group coordinator: carries out what groups decide, and is what the rest of the node sees of them.

Strategy: each request becomes an event of one group, in a `MachineHost`. Each instruction that comes back is an answer
to a parked request, a record to append, or a line for the log.

Contains no decision about membership (`machine.py`), retention (`offsets/store.py`) or input (`requests.py`).
Belongs to one loop.
"""

import itertools
import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, OwnerGone, Refused
from hutong.foundation.fair_shares import NOBODY
from hutong.foundation.machine_host import MachineHost, ParkedCallers, StatePort
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import WaitTable
from hutong.groups.classic.entry import ClassicGroupEntry, bytes_of_join
from hutong.groups.classic.machine import ClassicGroup
from hutong.groups.classic.membership.admission import refused
from hutong.groups.classic.membership.pending_ids import PendingIds
from hutong.groups.classic.messages import (
    Answer,
    Cause,
    Event,
    GroupRecord,
    HandOver,
    Instruction,
    Join,
    JoinReply,
    Lapse,
    Leave,
    Leaver,
    LeaveReply,
    Persist,
    Persisted,
    PersistFailed,
    Rebalancing,
    Retire,
    SyncReply,
)
from hutong.groups.classic.states import GroupState
from hutong.groups.directory import GroupDirectory, GroupKind
from hutong.groups.memory import GroupMemory
from hutong.groups.offsets.client_shares import OffsetShares
from hutong.groups.offsets.offset_log import Change, OffsetLog
from hutong.groups.offsets.records import (
    GroupKey,
    OffsetKey,
    StoredGroup,
    decode_group,
    decode_key,
    decode_offset,
    encode_group,
    encode_group_key,
)
from hutong.groups.offsets.store import OffsetStore
from hutong.groups.offsets.transactional import TransactionalOffsets, is_transactional_key
from hutong.groups.peer import Neighbour
from hutong.groups.refusals import GroupRefusals
from hutong.groups.requests import (
    Caller,
    Stamp,
    group_id_error,
    join_error,
    join_event,
    sync_error,
    sync_event,
)
from hutong.groups.settings import GroupSettings
from hutong.wire.kafka.apis.k11_join_group import JoinGroupRequest
from hutong.wire.kafka.apis.k12_heartbeat import HeartbeatRequest
from hutong.wire.kafka.apis.k14_sync_group import SyncGroupRequest
from hutong.wire.kafka.error_codes import ErrorCode

# A client retries this code after asking for the coordinator again: right for whatever is wrong here and may pass.
UNAVAILABLE: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE
_log = logging.getLogger("hutong.groups")


class GroupCoordinator:
    """All groups of this node.

    Start: `replay` every record of the state topic, then `start`. A `then` is called exactly once, on the loop; errors
    are values, never raised.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        timers: TimerWheel,
        state: StatePort,
        random_bytes: Callable[[int], bytes],
        topic_exists: Callable[[str, int], bool],
        settings: GroupSettings | None = None,
        directory: GroupDirectory | None = None,
        deletion_ms: Callable[[], int] | None = None,
    ) -> None:
        """`deletion_ms` is the time by which offsets are old, wall time by default."""
        self._deletion_ms = deletion_ms or clock.wall_ms
        self.settings = settings or GroupSettings()
        self.directory = directory or GroupDirectory(self.settings.groups_max)
        self.offsets = OffsetStore()
        self._offset_shares = OffsetShares(self.offsets, self.directory, self.settings)
        self.neighbours: list[Neighbour] = []
        self.rebalances_total = 0
        self._clock = clock
        self._random_bytes = random_bytes
        self._topic_exists = topic_exists
        self.transactional = TransactionalOffsets(
            self.offsets, state, WaitTable("transactional offsets", timers, self.settings.waits_max)
        )
        self.offset_log = OffsetLog(self.offsets, state, self.transactional)
        self._host: MachineHost[ClassicGroupEntry, Event, Instruction] = MachineHost(clock, timers, state, self._feed)
        self._memory = GroupMemory("groups_bytes_max", self.settings.groups_bytes_max)
        self._pending = PendingIds(
            self.settings.pending_members_max,
            self.settings.pending_members_per_client_max,
            self.settings.pending_member_timeout_ms,
        )
        self._refusals = GroupRefusals(clock)
        self._stored: dict[str, StoredGroup] = {}  # filled by replay, emptied by start
        self._callers = ParkedCallers("group waits", timers, self.settings.waits_max)

    # ---- start and stop

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one record of the state topic, oldest first. Raises CorruptData."""
        if is_transactional_key(key):
            self.transactional.replay(key, value)
            return
        decoded = decode_key(key)
        if isinstance(decoded, OffsetKey):
            self.offsets.apply(decoded, None if value is None else decode_offset(value))
        elif value is None:
            self._stored.pop(decoded.group_id, None)
        else:
            self._stored[decoded.group_id] = decode_group(value)

    def apply_late(self, key: bytes, value: bytes | None) -> None:
        """A record whose append had failed is on disk after all. What members do needs no record to go on from.

        Nor do offsets of transactions: what may turn up of them is remembered, and ended with the rest.
        """
        if is_transactional_key(key):
            return
        decoded = decode_key(key)
        if isinstance(decoded, OffsetKey):
            self.offsets.apply(decoded, None if value is None else decode_offset(value))

    def start(self) -> None:
        """Take the groups up as replayed: members have one session time-out from now to be heard again."""
        now_ms = self._clock.monotonic_ms()
        for group_id, stored in self._stored.items():
            if not self.directory.claim(group_id, GroupKind.CLASSIC):
                continue
            group = ClassicGroup.restored(group_id, self.settings, stored.record, now_ms)
            entry = self._host.put(ClassicGroupEntry(group))
            entry.empty_since_ms = None if stored.record.members else stored.since_ms
            self._host.arm(entry)
            self._tidy(entry)
        self._stored.clear()
        for group_id in {*self.offsets.groups(), *self.transactional.groups()}:
            if self.directory.claim(group_id, GroupKind.CLASSIC):
                self._entry(group_id)
        self._forget_lost_topics()
        self._host.repeat(self.settings.offsets_retention_check_interval_ms, self._enforce_retention)

    def close(self) -> None:
        """Answer everything that waits; clients will look for another coordinator."""
        self._host.close()
        self._callers.close(OwnerGone("the node is stopping"))

    # ---- membership

    def join(self, request: JoinGroupRequest, caller: Caller, then: Callable[[JoinReply], None]) -> None:
        error = join_error(request, self.settings)
        entry = None
        if error is ErrorCode.NONE:
            entry = self._host.get(request.group_id)
            if entry is None and self._is_foreign(request.group_id) and not self._taken_over(request.group_id):
                error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            elif entry is None and request.member_id:
                error = ErrorCode.UNKNOWN_MEMBER_ID
            elif not self._has_room_to_join(request, entry, caller):
                entry, error = None, UNAVAILABLE
            elif (entry := self._new_entry(request.group_id, caller.holder)) is None:
                error = UNAVAILABLE
        if entry is None:
            has_protocols = bool(request.protocol_type and request.protocols)
            then(refused(error, request.member_id, has_protocols=has_protocols))
            return
        otherwise = JoinReply(UNAVAILABLE, request.member_id)
        ticket = self._callers.park(then, otherwise, owner=caller.owner, holder=caller.holder)
        if ticket is None:
            self._tidy(entry)
        else:
            stamp = Stamp(ticket, self._clock.monotonic_ms())
            unique = uuid.UUID(bytes=self._random_bytes(16), version=4)
            event = join_event(request, caller, stamp, str(unique))
            self._pending.discard(event.member_id)
            self._feed(entry, event)
            if event.new_member_id in entry.machine.roster.pending:
                self._handed_out(request.group_id, event, caller)

    def _has_room_to_join(self, request: JoinGroupRequest, entry: ClassicGroupEntry | None, caller: Caller) -> bool:
        wanted_bytes = bytes_of_join(request) if entry is None else entry.more_to_join(request)
        holder = self.directory.holder(request.group_id) or caller.holder
        if not wanted_bytes or self._memory.has_room(holder, wanted_bytes):
            return True
        self._refusals.tell(request.group_id, caller.holder, "its client's groups take up too much")
        return False

    def _handed_out(self, group_id: str, event: Join, caller: Caller) -> None:
        """A member id waits for its use; another one of the same client may lapse for it."""
        lapsed = self._pending.add(caller.holder, group_id, event.new_member_id, event.now_ms)
        if lapsed is not None and (entry := self._host.get(lapsed[0])) is not None:
            self._feed(entry, Lapse(lapsed[1], event.now_ms))

    def sync(self, request: SyncGroupRequest, caller: Caller, then: Callable[[SyncReply], None]) -> None:
        error = sync_error(request, caller.api_version, self.settings)
        entry = self._host.get(request.group_id)
        if error is not ErrorCode.NONE or entry is None:
            then(SyncReply(error or ErrorCode.UNKNOWN_MEMBER_ID))
            return
        more_bytes = entry.more_to_sync(request)
        if more_bytes and not self._memory.has_room(self.directory.holder(request.group_id), more_bytes):
            then(SyncReply(UNAVAILABLE))
            return
        ticket = self._callers.park(then, SyncReply(UNAVAILABLE), owner=caller.owner, holder=caller.holder)
        if ticket is not None:
            self._feed(entry, sync_event(request, Stamp(ticket, self._clock.monotonic_ms())))

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        error = group_id_error(request.group_id, self.settings)
        if error is not ErrorCode.NONE:
            return error
        entry = self._host.get(request.group_id)
        if entry is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        now_ms = self._clock.monotonic_ms()
        return entry.machine.heartbeat(request.member_id, request.group_instance_id, request.generation_id, now_ms)

    def leave(self, group_id: str, leavers: Sequence[Leaver], then: Callable[[LeaveReply], None]) -> None:
        entry = self._host.get(group_id)
        if entry is None:
            then(LeaveReply((ErrorCode.UNKNOWN_MEMBER_ID,) * len(leavers)))
            return
        ticket = self._callers.park(then, LeaveReply((UNAVAILABLE,) * len(leavers)))
        if ticket is not None:
            self._feed(entry, Leave(ticket, self._clock.monotonic_ms(), tuple(leavers)))

    # ---- offsets

    def commit_error(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        """Whether this caller may commit now; renews the member's lease. Call `commit` in the same turn."""
        error = group_id_error(group_id, self.settings, may_be_empty=True)
        if error is not ErrorCode.NONE:
            return error
        entry = self._host.get(group_id)
        if entry is None:
            # Without a generation the caller is an administrator, or assigns its partitions itself: no group is needed.
            return ErrorCode.ILLEGAL_GENERATION if generation_id >= 0 else ErrorCode.NONE
        return entry.machine.check_commit(member_id, group_instance_id, generation_id, self._clock.monotonic_ms())

    def commit(
        self, group_id: str, changes: Sequence[Change], then: Callable[[ErrorCode], None], holder: str = NOBODY
    ) -> None:
        """Make offsets durable, then answer. The caller has asked `commit_error`; `holder` is its client."""
        if not self.offsets.has_room(changes, self.settings) or not self._offset_shares.has_room(
            group_id, changes, holder
        ):
            then(ErrorCode.POLICY_VIOLATION)
        elif not self._is_foreign(group_id) and self._new_entry(group_id, holder) is None:
            then(UNAVAILABLE)
        else:
            self.offset_log.write(group_id, changes, lambda error: then(_code(error)))

    def transactional_commit_error(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        """Whether this caller may commit in a transaction now. Call `commit_transactional` in the same turn."""
        error = group_id_error(group_id, self.settings)
        if error is not ErrorCode.NONE:
            return error
        entry = self._host.get(group_id)
        if entry is None:
            return ErrorCode.ILLEGAL_GENERATION if generation_id >= 0 else ErrorCode.NONE
        return entry.machine.check_transactional_commit(member_id, group_instance_id, generation_id)

    def commit_transactional(
        self,
        group_id: str,
        producer_id: int,
        producer_epoch: int,
        changes: Sequence[Change],
        then: Callable[[ErrorCode], None],
        holder: str = NOBODY,
    ) -> None:
        """Make offsets durable that count when the producer's transaction is committed, then answer."""
        if not self.offsets.has_room(
            changes, self.settings, besides=len(self.transactional)
        ) or not self._offset_shares.has_room(group_id, changes, holder):
            then(ErrorCode.POLICY_VIOLATION)
        elif not self._is_foreign(group_id) and self._new_entry(group_id, holder) is None:
            then(UNAVAILABLE)
        else:
            self.transactional.write(group_id, producer_id, producer_epoch, changes, lambda error: then(_code(error)))

    def forget_offsets(self, group_id: str, keys: Iterable[OffsetKey], then: Callable[[ErrorCode], None]) -> None:
        """Delete committed offsets of one group."""
        self.offset_log.forget(group_id, keys, lambda error: then(_code(error)))

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted: what was committed for it means nothing any more."""
        self.transactional.forget_topic(topic, _ignore)
        keys = sorted(self.offsets.keys_of_topic(topic), key=lambda key: key.group_id)
        for group_id, of_group in itertools.groupby(keys, key=lambda key: key.group_id):
            self.forget_offsets(group_id, of_group, _ignore)

    # ---- administration

    def get(self, group_id: str) -> ClassicGroup | None:
        """A group to look at, or None."""
        entry = self._host.get(group_id)
        return entry.machine if entry is not None else None

    def __iter__(self) -> Iterator[ClassicGroup]:
        """Every group, to look at."""
        return (entry.machine for entry in self._host)

    def __len__(self) -> int:
        return len(self._host)

    def give_up(self, group_id: str) -> bool:
        """Let go of a group without members, which keeps its offsets, so that it can become one of another kind."""
        entry = self._host.get(group_id)
        if entry is None or entry.machine.state is not GroupState.EMPTY:
            return False
        self._feed(entry, Retire())
        self._drop(entry)
        self.offset_log.forget_group(group_id, _ignore)
        return True

    def portrait(self, group_id: str) -> GroupRecord | None:
        """A stable group as it would be stored; None while it is not stable, or a request of a member waits."""
        entry = self._host.get(group_id)
        return entry.machine.portrait() if entry is not None else None

    def hand_over(self, group_id: str) -> None:
        """Forget a stable group, members and all: it goes on as one of another kind, which deletes its record."""
        entry = self._host.get(group_id)
        assert entry is not None, f"{group_id} is no classic group"
        self._feed(entry, HandOver())
        self._drop(entry)

    def delete(self, group_id: str, then: Callable[[ErrorCode], None]) -> None:
        """Delete an empty group with all its offsets."""
        entry = self._host.get(group_id)
        error = group_id_error(group_id, self.settings, may_be_empty=True)
        if error is not ErrorCode.NONE:
            then(error)
        elif entry is None:
            then(ErrorCode.GROUP_ID_NOT_FOUND)
        elif entry.machine.state is not GroupState.EMPTY:
            then(ErrorCode.NON_EMPTY_GROUP)
        else:
            self._end(entry, self.offsets.keys_of_group(group_id), then)

    # ---- inside: groups

    def _is_foreign(self, group_id: str) -> bool:
        """Whether the id belongs to a group of another kind."""
        return self.directory.kind(group_id) not in (None, GroupKind.CLASSIC)

    def _taken_over(self, group_id: str) -> bool:
        """A group of another kind that has no members becomes a classic one."""
        return any(neighbour.give_up(group_id) for neighbour in self.neighbours)

    def _new_entry(self, group_id: str, holder: str) -> ClassicGroupEntry | None:
        """The group, made if nobody has named it before, or None if there are too many, or too many of this client."""
        if not self.directory.has_room(group_id, holder):
            self._refusals.tell(group_id, holder, f"there are {len(self.directory)} groups")
            return None
        return self._entry(group_id, holder)

    def _entry(self, group_id: str, holder: str = NOBODY) -> ClassicGroupEntry:
        """Only for an id that no other kind has."""
        claimed = self.directory.claim(group_id, GroupKind.CLASSIC, holder)
        assert claimed, f"{group_id} is a group of another kind"
        return self._host.get(group_id) or self._host.put(ClassicGroupEntry(ClassicGroup(group_id, self.settings)))

    def _end(self, entry: ClassicGroupEntry, keys: Sequence[OffsetKey], then: Callable[[ErrorCode], None]) -> None:
        """Write the end of a group: its offsets, then itself. It stays if meanwhile somebody joins or commits."""
        group = entry.machine

        def offsets_forgotten(error: HutongError | None) -> None:
            if error is None and group.state is GroupState.EMPTY:
                self.offset_log.forget_group(group.group_id, ended)
            else:
                then(_code(error))

        def ended(error: HutongError | None) -> None:
            if error is None and group.state is GroupState.EMPTY and not self.offset_log.holds(group.group_id):
                self._feed(entry, Retire())
                self._drop(entry)
            then(_code(error))

        self.offset_log.forget(group.group_id, keys, offsets_forgotten)

    def _drop(self, entry: ClassicGroupEntry) -> None:
        self._memory.forget(entry.key)
        if self._host.remove(entry):
            self.directory.release(entry.key, GroupKind.CLASSIC)

    def _feed(self, entry: ClassicGroupEntry, event: Event) -> None:
        for instruction in self._host.handle(entry, event):
            match instruction:
                case Answer(ticket, reply):
                    self._callers.answer(ticket, reply)
                case Persist(record, cause):
                    self._persist(entry, record, cause)
                case Rebalancing(generation_id, reason):
                    self.rebalances_total += 1
                    _log.info("group %s rebalances after generation %d: %s", entry.key, generation_id, reason)
        self._tidy(entry)

    def _tidy(self, entry: ClassicGroupEntry) -> None:
        """Count what the group takes up, and drop it if it has neither members, offsets nor a history."""
        if entry.machine.state is not GroupState.DEAD:
            self._memory.note(entry.key, self.directory.holder(entry.key), entry.machine.memory_bytes)
        if entry.machine.is_blank and not self.offset_log.holds(entry.key):
            self._drop(entry)

    def _persist(self, entry: ClassicGroupEntry, record: GroupRecord, cause: Cause) -> None:
        since_ms = self._clock.wall_ms()
        entry.empty_since_ms = None if record.members else since_ms

        def appended(error: HutongError | None) -> None:
            now_ms = self._clock.monotonic_ms()
            if error is None:
                self._feed(entry, Persisted(cause, now_ms))
                return
            _log.error("group %s could not be stored: %s", entry.key, error)
            code = ErrorCode.UNKNOWN_SERVER_ERROR if isinstance(error, Refused) else UNAVAILABLE
            self._feed(entry, PersistFailed(cause, code, now_ms))

        records = [(encode_group_key(GroupKey(entry.key)), encode_group(StoredGroup(record, since_ms)))]
        self._host.append(entry, records, appended)

    # ---- inside: retention

    def _forget_lost_topics(self) -> None:
        """A crash may come between a topic's deletion and that of its offsets."""
        for group_id in list(self.offsets.groups()):
            keys = self.offsets.keys_of_group(group_id)
            lost = [key for key in keys if not self._topic_exists(key.topic, key.partition)]
            self.forget_offsets(group_id, lost, _ignore)

    def _enforce_retention(self) -> None:
        now_ms = self._deletion_ms()
        for entry in self._host:
            group_id, is_empty = entry.key, entry.machine.state is GroupState.EMPTY
            old = self.offsets.expired(group_id, entry.usage(), now_ms, self.settings.offsets_retention_ms)
            if is_empty and not entry.machine.roster.pending and len(old) == len(self.offsets.keys_of_group(group_id)):
                self._end(entry, old, _ignore)
            elif old:
                self.forget_offsets(group_id, old, _ignore)
        for neighbour in self.neighbours:
            neighbour.enforce_retention(now_ms)


def _code(error: HutongError | None) -> ErrorCode:
    if error is None:
        return ErrorCode.NONE
    if isinstance(error, Refused):
        return ErrorCode.INVALID_COMMIT_OFFSET_SIZE  # the log takes no batch of that size: trying again is no use
    return UNAVAILABLE


def _ignore(_outcome: object) -> None:
    """Whatever failed to be forgotten is found again by the next retention check."""
