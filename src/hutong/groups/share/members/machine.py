"""The members of one share group: events in, instructions out.

Strategy: each change of members, subscriptions or topics raises the group's epoch and computes an assignment. Nothing
is revoked first, because partitions may be shared. A member gets it with its next heartbeat, and has the group's epoch
from then on. Leases are kept in the order of renewal, so members that are silent for too long are at the front.

Topics are assigned by their ids: one that was deleted and made again is another topic, so
members get its partitions as new ones.

Knows nothing of sockets, clocks or records: time arrives with each event, facts on topics by constructor.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator

from hutong.foundation.machine import Tick
from hutong.groups.footprints import Footprints
from hutong.groups.share import assignor
from hutong.groups.share.members.messages import (
    PARTITION_BYTES,
    Event,
    Gone,
    Instruction,
    LeaveShareGroup,
    PersistEpoch,
    SharedTopicsChanged,
    ShareHeartbeat,
    ShareMember,
    ShareReply,
    TopicShape,
)
from hutong.wire.kafka.error_codes import ErrorCode

LEFT_EPOCH = -1


class ShareGroup:
    """One share group."""

    def __init__(
        self,
        group_id: str,
        epoch: int,
        *,
        members_max: int,
        session_timeout_ms: Callable[[], int],
        find_topic: Callable[[str], TopicShape | None],
    ) -> None:
        self.group_id = group_id
        self.epoch = epoch
        self._members_max = members_max
        self._session_timeout_ms = session_timeout_ms
        self._find_topic = find_topic  # by its name
        self._members: dict[str, ShareMember] = {}
        self._heard_at_ms: OrderedDict[str, int] = OrderedDict()  # never decreasing from first to last
        self._footprints = Footprints()
        self._assigned_count = 0  # of partitions, as often as they are assigned
        self._topics: dict[str, TopicShape] = {}  # those that are assigned, in the order of their names

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[ShareMember]:
        return iter(self._members.values())

    @property
    def memory_bytes(self) -> int:
        """Approximate memory of the members: their declarations and assignments."""
        return self._footprints.total_bytes + PARTITION_BYTES * self._assigned_count

    def footprint_bytes(self, member_id: str) -> int:
        """Bytes of one member's declaration; 0 for an unknown member."""
        return self._footprints.of(member_id)

    def subscribes_to(self, topic: str) -> bool:
        return any(topic in member.topics for member in self)

    def handle(self, event: Event) -> list[Instruction]:
        match event:
            case ShareHeartbeat():
                return self._heartbeat(event)
            case LeaveShareGroup(member_id):
                return self._leave(member_id)
            case SharedTopicsChanged():
                return self._assign() if self._wanted_topics() != self._topics else []
            case Tick(now_ms):
                return self._expel_silent(now_ms)

    def next_tick_ms(self) -> int | None:
        """The time at which a `Tick` is due, or None without members."""
        # The first entry is the member that was silent longest: the others cannot expire before it.
        for heard_at_ms in self._heard_at_ms.values():
            return heard_at_ms + self._session_timeout_ms()
        return None

    def check_invariants(self) -> None:
        heard = list(self._heard_at_ms.values())
        assert heard == sorted(heard)
        assert self._heard_at_ms.keys() == self._members.keys()
        assert len(self._members) <= self._members_max
        self._footprints.check_invariants(self._members)
        assert self._assigned_count == sum(len(member.assignment) for member in self)
        covered = {partition for member in self for partition in member.assignment}
        wanted = {topic for member in self for topic in member.topics}
        assert self._topics.keys() <= wanted
        assert covered == {(topic.topic_id, index) for topic in self._topics.values() for index in range(topic.count)}
        names = {topic.topic_id: name for name, topic in self._topics.items()}
        assert all(names[topic_id] in member.topics for member in self for topic_id, _ in member.assignment)

    def _heartbeat(self, event: ShareHeartbeat) -> list[Instruction]:
        # The checks are in Kafka's order, which decides on the error that a client sees.
        member = self._members.get(event.member_id)
        # After a restart of the node every member comes here, and joins again under its own id.
        if member is None and event.member_epoch != 0:
            return [_refused(ErrorCode.UNKNOWN_MEMBER_ID, self._unknown(event.member_id))]
        # The previous epoch is accepted, since the reply with the new one may have been lost.
        if member is not None and event.member_epoch not in (0, member.epoch, member.previous_epoch):
            return [_refused(ErrorCode.FENCED_MEMBER_EPOCH, _fenced(event, member))]
        if member is None and len(self._members) >= self._members_max:
            message = f"The share group has reached its maximum capacity of {self._members_max} members."
            return [_refused(ErrorCode.GROUP_MAX_SIZE_REACHED, message)]
        out = self._admit(event, member)
        member = self._members[event.member_id]
        self._heard_at_ms[member.member_id] = event.now_ms
        self._heard_at_ms.move_to_end(member.member_id)
        # Partitions may be shared, so a member need not revoke anything before it gets the new epoch.
        if member.epoch != self.epoch:
            member.previous_epoch, member.epoch = member.epoch, self.epoch
        # A client that sends everything wants everything back: it joins, or has lost a reply.
        is_full = event.member_epoch == 0 or event.topics is not None
        is_news = is_full or member.sent_assignment != member.assignment
        member.sent_assignment = set(member.assignment)
        assignment = frozenset(member.assignment) if is_news else None
        return [*out, ShareReply(ErrorCode.NONE, None, member.epoch, assignment)]

    def _unknown(self, member_id: str) -> str:
        return f"Member {member_id} is not a member of group {self.group_id}."

    def _admit(self, event: ShareHeartbeat, member: ShareMember | None) -> list[Instruction]:
        """Take over the member's declaration; compute a new assignment if its topics have changed."""
        topics = tuple(sorted(set(event.topics))) if event.topics is not None else None
        if member is None:
            member = ShareMember(event.member_id, event.client_id, event.client_host, topics or (), event.rack_id)
            self._members[event.member_id] = member
            self._footprints.count(member.member_id, member)
            return self._assign()
        member.client_id, member.client_host = event.client_id, event.client_host
        member.rack_id = event.rack_id or member.rack_id
        reads_otherwise = topics is not None and topics != member.topics
        # Topics are replaced as a whole; null means unchanged.
        if reads_otherwise:
            member.topics = topics or ()
        self._footprints.count(member.member_id, member)
        # A new client id or rack changes no assignment.
        return self._assign() if reads_otherwise else []

    def _leave(self, member_id: str) -> list[Instruction]:
        if member_id not in self._members:
            return [_refused(ErrorCode.UNKNOWN_MEMBER_ID, self._unknown(member_id))]
        # Its share session continues: clients leave first, and then acknowledge their last records.
        return [*self._remove([member_id]), ShareReply(ErrorCode.NONE, None, LEFT_EPOCH)]

    def _expel_silent(self, now_ms: int) -> list[Instruction]:
        silent = []
        for member_id, heard_at_ms in self._heard_at_ms.items():
            # Entries are in the order of heartbeats, so the rest is younger.
            if now_ms - heard_at_ms < self._session_timeout_ms():
                break
            silent.append(member_id)
        return [*map(Gone, silent), *self._remove(silent)] if silent else []

    def _remove(self, member_ids: list[str]) -> list[Instruction]:
        for member_id in member_ids:
            del self._members[member_id]
            del self._heard_at_ms[member_id]
            self._footprints.count(member_id, None)
        return self._assign()

    def _wanted_topics(self) -> dict[str, TopicShape]:
        names = {topic for member in self for topic in member.topics}
        return {name: topic for name in sorted(names) if (topic := self._find_topic(name)) is not None}

    def _assign(self) -> list[Instruction]:
        # The epoch rises even if the assignment stays the same, as in Kafka: members confirm each epoch.
        self.epoch += 1
        self._topics = topics = self._wanted_topics()
        # Sticky: members keep what they have as far as the load stays even.
        shares = assignor.assign(
            {member.member_id: {topics[name].topic_id for name in member.topics if name in topics} for member in self},
            {topic.topic_id: topic.count for topic in topics.values()},
            {member.member_id: member.assignment for member in self},
        )
        for member in self:
            member.assignment = shares[member.member_id]
        self._assigned_count = sum(map(len, shares.values()))
        return [PersistEpoch(self.epoch)]


def _refused(error: ErrorCode, message: str) -> ShareReply:
    return ShareReply(error, message)


def _fenced(event: ShareHeartbeat, member: ShareMember) -> str:
    if event.member_epoch > member.epoch:
        return (
            f"The share group member has a greater member epoch ({event.member_epoch}) than the one known by the "
            f"group coordinator ({member.epoch}). The member must abandon all its partitions and rejoin."
        )
    return (
        f"The share group member has a smaller member epoch ({event.member_epoch}) than the one known by the "
        f"group coordinator ({member.epoch}). The member must abandon all its partitions and rejoin."
    )
