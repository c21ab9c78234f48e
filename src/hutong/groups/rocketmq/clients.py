"""RocketMQ's clients, their groups and what those subscribe to, as heartbeats say.

Strategy: a client repeats everything in each heartbeat, 30 s apart. So nothing is stored: after a restart the table is
complete within one interval. A client belongs to the connection of its last heartbeat, and leaves with it.

Pure: connections are numbers, times arrive with each call.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hutong.foundation.errors import LimitExceeded
from hutong.wire.rocketmq.bodies import ConsumerData, HeartbeatData, SubscriptionData

CLIENT_EXPIRY_MS: Final = 120_000  # as `ClientHousekeepingService`: four heartbeats were missed
GROUPS_PER_CONNECTION_MAX: Final = 100  # each with the names of one heartbeat
SUBSCRIPTIONS_PER_GROUP_MAX: Final = 1_000


class AboutClient(NamedTuple):
    """Facts of a client by its connection and requests. `version` is a number that RocketMQ's clients count."""

    address: str = ""  # host and port
    language: str = "OTHER"  # as RocketMQ's table has it
    version: int = 0


NOT_KNOWN: Final = AboutClient()


@dataclass(slots=True)
class GroupMember:
    """A client in a group. `connection` is the one of its last heartbeat."""

    client_id: str
    connection: int
    seen_ms: int
    about: AboutClient = NOT_KNOWN


@dataclass(slots=True)
class RocketGroup:
    """A consumer group with members. `subscriptions` by topic are those of the newest heartbeat."""

    name: str
    is_broadcasting: bool
    consume_type: str
    consume_from: str
    members: dict[str, GroupMember] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)


class RocketClients:
    """All clients of a node. Methods that change who is in a group return the names of those groups."""

    def __init__(self) -> None:
        self._groups: dict[str, RocketGroup] = {}
        self._producers: dict[str, dict[str, GroupMember]] = {}
        self._of_connection: dict[int, set[str]] = {}
        self._senders: dict[int, set[str]] = {}  # producer groups of half messages, by connection
        self._sending: dict[str, dict[int, str]] = {}  # the other way round: the connections, and their addresses

    def group(self, name: str) -> RocketGroup | None:
        """The consumer group, or None if it has no members."""
        return self._groups.get(name)

    def groups(self) -> Iterable[RocketGroup]:
        """All consumer groups with members."""
        return self._groups.values()

    def producer_connections(self, group: str) -> list[int]:
        """The connections of a producer group's clients, the newest last."""
        return [member.connection for member in self._producers.get(group, {}).values()]

    def producers(self, group: str) -> list[GroupMember]:
        """The clients of a producer group."""
        return [*self._producers.get(group, {}).values()]

    def producer_groups(self) -> list[str]:
        """All producer groups with clients."""
        return [*self._producers]

    def is_producer(self, group: str, connection: int) -> bool:
        """Return True if a client of the producer group is on this connection."""
        return connection in self.producer_connections(group)

    def sends_half(self, group: str, connection: int, address: str) -> None:
        """Note a connection that sends half messages of a producer group. Raises LimitExceeded."""
        known = self._senders.setdefault(connection, set())
        if group not in known and len(known) >= GROUPS_PER_CONNECTION_MAX:
            raise LimitExceeded("GROUPS_PER_CONNECTION_MAX", GROUPS_PER_CONNECTION_MAX)
        known.add(group)
        self._sending.setdefault(group, {})[connection] = address

    def may_end_halves(self, group: str, connection: int, address: str) -> bool:
        """Return True for a producer of the group.

        A client's first end reaches a node before its first heartbeat: Java's beats only for topics whose route it has.
        RocketMQ's proxy has several connections, and sends by one what it ends by another of the same address.
        """
        sending = self._sending.get(group, {})
        return connection in sending or address in sending.values() or self.is_producer(group, connection)

    def producer_connection(self, client_id: str) -> int | None:
        """The connection of a client that produces, by the client's id."""
        found = [member for members in self._producers.values() if (member := members.get(client_id)) is not None]
        return max(found, key=lambda member: member.seen_ms).connection if found else None

    def reads(self, group_id: str, topic: str) -> bool:
        """Return True if the group has members that subscribe to the topic."""
        group = self._groups.get(group_id)
        return group is not None and topic in group.subscriptions

    def heartbeat(self, connection: int, data: HeartbeatData, now_ms: int, about: AboutClient = NOT_KNOWN) -> list[str]:
        """Note the groups of a client. Raises LimitExceeded, with nothing changed."""
        known = self._of_connection.setdefault(connection, set())
        named = {each.groupName for each in data.consumerDataSet} | {each.groupName for each in data.producerDataSet}
        if len(known | named) > GROUPS_PER_CONNECTION_MAX:
            raise LimitExceeded("GROUPS_PER_CONNECTION_MAX", GROUPS_PER_CONNECTION_MAX)
        for consumer in data.consumerDataSet:
            if len(consumer.subscriptionDataSet) > SUBSCRIPTIONS_PER_GROUP_MAX:
                raise LimitExceeded("SUBSCRIPTIONS_PER_GROUP_MAX", SUBSCRIPTIONS_PER_GROUP_MAX)
        known |= named
        for producer in data.producerDataSet:
            members = self._producers.setdefault(producer.groupName, {})
            members.pop(data.clientID, None)  # so that the newest comes last
            members[data.clientID] = GroupMember(data.clientID, connection, now_ms, about)
        return [
            consumer.groupName
            for consumer in data.consumerDataSet
            if self._joined(consumer, GroupMember(data.clientID, connection, now_ms, about))
        ]

    def connection_of(self, client_id: str, group: str) -> int | None:
        """The connection of a client in a consumer group, or else in a producer group, of that name."""
        found = self._groups.get(group)
        member = found.members.get(client_id) if found is not None else None
        member = member or self._producers.get(group, {}).get(client_id)
        return member.connection if member is not None else None

    def leave(self, client_id: str, group: str) -> list[str]:
        """Take a client out of a consumer group, or out of a producer group of that name."""
        producers = self._producers.get(group, {})
        producers.pop(client_id, None)
        if not producers:
            self._producers.pop(group, None)
        found = self._groups.get(group)
        if found is None or found.members.pop(client_id, None) is None:
            return []
        if not found.members:
            del self._groups[group]
        return [group]

    def disconnected(self, connection: int) -> list[str]:
        """Take out the clients whose connection has ended, unless they came back by another one."""
        changed: list[str] = []
        for group in self._senders.pop(connection, ()):
            del self._sending[group][connection]
            if not self._sending[group]:
                del self._sending[group]
        for group in sorted(self._of_connection.pop(connection, ())):
            found = self._groups.get(group)
            members = [*(found.members if found else {}).values(), *self._producers.get(group, {}).values()]
            for client_id in {member.client_id for member in members if member.connection == connection}:
                changed += self.leave(client_id, group)
        return changed

    def expire(self, now_ms: int) -> list[str]:
        """Take out the clients whose heartbeats have stopped while their connections stay."""
        before_ms = now_ms - CLIENT_EXPIRY_MS
        silent = [
            (member.client_id, name)
            for name, members in (
                *((group.name, group.members) for group in self._groups.values()),
                *self._producers.items(),
            )
            for member in members.values()
            if member.seen_ms < before_ms
        ]
        return [changed for client_id, name in silent for changed in self.leave(client_id, name)]

    def _joined(self, consumer: ConsumerData, member: GroupMember) -> bool:
        """Note a member; return True if it or its subscriptions are new."""
        subscriptions = {each.topic: each for each in consumer.subscriptionDataSet}
        group = self._groups.get(consumer.groupName)
        if group is None:
            is_broadcasting = consumer.messageModel == "BROADCASTING"
            group = RocketGroup(consumer.groupName, is_broadcasting, consumer.consumeType, consumer.consumeFromWhere)
            self._groups[group.name] = group
        is_new = member.client_id not in group.members or group.subscriptions.keys() != subscriptions.keys()
        group.members[member.client_id] = member
        group.subscriptions = subscriptions
        return is_new
