"""State of a consumer group: its subscriptions, and the target that follows from them.

Strategy: `machine.py` decides which change an event makes. `members/classic_members.py` works on this class, so that it
does not import the machine.

Knows no events.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping

from hutong.groups.assigned.core import AssignedGroupCore
from hutong.groups.assigned.settings import GroupTimes
from hutong.groups.consumer.assignment.assignors import ASSIGNORS, Subscriber
from hutong.groups.consumer.assignment.catalogue import TopicCatalogue
from hutong.groups.consumer.assignment.subscriptions import Subscriptions
from hutong.groups.consumer.members.member import PATTERN_BYTES, ConsumerMember
from hutong.groups.consumer.messages import Partition
from hutong.groups.consumer.settings import ConsumerGroupSettings


class ConsumerGroupCore(AssignedGroupCore[ConsumerMember, Partition]):
    """One group without its events. Each attribute without an underscore is for the modules named above."""

    __slots__ = ("_settings", "catalogue", "has_lost_members", "subscriptions")

    def __init__(
        self, group_id: str, catalogue: TopicCatalogue, settings: ConsumerGroupSettings, times: GroupTimes
    ) -> None:
        super().__init__(group_id, times)
        self.catalogue = catalogue
        self.subscriptions = Subscriptions(catalogue)
        self.has_lost_members = False  # of the consumer protocol: the rest may be classic members alone
        self._settings = settings

    # ---- questions

    @property
    def memory_bytes(self) -> int:
        """Approximate memory of the members and of the patterns that are compiled for them."""
        return super().memory_bytes + PATTERN_BYTES * self.subscriptions.pattern_count

    @property
    def members_max(self) -> int:
        return self._settings.members_max

    def may_give_more(self, member: ConsumerMember) -> bool:
        """Return True if a partition that the member waits for has become free."""
        # A partition is free once its last owner has revoked it. The member then has a reason to send another
        # heartbeat.
        missing = self.targets[member.member_id] - member.assigned.keys()
        return any(self.is_free(member, partition) for partition in missing)

    # ---- members

    def forget_declaration(self, member: ConsumerMember) -> None:
        self.has_lost_members |= not member.is_classic
        self.subscribe(member, frozenset(), None)

    def subscribe(self, member: ConsumerMember, names: frozenset[str], regex: str | None) -> None:
        self.subscriptions.replace((member.topic_names, member.topic_regex), (names, regex))
        member.topic_names, member.topic_regex = names, regex

    # ---- targets

    @property
    def topic_names(self) -> frozenset[str]:
        return self.subscriptions.names

    def refresh_topics(self) -> bool:
        return self.subscriptions.refresh()

    def computed_targets(self) -> Mapping[str, frozenset[Partition]]:
        subscribers = {
            member_id: Subscriber(
                self.subscriptions.topic_ids(member.topic_names, member.topic_regex),
                self.targets[member_id],
                member.instance_id,
            )
            for member_id, member in self.members.items()
        }
        # The assignors are pure and sticky: the same members and topics give the same target.
        return ASSIGNORS[self.assignor_name()](subscribers, self.subscriptions.topics)

    @property
    def may_assign(self) -> bool:
        """False while a pattern is being matched, since its members would lose what they have; not so at first."""
        return not self.assignment_epoch or self.subscriptions.is_ready

    def assignor_name(self) -> str:
        """The assignor that most members ask for; the first of the settings if no member asks."""
        votes = Counter(member.server_assignor for member in self.members.values() if member.server_assignor)
        known = [name for name, _ in votes.most_common() if name in self._settings.assignors]
        return known[0] if known else self._settings.assignors[0]

    # ---- partitions

    def locks_of(self, member: ConsumerMember, holdings: Iterable[Partition]) -> Iterable[Hashable]:
        """Each partition is its own lock."""
        return holdings

    def holdings_of(self, partitions: Iterable[tuple[bytes, int]]) -> Iterable[Partition]:
        return partitions

    def is_free(self, member: ConsumerMember, holding: Partition) -> bool:
        # As in general, without a list of one lock for each of a large group's partitions.
        return self.owners.get(holding, member.member_id) == member.member_id
