"""One member of a consumer group: its declaration. Epochs, partitions and steps are those of `assigned.member`."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from hutong.groups.assigned.member import MEMBER_BYTES, AssignedMember
from hutong.groups.assigned.messages import StoredCurrent
from hutong.groups.consumer.messages import ClassicSpeech, ConsumerMemberDescription, Partition
from hutong.groups.consumer.record_tables import ClassicMemberMetadata, MemberValue

_NAME_BYTES: Final = 200  # a name is a string and its place in the member's set, the group's counter, and a record
PATTERN_BYTES: Final = 256 * 1024  # compiled, once for each group that reads by it


def declared_bytes(
    topics: Collection[str],
    regex: str | None,
    words: Iterable[str | None],
    protocols: Iterable[tuple[str, bytes]] = (),
) -> int:
    """Approximate memory of topic names, a pattern, other strings, and the metadata of a classic member."""
    pattern_bytes = 2 * len(regex or "")
    names_bytes = sum(map(len, topics)) * 2 + _NAME_BYTES * len(topics)
    words_bytes = 2 * sum(len(word) for word in words if word)
    return (
        pattern_bytes + names_bytes + words_bytes + sum(2 * (len(name) + len(metadata)) for name, metadata in protocols)
    )


@dataclass(slots=True)
class ConsumerMember(AssignedMember[Partition]):
    """A member with what it subscribes to."""

    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = None
    server_assignor: str | None = None
    classic: ClassicSpeech | None = None  # None for a member of the protocol of KIP-848
    join_deadline_ms: int | None = None  # of a classic member that has to join again

    @classmethod
    def restored(
        cls, member_id: str, stored: MemberValue, current: StoredCurrent[Partition] | None
    ) -> "ConsumerMember":
        """The member of a record, without its subscription: the group follows that itself."""
        member = cls(
            member_id=member_id,
            instance_id=stored.instance_id,
            rack_id=stored.rack_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            rebalance_timeout_ms=stored.rebalance_timeout_ms,
            server_assignor=stored.server_assignor,
            classic=None if stored.classic is None else _classic_speech(stored.classic),
        )
        member.restore(current)
        return member

    @property
    def is_classic(self) -> bool:
        return self.classic is not None

    def session_timeout_ms(self, of_group_ms: int) -> int:
        # A member of the classic protocol chooses its own time-out (JoinGroup); KIP-848 moved it to the broker.
        return of_group_ms if self.classic is None else self.classic.session_timeout_ms

    @property
    def deadlines_ms(self) -> tuple[int | None, ...]:
        return self.session_deadline_ms, self.revocation_deadline_ms, self.join_deadline_ms

    def declaration(self) -> tuple[object, ...]:
        """Everything that the member declares: a change of it needs a record."""
        return (
            self.rack_id,
            self.rebalance_timeout_ms,
            self.server_assignor,
            self.client_id,
            self.client_host,
            self.topic_names,
            self.topic_regex,
            self.classic,
        )

    def describe(self, target: frozenset[Partition]) -> ConsumerMemberDescription:
        return ConsumerMemberDescription(
            member_id=self.member_id,
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            epoch=self.epoch,
            client_id=self.client_id,
            client_host=self.client_host,
            topic_names=self.topic_names,
            topic_regex=self.topic_regex,
            assigned=frozenset(self.assigned),
            target=target,
            is_classic=self.is_classic,
        )

    @property
    def footprint_bytes(self) -> int:
        """Approximate memory of its declaration, and of the record of it."""
        return MEMBER_BYTES + declared_bytes(
            self.topic_names,
            self.topic_regex,
            (self.member_id, self.instance_id, self.rack_id, self.client_id, self.client_host),
            () if self.classic is None else self.classic.protocols,
        )


def _classic_speech(stored: ClassicMemberMetadata) -> ClassicSpeech:
    protocols = tuple((each.name, each.metadata) for each in stored.supported_protocols)
    return ClassicSpeech(stored.session_timeout_ms, protocols)
