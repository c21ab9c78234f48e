"""A target behind the decoders: every handler of a whole node, given streams of requests that were never seen before.

Strategy: a node in this process, on a disk in memory, whose reactor hands its handler over by the gate for tests. An
input is what one client sends: frames, cut as the reactor cuts them, the express lane included. Whatever a handler
raises but ProtocolError, what loop and contexts are told of, and every ERROR with a traceback in the log, is a find.
The node lives on from input to input, as nodes do, and is replaced before what inputs leave behind is too much.

Knows nothing of what a request means.
"""

import asyncio
import logging
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.fuzz.target import MEBIBYTE, Target
from tests.unit.wire.messages import fill

from hutong.foundation.errors import ProtocolError
from hutong.reactor.accept.gate import Cut
from hutong.reactor.connections.channel import Held, PendingResponse
from hutong.reactor.connections.handler import Handler, Peer
from hutong.reactor.frames.framing import LengthPrefixedFraming
from hutong.server.broker.broker_part import BrokerPart
from hutong.server.broker.system_ports import SystemPorts
from hutong.server.configuration.loader import load
from hutong.server.serving import node_of
from hutong.testing.disks.memory import MemoryDisk
from hutong.testing.observe.answers import when_answered
from hutong.wire.kafka.apis.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from hutong.wire.kafka.apis.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from hutong.wire.kafka.apis.k19_create_topics import CreatableTopic, CreateTopicsRequest
from hutong.wire.kafka.batch.records import Record, build_batch
from hutong.wire.kafka.headers import encode_request_frame
from hutong.wire.kafka.registry import APIS

INPUTS_OF_A_NODE: Final = 2_000
NAMES: Final = [
    "t",
    "t",
    "u",
    "g",
    "g",
    "h",
    "",
    "range",
    "consumer",
    "__consumer_offsets",
    "retention.ms",
    "1000",
    "user",
]
REQUESTS_MAX: Final = 12
TURNS: Final = 4  # of the loop after each input
FRAME_BYTES_MAX: Final = 64 * 1024
SETTINGS: Final = {
    "topic.default_partitions": "1",
    "kafka.listen": "127.0.0.1:0",
    "log.segment_bytes": str(4 * MEBIBYTE),
}


class _Open:
    """The gate: lets everybody in, and keeps the handler."""

    handler: Handler

    def admits(self, address: str) -> bool:
        return True

    def before(self, handler: Handler, cut: Cut) -> Handler:
        self.handler = handler
        return handler


class _Troubles(logging.Handler):
    """The errors that only the last supervisor caught."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.found.append(record.exc_info[1])

    def note(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.found.append(error if isinstance(error, BaseException) else RuntimeError(str(context)))


class FuzzedNode:
    """One node and its loop, from the first input to `close`."""

    def __init__(self) -> None:
        self.inputs = 0
        self._folder = tempfile.TemporaryDirectory(prefix="hutong-fuzz-")
        self._troubles = _Troubles()
        logging.getLogger("hutong").addHandler(self._troubles)
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(self._troubles.note)
        self._gate = _Open()
        self._loop.run_until_complete(self._start())

    async def _start(self) -> None:
        settings = load(None, {}, {**SETTINGS, "node.data_dir": str(Path(self._folder.name) / "data")}).settings
        broker = BrokerPart(settings, ports=SystemPorts(disk=MemoryDisk()), gate=self._gate, is_embedded=True)
        self._node = node_of(broker)
        await self._node.start()
        await self._feed(_framed(CreateTopicsRequest([CreatableTopic("t", 2, 1)]), 7))

    def feed(self, data: bytes) -> None:
        """Send the bytes of one connection. Raises the error that the node did not handle."""
        self.inputs += 1
        self._loop.run_until_complete(self._feed(data))
        if self._troubles.found:
            raise self._troubles.found.pop(0)

    def close(self) -> None:
        self._loop.run_until_complete(self._node.stop())
        self._loop.close()
        self._folder.cleanup()
        logging.getLogger("hutong").removeHandler(self._troubles)

    async def _feed(self, data: bytes) -> None:
        handler = self._gate.handler
        peer = Peer(self.inputs, "127.0.0.1", 1, LengthPrefixedFraming(FRAME_BYTES_MAX))
        handler.connection_opened(peer)
        try:
            self._take(handler, peer, data)
        except ProtocolError:
            pass
        finally:
            for _ in range(TURNS):
                await asyncio.sleep(0)
            peer.owner.end()
            handler.connection_closed(peer)

    def _take(self, handler: Handler, peer: Peer, data: bytes) -> None:
        at = 0
        while at + 4 <= len(data):
            if peer.express is not None and (batch := peer.express.take_requests(data[at:], 16)) is not None:
                _, size, answer = batch
                at += size
            else:
                size = int.from_bytes(data[at : at + 4], "big", signed=True)
                if not 0 <= size <= min(peer.frame_limit, len(data) - at - 4):
                    return
                answer = handler.request_received(data[at + 4 : at + 4 + size], peer)  # type: ignore[assignment]
                at += 4 + size
            if isinstance(answer, Held):
                return
            if isinstance(answer, PendingResponse):
                when_answered(answer, lambda _: None, lambda: None)


class _Nodes:
    """The node of the moment."""

    current: FuzzedNode | None = None

    def feed(self, data: bytes) -> None:
        if self.current is not None and self.current.inputs >= INPUTS_OF_A_NODE:
            self.current.close()
            self.current = None
        if self.current is None:
            self.current = FuzzedNode()
        self.current.feed(data)

    def close(self) -> None:
        if self.current is not None:
            self.current.close()
            self.current = None


NODES: Final = _Nodes()


def sessions() -> Iterator[bytes]:
    """Every request alone, then what belongs together."""
    random = Random(10)
    for api in APIS.values():
        for version in api.versions:
            yield min((_framed(fill(api.request, version, random), version) for _ in range(3)), key=len)
    now_ms = time.time_ns() // 1_000_000
    batch = build_batch([Record(timestamp_ms=now_ms, key=b"k", value=b"v")])
    produce = ProduceRequest(
        None, 1, 1_000, [TopicProduceData("t", partition_data=[PartitionProduceData(0, memoryview(batch))])]
    )
    fetch = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=MEBIBYTE,
        topics=[
            FetchTopic("t", partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=MEBIBYTE)])
        ],
    )
    for version in (3, 9, 12):
        yield _framed(produce, version) * 3 + _framed(fetch, max(version, 4))


def one_frame(data: bytes) -> bytes:
    """The length that makes all of it one frame."""
    return (len(data) - 4).to_bytes(4, "big") + data[4:] if len(data) > 4 else data


def feed_sequence(data: bytes) -> None:
    """The input seeds a choice of requests that make sense to each other: of few names, in every version."""
    random = Random(data)
    frames = []
    for _ in range(random.randint(1, REQUESTS_MAX)):
        api = APIS[random.choice(list(APIS))]
        version = random.choice(list(api.versions))
        message = fill(api.request, version, random)
        _make_plausible(message, random)
        with suppress(struct.error):  # a number that its field has no room for
            frames.append(_framed(message, version))
    NODES.feed(b"".join(frames))


def _make_plausible(message: Any, random: Random) -> None:
    for entry in fields(message):
        value = getattr(message, entry.name)
        if is_dataclass(value) and not isinstance(value, type):
            own = replace(value)  # what a message has by default it shares with others
            _make_plausible(own, random)
            object.__setattr__(message, entry.name, own)
        elif isinstance(value, list):
            del value[3:]
            value[:] = [_plausible(each, random) for each in value]
        else:
            object.__setattr__(message, entry.name, _plausible(value, random))


def _plausible(value: Any, random: Random) -> Any:
    if is_dataclass(value):
        _make_plausible(value, random)
    elif isinstance(value, str):
        return random.choice(NAMES)
    elif isinstance(value, memoryview) and random.random() < 0.9:
        count = random.randint(1, 3)
        producer: dict[str, Any] = {
            "producer_id": random.randint(0, 3),
            "producer_epoch": 0,
            "base_sequence": random.randint(0, 3),
        }
        records = [Record(timestamp_ms=time.time_ns() // 1_000_000, key=b"k", value=b"v")] * count
        attributes = random.choice([0, 0, 0x08, 0x10])
        return memoryview(build_batch(records, attributes=attributes, **(producer if random.random() < 0.5 else {})))
    elif type(value) is int and random.random() < 0.7:
        return random.choice([-1, 0, 0, 1, 1, 2, 3, 7, 100])
    return value


def _framed(message: Any, version: int) -> bytes:
    return b"".join(encode_request_frame(message, version, 7, "fuzz"))


TARGETS = [
    Target("node", NODES.feed, sessions, (), one_frame, memory_base=64 * MEBIBYTE, memory_factor=4_000),
    Target(
        "node-sequence",
        feed_sequence,
        lambda: [bytes([number]) for number in range(50)],
        (),
        memory_base=256 * MEBIBYTE,
    ),
]
