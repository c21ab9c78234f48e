"""The least a Kafka client will talk to, to find out what the client alone can do: `python -m bench.null_broker`.

Strategy: one topic kept in memory (the newest one produced to), batches taken as they come, no check of anything, every
answer laid out by hand; what the load generator sent before is answered as then, without a look into it. It speaks just
the versions that it advertises. Never a broker: it forgets all but one topic, and everything where topics have more
partitions than one (`python -m bench.null_broker 10`: ten).
"""

import asyncio
import bisect
import os
import struct
import sys
from typing import Final, cast

import uvloop

from bench.kafka_bytes import (
    API_VERSIONS,
    CLIENT_ID,
    CREATE_TOPICS,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    PRODUCE,
    string,
    unsigned_varint,
)

VERSIONS: Final = {  # librdkafka judges features by the least version, so those are as in real brokers
    PRODUCE: (0, 9),
    FETCH: (4, 11),
    LIST_OFFSETS: (0, 1),
    METADATA: (0, 1),
    API_VERSIONS: (0, 0),
    CREATE_TOPICS: (0, 4),
}
FETCH_BYTES: Final = 1 << 20
SMALL_REPLIES_MAX: Final = 1000
TAKEN: Final = struct.pack(
    ">hqqqbbb", 0, 0, -1, 0, 1, 0, 0
)  # no error, offset, times, no record errors, no message, tags


class Log:
    """Batches of one topic by base offset."""

    def __init__(self, topic: bytes) -> None:
        self.topic = topic
        self.end_offset = 0
        self._base_offsets: list[int] = []
        self._batches: list[bytearray] = []

    def append(self, batch: bytes) -> int:
        """Stores a copy of `batch` (one RecordBatch v2) with its offset; the base offset."""
        copy = bytearray(batch)
        base = self.end_offset
        struct.pack_into(">q", copy, 0, base)
        self._base_offsets.append(base)
        self._batches.append(copy)
        self.end_offset += int.from_bytes(batch[57:61], "big")
        return base

    def read(self, offset: int) -> list[bytearray]:
        at = max(0, bisect.bisect_right(self._base_offsets, offset) - 1)
        found: list[bytearray] = []
        size = 0
        while offset < self.end_offset and at < len(self._batches) and size < FETCH_BYTES:
            found.append(self._batches[at])
            size += len(self._batches[at])
            at += 1
        return found


class Server:
    """The shared state of the connections."""

    def __init__(self) -> None:
        self.address = ("127.0.0.1", 0)
        self.partitions = int(sys.argv[1]) if len(sys.argv) > 1 else 1  # of every topic
        self.log = Log(b"")
        self.small_replies: dict[bytes, bytes] = {}  # by request without its first eight bytes; answered unread

    def log_of(self, topic: bytes) -> Log:
        if topic != self.log.topic:
            self.log = Log(topic)
        return self.log


class Connection(asyncio.Protocol):
    """Answers each frame as it comes. A fetch at the end of the log is answered empty after a pause."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._rest = bytearray()
        self._replies: list[bytes | bytearray] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        rest = self._rest
        rest += data
        at = 0
        while len(rest) - at >= 4:
            end = at + 4 + int.from_bytes(rest[at : at + 4], "big")
            if end > len(rest):
                break
            self._answer(bytes(rest[at + 4 : end]))
            at = end
        del rest[:at]
        if self._replies:
            self._transport.writelines(self._replies)
            self._replies = []

    def _answer(self, request: bytes) -> None:
        key, version, correlation, client = struct.unpack_from(">hhih", request)
        at = 10 + max(client, 0)
        match key:
            case 0:
                self._produce(request, at + 1, correlation)
            case 1:
                self._fetch(request, at, correlation)
            case 2:
                self._reply(correlation, [self._list_offsets(request, at)])
            case 3:
                self._reply(correlation, [self._metadata(request, at)])
            case 18:
                self._reply(correlation, [api_versions_body(35 if version else 0)])
            case 19:
                size = int.from_bytes(request[at + 4 : at + 6], "big")
                name = request[at + 6 : at + 6 + size]
                self._reply(correlation, [struct.pack(">iih", 0, 1, size), name, struct.pack(">hh", 0, -1)])
            case _:
                self._transport.close()

    def _reply(self, correlation: int, body: list[bytes | bytearray]) -> None:
        size = 4 + sum(map(len, body))
        self._replies.append(struct.pack(">ii", size, correlation))
        self._replies += body

    def _produce(self, request: bytes, at: int, correlation: int) -> None:
        known = self._server.small_replies.get(request[8:])
        if known:
            self._reply(correlation, [known])
            return
        if self._server.partitions > 1:
            self._reply(correlation, [forget_batches(request, at)])
            return
        # null transactional id 1, acks 2, timeout 4, one topic 1, name length 1
        size = request[at + 8] - 1
        name = request[at + 9 : at + 9 + size]
        at += 9 + size + 1 + 4  # one partition, its index
        length, at = compact_length(request, at)
        base = self._server.log_of(name).append(request[at : at + length])
        reply = b"\x00\x02" + bytes([size + 1]) + name + b"\x02"
        reply += struct.pack(">ihqqqbbbbib", 0, 0, base, -1, 0, 1, 0, 0, 0, 0, 0)
        self._reply(correlation, [reply])
        if request.startswith(CLIENT_ID, 10) and len(self._server.small_replies) < SMALL_REPLIES_MAX:
            self._server.small_replies[request[8:]] = reply

    def _fetch(self, request: bytes, at: int, correlation: int) -> None:
        at += 25
        topics = int.from_bytes(request[at : at + 4], "big")
        if not topics:
            self._reply(correlation, [struct.pack(">ihii", 0, 0, 0, 0)])
            return
        size = int.from_bytes(request[at + 4 : at + 6], "big")
        name = request[at + 6 : at + 6 + size]
        offset = struct.unpack_from(">q", request, at + 6 + size + 12)[0]
        log = self._server.log_of(name)
        found = log.read(offset)
        if not found:
            asyncio.get_running_loop().call_later(0.01, self._fetched, correlation, log, found)
        else:
            self._fetched(correlation, log, found)

    def _fetched(self, correlation: int, log: Log, found: list[bytearray]) -> None:
        head = struct.pack(">ihiih", 0, 0, 0, 1, len(log.topic)) + log.topic
        head += struct.pack(">iihqqqiii", 1, 0, 0, log.end_offset, log.end_offset, 0, -1, -1, sum(map(len, found)))
        self._reply(correlation, [head, *found])
        if not found:
            self._transport.writelines(self._replies)
            self._replies = []

    def _list_offsets(self, request: bytes, at: int) -> bytes:
        size = int.from_bytes(request[at + 8 : at + 10], "big")
        name = request[at + 10 : at + 10 + size]
        (timestamp,) = struct.unpack_from(">q", request, at + 10 + size + 8)
        offset = 0 if timestamp == -2 else self._server.log_of(name).end_offset
        topic = struct.pack(">ih", 1, size) + name
        return topic + struct.pack(">iihqq", 1, 0, 0, -1, offset)

    def _metadata(self, request: bytes, at: int) -> bytes:
        (count,) = struct.unpack_from(">i", request, at)
        names, at = [], at + 4
        for _ in range(max(count, 0)):
            size = int.from_bytes(request[at : at + 2], "big")
            names.append(request[at + 2 : at + 2 + size].decode())
            at += 2 + size
        host, port = self._server.address
        body = struct.pack(">ii", 1, 0) + string(host) + struct.pack(">ihi", port, -1, 0)
        body += struct.pack(">i", len(names))
        count = self._server.partitions
        partitions = b"".join(struct.pack(">hiiiiii", 0, index, 0, 1, 0, 1, 0) for index in range(count))
        for name in names:
            body += struct.pack(">h", 0) + string(name) + b"\x00" + struct.pack(">i", count) + partitions
        return body


def compact_length(request: bytes, at: int) -> tuple[int, int]:
    """A length of flexible versions (KIP-482), and where it ends."""
    length = shift = 0
    while True:
        byte = request[at]
        length |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return length - 1, at


def forget_batches(request: bytes, at: int) -> bytes:
    """The answer to a Produce v9 with any number of topics and partitions: all taken, at offset 0."""
    topics, at = compact_length(request, at + 7)  # behind null transactional id 1, acks 2, timeout 4
    reply = [b"\x00", compact(topics)]
    for _ in range(topics):
        begun = at
        size, at = compact_length(request, at)
        at += size
        reply.append(request[begun:at])
        partitions, at = compact_length(request, at)
        reply.append(compact(partitions))
        for _ in range(partitions):
            reply += (request[at : at + 4], TAKEN)
            size, at = compact_length(request, at + 4)
            at += size + 1  # and the tags
        reply.append(b"\x00")
        at += 1
    reply.append(b"\x00\x00\x00\x00\x00")
    return b"".join(reply)


def compact(count: int) -> bytes:
    return unsigned_varint(count + 1)


def api_versions_body(error: int) -> bytes:
    """ApiVersions v0; with error 35 it is also the answer to a version that is not known."""
    ranges = b"".join(struct.pack(">hhh", key, *versions) for key, versions in VERSIONS.items())
    return struct.pack(">hi", error, len(VERSIONS)) + ranges


async def serve() -> None:
    server = Server()
    listener = await asyncio.get_running_loop().create_server(lambda: Connection(server), "127.0.0.1", 0)
    server.address = listener.sockets[0].getsockname()
    print(f"ready kafka=127.0.0.1:{server.address[1]} pid={os.getpid()}", flush=True)
    await listener.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve())
