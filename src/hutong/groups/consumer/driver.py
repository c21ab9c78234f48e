"""The coordinator of consumer groups (KIP-848): carries out what groups decide, and is what the node sees of them.

Strategy: each request becomes an event of one group, in a `MachineHost`. The records that the event changed are
appended together. Its answer leaves when they, and all that the group had appended before, are durable. Committed
offsets are in the table and the log that all kinds of groups share. Decisions are in `machine.py`, checks of input in
`requests.py`. Belongs to one loop.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, OwnerGone
from hutong.foundation.machine import Answer
from hutong.foundation.machine_host import MachineEntry, MachineHost, ParkedCallers, StatePort, StateRecord
from hutong.foundation.timers import Timer, TimerWheel
from hutong.foundation.waiting.pending import Continuation
from hutong.groups.classic.messages import JoinReply, SyncReply
from hutong.groups.classic.requests import join_error, join_event, sync_error, sync_event
from hutong.groups.consumer.assignment.catalogue import TopicCatalogue, TopicFacts
from hutong.groups.consumer.machine import ConsumerGroup
from hutong.groups.consumer.members import classic_members
from hutong.groups.consumer.members.member import PATTERN_BYTES, declared_bytes
from hutong.groups.consumer.messages import (
    JOINING,
    EpochNote,
    Event,
    HeartbeatReply,
    Instruction,
    RecordKey,
    Removal,
    Remove,
    RemoveReply,
    StoredGroup,
    StoreFailed,
    StoreRecords,
    SubscribedTopicsChanged,
)
from hutong.groups.consumer.records import encode_key, encode_value, replay
from hutong.groups.consumer.requests import bytes_of_heartbeat, heartbeat_error, heartbeat_event
from hutong.groups.consumer.settings import ConsumerGroupSettings, GroupTimes, MigrationPolicy
from hutong.groups.consumer.states import ConsumerGroupState
from hutong.groups.directory import GroupDirectory, GroupKind
from hutong.groups.memory import GroupMemory
from hutong.groups.offsets.coordinator import OffsetCoordinator, retried_by_retention
from hutong.groups.offsets.store import Usage
from hutong.groups.record_keys import GroupKey, encode_group_key
from hutong.groups.refusals import GroupRefusals
from hutong.groups.requests import GroupCaller, Stamp
from hutong.wire.kafka.apis.k11_join_group import JoinGroupRequest
from hutong.wire.kafka.apis.k12_heartbeat import HeartbeatRequest
from hutong.wire.kafka.apis.k14_sync_group import SyncGroupRequest
from hutong.wire.kafka.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.groups.peer import ClassicGroups

# A client retries this code after asking for the coordinator again: right for every error here that may pass.
UNAVAILABLE: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE
MATCH_PAUSE_MS: Final = 30  # between two stretches of matching names: a quarter of the loop's time at worst
_CLOSED: Final = HeartbeatReply(UNAVAILABLE)
NO_ROOM: Final = "Members of this client's groups take up as much memory as they may: let some of them leave."
_log = logging.getLogger("hutong.groups")


class ConsumerGroupEntry(MachineEntry[str, ConsumerGroup]):
    """One group, and what the coordinator keeps of it."""

    __slots__ = ("empty_since_ms", "extra")

    def __init__(self, group: ConsumerGroup) -> None:
        super().__init__(group.group_id, group)
        self.empty_since_ms: int | None = None  # wall time; None while it has members
        self.extra: list[StateRecord] = []  # to be appended with the next records


class ConsumerGroupCoordinator:
    """All consumer groups of this node.

    Start: `replay` every record of the state topic, call `topic_changed` for every topic, then `start`, before classic
    groups do. A `then` is called exactly once, on the loop; errors are values, never raised.
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
        classic: ClassicGroups,
        settings: ConsumerGroupSettings | None = None,
        times_of: Callable[[str], GroupTimes] | None = None,
    ) -> None:
        self.settings = settings or ConsumerGroupSettings()
        self.catalogue = TopicCatalogue()
        self.rebalances_total = 0
        self._clock = clock
        self._timers = timers
        self._state = state
        self._random_bytes = random_bytes
        self._directory = directory
        self._offsets = offsets
        self._classic = classic
        self._refusals = GroupRefusals(clock)
        self._memory = GroupMemory("groups_bytes_max", self.settings.groups_bytes_max)
        self._times_of = times_of or (lambda _group_id: self.settings.times)
        self._host: MachineHost[ConsumerGroupEntry, Event, Instruction] = MachineHost(clock, timers, state, self._feed)
        self._stored: dict[str, StoredGroup] = {}  # filled by replay, emptied by start
        self._callers = ParkedCallers("consumer group waits", timers, self.settings.waits_max)
        self._match_timer: Timer | None = None
        offsets.retention_passes.append(self._enforce_retention)
        classic.peers.append(self)

    # ---- start and stop

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one record of the state topic, oldest first. Raises CorruptData."""
        replay(self._stored, key, value)

    def start(self) -> None:
        """Restore the groups as replayed: members have one session time-out from now to send a heartbeat."""
        now_ms = self._clock.monotonic_ms()
        for group_id, stored in self._stored.items():
            # Consumer groups start first, so no other kind can have the id yet.
            self._directory.claim(group_id, GroupKind.CONSUMER)
            times = self._times_of(group_id)
            group = ConsumerGroup.restored(group_id, self.catalogue, self.settings, times, stored, now_ms)
            entry = self._host.put(ConsumerGroupEntry(group))
            entry.empty_since_ms = None if group.members else self._clock.wall_ms()
            # Topics may have changed while the node was down.
            self._feed(entry, SubscribedTopicsChanged(now_ms))
        self._stored.clear()

    def close(self) -> None:
        """Answer everything that waits; clients will look for another coordinator."""
        if self._match_timer is not None:
            self._match_timer.cancel()
        self._host.close()
        self._callers.close(OwnerGone("the node is stopping"))

    # ---- membership

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: GroupCaller, then: Callable[[HeartbeatReply], None]
    ) -> None:
        # Checks that need no group come first, so that a bad request creates none.
        is_closed = self._host.is_closed
        refusal = _CLOSED if is_closed else heartbeat_error(request, caller.api_version, self.settings)
        if refusal is not None:
            then(refusal)
            return
        entry = self._entry_for(request.group_id, caller, may_create=request.member_epoch == JOINING)
        if isinstance(entry, HeartbeatReply):
            then(entry)
            return
        regex = request.subscribed_topic_regex
        wanted_bytes = bytes_of_heartbeat(request)
        # A pattern that another member of the group uses already is compiled once for both.
        wanted_bytes += PATTERN_BYTES if regex and not entry.machine.subscriptions.holds(regex) else 0
        # Leaving always passes: it frees memory.
        if request.member_epoch >= JOINING and not self._has_room(
            entry, request.member_id, request.instance_id, wanted_bytes, caller
        ):
            self._tidy(entry)
            then(HeartbeatReply(ErrorCode.GROUP_MAX_SIZE_REACHED, NO_ROOM))
            return
        ticket = self._callers.park(then, HeartbeatReply(UNAVAILABLE), owner=caller.owner, holder=caller.holder)
        if ticket is not None:
            # Before version 1 the broker makes the member id; since then clients bring their own (KIP-1082).
            new_id = str(uuid.UUID(bytes=self._random_bytes(16), version=4))
            self._feed(entry, heartbeat_event(request, caller, ticket, self._clock.monotonic_ms(), new_id))
        self._tidy(entry)

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

    # ---- members that speak the classic protocol

    def has_members(self, group_id: str) -> bool:
        """Return True for a consumer group with members: JoinGroup requests of its id belong here."""
        # Once it is closed, the classic coordinator answers, which is closed, too.
        entry = None if self._host.is_closed else self._host.get(group_id)
        return entry is not None and bool(entry.machine.members)

    def join(self, request: JoinGroupRequest, caller: GroupCaller, then: Callable[[JoinReply], None]) -> None:
        """JoinGroup of a group that `has_members`."""
        error = join_error(request, self._offsets.settings)
        if error is not ErrorCode.NONE:
            then(JoinReply(error, request.member_id))
            return
        wanted_bytes = declared_bytes((), None, (), [(each.name, each.metadata) for each in request.protocols])
        entry, instance_id = self._member_entry(request.group_id), request.group_instance_id
        # A classic member costs the same memory, by the metadata of its protocols.
        if not self._has_room(entry, request.member_id, instance_id, wanted_bytes, caller):
            then(JoinReply(ErrorCode.GROUP_MAX_SIZE_REACHED, request.member_id))
            return
        otherwise = JoinReply(UNAVAILABLE, request.member_id)
        ticket = self._callers.park(then, otherwise, owner=caller.owner, holder=caller.holder)
        if ticket is not None:
            unique = str(uuid.UUID(bytes=self._random_bytes(16), version=4))
            stamp = Stamp(ticket, self._clock.monotonic_ms())
            self._feed(entry, join_event(request, caller, stamp, unique))

    def sync(self, request: SyncGroupRequest, caller: GroupCaller, then: Callable[[SyncReply], None]) -> None:
        """SyncGroup of a group that `has_members`."""
        error = sync_error(request, caller.api_version, self._offsets.settings)
        if error is not ErrorCode.NONE:
            then(SyncReply(error))
            return
        ticket = self._callers.park(then, SyncReply(UNAVAILABLE), owner=caller.owner, holder=caller.holder)
        if ticket is not None:
            stamp = Stamp(ticket, self._clock.monotonic_ms())
            self._feed(self._member_entry(request.group_id), sync_event(request, stamp))

    def heartbeat_classic(self, request: HeartbeatRequest) -> ErrorCode:
        """Heartbeat of a group that `has_members`."""
        entry = self._member_entry(request.group_id)
        now_ms = self._clock.monotonic_ms()
        asked = (request.member_id, request.group_instance_id, request.generation_id)
        error = classic_members.heartbeat(entry.machine, *asked, now_ms)
        # This call changes the machine outside of `handle`: it may have set a deadline to join again.
        self._host.arm(entry)
        return error

    def _member_entry(self, group_id: str) -> ConsumerGroupEntry:
        """Return the entry of a group that `has_members`."""
        entry = self._host.get(group_id)
        assert entry is not None, f"{group_id} is no consumer group"
        return entry

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
            return UNAVAILABLE if self._host.is_closed else ErrorCode.GROUP_ID_NOT_FOUND
        return group.check_commit(member_id, epoch, partitions, api_version)

    def offset_fetch_error(self, group_id: str, member_id: str | None, epoch: int) -> ErrorCode:
        if self._host.is_closed:
            return UNAVAILABLE
        group = self.get(group_id)
        return ErrorCode.NONE if group is None else group.check_offset_fetch(member_id, epoch)

    # ---- topics and settings

    def topic_changed(self, topic: TopicFacts, exists: bool) -> None:
        """A topic came, went or has another number of partitions."""
        # Readers before and after the change: a group may have read the topic until now, or match it from now on.
        concerned = self._readers(topic.name)
        has_changed = self.catalogue.put(topic) if exists else self.catalogue.remove(topic.name)
        # Catalogues report each change of a topic, most of which concern its settings alone.
        if not has_changed:
            return
        now_ms = self._clock.monotonic_ms()
        for entry in {id(entry): entry for entry in [*concerned, *self._readers(topic.name)]}.values():
            self._feed(entry, SubscribedTopicsChanged(now_ms))
        self._match_soon()

    def settings_changed(self, group_id: str) -> None:
        """The group's own settings were altered."""
        entry = self._host.get(group_id)
        if entry is not None:
            # The new times count from each member's next heartbeat on.
            entry.machine.times = self._times_of(group_id)

    # ---- administration

    def get(self, group_id: str) -> ConsumerGroup | None:
        """A group to look at, or None."""
        entry = self._host.get(group_id)
        return entry.machine if entry is not None else None

    def reads(self, group_id: str, topic: str) -> bool:
        """Return True if the group has members, and one of them subscribes to the topic."""
        group = self.get(group_id)
        return group is not None and bool(group.members) and group.subscriptions.reads(topic)

    def kind(self, group_id: str) -> GroupKind | None:
        """The kind of the group that has this id, or None."""
        return self._directory.kind(group_id)

    def __iter__(self) -> Iterator[ConsumerGroup]:
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
        elif entry.machine.state is not ConsumerGroupState.EMPTY:
            then(ErrorCode.NON_EMPTY_GROUP)
        else:
            self._end(entry, then)

    def release_empty_group(self, group_id: str) -> bool:
        """Release a group without members, which keeps its offsets, so that it can become a classic one."""
        entry = self._host.get(group_id)
        if entry is None or entry.machine.state is not ConsumerGroupState.EMPTY:
            return False
        self._retire(entry, retried_by_retention)
        return True

    # ---- inside

    def _entry_for(self, group_id: str, caller: GroupCaller, may_create: bool) -> ConsumerGroupEntry | HeartbeatReply:
        entry = self._host.get(group_id)
        if entry is not None:
            return entry
        directory = self._directory
        kind = directory.kind(group_id)
        not_here = HeartbeatReply(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        # Only epoch 0 creates a group. Any other epoch of an unknown group is one that has ended (KIP-848).
        if not may_create:
            return not_here
        if not directory.has_room(group_id, caller.holder):
            self._refusals.log_refusal(group_id, caller.holder, f"there are {len(directory)} groups")
            return HeartbeatReply(UNAVAILABLE, "There are too many groups.")
        # An empty classic group is replaced at once. One with members has to be converted, if the policy allows that.
        if kind is GroupKind.CLASSIC and not self._classic.release_empty_group(group_id):
            return self._upgrade(group_id, caller.holder)
        if not directory.claim(group_id, GroupKind.CONSUMER, caller.holder):
            return HeartbeatReply(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        group = ConsumerGroup(group_id, self.catalogue, self.settings, self._times_of(group_id))
        return self._host.put(ConsumerGroupEntry(group))

    def _has_room(
        self, entry: ConsumerGroupEntry, member_id: str, instance_id: str | None, wanted_bytes: int, caller: GroupCaller
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

    def _upgrade(self, group_id: str, holder: str) -> ConsumerGroupEntry | HeartbeatReply:
        """Convert a classic group with members into a consumer group, if the policy and its metadata allow that."""
        refusal = HeartbeatReply(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        if self.settings.migration_policy not in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL):
            return refusal
        record = self._classic.snapshot(group_id)
        # A classic group can be converted only while it is stable: during a rebalance its members wait at barriers.
        if record is None:
            return HeartbeatReply(UNAVAILABLE, f"Group {group_id} is rebalancing by the classic protocol.")
        group = ConsumerGroup(group_id, self.catalogue, self.settings, self._times_of(group_id))
        if not classic_members.take_over(group, record, self._clock.monotonic_ms()):
            return refusal
        self._classic.hand_over(group_id)
        self._directory.claim(group_id, GroupKind.CONSUMER, holder)
        _log.info("group %s is under the broker's assignment from epoch %d on", group_id, group.epoch)
        entry = self._host.put(ConsumerGroupEntry(group))
        # With the first records of the new group in one append: a crash leaves either the one group or the other.
        entry.extra.append((encode_group_key(GroupKey(group_id)), None))  # the classic group's record
        return entry

    def _match_soon(self) -> None:
        """Schedule the next stretch of matching, if names wait for it; other work runs in between."""
        # Patterns come from clients, and a slow one may take milliseconds for each name. Pauses keep the loop free.
        if self.catalogue.has_work and self._match_timer is None and not self._host.is_closed:
            self._match_timer = self._timers.add(self._clock.monotonic_ms() + MATCH_PAUSE_MS, self._match)

    def _match(self) -> None:
        self._match_timer = None
        regex = self.catalogue.work()
        if regex is not None:
            now_ms = self._clock.monotonic_ms()
            for entry in [entry for entry in self._host if entry.machine.subscriptions.holds(regex)]:
                self._feed(entry, SubscribedTopicsChanged(now_ms))
        self._match_soon()

    def _readers(self, topic: str) -> list[ConsumerGroupEntry]:
        return [entry for entry in self._host if entry.machine.subscriptions.reads(topic)]

    def _end(self, entry: ConsumerGroupEntry, then: Callable[[ErrorCode], None]) -> None:
        """Write the end of a group: its offsets, then itself. It stays if meanwhile somebody joins."""
        group_id = entry.machine.group_id

        def offsets_forgotten(error: HutongError | None) -> None:
            if error is not None:
                then(UNAVAILABLE)
            # A member may have joined while the tombstones were being written, or another caller ended the group.
            elif not self._host.hosts(entry) or entry.machine.state is not ConsumerGroupState.EMPTY:
                then(ErrorCode.NON_EMPTY_GROUP)
            else:
                self._retire(entry, lambda failed: then(ErrorCode.NONE if failed is None else UNAVAILABLE))

        self._offsets.log.forget(group_id, self._offsets.table.keys_of_group(group_id), offsets_forgotten)

    def _retire(self, entry: ConsumerGroupEntry, then: Continuation[None]) -> None:
        """Delete every record of a group that nobody is a member of."""
        group = entry.machine
        keys = group.retire()
        self._memory.forget(group.group_id)
        # From now on the id is free, although the tombstones are still being written: appends keep their order.
        self._host.remove(entry)
        self._directory.release(group.group_id, GroupKind.CONSUMER)
        self._state.append_all([(encode_key(group.group_id, key), None) for key in keys], then)

    def _feed(self, entry: ConsumerGroupEntry, event: Event) -> None:
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
        self._match_soon()

    def _store(self, entry: ConsumerGroupEntry, keys: tuple[RecordKey, ...]) -> None:
        group = entry.machine
        records: list[StateRecord] = [(encode_key(entry.key, key), encode_value(group, key)) for key in keys]
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

    def _tidy(self, entry: ConsumerGroupEntry) -> None:
        """A group that nobody has ever been a member of leaves nothing behind."""
        group = entry.machine
        # A refused first heartbeat must leave nothing in memory: any client can send any id.
        if not group.epoch and not group.members and self._host.remove(entry):
            self._memory.forget(group.group_id)
            self._directory.release(group.group_id, GroupKind.CONSUMER)


def _usage(entry: ConsumerGroupEntry) -> Usage:
    has_members = bool(entry.machine.members)
    return Usage(
        has_members=has_members,
        empty_since_ms=entry.empty_since_ms,
        subscribed=entry.machine.subscriptions.names if has_members else None,
    )
