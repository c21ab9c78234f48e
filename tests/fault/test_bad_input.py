"""What a hostile or broken client can do over a raw socket: it alone pays, by the documented error or the close.

Each test runs beside a well-behaved neighbour, whose records must keep being acknowledged, and most check that the
node's memory stays flat. (Apache Kafka 4.3 with its 1 GB heap passes all but two: it takes text that is not UTF-8, and
it dies of fifty frames that announce 100 MB.)
"""

import contextlib
import os
import random
import socket
import struct
from collections.abc import Iterator

import pytest
from bench.figures import memory
from bench.kafka_bytes import (
    METADATA,
    PRODUCE,
    FetchLayout,
    ProduceReplyLayout,
    ProducerState,
    api_versions,
    api_versions_request,
    create_topic_error,
    create_topic_request,
    fetch_request,
    frame,
    produce_request,
    record_batch,
)
from bench.raw_client import RawConnection, create_topic
from tests.support.neighbour import Neighbour
from tests.support.node import IS_HUTONG, Node
from tests.support.waiting import until

pytestmark = pytest.mark.fault
CLOSE_DEADLINE_S = 15.0
GROWTH_MB_MAX = 32.0
IDLE_CONNECTIONS = int(os.environ.get("TEST_IDLE_CONNECTIONS", "1000"))
IDLE_KB_MAX = 16.0
TOPIC = "target"

CORRUPT_MESSAGE, UNKNOWN_TOPIC, MESSAGE_TOO_LARGE, INVALID_TOPIC, INVALID_REQUIRED_ACKS = 2, 3, 10, 17, 21
INVALID_RECORD = 87


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("node")) as running:
        create_topic(running.address, TOPIC)
        yield running


@pytest.fixture
def neighbour(node: Node) -> Iterator[Neighbour]:
    with Neighbour(node.address) as beside:
        yield beside
        beside.must_go_on()


@contextlib.contextmanager
def flat_memory(node: Node, growth_mb_max: float = GROWTH_MB_MAX) -> Iterator[None]:
    """The node's resident memory, and its peak, may not grow by more than that."""
    before = memory(node.pid)
    yield
    after = memory(node.pid)
    if IS_HUTONG:
        assert after.rss_mb - before.rss_mb < growth_mb_max
        assert after.peak_rss_mb - before.peak_rss_mb < growth_mb_max


def random_bytes(count: int) -> bytes:
    return random.Random(count).randbytes(count)


def sized(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


GOOD_PRODUCE = produce_request(TOPIC, record_batch([b"value"]))
FATAL = {
    "garbage": random_bytes(4096),
    "text of another protocol": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a length of 2 GB": struct.pack(">i", 2**31 - 1) + bytes(100),
    "a negative length": struct.pack(">i", -1) + bytes(100),
    "the most negative length": struct.pack(">i", -(2**31)),
    "a length just over the limit": struct.pack(">i", 100 * 1024 * 1024 + 1),
    "an empty frame": sized(b""),
    "a header cut short": sized(GOOD_PRODUCE[4:9]),
    "an unknown API key": frame(12345, 0, 1, b""),
    "a negative API key": frame(-1, 0, 1, b""),
    "an unknown version": frame(METADATA, 99, 1, bytes(8)),
    "a version that is no longer spoken": frame(PRODUCE, 2, 1, bytes(20)),
    "a body cut short": sized(GOOD_PRODUCE[4 : len(GOOD_PRODUCE) // 2]),
    "an array of 2^31 - 1 topics": frame(METADATA, 1, 1, struct.pack(">i", 2**31 - 1)),
    "a string longer than the frame": frame(METADATA, 1, 1, struct.pack(">ih", 1, 32767) + b"short"),
    "text that is not UTF-8": frame(METADATA, 1, 1, struct.pack(">ih", 1, 2) + b"\xff\xfe"),
    "a varint without an end": frame(PRODUCE, 9, 1, b"\xff" * 64, flexible=True),
    "acks=0 for a bad batch": produce_request(TOPIC, b"not a batch", acks=0),
}


@pytest.mark.parametrize("attack", FATAL.values(), ids=FATAL.keys())
def test_the_connection_is_closed_and_only_that(node: Node, neighbour: Neighbour, attack: bytes) -> None:
    with flat_memory(node), RawConnection(node.address, CLOSE_DEADLINE_S) as connection:
        with contextlib.suppress(ConnectionError):
            connection.send(attack)
        assert connection.is_closed_by_peer()


def answered(node: Node, batch: bytes, *, topic: str = TOPIC, acks: int = 1) -> int:
    """The error code of a Produce; the connection must go on afterwards."""
    with RawConnection(node.address) as connection:
        code = ProduceReplyLayout.of(topic).error_code(connection.call(produce_request(topic, batch, acks=acks)))
        error, _ = api_versions(connection.call(api_versions_request()))
        assert error == 0
        return code


def patched(batch: bytes, at: int, new: bytes) -> bytes:
    """The batch with other bytes somewhere, and its CRC as it was."""
    return batch[:at] + new + batch[at + len(new) :]


GOOD_BATCH = record_batch([b"value"])
REFUSED = {
    "a wrong CRC": (patched(GOOD_BATCH, 17, b"\x00\x00\x00\x00"), CORRUPT_MESSAGE),
    "a flipped bit in a value": (patched(GOOD_BATCH, len(GOOD_BATCH) - 3, b"X"), CORRUPT_MESSAGE),
    "a batch over max.message.bytes": (record_batch([bytes(1_100_000)]), MESSAGE_TOO_LARGE),
    "two batches": (GOOD_BATCH + GOOD_BATCH, INVALID_RECORD),
    "no batch": (b"", INVALID_RECORD),
    "a base offset": (patched(GOOD_BATCH, 0, struct.pack(">q", 7)), INVALID_RECORD),
    "a producer without a sequence": (record_batch([b"v"], producer=ProducerState(7, 0, -1)), INVALID_RECORD),
}


@pytest.mark.parametrize(("batch", "code"), REFUSED.values(), ids=REFUSED.keys())
def test_a_bad_batch_is_refused_with_its_code(node: Node, neighbour: Neighbour, batch: bytes, code: int) -> None:
    assert answered(node, batch) == code


def test_acks_of_another_kind_are_refused(node: Node, neighbour: Neighbour) -> None:
    assert answered(node, GOOD_BATCH, acks=2) == INVALID_REQUIRED_ACKS


@pytest.mark.parametrize("topic", ["never-made", "bad name!", "..", "../../../etc/passwd"])
def test_produce_to_a_topic_that_does_not_exist(node: Node, neighbour: Neighbour, topic: str) -> None:
    code = answered(node, GOOD_BATCH, topic=topic)
    assert code in ({UNKNOWN_TOPIC} if topic == "never-made" else {UNKNOWN_TOPIC, INVALID_TOPIC})


@pytest.mark.parametrize("topic", ["", ".", "..", "bad name!", "a/../../b", "x" * 250, "null\x00byte"])
def test_an_invalid_topic_name_is_not_created(node: Node, neighbour: Neighbour, topic: str) -> None:
    before = sorted(path.name for path in node.folder.rglob("*") if path.is_dir())
    with RawConnection(node.address) as connection:
        reply = connection.call(create_topic_request(topic))
        assert create_topic_error(reply, topic) == INVALID_TOPIC
    assert sorted(path.name for path in node.folder.rglob("*") if path.is_dir()) == before


def test_a_frame_may_come_one_byte_at_a_time(node: Node, neighbour: Neighbour) -> None:
    with RawConnection(node.address) as connection:
        for place in range(len(GOOD_PRODUCE)):
            connection.send(GOOD_PRODUCE[place : place + 1])
        assert ProduceReplyLayout.of(TOPIC).error_code(connection.receive()) == 0


def test_a_frame_that_never_ends_hurts_nobody(node: Node, neighbour: Neighbour) -> None:
    """Fifty connections announce 100 MB each, send a little and stay."""
    with flat_memory(node), contextlib.ExitStack() as stack:
        for _ in range(50):
            connection = stack.enter_context(RawConnection(node.address))
            connection.send(struct.pack(">i", 100 * 1024 * 1024) + bytes(1000))
        neighbour.must_go_on()


def test_a_connection_lost_inside_a_frame_leaves_nothing(node: Node, neighbour: Neighbour) -> None:
    with flat_memory(node):
        for place in range(1, len(GOOD_PRODUCE), 7):
            with RawConnection(node.address) as connection:
                connection.send(GOOD_PRODUCE[:place])
    with RawConnection(node.address) as connection:
        assert ProduceReplyLayout.of(TOPIC).error_code(connection.call(GOOD_PRODUCE)) == 0


def test_a_client_that_does_not_read_is_not_read(node: Node, neighbour: Neighbour) -> None:
    """It asks for far more than it takes: its requests wait, memory is bounded, all answers are right in the end."""
    create_topic(node.address, "big", records=0)
    big = record_batch([random_bytes(1_000_000)])
    for _ in range(4):
        until(lambda: answered(node, big, topic="big") == 0, what="a big record")
    with flat_memory(node, 128.0), RawConnection(node.address) as connection:
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        requests = [fetch_request("big", number % 4, correlation_id=number) for number in range(4000)]
        sent = send_until_it_blocks(connection, requests)
        neighbour.must_go_on(100)
        connection.socket.settimeout(30)
        layout = FetchLayout.of("big")
        for number in range(sent):
            reply = connection.receive()
            assert int.from_bytes(reply[4:8], "big") == number
            assert layout.error_code(reply) == 0
            assert struct.unpack_from(">q", layout.records(reply))[0] == number % 4


def send_until_it_blocks(connection: RawConnection, requests: list[bytes]) -> int:
    """The number of whole requests that went out before the other side stopped reading, or all of them."""
    connection.socket.settimeout(1.0)
    for number, request in enumerate(requests):
        view = memoryview(request)
        while view:
            try:
                view = view[connection.socket.send(view) :]
            except TimeoutError:
                if len(view) == len(request):
                    return number
    return len(requests)


def test_a_thousand_idle_connections_cost_little(node: Node, neighbour: Neighbour) -> None:
    before = memory(node.pid).rss_mb
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(RawConnection(node.address)) for _ in range(IDLE_CONNECTIONS)]
        for connection in connections[:: max(1, IDLE_CONNECTIONS // 20)]:
            error, _ = api_versions(connection.call(api_versions_request()))
            assert error == 0
        neighbour.must_go_on(100)
        grown_kb = (memory(node.pid).rss_mb - before) * 1000
        if IS_HUTONG:
            assert grown_kb / IDLE_CONNECTIONS < IDLE_KB_MAX


def test_random_frames_never_end_the_node(node: Node, neighbour: Neighbour) -> None:
    """Well-sized frames with a right header and any body, for every key and version that is advertised."""
    chance = random.Random(20)
    with RawConnection(node.address) as connection:
        _, ranges = api_versions(connection.call(api_versions_request()))
    with flat_memory(node):
        for key, (least, greatest) in ranges.items():
            for version in range(least, greatest + 1):
                with RawConnection(node.address, CLOSE_DEADLINE_S) as connection, contextlib.suppress(OSError):
                    body = chance.randbytes(chance.randrange(64))
                    connection.send(frame(key, version, 1, body, flexible=chance.random() < 0.5))
    with RawConnection(node.address) as connection:
        assert ProduceReplyLayout.of(TOPIC).error_code(connection.call(GOOD_PRODUCE)) == 0
