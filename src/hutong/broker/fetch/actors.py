"""The actors of disk reads: the consumer group that a fetch belongs to, as far as the node can know.

Strategy: Kafka's fetch does not name a group, and most clients fetch on other connections than they send heartbeats on.
So each connection that speaks for a member of a group is noted, together with its *reader*: principal, client id and
address. The actor of a read of a topic is found in this order:

1. The group that this very connection spoke for last, if it reads the topic.
2. The groups that read the topic and that connections of the same reader speak for. Mostly that is one. Nothing
   distinguishes several groups of one reader: they are one *joint* actor, with the sum of their shares.
3. The client itself, by principal and client id, as Kafka's quotas count clients.

A stranger with the client id of a group is not of that group, unless it has the principal and the address as well. One
that has all three is counted as a member: it reads from the group's share, and gets none of its own. A group that it
makes with them can join the actor, and brings a share along, so that it takes nothing from the first.

Pure: knows connections by their numbers, and of groups only the names.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

GROUPS_OF_READER_MAX: Final = 32
"""Of one reader: above it nothing is looked up, since each read would visit all of them."""


class ReadingClient(NamedTuple):
    """A client as far as its connections have it in common."""

    principal: str
    client_id: str
    address: str


class Actor(NamedTuple):
    """Readers of one topic with one share. `groups` are sorted; `client` is set where there is no group."""

    topic: str
    groups: tuple[str, ...]
    client: str = ""


class MemberConnections:
    """The connections that speak for members of groups, one group each: the one of its newest heartbeat."""

    __slots__ = ("_by_connection", "_by_reader")

    def __init__(self) -> None:
        self._by_connection: dict[int, tuple[ReadingClient, str]] = {}
        self._by_reader: dict[ReadingClient, dict[str, int]] = {}  # the groups, and how many connections speak for each

    def __len__(self) -> int:
        return len(self._by_connection)

    def note(self, connection: int, reader: ReadingClient, group_id: str) -> None:
        """A member's request of the group came on the connection, and was in order."""
        # Heartbeats repeat what is known: nothing is built for them.
        if self._by_connection.get(connection) == (reader, group_id):
            return
        self.forget(connection)
        self._by_connection[connection] = reader, group_id
        groups = self._by_reader.setdefault(reader, {})
        groups[group_id] = groups.get(group_id, 0) + 1

    def forget(self, connection: int) -> None:
        """The connection has ended, or its member has left."""
        known = self._by_connection.pop(connection, None)
        if known is None:
            return
        reader, group_id = known
        groups = self._by_reader[reader]
        groups[group_id] -= 1
        if not groups[group_id]:
            del groups[group_id]
        if not groups:
            del self._by_reader[reader]

    def actor_of(self, connection: int, reader: ReadingClient, topic: str, reads: Callable[[str, str], bool]) -> Actor:
        """The actor of a read. `reads` is True for a group with members that subscribe to the topic."""
        own = self._by_connection.get(connection)
        if own is not None and reads(own[1], topic):
            return Actor(topic, (own[1],))
        candidates = self._by_reader.get(reader, {})
        if len(candidates) <= GROUPS_OF_READER_MAX:
            groups = tuple(sorted(group_id for group_id in candidates if reads(group_id, topic)))
            if groups:
                return Actor(topic, groups)
        return Actor(topic, (), f"{reader.principal}/{reader.client_id}")

    def check_invariants(self) -> None:
        counted: dict[ReadingClient, dict[str, int]] = {}
        for reader, group_id in self._by_connection.values():
            groups = counted.setdefault(reader, {})
            groups[group_id] = groups.get(group_id, 0) + 1
        assert counted == self._by_reader
