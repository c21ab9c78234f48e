"""One consumer group whose partitions the broker assigns (KIP-848): events in, instructions out.

Strategy: a group has three numbers. The *group epoch* rises with every change that matters (a member joins, leaves or
changes its subscription; a topic is created, deleted or gets partitions). The *assignment epoch* is the group epoch for
which the target assignment was computed. A *member epoch* follows when that member has taken its step (`member.step`).
No member waits for another: each heartbeat is answered with the partitions that the member may have now.

Changes take effect at once, and each notes the keys of the records it changes. The driver holds every answer back until
those records are durable. A record that could not be stored is stored again with the next change.

Knows nothing of sockets, clocks, disks or committed offsets. All time-outs are deadlines compared on `Tick`.
"""

from collections.abc import Iterable, Mapping

from hutong.foundation.errors import Refused
from hutong.foundation.machine import Answer, Tick
from hutong.groups.classic.messages import Join, Sync
from hutong.groups.consumer.assignment.catalogue import TopicCatalogue
from hutong.groups.consumer.core import ConsumerGroupCore
from hutong.groups.consumer.members import classic_members
from hutong.groups.consumer.members.checks import commit_error, find_member, find_removed, offset_fetch_error
from hutong.groups.consumer.members.member import ConsumerMember, MemberState
from hutong.groups.consumer.messages import (
    LEAVING_FOR_A_WHILE,
    NO_TIMEOUT,
    ConsumerGroupDescription,
    ConsumerHeartbeat,
    EpochNote,
    Event,
    HeartbeatReply,
    Instruction,
    Partition,
    RecordKey,
    RecordKind,
    Remove,
    RemoveReply,
    StoredGroup,
    StoreFailed,
    StoreRecords,
    SubscribedTopicsChanged,
)
from hutong.groups.consumer.record_tables import MemberValue
from hutong.groups.consumer.settings import ConsumerGroupSettings, GroupTimes
from hutong.wire.kafka.error_codes import ErrorCode

_NO_PARTITIONS: frozenset[Partition] = frozenset()


class ConsumerGroup(ConsumerGroupCore):
    """One group. `times` may be replaced at any time: they count from the next heartbeat on."""

    __slots__ = ()

    @classmethod
    def restored(
        cls,
        group_id: str,
        catalogue: TopicCatalogue,
        settings: ConsumerGroupSettings,
        times: GroupTimes,
        stored: StoredGroup,
        now_ms: int,
    ) -> "ConsumerGroup":
        """The group of its records. Members have one session time-out to send a heartbeat."""
        group = cls(group_id, catalogue, settings, times)
        group.epoch, group.assignment_epoch = stored.epoch, stored.assignment_epoch
        for member_id, stored_member in stored.members.items():
            member = ConsumerMember.restored(member_id, stored_member, stored.currents.get(member_id))
            group.add(member)
            group.touch(RecordKind.MEMBER, member_id)
            # A pattern is compiled again. One that this build no longer accepts must not keep the node from starting.
            group._restore_subscription(member, stored_member)
            group.targets[member_id] = stored.targets.get(member_id, _NO_PARTITIONS)
            group.owners.update(dict.fromkeys(member.held(), member_id))
            # The time that the node was down does not count: members could not send heartbeats.
            group.renew(member, now_ms)
            group._deadlines.watch_revocation(member, now_ms)
        group.count_targets()
        group.count_footprints()
        # Everything is as stored, so nothing is to be written.
        group._touched.clear()
        # The stored hash names the topics of the last epoch. If topics changed while the node was down, a new epoch
        # begins.
        group.subscriptions.believe(stored.metadata_hash)
        return group

    # ---- questions

    def next_tick_ms(self) -> int | None:
        """The time at which a `Tick` is due, or None while nothing can expire. May be early, never late."""
        is_behind = self.members and self.epoch > self.assignment_epoch and self._may_assign
        # While patterns are being matched no tick can help: the catalogue reports the end itself.
        assign_ms = self._assign_after_ms if is_behind else None
        return min((due for due in (self._deadlines.next_tick_ms, assign_ms) if due is not None), default=None)

    def check_commit(self, member_id: str, epoch: int, partitions: Iterable[Partition], api_version: int) -> ErrorCode:
        """Check a commit of these partitions."""
        return commit_error(self.members, member_id, epoch, partitions, api_version)

    def check_offset_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Check an OffsetFetch: a member with an old epoch would read old offsets."""
        return offset_fetch_error(self.members, member_id, epoch)

    def describe(self) -> ConsumerGroupDescription:
        return ConsumerGroupDescription(
            group_id=self.group_id,
            state=self.state.value,
            epoch=self.epoch,
            assignment_epoch=self.assignment_epoch,
            assignor=self.assignor_name(),
            members=tuple(
                member.describe(self.targets.get(member.member_id, _NO_PARTITIONS)) for member in self.members.values()
            ),
        )

    # ---- events

    def handle(self, event: Event) -> list[Instruction]:
        match event:
            case ConsumerHeartbeat():
                self._heartbeat(event)
            case Remove():
                self._remove_all(event)
            case Tick(now_ms):
                self._tick(now_ms)
            case SubscribedTopicsChanged(now_ms):
                # Only topics that members read raise the epoch. Others do so if a pattern now matches them.
                if self.subscriptions.refresh():
                    self.begin_epoch("topics changed", now_ms)
                else:
                    self.assign(now_ms)
            case Join():
                self._out.append(Answer(event.ticket, classic_members.join(self, event)))
            case Sync():
                self._out.append(Answer(event.ticket, classic_members.sync(self, event)))
            case StoreFailed(keys):
                # Nobody waits for these records: the driver has answered with an error. They go with the next change.
                self._touched.update(dict.fromkeys(keys))
                return []
        if self._touched:
            self.count_footprints()
            # Records come before answers, so that the driver knows that the answers depend on them.
            self._out.insert(0, StoreRecords(tuple(sorted(self._touched))))
            self._touched.clear()
        out, self._out = self._out, []
        return out

    def retire(self) -> tuple[RecordKey, ...]:
        """The group ends: every record it may have is to be deleted. Only an empty group is ever retired."""
        assert not self.members
        self.is_dead = True
        # Records that a failed append left dirty may be on disk. They get tombstones, too.
        kinds = (RecordKind.GROUP, RecordKind.TARGET_EPOCH)
        return tuple(sorted({*self._touched, *((kind, "") for kind in kinds)}))

    # ---- heartbeats

    def _heartbeat(self, beat: ConsumerHeartbeat) -> None:
        try:
            # KIP-848: epoch -1 leaves, -2 leaves for a while (static members), 0 joins, others are heartbeats.
            reply = self._leave(beat) if beat.epoch < 0 else self._keep(beat)
        except Refused as refused:
            reply = HeartbeatReply(ErrorCode(refused.code), refused.message)
        self._out.append(Answer(beat.ticket, reply))

    def _keep(self, beat: ConsumerHeartbeat) -> HeartbeatReply:
        """A member comes, comes back or stays."""
        known = find_member(beat, self.members, self.static_ids, self._settings.members_max)
        # An invalid pattern is refused before anything changes (INVALID_REGULAR_EXPRESSION).
        if beat.topic_regex:
            self.catalogue.check(beat.topic_regex)
        member = self._find_or_create_member(beat, known)
        # The reply carries an assignment only if it changed, or if the client sent everything, as it does after a lost
        # reply.
        had = dict(member.assigned)
        self.renew(member, beat.now_ms)
        reads_otherwise = self._update_declaration(member, beat)
        if known is None:
            self.begin_epoch(f"{member.member_id} joined", beat.now_ms)
        # Each change of a subscription needs a new target, even if the topics stay the same: a pattern may match more
        # later.
        elif reads_otherwise:
            self.begin_epoch(f"{member.member_id} subscribed otherwise", beat.now_ms)
        else:
            self.assign(beat.now_ms)
        # At most one step for each heartbeat: the next one depends on what the client confirms.
        self.reconcile(member, beat.owned, beat.now_ms)
        # A client sends all of its fields when it joins, and after an error: it needs the whole state back.
        says_all = (
            beat.rebalance_timeout_ms != NO_TIMEOUT
            and (beat.topic_names is not None or beat.topic_regex is not None)
            and beat.owned is not None
        )
        is_news = says_all or had.keys() != member.assigned.keys()
        return HeartbeatReply(
            ErrorCode.NONE,
            member_id=member.member_id,
            epoch=member.epoch,
            heartbeat_interval_ms=self.times.heartbeat_interval_ms,
            assignment=frozenset(member.assigned) if is_news else None,
        )

    def _find_or_create_member(self, beat: ConsumerHeartbeat, known: ConsumerMember | None) -> ConsumerMember:
        """The member's place: its own, a new one, or that of the static member that it takes over."""
        if known is None:
            member = ConsumerMember(beat.member_id, instance_id=beat.instance_id)
            self.add(member)
            self.targets[beat.member_id] = _NO_PARTITIONS
            self.touch(RecordKind.MEMBER, beat.member_id)
            self.touch(RecordKind.CURRENT, beat.member_id)
        # A new process with the same instance id (KIP-345).
        elif known.member_id != beat.member_id:
            member = self.rename(known, beat.member_id)
        else:
            member = known
        return member

    def _update_declaration(self, member: ConsumerMember, beat: ConsumerHeartbeat) -> bool:
        """Store the member's declaration; return True if its subscription changed."""
        before = member.declaration()
        # A heartbeat of KIP-848 ends the classic protocol for this member: a rolling upgrade, member by member.
        member.classic = member.join_deadline_ms = None
        if beat.rack_id is not None:
            member.rack_id = beat.rack_id
        if beat.rebalance_timeout_ms != NO_TIMEOUT:
            member.rebalance_timeout_ms = beat.rebalance_timeout_ms
        if beat.server_assignor is not None:
            member.server_assignor = beat.server_assignor
        member.client_id, member.client_host = beat.client_id, beat.client_host
        # Absent fields are unchanged, to keep heartbeats small. An empty pattern removes it.
        names = member.topic_names if beat.topic_names is None else beat.topic_names
        regex = member.topic_regex if beat.topic_regex is None else (beat.topic_regex or None)
        reads_otherwise = (names, regex) != (member.topic_names, member.topic_regex)
        if reads_otherwise:
            self.subscribe(member, names, regex)
        if before != member.declaration():
            self.touch(RecordKind.MEMBER, member.member_id)
        return reads_otherwise

    def _restore_subscription(self, member: ConsumerMember, stored: MemberValue) -> None:
        """After a restart. A pattern that was good once and is not any more matches nothing."""
        names = frozenset(stored.subscribed_topic_names)
        try:
            self.subscribe(member, names, stored.subscribed_topic_regex)
        except Refused:
            self.subscribe(member, names, None)

    # ---- leaving

    def _leave(self, beat: ConsumerHeartbeat) -> HeartbeatReply:
        known = find_member(beat, self.members, self.static_ids, self._settings.members_max)
        assert known is not None, "who leaves is never made a member"
        if beat.epoch == LEAVING_FOR_A_WHILE:
            self._suspend_static_member(known)
        else:
            self.drop(known)
            self.begin_epoch(f"{known.member_id} left", beat.now_ms)
        return HeartbeatReply(ErrorCode.NONE, member_id=beat.member_id, epoch=beat.epoch)

    def _suspend_static_member(self, member: ConsumerMember) -> None:
        """A static member stops and will be back: its partitions wait for it until its session ends."""
        # What it was about to give up it will not get back, so others need not wait.
        self.release(member.revoking)
        member.previous_epoch, member.epoch = member.epoch, LEAVING_FOR_A_WHILE
        member.state, member.revoking, member.revocation_deadline_ms = MemberState.STABLE, {}, None
        self.touch(RecordKind.CURRENT, member.member_id)

    def _remove_all(self, event: Remove) -> None:
        errors = []
        for removal in event.removals:
            member, error = find_removed(removal, self.members, self.static_ids)
            if member is not None:
                self.drop(member)
            errors.append(error)
        # One epoch for all that are removed together. Unknown members change nothing.
        if ErrorCode.NONE in errors:
            self.begin_epoch("members were removed", event.now_ms)
        self._out.append(Answer(event.ticket, RemoveReply(tuple(errors))))

    # ---- time

    def _tick(self, now_ms: int) -> None:
        expired = self._deadlines.expired(self.members.values(), now_ms)
        for member in expired:
            # Both time-outs end the membership. The note says which one, since the operator's remedy differs.
            is_silent = member.session_deadline_ms is not None and member.session_deadline_ms <= now_ms
            what = "was not heard of in time" if is_silent else "did not give up its partitions in time"
            self._out.append(EpochNote(f"{member.member_id} {what} and is removed"))
            self.drop(member)
        if expired:
            self.begin_epoch("members were silent", now_ms)
        self.assign(now_ms)

    # ---- invariants

    def check_invariants(self) -> None:
        assert self.assignment_epoch <= self.epoch
        assert self.targets.keys() == self.members.keys()
        holders: Mapping[Partition, str] = {
            partition: member.member_id for member in self.members.values() for partition in member.held()
        }
        assert holders == self.owners
        assert self._target_count == sum(map(len, self.targets.values()))
        self._footprints.check_invariants(self.members)
        assert sum(len(list(member.held())) for member in self.members.values()) == len(holders)
        assert sum(map(len, self.targets.values())) == len(frozenset().union(*self.targets.values()))
        statics = {m.instance_id: m.member_id for m in self.members.values() if m.instance_id is not None}
        assert statics == self.static_ids
        assert all(member.epoch <= self.assignment_epoch for member in self.members.values())
        self._deadlines.check_invariants(self.members.values())
        for member in self.members.values():
            member.check_invariants()
        self.subscriptions.check_invariants((m.topic_names, m.topic_regex) for m in self.members.values())
