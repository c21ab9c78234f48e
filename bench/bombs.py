"""Requests that cost far more than their bytes: `python -m bench bombs`.

Strategy: a node of its own, and a process that asks for nothing much, again and again, while this one sends one bomb
after the other. For each it prints the longest wait of the other, the longest before it, and the node's resident size.
The bombs are made before and sent as they are. What they are: batches that unpack to much, batches of very many
records, requests that name very many things, requests that never arrive whole. On the loopback alone, and bounded.
"""

import argparse
import json
import pathlib
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any, Final

import cramjam
from crc32c import crc32c
from rich.console import Console
from rich.table import Table

from bench.figures import memory
from bench.processes import ReadyProcess
from bench.raw_client import RawConnection
from bench.targets import hutong_command, scratch_folder
from hutong.wire.kafka.apis.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from hutong.wire.kafka.apis.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from hutong.wire.kafka.apis.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from hutong.wire.kafka.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from hutong.wire.kafka.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from hutong.wire.kafka.apis.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from hutong.wire.kafka.apis.k18_api_versions import ApiVersionsRequest
from hutong.wire.kafka.apis.k19_create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from hutong.wire.kafka.batch.compression import Compression, compress
from hutong.wire.kafka.codec import codecs
from hutong.wire.kafka.headers import decode_response_header, encode_request_frame
from hutong.wire.kafka.varint import varlong

MEBIBYTE: Final = 1024 * 1024
GOAL_MS: Final = 50.0
NULL_RECORD: Final = b"\x0c\0\0\0\x01\x01\0"  # with offset delta 0: cheap to make by the million, and a lie
RECORDS: Final = 4_800_000
PARTITIONS: Final = 200
CLIENTS: Final = 50
ELEMENTS: Final = 190_000
HALVES: Final = 12
HALF_BYTES: Final = 45 * MEBIBYTE
FRAME_BYTES: Final = 90 * MEBIBYTE
FUTURE_MS: Final = 10**12
PAUSE_S: Final = 0.3
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")


@dataclass(frozen=True, slots=True)
class Bomb:
    """Frames with their sizes, and whether each is answered; `connections` send them at the same time."""

    name: str
    frames: Sequence[bytes]
    connections: int = 1
    is_answered: bool = True


@dataclass(frozen=True, slots=True)
class Seen:
    """One bomb's figures: waits of the other connection, the node's resident size, error codes of the first answer."""

    name: str
    bytes_sent: int
    took_ms: float
    quiet_ms: float
    longest_ms: float
    rss_mb: float
    told: str


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("python -m bench bombs", description=__doc__)
    parser.add_argument("--only", default="", help="bombs with this in their names")
    parser.add_argument("--json", action="store_true", help="figures as JSON instead of a table")
    parser.add_argument("--dir", help="where the node's data goes (default: the temporary folder)")
    options = parser.parse_args(words)
    with scratch_folder(options.dir) as name, ExitStack() as stack:
        folder = pathlib.Path(name)
        process = ReadyProcess(hutong_command(folder / "data"), log_path=str(folder / "node.log"))
        stack.enter_context(process.start())
        address, pid = process.fields["kafka"], int(process.fields["pid"])
        create_topics(address)
        seen = [thrown(address, pid, bomb) for bomb in bombs() if options.only in bomb.name]
        peak_mb = memory(pid).peak_rss_mb
    if options.json:
        print(json.dumps({"peak_rss_mb": peak_mb, "bombs": [asdict(each) for each in seen]}))
        return 0
    table = Table(title=f"Bombs (goal: below {GOAL_MS:.0f} ms); peak of the node {peak_mb:.0f} MB")
    for column in ("bomb", "sent, kB", "took, ms", "longest ping, ms", "before it, ms", "RSS, MB", "answer"):
        table.add_column(column, justify="left" if column in ("bomb", "answer") else "right")
    for each in seen:
        figures = (each.bytes_sent / 1000, each.took_ms, each.longest_ms, each.quiet_ms, each.rss_mb)
        table.add_row(each.name, *(f"{figure:,.1f}" for figure in figures), each.told)
    Console(width=150).print(table)
    return 0


def thrown(address: str, pid: int, bomb: Bomb) -> Seen:
    """Throw one bomb, with a ping next to it."""
    with Pings(address) as pings:
        time.sleep(PAUSE_S)
        quiet_ms = pings.longest_ms()
        begun = time.monotonic()
        told: list[str] = []
        throwers = [
            threading.Thread(target=throw, args=(address, bomb, told, number), daemon=True)
            for number in range(bomb.connections)
        ]
        for thrower in throwers:
            thrower.start()
        for thrower in throwers:
            thrower.join(120)
        took_ms = (time.monotonic() - begun) * 1000
        time.sleep(PAUSE_S)
        longest_ms, rss_mb = pings.longest_ms(), memory(pid).rss_mb
    size = sum(map(len, bomb.frames)) * bomb.connections
    return Seen(bomb.name, size, took_ms, quiet_ms, longest_ms, rss_mb, ", ".join(sorted(set(told))))


def throw(address: str, bomb: Bomb, told: list[str], number: int) -> None:
    """Send the frames together, then read the answers. A connection that is closed for it is an answer too."""
    try:
        with RawConnection(address, 100.0) as connection:
            sender = threading.Thread(target=send_all, args=(connection, bomb.frames), daemon=True)
            sender.start()
            if not bomb.is_answered:
                sender.join()
                time.sleep(PAUSE_S)
                told.append("not answered")
                return
            for frame in bomb.frames:
                answer = connection.receive()
                if not number and len(frame) > 8:
                    told.append(codes(frame, answer))
    except (OSError, EOFError):
        told.append("closed")


def send_all(connection: RawConnection, frames: Sequence[bytes]) -> None:
    try:
        for frame in frames:
            connection.send(frame)
    except OSError:
        return  # the reader tells


def codes(frame: bytes, answer: bytes) -> str:
    """The error codes of a Produce; of others that they were answered."""
    api_key, version = struct.unpack_from(">hh", frame, 4)
    if api_key:
        return "answered"
    body = answer[4:]
    _, offset = decode_response_header(body, api_key, version)
    response = codecs.decode_response(api_key, version, body, offset)
    found = {result.error_code for topic in response.responses for result in topic.partition_responses}
    return f"error {' '.join(map(str, sorted(found)))}"


class Pings:
    """A process with a connection that asks which versions there are, without a pause; as a context."""

    def __init__(self, address: str) -> None:
        command = [sys.executable, "-m", "bench.bombs", address]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> "Pings":
        self.longest_ms()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def longest_ms(self) -> float:
        """The longest wait since the last look."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())


def ping(address: str) -> None:
    """Ping without end; answer each line of standard input with the longest wait since the one before."""
    longest_ms, is_over = 0.0, False

    def told() -> None:
        nonlocal longest_ms, is_over
        for _ in sys.stdin:
            sys.stdout.write(f"{longest_ms}\n")
            sys.stdout.flush()
            longest_ms = 0.0
        is_over = True

    request = framed(ApiVersionsRequest(), 0)
    with RawConnection(address, 120.0) as connection:
        connection.call(request)
        threading.Thread(target=told, daemon=True).start()
        while not is_over:
            begun = time.monotonic()
            connection.call(request)
            longest_ms = max(longest_ms, (time.monotonic() - begun) * 1000)
            time.sleep(0.001)


def create_topics(address: str) -> None:
    large = [CreatableTopicConfig("max.message.bytes", str(64 * MEBIBYTE))]
    compacted = [*large, CreatableTopicConfig("cleanup.policy", "compact")]
    request = CreateTopicsRequest(
        [
            CreatableTopic("t", PARTITIONS, 1, [], large),
            CreatableTopic("compacted", 1, 1, [], compacted),
            CreatableTopic("wide", 4_000, 1, [], []),
        ],
        30_000,
    )
    with RawConnection(address) as connection:
        connection.call(framed(request, 7))


def bombs() -> Iterator[Bomb]:
    yield from unpacking_bombs()
    yield from record_bombs()
    yield from element_bombs()
    half = struct.pack(">i", FRAME_BYTES) + framed(ApiVersionsRequest(), 0)[4:] + bytes(HALF_BYTES)
    yield Bomb(f"{HALVES} frames of {FRAME_BYTES // MEBIBYTE} MiB, half sent", [half], HALVES, is_answered=False)


def unpacking_bombs() -> Iterator[Bomb]:
    records = NULL_RECORD * RECORDS
    future_ms = int(time.time() * 1000) + FUTURE_MS
    for codec in (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY):
        data = compress(codec, records)
        for name, at_ms in (("", None), (", in the future", future_ms)):
            bomb = batch(data, RECORDS, codec, at_ms)
            yield Bomb(f"{codec.name.lower()}: {RECORDS:,} null records{name}", [produce(bomb)])
    zstd = batch(compress(Compression.ZSTD, records), RECORDS, Compression.ZSTD, future_ms)
    yield Bomb("the same, zstd, compacted topic", [produce(zstd, "compacted")])
    yield Bomb(f"the same, zstd, in {PARTITIONS} partitions", [produce(zstd, partitions=PARTITIONS)])
    yield Bomb(f"the same, zstd, from {CLIENTS} connections", [produce(zstd)], CLIENTS)
    members = batch(zlib.compress(b"", wbits=31) * (4 * MEBIBYTE // 20), 1, Compression.GZIP)
    yield Bomb("gzip: 4 MiB of empty members", [produce(members)])
    block = bytes(cramjam.snappy.compress_raw(b"x"))
    blocks = (
        b"\x82SNAPPY\0"
        + struct.pack(">ii", 1, 1)
        + (struct.pack(">i", len(block)) + block) * (20 * MEBIBYTE // (4 + len(block)))
    )
    yield Bomb("snappy: 20 MiB of tiny blocks", [produce(batch(blocks, 1, Compression.SNAPPY))])
    for codec in (Compression.ZSTD, Compression.LZ4, Compression.GZIP):
        zeros = compress(codec, bytes(1024 * MEBIBYTE if codec is Compression.ZSTD else 256 * MEBIBYTE))
        yield Bomb(f"{codec.name.lower()}: zeros without end", [produce(batch(zeros, 1, codec))])
    small = [produce(batch(compress(codec, bytes(60_000)), 1, codec)) for codec in (Compression.GZIP, Compression.ZSTD)]
    yield Bomb("2,000 small packed batches at once", small * 1_000)
    yield Bomb(f"the same from {CLIENTS} connections", small * 20, CLIENTS)


def record_bombs() -> Iterator[Bomb]:
    yield Bomb("plain: 1 MiB of null records", [produce(batch(tiny_records(140_000), 140_000))])
    yield Bomb("the same 50 times at once", [produce(batch(tiny_records(140_000), 140_000))] * 50)
    yield Bomb("plain: 60 MiB of null records", [produce(batch(tiny_records(6_000_000), 6_000_000))])
    fields = b"\0\0\0\x01\x01" + varlong(500_000) + b"\0\x01" * 500_000
    yield Bomb("plain: a record with 500,000 headers", [produce(batch(varlong(len(fields)) + fields, 1))])
    fields = b"\0\0\0\x01\x01" + varlong(15_000_000) + b"\0\x01" * 15_000_000
    deep = compress(Compression.ZSTD, varlong(len(fields)) + fields)
    yield Bomb("zstd: a record with 15,000,000 headers", [produce(batch(deep, 1, Compression.ZSTD))])
    yield Bomb("plain: 61 bytes for 2^31 offsets", [produce(batch(b"", 2**31 - 1))])
    stored = compress(Compression.ZSTD, tiny_records(1_000_000))
    yield Bomb("zstd: 1,000,000 sound records, stored", [produce(batch(stored, 1_000_000, Compression.ZSTD))])
    asked = ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=int(time.time() * 1000) - 1)])
    yield Bomb("ListOffsets by time upon it", [framed(ListOffsetsRequest(-1, 0, [asked]), 7)])


def element_bombs() -> Iterator[Bomb]:
    names = [f"n{number}" for number in range(ELEMENTS)]
    topics: list[Any] = [MetadataRequestTopic(name=name) for name in names]
    yield Bomb("Metadata of 190,000 topics", [framed(MetadataRequest(topics, False), 9)])
    fetched: list[Any] = [FetchPartition(partition=number, fetch_offset=0) for number in range(ELEMENTS)]
    yield Bomb("Fetch of 190,000 partitions", [fetch(fetched)])
    asked = [ListOffsetsPartition(number, timestamp=-1) for number in range(ELEMENTS)]
    yield Bomb(
        "ListOffsets of 190,000 partitions",
        [framed(ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", asked)]), 7)],
    )
    commits = [OffsetCommitRequestPartition(number, 1) for number in range(ELEMENTS)]
    commit = OffsetCommitRequest("g", -1, topics=[OffsetCommitRequestTopic("t", partitions=commits)])
    yield Bomb("Fetch of 9,900 partitions", [fetch(fetched[:9_900])])
    yield Bomb("OffsetCommit of 190,000 partitions", [framed(commit, 8)])
    group = OffsetFetchRequestGroup(
        "g", topics=[OffsetFetchRequestTopics("t", partition_indexes=list(range(ELEMENTS)))]
    )
    yield Bomb("OffsetFetch of 190,000 partitions", [framed(OffsetFetchRequest(groups=[group]), 8)])
    one = batch(tiny_records(1), 1)
    yield Bomb("Produce to 4,000 partitions", [produce(one, "wide", partitions=4_000)])
    yield Bomb("Produce to 9,900 partitions that are not there", [produce(one, "none", partitions=9_900)])


def fetch(partitions: list[Any]) -> bytes:
    return framed(FetchRequest(topics=[FetchTopic("t", partitions=partitions)]), 12)


def tiny_records(count: int) -> bytes:
    """Sound records without key and value."""
    return b"".join(varlong(len(delta) + 5) + b"\0\0" + delta + b"\x01\x01\0" for delta in map(varlong, range(count)))


def batch(data: bytes, count: int, codec: int = Compression.NONE, at_ms: int | None = None) -> bytes:
    """A batch of these bytes, packed already, that says it has `count` records."""
    at_ms = int(time.time() * 1000) if at_ms is None else at_ms
    size = _HEADER.size - 12 + len(data)
    made = bytearray(_HEADER.pack(0, size, -1, 2, 0, codec, count - 1, at_ms, at_ms, -1, -1, -1, count) + data)
    struct.pack_into(">I", made, 17, crc32c(memoryview(made)[21:]))
    return bytes(made)


def produce(records: bytes, topic: str = "t", partitions: int = 1) -> bytes:
    """One request, the same batch for each partition."""
    data = [PartitionProduceData(number, memoryview(records)) for number in range(partitions)]
    return framed(ProduceRequest(None, 1, 30_000, [TopicProduceData(topic, partition_data=data)]), 9)


def framed(request: Any, version: int) -> bytes:
    return b"".join(encode_request_frame(request, version, 1, "bombs"))


if __name__ == "__main__":
    ping(sys.argv[1])
