"""More than a node can bear: it answers or refuses, its memory keeps within its bound, and it recovers by itself.

Each test runs beside a well-behaved neighbour, whose records must keep being acknowledged, on a node whose connections
may hold 32 MiB together. What the node says of itself is read from its metrics, as an operator would.
"""

import contextlib
import random
import socket
import struct
import urllib.request
from collections import Counter
from collections.abc import Iterator
from typing import Final

import pytest
from bench.figures import memory
from bench.kafka_bytes import (
    FETCH,
    METADATA,
    ProduceReplyLayout,
    compact_bytes,
    fetch_request,
    frame,
    produce_request,
    record_batch,
    string,
    unsigned_varint,
)
from bench.raw_client import RawConnection, create_topic, host_and_port
from bench.storm_clients import Storm
from tests.support.exposition import ParsedFamily, parse
from tests.support.neighbour import Neighbour
from tests.support.node import IS_HUTONG, Node
from tests.support.waiting import until

from hutong.reactor.figures import CloseReason

pytestmark = [pytest.mark.fault, pytest.mark.skipif(not IS_HUTONG, reason="these bounds are Hutong's own")]

MEBIBYTE: Final = 1 << 20
BOUND_MB: Final = 32
GROWTH_MB_MAX: Final = 2 * BOUND_MB + 64  # what the bound does not count: the journal's cache, the allocator's share
GROUPS_MAX: Final = 300
ONE_CLIENT_GROUPS_MAX: Final = GROUPS_MAX * 3 // 4
LARGE_RECORDS: Final = 12  # of a megabyte
JOIN_GROUP, DESCRIBE_GROUPS, COORDINATOR_NOT_AVAILABLE = 11, 15, 15
HELD: Final = "hutong_connection_memory_bytes"
LONG_WAIT_MS: Final = 200_000


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    settings = [
        f"network.memory_bytes_max={BOUND_MB * MEBIBYTE}",
        f"group.max_groups={GROUPS_MAX}",
        "metrics.listen=127.0.0.1:0",
    ]
    with Node(tmp_path_factory.mktemp("node"), *settings) as running:
        create_topic(running.address, "empty", records=0)
        create_topic(running.address, "large", records=0)
        batch = record_batch([random.Random(1).randbytes(1_000_000)])
        with RawConnection(running.address) as connection:
            for _ in range(LARGE_RECORDS):
                until(lambda: _produced(connection, batch), what="a large record")
        yield running


def _produced(connection: RawConnection, batch: bytes) -> bool:
    return ProduceReplyLayout.of("large").error_code(connection.call(produce_request("large", batch))) == 0


@pytest.fixture
def neighbour(node: Node) -> Iterator[Neighbour]:
    with Neighbour(node.address) as beside:
        yield beside
        beside.must_go_on()


def scrape(node: Node) -> dict[str, ParsedFamily]:
    with urllib.request.urlopen(f"http://{node.process.fields['metrics']}/metrics?detail=full", timeout=30) as page:
        return parse(page.read().decode())


def closed_for_memory(node: Node) -> float:
    return scrape(node)["hutong_connections_closed_total"].value(reason=CloseReason.MEMORY.name.lower())


@contextlib.contextmanager
def within_the_bound(node: Node) -> Iterator[None]:
    """Its memory grows by little more than the bound, at any time, and nothing is held once the clients are gone."""
    before = memory(node.pid)
    yield
    after = memory(node.pid)
    assert max(after.rss_mb, after.peak_rss_mb) - max(before.rss_mb, before.peak_rss_mb) < GROWTH_MB_MAX
    until(lambda: scrape(node)[HELD].value() < MEBIBYTE, what="nothing is held any more")
    until(lambda: scrape(node)["hutong_connections_held"].value() == 0, what="nobody is held any more")


def client_of(node: Node, stack: contextlib.ExitStack) -> socket.socket:
    """One that takes little from the kernel and never waits."""
    client = stack.enter_context(socket.socket())
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(host_and_port(node.address))
    client.setblocking(False)
    return client


def offer(client: socket.socket, data: bytes) -> None:
    """As much of it as is taken now, by a connection that may be closed already."""
    with contextlib.suppress(OSError):
        client.send(data)


def test_slow_readers_are_held_and_the_worst_of_them_closed(node: Node, neighbour: Neighbour) -> None:
    before = closed_for_memory(node)
    with within_the_bound(node), contextlib.ExitStack() as stack:
        for _ in range(40):
            client = client_of(node, stack)
            offer(client, fetch_request("large", 0, bytes_max=50 * MEBIBYTE) * 16)
        until(lambda: closed_for_memory(node) > before, what="one is closed")
        until(lambda: scrape(node)[HELD].value() <= BOUND_MB * MEBIBYTE, what="the rest keeps within the bound")
        neighbour.must_go_on(100)
        families = scrape(node)
        assert families["hutong_connections_held_total"].value() > 0
        assert families["hutong_connection_memory_limit_bytes"].value() == BOUND_MB * MEBIBYTE


def test_clients_that_ask_without_end_and_read_nothing(node: Node, neighbour: Neighbour) -> None:
    question = frame(METADATA, 1, 1, struct.pack(">i", -1)) * 500
    with within_the_bound(node), contextlib.ExitStack() as stack:
        clients = [client_of(node, stack) for _ in range(20)]
        for _ in range(10):
            for client in clients:
                offer(client, question)
        neighbour.must_go_on(30)
        assert scrape(node)[HELD].value() <= BOUND_MB * MEBIBYTE


def test_what_waiting_requests_keep_counts_too(node: Node, neighbour: Neighbour) -> None:
    """Each waits for minutes for ten thousand partitions that have nothing, and is a megabyte as objects.

    They are begun one by one, so the connection is held from half of the bound on, and closed as nothing changes.
    """
    before, partitions = closed_for_memory(node), 10_000
    body = struct.pack(">iiiib", -1, LONG_WAIT_MS, 1, MEBIBYTE, 0) + struct.pack(">i", 1) + string("empty")
    body += struct.pack(">i", partitions) + struct.pack(">iqi", 0, 0, 1) * partitions
    request = frame(FETCH, 4, 1, body)
    with within_the_bound(node), RawConnection(node.address) as connection:
        connection.socket.settimeout(5)
        with contextlib.suppress(OSError):
            for _ in range(100):
                connection.send(request)
        until(lambda: closed_for_memory(node) > before, what="it is closed")


def test_a_request_for_more_than_can_be_is_refused(node: Node, neighbour: Neighbour) -> None:
    """Two and a half million groups fit into eight megabytes; their descriptions took three gigabytes."""
    with within_the_bound(node), RawConnection(node.address) as connection:
        with contextlib.suppress(OSError):
            connection.send(frame(DESCRIBE_GROUPS, 0, 1, struct.pack(">i", 2_500_000) + b"\0\1a" * 2_500_000))
        assert connection.is_closed_by_peer()


def test_tens_of_thousands_of_topics_are_answered(node: Node, neighbour: Neighbour) -> None:
    count = 50_000
    names = b"".join(compact_bytes(b"t%05d" % number) + b"\0" for number in range(count))
    request = frame(METADATA, 9, 1, unsigned_varint(count + 1) + names + bytes(4), flexible=True)
    with within_the_bound(node), RawConnection(node.address) as connection:
        reply = connection.call(request)
    entry = struct.pack(">h", 3) + compact_bytes(b"t%05d" % (count - 1)) + b"\0"
    assert entry in reply, "unknown, since it may not be made"


def test_more_groups_than_there_may_be_are_refused_and_the_rest_go_on(node: Node, neighbour: Neighbour) -> None:
    """One client gets three quarters of them; another address still finds room, and not beyond the bound."""
    asked = GROUPS_MAX + 200
    with (
        within_the_bound(node),
        RawConnection(node.address) as connection,
        RawConnection(node.address, source_host="127.0.0.2") as other,
    ):
        alone, beside = joined(connection, "alone", asked), joined(other, "beside", asked)
    assert alone == {0: ONE_CLIENT_GROUPS_MAX, COORDINATOR_NOT_AVAILABLE: asked - ONE_CLIENT_GROUPS_MAX}
    assert 0 < beside[0] <= GROUPS_MAX - ONE_CLIENT_GROUPS_MAX
    assert beside == {0: beside[0], COORDINATOR_NOT_AVAILABLE: asked - beside[0]}


def joined(connection: RawConnection, prefix: str, asked: int) -> Counter[int]:
    """The answers to joins of that number of groups, counted by error code."""
    for number in range(asked):
        connection.send(join_request(f"overload-{prefix}-{number}", bytes(1000)))
    return Counter(struct.unpack_from(">h", connection.receive(), 12)[0] for _ in range(asked))


def join_request(group: str, metadata: bytes) -> bytes:
    """JoinGroup v2."""
    body = string(group) + struct.pack(">ii", 10_000, 10_000) + string("") + string("consumer")
    body += struct.pack(">i", 1) + string("range") + struct.pack(">i", len(metadata)) + metadata
    return frame(JOIN_GROUP, 2, 1, body)


def test_a_storm_of_connections_leaves_nothing_behind(node: Node, neighbour: Neighbour) -> None:
    """Half of them hostile; `python -m bench storm` has the figures."""
    open_before = scrape(node)["hutong_connections_open"].value()
    with within_the_bound(node):
        counts = Storm(node.address, rate=400).run(1.5)
        neighbour.must_go_on(50)
        assert counts["answered"] > 100
        assert counts["hostile"] > 100
        until(lambda: scrape(node)["hutong_connections_open"].value() <= open_before, what="all of them are gone")


def test_connections_whose_other_end_is_gone_are_closed(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A host that loses its power says nothing: what is silent, before or after a request, is closed."""
    with (
        Node(tmp_path_factory.mktemp("idle"), "network.connections_max_idle_ms=1000") as brief,
        contextlib.ExitStack() as stack,
    ):
        never, once, inside = (stack.enter_context(RawConnection(brief.address)) for _ in range(3))
        once.call(frame(METADATA, 1, 1, struct.pack(">i", 0)))
        inside.send(struct.pack(">i", 1000) + bytes(10))
        for connection in (never, once, inside):
            assert connection.is_closed_by_peer()
