"""A Kafka cluster as its pipelines see it: which topics there are, who leads a partition, where its offsets end.

Keeps one connection per broker and finds leaders through cached metadata. What fails in a way that may pass (a broker
restarting, a leader moving, a topic being created) is retried with fresh metadata, with growing pauses,
until a deadline. Blocking, for one thread: Spark runs one task per Python worker.

Knows nothing of records.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from hutong.foundation.addresses import scheme_advice
from hutong.foundation.clock import Clock
from hutong.foundation.errors import ProtocolError, Refused
from hutong.pipelines.client.connection import BrokerConnection
from hutong.pipelines.client.identities import Producer
from hutong.pipelines.client.security import UNSECURED, Security
from hutong.pipelines.errors import Unavailable, is_retriable
from hutong.wire.kafka.apis.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from hutong.wire.kafka.apis.k03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from hutong.wire.kafka.apis.k22_init_producer_id import InitProducerIdRequest
from hutong.wire.kafka.error_codes import ErrorCode

EARLIEST = -2
LATEST = -1
BACKOFF_MS_FIRST = 50
BACKOFF_MS_MAX = 1_000
CREATION_MS_MAX = 10_000
"""The time for a broker to create a topic on request."""
FORBIDDEN = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)

T = TypeVar("T")


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class BrokerAddress(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class TopicMetadata(NamedTuple):
    name: str
    topic_id: bytes
    """16 bytes that no other topic ever had; all zero where the broker knows no topic ids."""
    partitions: tuple[int, ...]
    is_internal: bool


class FoundOffset(NamedTuple):
    """The answer to a question for an offset: -1 and -1 when no record is as young as asked."""

    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Addresses, security and time limits of a cluster. `retry_ms` bounds the retries of one request."""

    bootstrap: tuple[BrokerAddress, ...]
    read_committed: bool = False
    connect_timeout_ms: int = 5_000
    request_timeout_ms: int = 30_000
    retry_ms: int = 60_000
    security: Security = UNSECURED


class Cluster:
    """Blocking access to a cluster. Methods raise Unavailable, Refused or ProtocolError when retries are exhausted.

    A refused login raises AccessDenied at once.
    """

    def __init__(
        self,
        settings: ClusterSettings,
        connect: Callable[[str, int, ClusterSettings], BrokerConnection],
        clock: Clock,
        sleep: Callable[[float], None],
    ) -> None:
        self.settings = settings
        self._connect = connect
        self._clock = clock
        self._sleep = sleep
        self._connections: dict[BrokerAddress, BrokerConnection] = {}
        self._brokers: dict[int, BrokerAddress] = {}
        self._leaders: dict[TopicPartition, int] = {}

    def topics(self, names: Iterable[str] | None = None, *, create: bool = False) -> dict[str, TopicMetadata]:
        """The named topics, or all. Topics that do not exist are left out; with `create` the broker may make them."""
        wanted = None if names is None else sorted(set(names))
        retry_ms = min(self.settings.retry_ms, CREATION_MS_MAX) if create else self.settings.retry_ms
        return self.retrying(lambda: self._topics(wanted, create), retry_ms)

    def offsets(self, asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundOffset]:
        """For each partition the offset of the first record not older than a timestamp in ms, `EARLIEST` or `LATEST`.

        With `read_committed`, the latest offset is the last stable one.
        """
        found: dict[TopicPartition, FoundOffset] = {}

        def ask_missing() -> dict[TopicPartition, FoundOffset]:
            missing = {partition: at for partition, at in asked.items() if partition not in found}
            for leader, questions in self._by_leader(missing).items():
                found.update(self._offsets(leader, questions))
            return found

        return self.retrying(ask_missing)

    def new_producer(self) -> Producer:
        """A producer identity of its own."""

        def ask() -> Producer:
            response = self.any_connection().request(InitProducerIdRequest(None, 0))
            raise_refusal(response.error_code, "no producer id was given out")
            return Producer(response.producer_id, response.producer_epoch)

        return self.retrying(ask)

    def leader(self, partition: TopicPartition) -> BrokerConnection:
        """An idle connection to the broker that leads a partition. One attempt: use it inside `retrying`."""
        # A leader that moved is looked up again by the next attempt: `retrying` clears the table.
        if partition not in self._leaders and not self._topics([partition.topic], create=False):
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {partition.topic} does not exist")
        node = self._leaders.get(partition, -1)
        # During an election a partition has leader -1 (Metadata, LEADER_NOT_AVAILABLE).
        if node not in self._brokers:
            raise Refused(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {partition} has no leader")
        return self.connection_to(self._brokers[node])

    def connection_to(self, address: BrokerAddress) -> BrokerConnection:
        """An idle connection to one broker, new or reused. One attempt: use it inside `retrying`."""
        connection = self._connections.get(address)
        if connection is not None and connection.is_idle:
            return connection
        if connection is not None:
            # Left in the middle of an answer: the rest of it would be taken for the next one.
            connection.close()
            del self._connections[address]
        connection = self._connections[address] = self._connect(*address, self.settings)
        return connection

    def brokers(self) -> list[BrokerAddress]:
        """The addresses of all brokers."""

        def ask() -> list[BrokerAddress]:
            self._remember(self.any_connection().request(MetadataRequest([], allow_auto_topic_creation=False)))
            return list(self._brokers.values())

        return self.retrying(ask)

    def any_connection(self) -> BrokerConnection:
        """An idle connection to any broker, the bootstrap addresses last. One attempt: use it inside `retrying`."""
        refusal: Unavailable | None = None
        for address in dict.fromkeys([*self._connections, *self._brokers.values(), *self.settings.bootstrap]):
            try:
                return self.connection_to(address)
            except Unavailable as error:
                refusal = error
        assert refusal is not None  # there is at least one bootstrap address
        raise refusal

    def retrying(self, attempt: Callable[[], T], retry_ms: int | None = None) -> T:
        """Repeats `attempt` while it fails in a way that may pass, until `retry_ms` is over; then raises its error."""
        deadline_ms = self._clock.monotonic_ms() + (self.settings.retry_ms if retry_ms is None else retry_ms)
        backoff_ms = BACKOFF_MS_FIRST
        while True:
            try:
                return attempt()
            except (Unavailable, Refused) as error:
                # The last pause would end after the deadline, so the error is raised before it.
                if not is_retriable(error) or self._clock.monotonic_ms() + backoff_ms > deadline_ms:
                    raise
            self._leaders.clear()
            self._sleep(backoff_ms / 1000)
            backoff_ms = min(2 * backoff_ms, BACKOFF_MS_MAX)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _topics(self, names: list[str] | None, create: bool) -> dict[str, TopicMetadata]:
        # A null list asks for all topics, an empty one for none (Metadata, version 1).
        topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        response = self.any_connection().request(MetadataRequest(topics, allow_auto_topic_creation=create))
        self._remember(response)
        found = {}
        for topic in response.topics:
            # Left out, since callers differ: a query fails, a stream may have lost the topic on purpose.
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                if create:  # brokers in KRaft mode say this while the topic is being made
                    raise Refused(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {topic.name} does not exist: create it")
                continue
            raise_refusal(topic.error_code, f"topic {topic.name} cannot be used")
            found[topic.name] = _topic(topic)
        return found

    def _remember(self, response: MetadataResponse) -> None:
        self._brokers = {broker.node_id: BrokerAddress(broker.host, broker.port) for broker in response.brokers}
        for topic in response.topics:
            for partition in topic.partitions:
                self._leaders[TopicPartition(topic.name or "", partition.partition_index)] = partition.leader_id

    def _by_leader(self, asked: Mapping[TopicPartition, T]) -> dict[BrokerConnection, dict[TopicPartition, T]]:
        unknown = {partition.topic for partition in asked if partition not in self._leaders}
        if unknown:
            self._topics(sorted(unknown), create=False)
        grouped: dict[BrokerConnection, dict[TopicPartition, T]] = {}
        for partition, question in asked.items():
            grouped.setdefault(self.leader(partition), {})[partition] = question
        return grouped

    def _offsets(
        self, leader: BrokerConnection, asked: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, FoundOffset]:
        topics: dict[str, ListOffsetsTopic] = {}
        for (name, index), timestamp_ms in asked.items():
            topic = topics.setdefault(name, ListOffsetsTopic(name))
            topic.partitions.append(ListOffsetsPartition(index, timestamp=timestamp_ms))
        isolation = int(self.settings.read_committed)
        response: ListOffsetsResponse = leader.request(ListOffsetsRequest(-1, isolation, list(topics.values())))
        found = {}
        for answer in response.topics:
            for partition in answer.partitions:
                where = TopicPartition(answer.name, partition.partition_index)
                raise_refusal(partition.error_code, f"the offsets of {where} cannot be listed")
                found[where] = FoundOffset(partition.offset, partition.timestamp)
        # A missing answer would be a KeyError far from here.
        if found.keys() != asked.keys():
            raise ProtocolError(f"the broker at {leader.peer} did not answer for every partition")
        return found


def raise_refusal(error_code: int, what: str) -> None:
    """Raises Refused naming the error, unless the code is 0."""
    if error_code == ErrorCode.NONE:
        return
    known = error_code in ErrorCode._value2member_map_
    error_name = ErrorCode(error_code).name if known else f"error {error_code}"
    advice = ", our user has no right to it: an access control list must allow it" if error_code in FORBIDDEN else ""
    raise Refused(error_code, f"{what}: {error_name}{advice}")


def parse_bootstrap(text: str) -> tuple[BrokerAddress, ...]:
    """Read `host:port,host:port`; an IPv6 host is in brackets. Raises ValueError."""
    addresses = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        host, separator, port = part.rpartition(":")
        if "://" in part:
            raise ValueError(f"'{part}' is not an address: write it{scheme_advice(part)}")
        if not separator or not host or not port.isdecimal() or not 0 < int(port) < 2**16:
            raise ValueError(f"'{part}' is not an address of the form HOST:PORT")
        addresses.append(BrokerAddress(host.strip("[]"), int(port)))
    if not addresses:
        raise ValueError("an address of the form HOST:PORT is missing")
    return tuple(addresses)


def _topic(topic: MetadataResponseTopic) -> TopicMetadata:
    partitions = tuple(sorted(partition.partition_index for partition in topic.partitions))
    return TopicMetadata(topic.name or "", topic.topic_id, partitions, topic.is_internal)
