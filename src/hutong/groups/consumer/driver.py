"""The coordinator of consumer groups (KIP-848): heartbeats, members of the classic protocol, topics and patterns.

Strategy: what it shares with other kinds of groups is in `assigned/driver.py`. Decisions are in `machine.py`, checks of
input in `requests.py`. Belongs to one loop.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from hutong.foundation.clock import Clock
from hutong.foundation.machine_host import StatePort
from hutong.foundation.timers import Timer, TimerWheel
from hutong.groups.assigned.driver import NO_ROOM, UNAVAILABLE, AssignedGroupCoordinator, AssignedGroupEntry
from hutong.groups.assigned.messages import (
    JOINING,
    SubscribedTopicsChanged,
)
from hutong.groups.assigned.settings import GroupTimes
from hutong.groups.classic.messages import JoinReply, SyncReply
from hutong.groups.classic.records import encode_group
from hutong.groups.classic.requests import join_error, join_event, sync_error, sync_event
from hutong.groups.consumer.assignment.catalogue import TopicCatalogue, TopicFacts
from hutong.groups.consumer.machine import ConsumerGroup
from hutong.groups.consumer.members import classic_members
from hutong.groups.consumer.members.member import PATTERN_BYTES, declared_bytes
from hutong.groups.consumer.messages import HeartbeatReply, StoredGroup
from hutong.groups.consumer.records import RECORDS
from hutong.groups.consumer.requests import bytes_of_heartbeat, heartbeat_error, heartbeat_event
from hutong.groups.consumer.settings import ConsumerGroupSettings
from hutong.groups.directory import GroupDirectory, GroupKind
from hutong.groups.offsets.coordinator import OffsetCoordinator, retried_by_retention
from hutong.groups.record_keys import GroupKey, encode_group_key
from hutong.groups.requests import GroupCaller, Stamp
from hutong.wire.kafka.apis.k11_join_group import JoinGroupRequest
from hutong.wire.kafka.apis.k12_heartbeat import HeartbeatRequest
from hutong.wire.kafka.apis.k14_sync_group import SyncGroupRequest
from hutong.wire.kafka.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.groups.peer import ClassicGroups

MATCH_PAUSE_MS: Final = 30  # between two stretches of matching names: a quarter of the loop's time at worst
_CLOSED: Final = HeartbeatReply(UNAVAILABLE)
_log = logging.getLogger("hutong.groups")


class ConsumerGroupCoordinator(AssignedGroupCoordinator[ConsumerGroup]):
    """All consumer groups of this node.

    Call `topic_changed` for every topic before `start`.
    """

    KIND = GroupKind.CONSUMER

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
        super().__init__(
            clock=clock,
            timers=timers,
            state=state,
            directory=directory,
            offsets=offsets,
            classic=classic,
            records=RECORDS,
            waits_max=self.settings.waits_max,
            groups_bytes_max=self.settings.groups_bytes_max,
        )
        self._random_bytes = random_bytes
        self._times_of = times_of or (lambda _group_id: self.settings.times)
        self._match_timer: Timer | None = None
        self._has_started = False

    def new_group(self, group_id: str) -> ConsumerGroup:
        return ConsumerGroup(group_id, self.catalogue, self.settings, self._times_of(group_id))

    def restored_group(self, group_id: str, stored: StoredGroup, now_ms: int) -> ConsumerGroup:
        times = self._times_of(group_id)
        return ConsumerGroup.restored(group_id, self.catalogue, self.settings, times, stored, now_ms)

    def close(self) -> None:
        """Answer everything that waits; clients will look for another coordinator."""
        if self._match_timer is not None:
            self._match_timer.cancel()
        super().close()

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
        if isinstance(entry, tuple):
            then(HeartbeatReply(*entry))
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

    def _member_entry(self, group_id: str) -> AssignedGroupEntry[ConsumerGroup]:
        """Return the entry of a group that `has_members`."""
        entry = self._host.get(group_id)
        assert entry is not None, f"{group_id} is no consumer group"
        return entry

    # ---- topics and settings

    def topic_changed(self, topic: TopicFacts, exists: bool) -> bool:
        """A topic came, went or has another number of partitions. False if it was so already."""
        # Readers before and after the change: a group may have read the topic until now, or match it from now on.
        concerned = self._readers(topic.name)
        has_changed = self.catalogue.put(topic) if exists else self.catalogue.remove(topic.name)
        # Catalogues report each change of a topic, most of which concern its settings alone.
        if not has_changed:
            return False
        now_ms = self._clock.monotonic_ms()
        for entry in {id(entry): entry for entry in [*concerned, *self._readers(topic.name)]}.values():
            self._feed(entry, SubscribedTopicsChanged(now_ms))
        self._match_soon()
        return True

    def settings_changed(self, group_id: str) -> None:
        """The group's own settings were altered."""
        entry = self._host.get(group_id)
        if entry is not None:
            # The new times count from each member's next heartbeat on.
            entry.machine.times = self._times_of(group_id)

    def reads(self, group_id: str, topic: str) -> bool:
        """Return True if the group has members, and one of them subscribes to the topic."""
        group = self.get(group_id)
        return group is not None and bool(group.members) and group.subscriptions.reads(topic)

    # ---- inside

    def _converted(
        self, group_id: str, caller: GroupCaller
    ) -> AssignedGroupEntry[ConsumerGroup] | tuple[ErrorCode, str]:
        """Convert a classic group with members into a consumer group, if the policy and its metadata allow that."""
        if not self.settings.migration_policy.allows_upgrade:
            return self._foreign(group_id)
        record = self._classic.snapshot(group_id)
        # A classic group can be converted only while it is stable: during a rebalance its members wait at barriers.
        if record is None:
            return UNAVAILABLE, f"Group {group_id} is rebalancing by the classic protocol."
        group = self.new_group(group_id)
        if not classic_members.take_over(group, record, self._clock.monotonic_ms()):
            return self._foreign(group_id)
        self._classic.hand_over(group_id)
        self._directory.claim(group_id, GroupKind.CONSUMER, caller.holder)
        _log.info("group %s is under the broker's assignment from epoch %d on", group_id, group.epoch)
        entry = self._host.put(AssignedGroupEntry(group))
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

    def _readers(self, topic: str) -> list[AssignedGroupEntry[ConsumerGroup]]:
        return [entry for entry in self._host if entry.machine.subscriptions.reads(topic)]

    def start(self) -> None:
        super().start()
        self._has_started = True

    def _fed(self, entry: AssignedGroupEntry[ConsumerGroup]) -> None:
        self._match_soon()
        # Not at a start: classic groups have not been restored yet.
        if self._has_started and self.settings.migration_policy.allows_downgrade and not self._host.is_closed:
            self._downgrade(entry)

    def _downgrade(self, entry: AssignedGroupEntry[ConsumerGroup]) -> None:
        """Make a group whose last member of the new protocol has gone a classic group again (KIP-848)."""
        group, group_id = entry.machine, entry.key
        # As in Kafka only such a loss is the reason: a heartbeat that is refused must not move the group to and fro.
        if not group.has_lost_members or not group.members or group.is_dead:
            return
        group.has_lost_members = False
        record = classic_members.hand_back(group, self._clock.wall_ms())
        if record is None or not self._classic.may_adopt(record):
            return
        for member in list(group.members.values()):
            group.drop(member)
        holder = self._directory.holder(group_id)
        tombstones = self._let_go(entry)
        # In one append, as the way here: a crash leaves either the one group or the other.
        classic_record = (encode_group_key(GroupKey(group_id)), encode_group(record))
        self._state.append_all([*tombstones, classic_record], retried_by_retention)
        _log.info("group %s is a classic group again from generation %d on", group_id, record.generation_id)
        self._classic.adopt(group_id, record, holder)
