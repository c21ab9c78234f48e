"""One consumer group whose partitions the broker assigns (KIP-848): events in, instructions out.

Strategy: a group has three numbers. The *group epoch* rises with every change that matters (a member joins, leaves or
changes its subscription; a topic is created, deleted or gets partitions). The *assignment epoch* is the group epoch for
which the target assignment was computed. A *member epoch* follows when that member has taken its step (`member.step`).
No member waits for another: each heartbeat is answered with the partitions that the member may have now.

Changes take effect at once, and each notes the keys of the records it changes. The driver holds every answer back until
those records are durable. A record that could not be stored is stored again with the next change.

Knows nothing of sockets, clocks, disks or committed offsets. All time-outs are deadlines compared on `Tick`.
"""

from hutong.foundation.errors import Refused
from hutong.groups.assigned.member import MemberState
from hutong.groups.assigned.messages import (
    LEAVING_FOR_A_WHILE,
    NO_TIMEOUT,
    RecordKind,
)
from hutong.groups.assigned.settings import GroupTimes
from hutong.groups.classic.messages import Join, Sync
from hutong.groups.consumer.assignment.catalogue import TopicCatalogue
from hutong.groups.consumer.core import ConsumerGroupCore
from hutong.groups.consumer.members import classic_members
from hutong.groups.consumer.members.checks import find_member
from hutong.groups.consumer.members.member import ConsumerMember
from hutong.groups.consumer.messages import (
    ConsumerGroupDescription,
    ConsumerHeartbeat,
    Event,
    HeartbeatReply,
    Partition,
    StoredGroup,
)
from hutong.groups.consumer.record_tables import MemberValue
from hutong.groups.consumer.settings import ConsumerGroupSettings
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
            group.restore_member(member, stored.targets.get(member_id, _NO_PARTITIONS), now_ms)
            # A pattern is compiled again. One that this build no longer accepts must not keep the node from starting.
            group._restore_subscription(member, stored_member)
        group.end_restoring()
        # The stored hash names the topics of the last epoch. If topics changed while the node was down, a new epoch
        # begins.
        group.subscriptions.believe(stored.metadata_hash)
        return group

    # ---- questions

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

    def handle_request(self, event: Event) -> None:
        match event:
            case ConsumerHeartbeat():
                self._heartbeat(event)
            case Join():
                self.answer(event.ticket, classic_members.join(self, event))
            case Sync():
                self.answer(event.ticket, classic_members.sync(self, event))

    # ---- heartbeats

    def _heartbeat(self, beat: ConsumerHeartbeat) -> None:
        try:
            # KIP-848: epoch -1 leaves, -2 leaves for a while (static members), 0 joins, others are heartbeats.
            reply = self._leave(beat) if beat.epoch < 0 else self._keep(beat)
        except Refused as refused:
            reply = HeartbeatReply(ErrorCode(refused.code), refused.message)
        self.answer(beat.ticket, reply)

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
            self.admit(member)
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
        self.release(self.locks_of(member, member.revoking))
        member.previous_epoch, member.epoch = member.epoch, LEAVING_FOR_A_WHILE
        member.state, member.revoking, member.revocation_deadline_ms = MemberState.STABLE, {}, None
        self.touch(RecordKind.CURRENT, member.member_id)

    # ---- invariants

    def check_invariants(self) -> None:
        super().check_invariants()
        assert sum(len(list(member.held())) for member in self.members.values()) == len(self.owners)
        assert sum(map(len, self.targets.values())) == len(frozenset().union(*self.targets.values()))
        statics = {m.instance_id: m.member_id for m in self.members.values() if m.instance_id is not None}
        assert statics == self.static_ids
        assert all(member.epoch <= self.assignment_epoch for member in self.members.values())
        self.subscriptions.check_invariants((m.topic_names, m.topic_regex) for m in self.members.values())
