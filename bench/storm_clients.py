"""The clients of `bench storm`, each kind in a process of its own: some that stay, some that only hold, many that come.

    python -m bench.storm_clients idle ADDRESS COUNT [CA]     connect, ask once, stay until standard input ends
    python -m bench.storm_clients steady ADDRESS SECONDS      a few that produce at a fixed pace; their waits as JSON
    python -m bench.storm_clients storm ADDRESS SECONDS RATE  new ones all the time, half of them hostile; counts

Strategy: blocking sockets for the steady clients, one epoll for the storm. A steady client sends by the clock, and its
wait begins at the scheduled time (no coordinated omission). Each prints `ready` when connected. Loopback only; sockets
come from several loopback addresses, since one has too few ports for long storms.
"""

import json
import random
import selectors
import socket
import ssl
import struct
import sys
import time
from collections import deque
from contextlib import suppress
from typing import Final

from bench.kafka_bytes import METADATA, api_versions_request, frame, produce_request, record_batch
from bench.raw_client import RawConnection, create_topic, host_and_port

SOURCES: Final = 16  # addresses that clients come from
LINGER_S: Final = 1.0  # how long a hostile connection stays, if it is let
OPEN_MAX: Final = 8_000  # of a storm, at a time
STEADY_CONNECTIONS: Final = 20
STEADY_INTERVAL_S: Final = 0.04  # of each
TOPIC: Final = "steady"
VALUE: Final = bytes(100)
ANNOUNCED_BYTES: Final = 100 << 20
SEED: Final = 8


def main(words: list[str]) -> None:
    kind, address, *rest = words
    match kind:
        case "idle":
            hold(address, int(rest[0]), rest[1] if rest[1:] else None)
        case "steady":
            stay(address, float(rest[0]))
        case "storm":
            print(json.dumps(Storm(address, int(rest[1])).run(float(rest[0]))))


def hold(address: str, count: int, authority: str | None) -> None:
    """As many connections, each of which has asked one thing."""
    tls = ssl.create_default_context(cafile=authority) if authority else None
    held = []
    for number in range(count):
        connection: socket.socket = socket.create_connection(host_and_port(address), 30, source(number))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            connection = tls.wrap_socket(connection, server_hostname="localhost")
        connection.sendall(api_versions_request())
        size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL) if tls is None else connection.recv(4), "big")
        while size > 0:
            size -= len(connection.recv(size))
        held.append(connection)
    print("ready", flush=True)
    sys.stdin.read()
    for connection in held:
        connection.close()


def source(number: int) -> tuple[str, int]:
    return f"127.0.0.{2 + number % SOURCES}", 0


def stay(address: str, seconds: float) -> None:
    """Milliseconds of each wait; the first second does not count."""
    create_topic(address, TOPIC, configs={"hutong.qos": "receive"})
    request = produce_request(TOPIC, record_batch([VALUE]))
    poll = selectors.EpollSelector()
    connections = [RawConnection(address) for _ in range(STEADY_CONNECTIONS)]
    due: list[deque[float]] = [deque() for _ in connections]
    for number, connection in enumerate(connections):
        poll.register(connection.socket, selectors.EVENT_READ, number)
    print("ready", flush=True)
    waits_ms: list[float] = []
    step_s = STEADY_INTERVAL_S / STEADY_CONNECTIONS
    begun_s = next_s = time.monotonic()
    number = 0
    while (now_s := time.monotonic()) < begun_s + seconds:
        while next_s <= now_s:
            connections[number].send(request)
            due[number].append(next_s)
            number = (number + 1) % STEADY_CONNECTIONS
            next_s += step_s
        for key, _ in poll.select(max(0.0, next_s - time.monotonic())):
            connections[key.data].receive()
            sent_s = due[key.data].popleft()
            if sent_s > begun_s + 1:
                waits_ms.append((time.monotonic() - sent_s) * 1000)
    print(json.dumps(waits_ms))


class Storm:
    """New connections at a pace: those of even number ask one thing and leave, the others do harm as they can."""

    def __init__(self, address: str, rate: int) -> None:
        self._address = host_and_port(address)
        self._rate = rate
        self._poll = selectors.EpollSelector()
        self._lingering: deque[tuple[float, socket.socket]] = deque()
        self._chance = random.Random(SEED)
        self._counts = dict.fromkeys(("begun", "answered", "refused", "hostile", "skipped"), 0)
        self._waiting: set[socket.socket] = set()
        half = struct.pack(">i", ANNOUNCED_BYTES)
        self._attacks = (
            self._chance.randbytes(512),
            struct.pack(">i", 2**31 - 1) + bytes(64),
            half + bytes(4096),
            frame(METADATA, 1, 1, struct.pack(">i", -1)) * 16,
            b"\x16\x03\x01" + self._chance.randbytes(300),
            b"",
        )

    def run(self, seconds: float) -> dict[str, int]:
        print("ready", flush=True)
        begun_s = next_s = time.monotonic()
        number = 0
        while (now_s := time.monotonic()) < begun_s + seconds:
            while next_s <= now_s:
                self._come(number, now_s)
                number += 1
                next_s += 1 / self._rate
            self._let_go(now_s)
            for key, _ in self._poll.select(max(0.0, next_s - time.monotonic())):
                assert isinstance(key.fileobj, socket.socket)
                self._read(key.fileobj)
        for client in (*self._waiting, *(client for _, client in self._lingering)):
            client.close()
        self._poll.close()
        return self._counts

    def _come(self, number: int, now_s: float) -> None:
        if len(self._waiting) + len(self._lingering) >= OPEN_MAX:
            self._counts["skipped"] += 1
            return
        self._counts["begun"] += 1
        client = socket.socket()
        client.bind(source(number))
        client.setblocking(False)
        client.connect_ex(self._address)
        data = api_versions_request() if number % 2 == 0 else self._chance.choice(self._attacks)
        try:
            client.send(data)
        except OSError:  # not connected yet: the queue of the kernel is full
            self._counts["refused"] += 1
            client.close()
            return
        if number % 2 == 0:
            self._waiting.add(client)
            self._poll.register(client, selectors.EVENT_READ)
        else:
            self._counts["hostile"] += 1
            self._lingering.append((now_s + LINGER_S, client))

    def _read(self, client: socket.socket) -> None:
        got = b""
        with suppress(OSError):
            got = client.recv(65536)
        self._counts["answered" if got else "refused"] += 1
        self._poll.unregister(client)
        self._waiting.discard(client)
        client.close()

    def _let_go(self, now_s: float) -> None:
        """Those who do harm end with a reset."""
        while self._lingering and self._lingering[0][0] <= now_s:
            _, client = self._lingering.popleft()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()


if __name__ == "__main__":
    main(sys.argv[1:])
