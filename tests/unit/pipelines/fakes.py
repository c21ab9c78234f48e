"""A cluster without sockets: connections that answer from a script, and a clock that moves when someone sleeps."""

from collections.abc import Callable, Sequence
from typing import Any, cast

from hutong.foundation.clock import ManualClock
from hutong.pipelines.client.cluster import BrokerAddress, Cluster, ClusterSettings
from hutong.pipelines.client.connection import VERSION_MAX, BrokerConnection
from hutong.pipelines.errors import Unavailable
from hutong.wire.kafka.apis.k03_metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from hutong.wire.kafka.error_codes import ErrorCode

Answer = Callable[[Any], Any]
"""Takes a request, returns its response or raises."""


class FakeConnection:
    """Answers each request by `answer`; keeps what was asked."""

    def __init__(self, peer: str, answer: Answer) -> None:
        self.peer = peer
        self.asked: list[Any] = []
        self.is_closed = False
        self.has_answer = False
        """Set it to have answers taken as soon as they may be there."""
        self._answer = answer
        self._waiting: list[Any] = []

    @property
    def is_idle(self) -> bool:
        return not self._waiting and not self.is_closed

    def speaks(self, api_key: int) -> bool:
        return True

    def version_of(self, api_key: int) -> int:
        return VERSION_MAX[api_key]

    def request(self, message: Any, version: int | None = None) -> Any:
        self.send(message, version)
        return self.receive()

    def send(self, message: Any, version: int | None = None) -> None:
        if self.is_closed:
            raise Unavailable("closed")
        self.asked.append(message)
        self._waiting.append(message)

    def receive(self) -> Any:
        message = self._waiting.pop(0)
        try:
            return self._answer(message)
        except Unavailable:
            self.close()
            raise

    def close(self) -> None:
        self.is_closed = True


class FakeBrokers:
    """Brokers at `host-N:9092`; `answers[N]` handles what is not Metadata, `leaders` is (topic, partition) to node."""

    def __init__(self, leaders: dict[tuple[str, int], int]) -> None:
        self.leaders = leaders
        self.answers: dict[int, Answer] = {}
        self.down: set[int] = set()
        self.opened: list[tuple[int, FakeConnection]] = []
        self.metadata_requests: list[MetadataRequest] = []
        self.clock = ManualClock()
        self.slept_s: list[float] = []

    def cluster(self, bootstrap: Sequence[int] = (0,), **settings: Any) -> Cluster:
        addresses = tuple(BrokerAddress(f"host-{node}", 9092) for node in bootstrap)
        return Cluster(ClusterSettings(addresses, **settings), self._connect, self.clock, self._sleep)

    def connection(self, node: int) -> FakeConnection:
        """The newest to a node."""
        return next(connection for opened, connection in reversed(self.opened) if opened == node)

    def _connect(self, host: str, port: int, _settings: ClusterSettings) -> BrokerConnection:
        node = int(host.removeprefix("host-"))
        if node in self.down:
            raise Unavailable(f"no broker answers at {host}:{port}")
        connection = FakeConnection(f"{host}:{port}", lambda request: self._answer(node, request))
        self.opened.append((node, connection))
        return cast(BrokerConnection, connection)

    def _sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.clock.advance(round(seconds * 1000))

    def _answer(self, node: int, request: Any) -> Any:
        if node in self.down:
            raise Unavailable(f"host-{node} went away")
        if isinstance(request, MetadataRequest):
            self.metadata_requests.append(request)
            return self._metadata(request)
        return self.answers[node](request)

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        known = {topic for topic, _ in self.leaders}
        names = sorted(known) if request.topics is None else [topic.name or "" for topic in request.topics]
        topics = [
            MetadataResponseTopic(
                ErrorCode.NONE if name in known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                name,
                is_internal=name.startswith("__"),
                partitions=[
                    MetadataResponsePartition(0, partition, leader)
                    for (topic, partition), leader in sorted(self.leaders.items())
                    if topic == name
                ],
            )
            for name in names
        ]
        nodes = sorted(set(self.leaders.values()) - {-1} | {0})
        return MetadataResponse(brokers=[MetadataResponseBroker(n, f"host-{n}", 9092) for n in nodes], topics=topics)
