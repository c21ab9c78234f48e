"""The coordinator of classic groups: executes their decisions, and is the rest of the node's view of them.

Strategy: each request becomes an event of one group, in a `MachineHost`. Each instruction that comes back is an answer
to a parked request, a record to append, or a message for the log.

Contains no decision about membership (`machine.py`), retention (`groups/offsets/store.py`) or input
(`groups/requests.py`).
Belongs to one loop.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, OwnerGone
from hutong.foundation.fair_shares import NOBODY
from hutong.foundation.machine import Answer
from hutong.foundation.machine_host import MachineHost, ParkedCallers, StatePort
from hutong.foundation.timers import TimerWheel
from hutong.groups.classic import messages
from hutong.groups.classic.entry import ClassicGroupEntry, bytes_of_join
from hutong.groups.classic.machine import ClassicGroup
from hutong.groups.classic.membership.admission import refused
from hutong.groups.classic.membership.pending_ids import PendingIds
from hutong.groups.classic.messages import Cause, Event, Instruction, JoinReply, Leaver, LeaveReply, SyncReply
from hutong.groups.classic.records import GroupRecord, decode_group, encode_group
from hutong.groups.classic.requests import join_error, join_event, sync_error, sync_event
from hutong.groups.classic.states import GroupState
from hutong.groups.directory import GroupDirectory, GroupKind
from hutong.groups.memory import GroupMemory
from hutong.groups.offsets.coordinator import (
    OffsetCoordinator,
    answer_to,
    error_code,
    is_too_large,
    retried_by_retention,
)
from hutong.groups.offsets.offset_log import Change
from hutong.groups.record_keys import GroupKey, OffsetKey, decode_key, encode_group_key
from hutong.groups.refusals import GroupRefusals
from hutong.groups.requests import GroupCaller, Stamp, group_id_error
from hutong.wire.kafka.apis.k11_join_group import JoinGroupRequest
from hutong.wire.kafka.apis.k12_heartbeat import HeartbeatRequest
from hutong.wire.kafka.apis.k14_sync_group import SyncGroupRequest
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.groups.peer import PeerCoordinator

# A client retries this code after asking for the coordinator again: right for every error here that may pass.
UNAVAILABLE: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE
_log = logging.getLogger("hutong.groups")


class GroupCoordinator:
    """All classic groups of this node.

    Start: `replay` every record of a classic group, then `start`. A `then` is called exactly once, on the loop; errors
    are values, never raised.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        timers: TimerWheel,
        state: StatePort,
        random_bytes: Callable[[int], bytes],
        directory: GroupDirectory,
        offsets: OffsetCoordinator,
    ) -> None:
        self.settings = offsets.settings
        self.directory = directory
        self.offsets = offsets
        self.peers: list[PeerCoordinator] = []
        self.rebalances_total = 0
        self._clock = clock
        self._random_bytes = random_bytes
        self._host: MachineHost[ClassicGroupEntry, Event, Instruction] = MachineHost(clock, timers, state, self._feed)
        self._memory = GroupMemory("groups_bytes_max", self.settings.groups_bytes_max)
        self._pending = PendingIds(
            self.settings.pending_members_max,
            self.settings.pending_members_per_client_max,
            self.settings.pending_member_timeout_ms,
        )
        self._refusals = GroupRefusals(clock)
        self._stored: dict[str, GroupRecord] = {}  # filled by replay, emptied by start
        self._callers = ParkedCallers("group waits", timers, self.settings.waits_max)
        offsets.retention_passes.append(self._enforce_retention)

    # ---- start and stop

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one record of a classic group, oldest first. Raises CorruptData."""
        decoded = decode_key(key)
        assert isinstance(decoded, GroupKey), "a committed offset goes to the coordinator of offsets"
        if value is None:
            self._stored.pop(decoded.group_id, None)
        else:
            self._stored[decoded.group_id] = decode_group(value)

    def start(self) -> None:
        """Restore the groups as replayed: members have one session time-out from now to send a heartbeat."""
        now_ms = self._clock.monotonic_ms()
        for group_id, stored in self._stored.items():
            # Another kind of groups has started first and claimed the id, so this record is out of date.
            if not self.directory.claim(group_id, GroupKind.CLASSIC):
                continue
            group = ClassicGroup.restored(group_id, self.settings, stored, now_ms)
            entry = self._host.put(ClassicGroupEntry(group))
            entry.empty_since_ms = None if stored.members else stored.since_ms
            self._host.arm(entry)
            self._tidy(entry)
        self._stored.clear()
        # Consumers that assign their partitions themselves commit without a group record. Their groups exist by their
        # offsets.
        for group_id in self.offsets.group_ids():
            if self.directory.claim(group_id, GroupKind.CLASSIC):
                self._entry(group_id)

    def close(self) -> None:
        """Answer everything that waits; clients will look for another coordinator."""
        self._host.close()
        self._callers.close(OwnerGone("the node is stopping"))

    # ---- membership

    def join(self, request: JoinGroupRequest, caller: GroupCaller, then: Callable[[JoinReply], None]) -> None:
        error = UNAVAILABLE if self._host.is_closed else join_error(request, self.settings)
        entry = None
        if error is ErrorCode.NONE:
            entry = self._host.get(request.group_id)
            if entry is None and self._is_foreign(request.group_id) and not self._taken_over(request.group_id):
                error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            # A member id of a group that is gone. The client drops its id and joins as a new member.
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
            # Random, since an id must never be given out twice, not even after a restart.
            unique = uuid.UUID(bytes=self._random_bytes(16), version=4)
            event = join_event(request, caller, stamp, str(unique))
            self._pending.discard(event.member_id)
            self._feed(entry, event)
            # The machine has handed out the id instead of admitting a member (KIP-394).
            if event.new_member_id in entry.machine.member_table.pending:
                self._count_handed_out_id(request.group_id, event, caller)

    def _has_room_to_join(
        self, request: JoinGroupRequest, entry: ClassicGroupEntry | None, caller: GroupCaller
    ) -> bool:
        wanted_bytes = bytes_of_join(request) if entry is None else entry.more_to_join(request)
        holder = self.directory.holder(request.group_id) or caller.holder
        # The group's client pays, not the joining one: otherwise one client could fill another one's share.
        if not wanted_bytes or self._memory.has_room(holder, wanted_bytes):
            return True
        self._refusals.log_refusal(request.group_id, caller.holder, "its client's groups take up too much")
        return False

    def _count_handed_out_id(self, group_id: str, event: messages.Join, caller: GroupCaller) -> None:
        """A member id waits for its use; another one of the same client may lapse for it."""
        lapsed = self._pending.add(caller.holder, group_id, event.new_member_id, event.now_ms)
        # Fair among clients: a client beyond its share loses its own oldest id, never another client's.
        if lapsed is not None and (entry := self._host.get(lapsed[0])) is not None:
            self._feed(entry, messages.Lapse(lapsed[1], event.now_ms))

    def sync(self, request: SyncGroupRequest, caller: GroupCaller, then: Callable[[SyncReply], None]) -> None:
        error = self._closed or sync_error(request, caller.api_version, self.settings)
        entry = self._host.get(request.group_id)
        if error is not ErrorCode.NONE or entry is None:
            then(SyncReply(error or ErrorCode.UNKNOWN_MEMBER_ID))
            return
        more_bytes = entry.more_to_sync(request)
        # Assignments come from the leader, and may be larger than all metadata together.
        if more_bytes and not self._memory.has_room(self.directory.holder(request.group_id), more_bytes):
            then(SyncReply(UNAVAILABLE))
            return
        ticket = self._callers.park(then, SyncReply(UNAVAILABLE), owner=caller.owner, holder=caller.holder)
        if ticket is not None:
            self._feed(entry, sync_event(request, Stamp(ticket, self._clock.monotonic_ms())))

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        error = self._closed or group_id_error(request.group_id, self.settings)
        if error is not ErrorCode.NONE:
            return error
        entry = self._host.get(request.group_id)
        if entry is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        now_ms = self._clock.monotonic_ms()
        # No `_feed`: a heartbeat only moves a deadline back, so neither the timer nor a record can be due. It is the
        # most frequent request.
        return entry.machine.heartbeat(request.member_id, request.group_instance_id, request.generation_id, now_ms)

    def leave(self, group_id: str, leavers: Sequence[Leaver], then: Callable[[LeaveReply], None]) -> None:
        entry = self._host.get(group_id)
        # A group that is not in memory has no members.
        if entry is None:
            then(LeaveReply((self._closed or ErrorCode.UNKNOWN_MEMBER_ID,) * len(leavers)))
            return
        # No owner: a client leaves and closes its connection, and the reply does not depend on it.
        ticket = self._callers.park(then, LeaveReply((UNAVAILABLE,) * len(leavers)))
        if ticket is not None:
            self._feed(entry, messages.LeaveGroup(ticket, self._clock.monotonic_ms(), tuple(leavers)))

    # ---- offsets

    def commit_error(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        """Check a commit, and renew the member's session. Call `commit` in the same loop iteration."""
        error = self._closed or group_id_error(group_id, self.settings, may_be_empty=True)
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
        if self._host.is_closed:
            then(UNAVAILABLE)
        elif not self.offsets.has_room(group_id, changes, holder):
            then(ErrorCode.POLICY_VIOLATION)
        # The first commit creates the group of a consumer that assigns its partitions itself.
        elif not self._is_foreign(group_id) and self._new_entry(group_id, holder) is None:
            then(UNAVAILABLE)
        else:
            self.offsets.log.write(group_id, changes, answer_to(then))

    def transactional_commit_error(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        """Check a commit in a transaction. Call `commit_transactional` in the same loop iteration."""
        error = self._closed or group_id_error(group_id, self.settings)
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
        if self._host.is_closed:
            then(UNAVAILABLE)
        elif not self.offsets.has_room(group_id, changes, holder, len(self.offsets.transactional)):
            then(ErrorCode.POLICY_VIOLATION)
        elif not self._is_foreign(group_id) and self._new_entry(group_id, holder) is None:
            # A retriable error: there is room again when other groups end.
            then(UNAVAILABLE)
        else:
            self.offsets.transactional.write(group_id, producer_id, producer_epoch, changes, answer_to(then))

    # ---- administration

    def get(self, group_id: str) -> ClassicGroup | None:
        """A group to look at, or None."""
        entry = self._host.get(group_id)
        return entry.machine if entry is not None else None

    def reads(self, group_id: str, topic: str) -> bool:
        """Return True if the group has members, and one of them subscribes to the topic."""
        entry = self._host.get(group_id)
        return entry is not None and entry.reads(topic)

    def __iter__(self) -> Iterator[ClassicGroup]:
        """Every group, to look at."""
        return (entry.machine for entry in self._host)

    def __len__(self) -> int:
        return len(self._host)

    def release_empty_group(self, group_id: str) -> bool:
        """Release a group without members, which keeps its offsets, so that it can become one of another kind."""
        entry = self._host.get(group_id)
        if entry is None or entry.machine.state is not GroupState.EMPTY:
            return False
        # DEAD before it is dropped: a late event gets COORDINATOR_NOT_AVAILABLE from it.
        self._feed(entry, messages.Retire())
        self._drop(entry)
        # The offsets stay: they belong to the id, not to a kind of group.
        self.offsets.log.forget_group(group_id, retried_by_retention)
        return True

    def snapshot(self, group_id: str) -> GroupRecord | None:
        """A stable group as it would be stored; None while it is not stable, or a request of a member waits."""
        entry = self._host.get(group_id)
        return entry.machine.snapshot() if entry is not None else None

    def hand_over(self, group_id: str) -> None:
        """Forget a stable group with its members: it has become one of another kind, which deletes its record."""
        entry = self._host.get(group_id)
        assert entry is not None, f"{group_id} is no classic group"
        # No answer is owed: `snapshot` was None if a request of a member had been waiting.
        self._feed(entry, messages.HandOver())
        self._drop(entry)

    def may_adopt(self, record: GroupRecord) -> bool:
        """Return True if a group of these members is within the bounds of classic groups."""
        metadata_bytes = sum(len(member.subscription) for member in record.members)
        assignment_bytes = sum(len(member.assignment) for member in record.members)
        return (
            len(record.members) <= self.settings.members_max
            and metadata_bytes <= self.settings.group_metadata_bytes_max
            and assignment_bytes <= self.settings.assignment_bytes_max
        )

    def adopt(self, group_id: str, record: GroupRecord, holder: str) -> None:
        """Take over a group of another kind, which has written this record. Its members have to join again."""
        now_ms = self._clock.monotonic_ms()
        claimed = self.directory.claim(group_id, GroupKind.CLASSIC, holder)
        assert claimed, f"{group_id} is a group of another kind"
        entry = self._host.put(ClassicGroupEntry(ClassicGroup.restored(group_id, self.settings, record, now_ms)))
        # Their leader is to assign from now on, by the protocol that they have in common.
        self._feed(entry, messages.Rejoin("all members of the consumer protocol have left", now_ms))

    def delete(self, group_id: str, then: Callable[[ErrorCode], None]) -> None:
        """Delete an empty group with all its offsets."""
        entry = self._host.get(group_id)
        error = self._closed or group_id_error(group_id, self.settings, may_be_empty=True)
        if error is not ErrorCode.NONE:
            then(error)
        elif entry is None:
            then(ErrorCode.GROUP_ID_NOT_FOUND)
        # Kafka, too, deletes only groups without members; their offsets go with them.
        elif entry.machine.state is not GroupState.EMPTY:
            then(ErrorCode.NON_EMPTY_GROUP)
        else:
            self._end(entry, self.offsets.table.keys_of_group(group_id), then)

    # ---- inside: groups

    @property
    def _closed(self) -> ErrorCode:
        """The error of every request once another node coordinates, NONE while this one does."""
        return UNAVAILABLE if self._host.is_closed else ErrorCode.NONE

    def _is_foreign(self, group_id: str) -> bool:
        """Return True if the id belongs to a group of another kind."""
        return self.directory.kind(group_id) not in (None, GroupKind.CLASSIC)

    def _taken_over(self, group_id: str) -> bool:
        """A group of another kind that has no members becomes a classic one."""
        return any(peer.release_empty_group(group_id) for peer in self.peers)

    def _new_entry(self, group_id: str, holder: str) -> ClassicGroupEntry | None:
        """The group, made if nobody has named it before, or None if there are too many, or too many of this client."""
        if not self.directory.has_room(group_id, holder):
            # One client must not fill the table of groups: every id that it names costs memory.
            self._refusals.log_refusal(group_id, holder, f"there are {len(self.directory)} groups")
            return None
        return self._entry(group_id, holder)

    def _entry(self, group_id: str, holder: str = NOBODY) -> ClassicGroupEntry:
        """Only for an id that no other kind has."""
        claimed = self.directory.claim(group_id, GroupKind.CLASSIC, holder)
        # The callers have checked the kind, or made the other kind release the id.
        assert claimed, f"{group_id} is a group of another kind"
        return self._host.get(group_id) or self._host.put(ClassicGroupEntry(ClassicGroup(group_id, self.settings)))

    def _end(self, entry: ClassicGroupEntry, keys: Sequence[OffsetKey], then: Callable[[ErrorCode], None]) -> None:
        """Write the end of a group: its offsets, then itself. It stays if meanwhile somebody joins or commits."""
        group = entry.machine

        def offsets_forgotten(error: HutongError | None) -> None:
            # A member may have joined while the tombstones were being written.
            if error is None and group.state is GroupState.EMPTY:
                self.offsets.log.forget_group(group.group_id, ended)
            else:
                then(error_code(error))

        def ended(error: HutongError | None) -> None:
            # A commit may have come meanwhile. Its group stays, without a record of its own.
            if error is None and group.state is GroupState.EMPTY and not self.offsets.log.holds(group.group_id):
                self._feed(entry, messages.Retire())
                self._drop(entry)
            then(error_code(error))

        self.offsets.log.forget(group.group_id, keys, offsets_forgotten)

    def _drop(self, entry: ClassicGroupEntry) -> None:
        self._memory.forget(entry.key)
        if self._host.remove(entry):
            self.directory.release(entry.key, GroupKind.CLASSIC)

    def _feed(self, entry: ClassicGroupEntry, event: Event) -> None:
        for instruction in self._host.handle(entry, event):
            match instruction:
                case Answer(ticket, reply):
                    self._callers.answer(ticket, reply)
                case messages.PersistGroup(record, cause):
                    self._persist(entry, record, cause)
                case messages.Rebalancing(generation_id, reason):
                    self.rebalances_total += 1
                    _log.info("group %s rebalances after generation %d: %s", entry.key, generation_id, reason)
        self._tidy(entry)

    def _tidy(self, entry: ClassicGroupEntry) -> None:
        """Count what the group takes up, and drop it if it has neither members, offsets nor a history."""
        if entry.machine.state is not GroupState.DEAD:
            self._memory.note(entry.key, self.directory.holder(entry.key), entry.machine.memory_bytes)
        # A heartbeat or a failed join of an unknown id must leave nothing in memory.
        if entry.machine.is_blank and not self.offsets.log.holds(entry.key):
            self._drop(entry)

    def _persist(self, entry: ClassicGroupEntry, record: GroupRecord, cause: Cause) -> None:
        since_ms = self._clock.wall_ms()
        # Retention counts from the moment when the last member left (KIP-211).
        entry.empty_since_ms = None if record.members else since_ms

        def appended(error: HutongError | None) -> None:
            now_ms = self._clock.monotonic_ms()
            if error is None:
                self._feed(entry, messages.GroupPersisted(cause, now_ms))
                return
            # A coordinator that has closed answers nobody any more; its successor knows what is stored.
            if not self._host.is_closed:
                _log.error("group %s could not be stored: %s", entry.key, error)
            # A record that is too large fails again, so clients must not retry it. Other errors pass.
            code = ErrorCode.UNKNOWN_SERVER_ERROR if is_too_large(error) else UNAVAILABLE
            self._feed(entry, messages.GroupPersistFailed(cause, code, now_ms))

        records = [(encode_group_key(GroupKey(entry.key)), encode_group(replace(record, since_ms=since_ms)))]
        self._host.append(entry, records, appended)

    # ---- inside: retention

    def _enforce_retention(self, now_ms: int) -> None:
        for entry in self._host:
            group_id, is_empty = entry.key, entry.machine.state is GroupState.EMPTY
            old = self.offsets.table.expired(group_id, entry.usage(), now_ms, self.settings.offsets_retention_ms)
            # A group with nothing left but old offsets ends with them.
            is_last = len(old) == len(self.offsets.table.keys_of_group(group_id))
            if is_empty and is_last and not entry.machine.member_table.pending:
                self._end(entry, old, retried_by_retention)
            elif old:
                self.offsets.log.forget(group_id, old, retried_by_retention)
