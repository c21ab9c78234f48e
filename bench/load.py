"""The load generator for one-record requests: pre-encoded Produce requests on raw connections, closed loop.

Strategy: every connection keeps `window` requests in flight and sends one for each reply. Requests form a ring in
memory with rising correlation ids, so that sending n of them is one slice. Replies have one size; of every one the
size, the correlation id and the error code are checked: by one comparison when a reply comes alone, by strided slices
when many come in one read. Any other reply is decoded and raised: a refused request is fast and must not count. Sockets
are driven by epoll directly, which costs the generator less than half of what an event loop's callbacks do.

A closed loop says nothing of latency at a given rate: a stall is one slow sample, not the many that waited (coordinated
omission). Knows nothing of the targets.
"""

import contextlib
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from bench.figures import WeightedSamples
from bench.kafka_bytes import ProduceReplyLayout, produce_request, record_batch
from bench.raw_client import BrokerError, host_and_port

RING: Final = 256  # no window exceeds it, and a place fits the lowest byte of a correlation id
VALUE: Final = bytes(range(100))
RECEIVE_BYTES: Final = 1 << 16
SILENCE_S_MAX: Final = 30.0


@dataclass(frozen=True, slots=True)
class Shape:
    """The load in flight: connections, and requests on each."""

    name: str
    connections: int
    window: int


PING_PONG: Final = Shape("ping-pong", 1, 1)
DEEP_64: Final = Shape("64 deep on one connection", 1, 64)
WIDE_100: Final = Shape("100 connections, one each", 100, 1)
SHAPES: Final = (PING_PONG, DEEP_64, WIDE_100)


@dataclass(frozen=True, slots=True)
class Load:
    """The findings of one run of the generator."""

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float
    generator_cpu_us: float  # per request

    @property
    def requests_per_s(self) -> float:
        return self.requests / self.seconds


class Ring:
    """Pre-encoded requests for one topic and what their replies must look like."""

    def __init__(self, topic: str, acks: int) -> None:
        batch = record_batch([VALUE])
        requests = [produce_request(topic, batch, acks=acks, correlation_id=place) for place in range(RING)]
        layout = ProduceReplyLayout.of(topic)
        self.reply_size = layout.size
        self._request_size = len(requests[0])
        self._bytes = memoryview(b"".join(requests * 2))
        self._places = bytes(range(RING)) * 2
        self._layout = layout
        size = (layout.size - 4).to_bytes(4, "big")
        names = b"\x00\x02" + bytes([len(topic.encode()) + 1]) + topic.encode() + b"\x02"
        # everything of a reply up to its base offset: size, correlation id, names, partition 0, no error
        self._good = [size + place.to_bytes(4, "big") + names + bytes(6) for place in range(RING)]

    def requests(self, first: int, count: int) -> memoryview:
        """`count` requests (at most `RING`), the first with place `first` modulo `RING`."""
        start = first % RING * self._request_size
        return self._bytes[start : start + count * self._request_size]

    def check(self, replies: bytes, first: int, count: int) -> None:
        """Raises `BrokerError` unless `count` replies answer the requests from place `first` on, without error."""
        place = first % RING
        size, error_at = self.reply_size, self._layout.error_at
        if count == 1:
            good = replies[: error_at + 2] == self._good[place]
        else:
            end = size * count
            good = (
                replies[7:end:size] == self._places[place : place + count]
                and not any(replies[error_at:end:size])
                and not any(replies[error_at + 1 : end : size])
                and replies[3:end:size] == self._good[0][3:4] * count
                and replies[2:end:size] == self._good[0][2:3] * count
            )
        if not good:
            self._raise_first_bad(replies, place, count)

    def _raise_first_bad(self, replies: bytes, place: int, count: int) -> None:
        for index in range(count):
            reply = replies[index * self.reply_size : (index + 1) * self.reply_size]
            if not reply.startswith(self._good[(place + index) % RING]):
                code = self._layout.error_code(reply)
                raise BrokerError(f"reply {index} of {count}: error code {code}, bytes {reply.hex()}")


class Producer:
    """One connection of the generator. `receive` is called when the socket is readable."""

    __slots__ = ("_answered", "_in_flight", "_recv", "_rest", "_ring", "_send", "_sent", "samples", "socket")

    def __init__(self, address: str, ring: Ring, tls: ssl.SSLContext | None) -> None:
        self.socket = socket.create_connection(host_and_port(address))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.samples = WeightedSamples()
        self._recv: Callable[[int], bytes] = self.socket.recv
        if tls is not None:
            self.socket = wrapped = tls.wrap_socket(self.socket, server_hostname=host_and_port(address)[0])
            self._recv = partial(_receive_all, wrapped)
        self._send: Callable[[memoryview], int] = self.socket.send
        self._ring = ring
        self._rest = b""
        self._sent = 0
        self._answered = 0
        self._in_flight: deque[tuple[float, int]] = deque()  # sent at, how many; oldest first

    @property
    def is_drained(self) -> bool:
        return self._answered == self._sent

    def send(self, count: int) -> None:
        requests = self._ring.requests(self._sent, count)
        self._sent += count
        self._in_flight.append((time.perf_counter(), count))
        if self._send(requests) != len(requests):  # a window is far smaller than a socket's buffer
            raise BrokerError("the broker does not read")

    def receive(self) -> int:
        """Takes what arrived: checks and times each whole reply; how many there were."""
        data = self._recv(RECEIVE_BYTES)
        now = time.perf_counter()
        if not data:
            raise BrokerError(f"closed by the broker after {self._answered} replies")
        if self._rest:
            data = self._rest + data
        size = self._ring.reply_size
        count = len(data) // size
        self._rest = data[count * size :]
        if count:
            self._ring.check(data, self._answered, count)
            self._answered += count
            self._account(now, count)
        return count

    def _account(self, now: float, count: int) -> None:
        in_flight = self._in_flight
        while count:
            sent_at, waiting = in_flight[0]
            taken = min(waiting, count)
            self.samples.add(now - sent_at, taken)
            count -= taken
            if taken == waiting:
                in_flight.popleft()
            else:
                in_flight[0] = (sent_at, waiting - taken)


def _receive_all(peer: ssl.SSLSocket, bytes_max: int) -> bytes:
    """Read arrived data: epoll does not report data that TLS has decrypted already."""
    data = peer.recv(bytes_max)
    while peer.pending():
        data += peer.recv(bytes_max)
    return data


def run_load(
    address: str,
    topic: str,
    shape: Shape,
    *,
    acks: int = 1,
    seconds: float = 3.0,
    warm_up_s: float = 0.5,
    tls: ssl.SSLContext | None = None,
) -> Load:
    """One turn: warm up, measure for `seconds`, drain. Raises `BrokerError` at the first reply that is no success."""
    ring = Ring(topic, acks)
    with contextlib.ExitStack() as stack, select.epoll() as poller:
        producers = {}
        for _ in range(shape.connections):
            producer = Producer(address, ring, tls)
            stack.callback(producer.socket.close)
            producers[producer.socket.fileno()] = producer
            poller.register(producer.socket.fileno(), select.EPOLLIN)
        for producer in producers.values():
            producer.send(shape.window)
        _keep_busy(poller, producers, warm_up_s)
        for producer in producers.values():
            producer.samples = WeightedSamples()
        begun, cpu_begun = time.perf_counter(), time.process_time()
        _keep_busy(poller, producers, seconds)
        elapsed, cpu = time.perf_counter() - begun, time.process_time() - cpu_begun
        samples = WeightedSamples.joined(producer.samples for producer in producers.values())
        _drain(poller, producers)
    p50, p99 = samples.percentiles(0.50, 0.99)
    return Load(samples.count, elapsed, p50 * 1e3, p99 * 1e3, cpu / max(samples.count, 1) * 1e6)


def _keep_busy(poller: select.epoll, producers: dict[int, Producer], seconds: float) -> None:
    for producer in _readable(poller, producers, time.perf_counter() + seconds):
        count = producer.receive()
        if count:
            producer.send(count)


def _drain(poller: select.epoll, producers: dict[int, Producer]) -> None:
    waiting = sum(not producer.is_drained for producer in producers.values())
    for producer in _readable(poller, producers, time.perf_counter() + SILENCE_S_MAX):
        producer.receive()
        waiting -= producer.is_drained
        if not waiting:
            return


def _readable(poller: select.epoll, producers: dict[int, Producer], until: float) -> Iterator[Producer]:
    while time.perf_counter() < until:
        events = poller.poll(SILENCE_S_MAX, RING)
        if not events:
            raise BrokerError(f"no reply for {SILENCE_S_MAX:.0f} s")
        for descriptor, _ in events:
            yield producers[descriptor]
