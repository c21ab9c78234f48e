"""A blocking Kafka connection of a hundred lines: for start-up timing, for topics of a bench, for tests of bad input.

Knows nothing of retries beyond what a fresh topic needs: right after CreateTopics a broker may not lead it yet.
"""

import socket
import time
from collections.abc import Mapping
from typing import Final

from bench.kafka_bytes import (
    TOPIC_ALREADY_EXISTS,
    ProduceReplyLayout,
    create_topic_error,
    create_topic_request,
    produce_request,
    record_batch,
)

REPLY_BYTES_MAX: Final = 64 << 20
RETRY_INTERVAL_S: Final = 0.002
RETRIABLE: Final = frozenset({3, 5, 6, 14, 15, 16})  # unknown topic, no leader, not leader, coordinator on its way


class BrokerError(Exception):
    """The broker answered with an error code, or not as expected."""


def host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


class RawConnection:
    """One TCP connection; `call` sends a whole request frame and returns the whole reply frame, size included."""

    def __init__(self, address: str, timeout_s: float = 30.0, source_host: str | None = None) -> None:
        source = None if source_host is None else (source_host, 0)
        self.socket = socket.create_connection(host_and_port(address), timeout_s, source)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> "RawConnection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> bytes:
        """The next reply frame; `ConnectionError` when the broker closes first."""
        head = self._exactly(4)
        size = int.from_bytes(head, "big", signed=True)
        if not 0 <= size <= REPLY_BYTES_MAX:
            raise BrokerError(f"a reply announces {size} bytes")
        return head + self._exactly(size)

    def call(self, request: bytes) -> bytes:
        self.send(request)
        return self.receive()

    def is_closed_by_peer(self) -> bool:
        """Waits (up to the timeout) for the broker to close; False when it sends data instead."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = self.socket.recv(count - len(parts))
            if not part:
                raise ConnectionError(f"closed by the broker after {len(parts)} of {count} bytes")
            parts += part
        return bytes(parts)


def connect(address: str, deadline_s: float = 30.0) -> RawConnection:
    """Connects as soon as the address accepts."""
    give_up = time.monotonic() + deadline_s
    while True:
        try:
            return RawConnection(address)
        except OSError:
            if time.monotonic() > give_up:
                raise
            time.sleep(RETRY_INTERVAL_S)


def create_topic(
    address: str, topic: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None, records: int = 1
) -> None:
    """Creates `topic` and returns once it takes records (`records` of them, one byte each, are then in partition 0)."""
    with RawConnection(address) as connection:
        reply = connection.call(create_topic_request(topic, partitions=partitions, configs=configs))
        error = create_topic_error(reply, topic)
        if error not in (0, TOPIC_ALREADY_EXISTS):
            raise BrokerError(f"CreateTopics {topic}: error {error}")
        for _ in range(records):
            first_acknowledged(connection, topic, b"0")


def first_acknowledged(connection: RawConnection, topic: str, value: bytes, deadline_s: float = 30.0) -> int:
    """Produces one record, repeated while the topic has no leader yet; its offset."""
    # By acks=all: with acks=1 a record is answered before it is flushed, and readers do not see it until then.
    request, layout = produce_request(topic, record_batch([value]), acks=-1), ProduceReplyLayout.of(topic)
    give_up = time.monotonic() + deadline_s
    while True:
        reply = connection.call(request)
        error = layout.error_code(reply)
        if error == 0:
            return layout.base_offset(reply)
        if error not in RETRIABLE or time.monotonic() > give_up:
            raise BrokerError(f"Produce to {topic}: error {error}")
        time.sleep(RETRY_INTERVAL_S)
