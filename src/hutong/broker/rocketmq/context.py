"""The context of a RocketMQ request: the node's parts, the channel, and the fields of the command.

Strategy: the log is reached by the handlers of Kafka's APIs where they do the same work. Their context needs a session,
so a channel has one for each consumer group that reads by it: a session belongs to one actor of the disk's fair turns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.session import ClientSession
from hutong.broker.rocketmq.cluster.distant_clients import DistantChannel
from hutong.broker.rocketmq.cluster.elsewhere import check_led_here
from hutong.broker.rocketmq.records.converted import ConvertedBatches
from hutong.broker.rocketmq.refusals import RocketRefused
from hutong.foundation.errors import LimitExceeded
from hutong.wire.rocketmq.codes import ResponseCode
from hutong.wire.rocketmq.messages import Host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hutong.broker.broker import Broker
    from hutong.broker.handling.listeners import Listener
    from hutong.broker.rocketmq.delays.schedule import DelaySchedule
    from hutong.broker.rocketmq.halves.driver import HalfMessages
    from hutong.broker.rocketmq.signatures import Signatures
    from hutong.broker.topics.led_topics import LedTopics
    from hutong.broker.topics.partition import Partition, Topic
    from hutong.foundation.timers import TimerWheel
    from hutong.foundation.waiting.table import Owner
    from hutong.groups.rocketmq.clients import RocketClients
    from hutong.groups.rocketmq.queue_locks import QueueLocks
    from hutong.reactor.connections.handler import Peer
    from hutong.remoting.channels.channel import Channel
    from hutong.security.principals import Principal
    from hutong.wire.rocketmq.command import Command

FIRST_SESSION: Final = 1 << 40  # connections of Kafka's clients count from 1
GROUPS_PER_CHANNEL_MAX: Final = 1_000
LISTENER: Final = "rocketmq"  # in lower case, unlike those of Kafka's clients
_SURE_DIGITS: Final = {32: 9, 64: 18}


@dataclass(frozen=True, slots=True)
class RocketIdentity:
    """The names by which clients know this node, and the address that they reach it at."""

    cluster_name: str
    broker_name: str
    host: str
    port: int
    store_host: Host  # the same address, as it is in messages


@dataclass(slots=True)
class RocketParts:
    """The parts of a node that RocketMQ's requests use."""

    broker: Broker
    identity: RocketIdentity
    listener: Listener
    clients: RocketClients
    locks: QueueLocks
    schedule: DelaySchedule
    delay_max_ms: int
    timers: TimerWheel
    halves: LedTopics[HalfMessages]
    signatures: Signatures
    identify: Callable[[Peer], Principal]  # of a connection, by its certificate
    notify_members: Callable[[str], None] = field(init=False)  # others have joined or left their group
    channel_of: Callable[[int], Channel | None] = field(init=False)  # by the number of the connection
    started_ms: int = 0  # monotonic
    converted: ConvertedBatches = field(default_factory=ConvertedBatches)
    queries_running: list[Owner] = field(default_factory=list)  # for messages by their keys, by who asked
    session_numbers: Iterator[int] = field(default_factory=lambda: count(FIRST_SESSION))
    receipt_numbers: Iterator[int] = field(default_factory=count)  # of pops, in this life of the node


class RocketContext:
    """One request. `parts` are the node's; `number` is that of the connection."""

    __slots__ = ("channel", "command", "is_handed_over", "parts", "principal")

    def __init__(self, command: Command, channel: Channel, parts: RocketParts, *, quietly: bool = False) -> None:
        """Raises RocketRefused for a signature that is wrong, ProtocolError for fields or a certificate that are.

        Quietly: such a signature is not counted.
        """
        self.command = command
        self.channel = channel
        self.parts = parts
        self.principal: Principal
        distant: object = channel
        self.is_handed_over = isinstance(distant, DistantChannel)  # it came by another node
        # That node has found out who the client is.
        if isinstance(distant, DistantChannel):
            self.principal = distant.principal
        else:
            signed = parts.signatures.principal_of(command, quietly=quietly)
            self.principal = signed or connected_principal(channel, parts)

    @property
    def number(self) -> int:
        return self.channel.peer.id

    def text(self, name: str, default: str | None = None) -> str:
        """A field. Raises RocketRefused where it is missing, ProtocolError where the fields are broken."""
        value = self.command.ext().get(name, default)
        if value is None:
            raise RocketRefused(ResponseCode.SYSTEM_ERROR, f"The field {name} is missing.")
        return value

    def integer(self, name: str, default: int | None = None, *, bits: int = 64) -> int:
        """A field that is a signed number of `bits` bits. Raises as `text`."""
        text = self.command.ext().get(name)
        # Clients leave out fields that older versions did not have.
        if text is None and default is not None:
            return default
        return checked_integer(name, text, bits)

    def kafka(self, group: str = "", api_version: int = 0) -> RequestContext[Any]:
        """The context of the same request for a handler of Kafka's."""
        return RequestContext(api_version, group or None, self.session(group), self.parts.broker)

    def born_host(self) -> Host:
        """The client's address, as it is in messages."""
        return born_host_of(self.channel)

    def session(self, group: str = "") -> ClientSession:
        """The session of a group on this channel. Raises LimitExceeded."""
        sessions: dict[tuple[Principal, str], ClientSession] = self.channel.attributes.setdefault("sessions", {})
        session = sessions.get((self.principal, group))
        if session is None:
            # A client could name groups without end.
            if len(sessions) >= GROUPS_PER_CHANNEL_MAX:
                raise LimitExceeded("GROUPS_PER_CHANNEL_MAX", GROUPS_PER_CHANNEL_MAX)
            peer, parts = self.channel.peer, self.parts
            number = next(parts.session_numbers)
            session = ClientSession(number, peer.address, peer.port, parts.listener, peer.owner, peer.release)
            session.principal = self.principal
            sessions[self.principal, group] = session
        return session

    def topic(self, name: str) -> Topic:
        """The topic of that name in the log. Raises RocketRefused."""
        topic = self.parts.broker.topics.get(name)
        # The node's own topics are nobody's to read or write by this protocol.
        if topic is None or topic.is_internal:
            raise RocketRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
        return topic

    def known_partition(self, name: str, queue_id: int) -> Partition:
        """The partition of a queue, wherever its leader is. Raises RocketRefused."""
        topic = self.topic(name)
        partition = topic.partition(queue_id)
        if partition is None:
            raise RocketRefused(
                ResponseCode.SYSTEM_ERROR, f"Queue {queue_id} of {name} is not there: it has {len(topic.partitions)}."
            )
        return partition

    def partition(self, name: str, queue_id: int) -> Partition:
        """The partition of a queue, which this node leads. Raises RocketRefused, Refused, LedElsewhere."""
        partition = self.known_partition(name, queue_id)
        check_led_here(self, partition)
        return partition


def connected_principal(channel: Channel, parts: RocketParts) -> Principal:
    """The principal of a connection, whose requests are not signed. Raises ProtocolError for a wrong certificate."""
    principal: Principal | None = channel.attributes.get("principal")
    if principal is None:
        principal = channel.attributes["principal"] = parts.identify(channel.peer)
    return principal


def born_host_of(channel: Channel) -> Host:
    """The address of a connection's client, as it is in messages."""
    # Once for each connection: to parse it costs 4 us.
    host: Host | None = channel.attributes.get("host")
    if host is None:
        peer = channel.peer
        host = channel.attributes["host"] = Host(ip_address(peer.address.partition("%")[0]).packed, peer.port)
    return host


def user_of(channel: Channel) -> str:
    """The user that the newest heartbeat on this channel came from, empty before the first."""
    user: str = channel.attributes.get("user", "")
    return user


def checked_integer(name: str, text: str | None, bits: int) -> int:
    """The number in a field, which must fit a signed number of `bits` bits. Raises RocketRefused."""
    # Nearly every field: digits that fit whatever they are.
    if text is not None and text.isdigit() and text.isascii() and len(text) <= _SURE_DIGITS[bits]:
        return int(text)
    # Digits alone: `int` would take underscores, spaces and the digits of other scripts.
    if text is None or not (digits := text.removeprefix("-")).isascii() or not digits.isdigit() or len(digits) > 19:
        raise RocketRefused(ResponseCode.SYSTEM_ERROR, f"The field {name} is no number: {text!r:.50}.")
    number = int(text)
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise RocketRefused(ResponseCode.SYSTEM_ERROR, f"The field {name} has no room for {number}: {bits} bits.")
    return number
