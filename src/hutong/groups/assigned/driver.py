"""The common part of the coordinators of all groups in which the broker assigns.

Strategy: each request becomes an event of one group, in a `MachineHost`. The records that the event changed are
appended together. Its answer leaves when they, and all that the group had appended before, are durable. Committed
offsets are in the table and the log that all kinds of groups share. Decisions are in each kind's `machine.py`. Belongs
to one loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, OwnerGone
from hutong.foundation.machine import Answer
from hutong.foundation.machine_host import MachineEntry, MachineHost, ParkedCallers, StatePort, StateRecord
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.pending import Continuation
from hutong.groups.assigned.core import AssignedGroupCore
from hutong.groups.assigned.messages import (
    EpochNote,
    RecordKey,
    Removal,
    Remove,
    RemoveReply,
    StoreFailed,
    StoreRecords,
    SubscribedTopicsChanged,
)
from hutong.groups.assigned.records import GroupRecords
from hutong.groups.assigned.states import AssignedGroupState
from hutong.groups.directory import GroupDirectory, GroupKind
from hutong.groups.memory import GroupMemory
from hutong.groups.offsets.coordinator import OffsetCoordinator, retried_by_retention
from hutong.groups.offsets.store import Usage
from hutong.groups.refusals import GroupRefusals
from hutong.groups.requests import GroupCaller
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.groups.peer import ClassicGroups

# A client retries this code after asking for the coordinator again: right for every error here that may pass.
UNAVAILABLE: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE
NO_ROOM: Final = "Members of this client's groups take up as much memory as they may: let some of them leave."
_log = logging.getLogger("hutong.groups")

GroupT = TypeVar("GroupT", bound=AssignedGroupCore[Any, Any])


class AssignedGroupEntry(MachineEntry[str, Any], Generic[GroupT]):
    """One group, and what the coordinator keeps of it."""

    __slots__ = ("empty_since_ms", "extra")

    machine: GroupT

    def __init__(self, group: GroupT) -> None:
        super().__init__(group.group_id, group)
        self.empty_since_ms: int | None = None  # wall time; None while it has members
        self.extra: list[StateRecord] = []  # to be appended with the next records


class AssignedGroupCoordinator(Generic[GroupT]):
    """All groups of one kind on this node.

    Start: `replay` every record of the state topic, then `start`, before classic groups do. A `then` is called exactly
    once, on the loop; errors are values, never raised.
    """

    KIND: ClassVar[GroupKind]

    def __init__(
        self,
        *,
        clock: Clock,
        timers: TimerWheel,
        state: StatePort,
        directory: GroupDirectory,
        offsets: OffsetCoordinator,
        classic: ClassicGroups,
        records: GroupRecords[Any],
        waits_max: int,
        groups_bytes_max: int,
    ) -> None:
        self.rebalances_total = 0
        self._clock = clock
        self._timers = timers
        self._state = state
        self._directory = directory
        self._offsets = offsets
        self._classic = classic
        self._records = records
        self._refusals = GroupRefusals(clock)
        self._memory = GroupMemory("groups_bytes_max", groups_bytes_max)
        self._host: MachineHost[AssignedGroupEntry[GroupT], Any, Any] = MachineHost(clock, timers, state, self._feed)
        self._stored: dict[str, Any] = {}  # filled by replay, emptied by start
        self._callers = ParkedCallers(f"{self.KIND.value} group waits", timers, waits_max)
        offsets.retention_passes.append(self._enforce_retention)
        classic.peers.append(self)

    # ---- what each kind of group has of its own

    def new_group(self, group_id: str) -> GroupT:
        """A group without members."""
        raise NotImplementedError

    def restored_group(self, group_id: str, stored: Any, now_ms: int) -> GroupT:
        """The group of its records."""
        raise NotImplementedError

    # ---- start and stop

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one record of the state topic, oldest first. Raises CorruptData."""
        self._records.replay(self._stored, key, value)

    def start(self) -> None:
        """Restore the groups as replayed: members have one session time-out from now to send a heartbeat."""
        now_ms = self._clock.monotonic_ms()
        for group_id, stored in self._stored.items():
            # These groups start before classic ones, so those cannot have the id yet.
            self._directory.claim(group_id, self.KIND)
            group = self.restored_group(group_id, stored, now_ms)
            entry = self._host.put(AssignedGroupEntry(group))
            entry.empty_since_ms = None if group.members else self._clock.wall_ms()
            # Topics may have changed while the node was down.
            self._feed(entry, SubscribedTopicsChanged(now_ms))
        self._stored.clear()

    def close(self) -> None:
        """Answer everything that waits; clients will look for another coordinator."""
        self._host.close()
        self._callers.close(OwnerGone("the node is stopping"))

    # ---- membership

    def remove(self, group_id: str, removals: Sequence[Removal], then: Callable[[RemoveReply], None]) -> None:
        """Members that are taken out by an administrator (LeaveGroup)."""
        entry = self._host.get(group_id)
        if entry is None:
            error = UNAVAILABLE if self._host.is_closed else ErrorCode.UNKNOWN_MEMBER_ID
            then(RemoveReply((error,) * len(removals)))
            return
        # No owner: the removal takes place whether or not the administrator's connection stays open.
        ticket = self._callers.park(then, RemoveReply((UNAVAILABLE,) * len(removals)))
        if ticket is not None:
            self._feed(entry, Remove(ticket, self._clock.monotonic_ms(), tuple(removals)))

    # ---- offsets

    def commit_error(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        partitions: Iterable[tuple[bytes, int]],
        api_version: int,
    ) -> ErrorCode:
        """Check a commit. Call `GroupCoordinator.commit` in the same loop iteration."""
        if self._host.is_closed:
            return UNAVAILABLE
        group = self.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return group.check_commit(member_id, epoch, partitions, api_version)

    def offset_fetch_error(self, group_id: str, member_id: str | None, epoch: int) -> ErrorCode:
        if self._host.is_closed:
            return UNAVAILABLE
        group = self.get(group_id)
        return ErrorCode.NONE if group is None else group.check_offset_fetch(member_id, epoch)

    # ---- administration

    def get(self, group_id: str) -> GroupT | None:
        """A group to look at, or None."""
        entry = self._host.get(group_id)
        return entry.machine if entry is not None else None

    def kind(self, group_id: str) -> GroupKind | None:
        """The kind of the group that has this id, or None."""
        return self._directory.kind(group_id)

    def __iter__(self) -> Iterator[GroupT]:
        """Every group, to look at."""
        return (entry.machine for entry in self._host)

    def __len__(self) -> int:
        return len(self._host)

    def _enforce_retention(self, now_ms: int) -> None:
        """Forget old offsets, and groups that have neither members nor offsets any more. `now_ms` is wall time."""
        table, retention_ms = self._offsets.table, self._offsets.settings.offsets_retention_ms
        for entry in self._host:
            group_id = entry.machine.group_id
            old = table.expired(group_id, _usage(entry), now_ms, retention_ms)
            # The last offsets of an empty group take the group with them.
            if not entry.machine.members and len(old) == len(table.keys_of_group(group_id)):
                self._end(entry, retried_by_retention)
            elif old:
                self._offsets.log.forget(group_id, old, retried_by_retention)

    def delete(self, group_id: str, then: Callable[[ErrorCode], None]) -> None:
        """Delete an empty group with all its offsets."""
        entry = self._host.get(group_id)
        if entry is None:
            then(UNAVAILABLE if self._host.is_closed else ErrorCode.GROUP_ID_NOT_FOUND)
        elif entry.machine.state is not AssignedGroupState.EMPTY:
            then(ErrorCode.NON_EMPTY_GROUP)
        else:
            self._end(entry, then)

    def release_empty_group(self, group_id: str) -> bool:
        """Release a group without members, which keeps its offsets, so that it can become a classic one."""
        entry = self._host.get(group_id)
        if entry is None or entry.machine.state is not AssignedGroupState.EMPTY:
            return False
        self._retire(entry, retried_by_retention)
        return True

    # ---- inside

    def _entry_for(
        self, group_id: str, caller: GroupCaller, may_create: bool
    ) -> AssignedGroupEntry[GroupT] | tuple[ErrorCode, str]:
        """The group of a heartbeat, made where the heartbeat may do that, or its error."""
        entry = self._host.get(group_id)
        if entry is not None:
            return entry
        directory = self._directory
        # Only epoch 0 creates a group. Any other epoch of an unknown group is one that has ended (KIP-848).
        if not may_create:
            return ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found."
        if not directory.has_room(group_id, caller.holder):
            self._refusals.log_refusal(group_id, caller.holder, f"there are {len(directory)} groups")
            return UNAVAILABLE, "There are too many groups."
        # An empty classic group is replaced at once. One with members has to be converted, if that is allowed.
        if directory.kind(group_id) is GroupKind.CLASSIC and not self._classic.release_empty_group(group_id):
            return self._converted(group_id, caller)
        if not directory.claim(group_id, self.KIND, caller.holder):
            return self._foreign(group_id)
        return self._host.put(AssignedGroupEntry(self.new_group(group_id)))

    def _converted(self, group_id: str, caller: GroupCaller) -> AssignedGroupEntry[GroupT] | tuple[ErrorCode, str]:
        """A classic group with members, as one of this kind where that can be. This kind cannot, unless it says so."""
        return self._foreign(group_id)

    def _foreign(self, group_id: str) -> tuple[ErrorCode, str]:
        return ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a {self.KIND.value} group."

    def _has_room(
        self,
        entry: AssignedGroupEntry[GroupT],
        member_id: str,
        instance_id: str | None,
        wanted_bytes: int,
        caller: GroupCaller,
    ) -> bool:
        """Return True if the group's client has room for this size of one member.

        A member that needs no more bytes than it, or the instance before it, had always passes.
        """
        group_id = entry.machine.group_id
        # A static member under a new id replaces the old one, so its bytes count once.
        known_id = entry.machine.static_ids.get(instance_id or "", member_id)
        more_bytes = wanted_bytes - entry.machine.footprint_bytes(known_id)
        if more_bytes <= 0 or self._memory.has_room(self._directory.holder(group_id), more_bytes):
            return True
        self._refusals.log_refusal(group_id, caller.holder, "its client's groups take up too much")
        return False

    def _end(self, entry: AssignedGroupEntry[GroupT], then: Callable[[ErrorCode], None]) -> None:
        """Write the end of a group: its offsets, then itself. It stays if meanwhile somebody joins."""
        group_id = entry.machine.group_id

        def offsets_forgotten(error: HutongError | None) -> None:
            if error is not None:
                then(UNAVAILABLE)
            # A member may have joined while the tombstones were being written, or another caller ended the group.
            elif not self._host.hosts(entry) or entry.machine.state is not AssignedGroupState.EMPTY:
                then(ErrorCode.NON_EMPTY_GROUP)
            else:
                self._retire(entry, lambda failed: then(ErrorCode.NONE if failed is None else UNAVAILABLE))

        self._offsets.log.forget(group_id, self._offsets.table.keys_of_group(group_id), offsets_forgotten)

    def _retire(self, entry: AssignedGroupEntry[GroupT], then: Continuation[None]) -> None:
        """Delete every record of a group that nobody is a member of."""
        self._state.append_all(self._let_go(entry), then)

    def _let_go(self, entry: AssignedGroupEntry[GroupT]) -> list[StateRecord]:
        """Forget a group that nobody is a member of; return the tombstones of its records."""
        group = entry.machine
        keys = group.retire()
        self._memory.forget(group.group_id)
        # From now on the id is free, although the tombstones are still being written: appends keep their order.
        self._host.remove(entry)
        self._directory.release(group.group_id, self.KIND)
        return [(self._records.encode_key(group.group_id, key), None) for key in keys]

    def _feed(self, entry: AssignedGroupEntry[GroupT], event: Any) -> None:
        for instruction in self._host.handle(entry, event):
            match instruction:
                case StoreRecords(keys):
                    self._store(entry, keys)
                case Answer(ticket, reply):
                    self._host.when_durable(entry, partial(self._callers.settle, ticket, reply))
                case EpochNote(text, is_rebalance):
                    self.rebalances_total += is_rebalance
                    _log.info("group %s: %s", entry.key, text)
        if not entry.machine.is_dead:
            # After each event, since targets and patterns change without any request of the member.
            self._memory.note(entry.key, self._directory.holder(entry.key), entry.machine.memory_bytes)
        self._fed(entry)

    def _fed(self, entry: AssignedGroupEntry[GroupT]) -> None:
        """Do what a kind of group has to do after each event."""

    def _store(self, entry: AssignedGroupEntry[GroupT], keys: tuple[RecordKey, ...]) -> None:
        group = entry.machine
        records: list[StateRecord] = [
            (self._records.encode_key(entry.key, key), self._records.encode_value(group, key)) for key in keys
        ]
        records += entry.extra
        entry.extra = []
        # Retention counts from the moment when the last member left (KIP-211).
        if group.members:
            entry.empty_since_ms = None
        elif entry.empty_since_ms is None:
            entry.empty_since_ms = self._clock.wall_ms()

        def appended(error: HutongError | None) -> None:
            # Callers of this append get an error. Members repeat their heartbeats, and the records are written again.
            # A coordinator that has closed answers nobody any more; its successor knows what is stored.
            if error is not None and not self._host.is_closed:
                _log.error("group %s could not be stored: %s", entry.key, error)
                group.handle(StoreFailed(keys))  # it stores them again with its next change

        self._host.append(entry, records, appended)

    def _tidy(self, entry: AssignedGroupEntry[GroupT]) -> None:
        """A group that nobody has ever been a member of leaves nothing behind."""
        group = entry.machine
        # A refused first heartbeat must leave nothing in memory: any client can send any id.
        if not group.epoch and not group.members and self._host.remove(entry):
            self._memory.forget(group.group_id)
            self._directory.release(group.group_id, self.KIND)


def _usage(entry: AssignedGroupEntry[Any]) -> Usage:
    has_members = bool(entry.machine.members)
    return Usage(
        has_members=has_members,
        empty_since_ms=entry.empty_since_ms,
        subscribed=entry.machine.topic_names if has_members else None,
    )
