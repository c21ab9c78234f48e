"""One connection over a socket pair: the answers are written before they are waited for, so nothing can block."""

import socket
from collections.abc import Iterator

import pytest

from hutong.foundation.errors import ProtocolError
from hutong.pipelines.client.connection import METADATA, PRODUCE, BrokerConnection
from hutong.pipelines.errors import Unavailable
from hutong.wire.kafka.apis.k03_metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from hutong.wire.kafka.apis.k18_api_versions import ApiVersion, ApiVersionsResponse
from hutong.wire.kafka.codec.codecs import Message
from hutong.wire.kafka.headers import decode_request_header, encode_response_frame

API_VERSIONS = 18


class Broker:
    """The other end."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end

    def answer(self, api_key: int, version: int, correlation_id: int, message: Message) -> None:
        self.end.sendall(b"".join(encode_response_frame(api_key, version, correlation_id, message)))

    def received(self) -> list[tuple[int, int, int]]:
        """API key, version and correlation id of every request so far."""
        content, requests = self.end.recv(2**20), []
        while content:
            size = int.from_bytes(content[:4], "big")
            header, _ = decode_request_header(content[4 : 4 + size])
            requests.append((header.api_key, header.api_version, header.correlation_id))
            content = content[4 + size :]
        return requests


@pytest.fixture
def pair() -> Iterator[tuple[BrokerConnection, Broker]]:
    ours, theirs = socket.socketpair()
    ours.settimeout(5)
    theirs.settimeout(5)
    connection = BrokerConnection(ours, "broker:9092")
    yield connection, Broker(theirs)
    connection.close()
    theirs.close()


def negotiated(connection: BrokerConnection, broker: Broker, **versions: tuple[int, int]) -> None:
    keys = [ApiVersion(int(key[1:]), *span) for key, span in versions.items()]
    broker.answer(API_VERSIONS, 0, 0, ApiVersionsResponse(0, keys))
    connection.negotiate()


def test_the_highest_common_version_is_used(pair: tuple[BrokerConnection, Broker]) -> None:
    connection, broker = pair
    negotiated(connection, broker, k3=(0, 99), k0=(3, 7))
    assert (connection.version_of(METADATA), connection.version_of(PRODUCE)) == (12, 7)


def test_no_common_version_is_told(pair: tuple[BrokerConnection, Broker]) -> None:
    connection, broker = pair
    negotiated(connection, broker, k0=(0, 2))
    with pytest.raises(ProtocolError, match=r"broker:9092 speaks no common version of Kafka's API 0"):
        connection.version_of(PRODUCE)
    with pytest.raises(ProtocolError, match="API 3"):
        connection.version_of(METADATA)


def test_answers_come_in_the_order_of_the_requests(pair: tuple[BrokerConnection, Broker]) -> None:
    connection, broker = pair
    negotiated(connection, broker, k3=(0, 5))
    for number in (1, 2):
        connection.send(MetadataRequest(None))
        broker.answer(METADATA, 5, number, MetadataResponse(cluster_id=f"cluster-{number}"))
    assert not connection.is_idle
    assert [connection.receive().cluster_id for _ in range(2)] == ["cluster-1", "cluster-2"]
    assert connection.is_idle
    assert broker.received() == [(18, 0, 0), (3, 5, 1), (3, 5, 2)]


def test_an_answer_larger_than_the_buffer_arrives_whole(pair: tuple[BrokerConnection, Broker]) -> None:
    connection, broker = pair
    negotiated(connection, broker, k3=(0, 5))
    brokers = [MetadataResponseBroker(node, "h" * 1000, 9092) for node in range(150)]
    connection.send(MetadataRequest(None))
    broker.answer(METADATA, 5, 1, MetadataResponse(brokers=brokers))
    assert connection.receive().brokers == brokers


@pytest.mark.parametrize("size", [b"HTTP", b"\xff\xff\xff\xff"])
def test_what_is_not_kafka_is_recognised_by_its_size(pair: tuple[BrokerConnection, Broker], size: bytes) -> None:
    connection, broker = pair
    broker.end.sendall(size)
    with pytest.raises(ProtocolError, match="is it a Kafka port"):
        connection.negotiate()
    assert not connection.is_idle


def test_an_answer_to_another_request_closes(pair: tuple[BrokerConnection, Broker]) -> None:
    connection, broker = pair
    negotiated(connection, broker, k3=(0, 5))
    broker.answer(METADATA, 5, 77, MetadataResponse())
    with pytest.raises(ProtocolError, match="a request that was not made"):
        connection.request(MetadataRequest(None))
    assert not connection.is_idle


def test_a_broker_that_goes_away_is_unavailable(pair: tuple[BrokerConnection, Broker]) -> None:
    connection, broker = pair
    broker.end.close()
    with pytest.raises(Unavailable, match="broker:9092 went away"):
        connection.negotiate()
    with pytest.raises(Unavailable):
        connection.send(MetadataRequest(None), 5)
    assert not connection.is_idle


def test_a_broker_that_is_silent_is_unavailable(pair: tuple[BrokerConnection, Broker]) -> None:
    connection, _ = pair
    connection._transport.settimeout(0.001)
    with pytest.raises(Unavailable, match="did not answer in time"):
        connection.negotiate()
