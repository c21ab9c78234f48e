"""One member of a streams group: its declaration. Epochs, tasks and steps are those of `assigned.member`."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hutong.groups.assigned.member import MEMBER_BYTES, AssignedMember
from hutong.groups.assigned.messages import StoredCurrent
from hutong.groups.streams.messages import Endpoint, Holding, StreamsMemberDescription, TaskRole

if TYPE_CHECKING:
    from hutong.groups.streams.record_tables import StreamsMemberValue

_WORD_BYTES: Final = 100  # of a string, and of its place in a tuple


def declared_bytes(words: Iterable[str | None]) -> int:
    """Approximate memory of the strings that a member declares."""
    return MEMBER_BYTES + sum(_WORD_BYTES + 2 * len(word) for word in words if word)


@dataclass(slots=True)
class StreamsMember(AssignedMember[Holding]):
    """A member with what it says of its process and its application."""

    topology_epoch: int = 0  # behind the group's: the member runs an older version of the application
    process_id: str = ""  # never changes: the locks of its tasks depend on it
    endpoint: Endpoint | None = None
    client_tags: tuple[tuple[str, str], ...] = ()

    @classmethod
    def restored(
        cls, member_id: str, stored: "StreamsMemberValue", current: StoredCurrent[Holding] | None
    ) -> "StreamsMember":
        """The member of a record."""
        endpoint = stored.user_endpoint
        member = cls(
            member_id=member_id,
            instance_id=stored.instance_id,
            rack_id=stored.rack_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            rebalance_timeout_ms=stored.rebalance_timeout_ms,
            topology_epoch=stored.topology_epoch,
            process_id=stored.process_id,
            endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
            client_tags=tuple((tag.key, tag.value) for tag in stored.client_tags),
        )
        member.restore(current)
        return member

    def declaration(self) -> tuple[object, ...]:
        """Everything that the member declares: a change of it needs a record."""
        return (
            self.rack_id,
            self.rebalance_timeout_ms,
            self.client_id,
            self.client_host,
            self.topology_epoch,
            self.process_id,
            self.endpoint,
            self.client_tags,
        )

    def tasks(self, role: TaskRole) -> frozenset[tuple[str, int]]:
        """The tasks that it may run in this role."""
        return frozenset((subtopology, index) for held_as, subtopology, index in self.assigned if held_as is role)

    def describe(self, target: frozenset[Holding]) -> StreamsMemberDescription:
        return StreamsMemberDescription(
            member_id=self.member_id,
            rack_id=self.rack_id,
            epoch=self.epoch,
            client_id=self.client_id,
            client_host=self.client_host,
            topology_epoch=self.topology_epoch,
            process_id=self.process_id,
            endpoint=self.endpoint,
            client_tags=self.client_tags,
            assigned=frozenset(self.assigned),
            target=target,
        )

    @property
    def footprint_bytes(self) -> int:
        words = [word for tag in self.client_tags for word in tag]
        host = None if self.endpoint is None else self.endpoint[0]
        return declared_bytes(
            (self.member_id, self.rack_id, self.client_id, self.client_host, self.process_id, host, *words)
        )
