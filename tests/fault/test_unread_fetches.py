"""Fetchers that never read their answers, of records in memory and on disk: memory stays bounded, others are served.

Two hundred connections ask again and again for all that there is. The topic is larger than the cache, so half of them
ask for what must be read from the disk. Beside them a producer is acknowledged, and a consumer reads the same records.
"""

import contextlib
import random
from collections.abc import Iterator
from typing import Final

import pytest
from bench.kafka_bytes import fetch_request, record_batch
from bench.raw_client import RawConnection, create_topic
from tests.fault.test_overload import (
    BOUND_MB,
    HELD,
    MEBIBYTE,
    _produced,
    client_of,
    closed_for_memory,
    offer,
    scrape,
    within_the_bound,
)
from tests.support.neighbour import Neighbour
from tests.support.node import IS_HUTONG, Node
from tests.support.waiting import until

pytestmark = [pytest.mark.fault, pytest.mark.skipif(not IS_HUTONG, reason="these bounds are Hutong's own")]

FETCHERS: Final = 200
RECORDS: Final = 32  # of a megabyte, in a cache of four
ROUNDS: Final = 5


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    settings = [
        f"network.memory_bytes_max={BOUND_MB * MEBIBYTE}",
        f"log.cache_bytes={4 * MEBIBYTE}",
        "metrics.listen=127.0.0.1:0",
    ]
    with Node(tmp_path_factory.mktemp("node"), *settings) as running:
        create_topic(running.address, "large", records=0)
        batch = record_batch([random.Random(1).randbytes(1_000_000)])
        with RawConnection(running.address) as connection:
            for _ in range(RECORDS):
                until(lambda: _produced(connection, batch), what="a large record")
        yield running


def disk_reads(node: Node) -> float:
    return sum(value for _, value in scrape(node)["hutong_cold_reads_total"].samples.items())


def test_fetchers_that_never_read_hold_no_more_than_the_bound(node: Node) -> None:
    before, reads_before = closed_for_memory(node), disk_reads(node)
    with within_the_bound(node), Neighbour(node.address) as beside, contextlib.ExitStack() as stack:
        clients = [client_of(node, stack) for _ in range(FETCHERS)]
        with RawConnection(node.address) as reader:
            for number in range(ROUNDS):
                for place, client in enumerate(clients):
                    offset = 0 if place % 2 else RECORDS - 2
                    offer(client, fetch_request("large", offset, bytes_max=50 * MEBIBYTE) * 4)
                beside.must_go_on(5)
                answer = reader.call(fetch_request("large", number, bytes_max=2 * MEBIBYTE))
                assert len(answer) > 1_000_000, "somebody who reads gets his records from the disk"
                until(lambda: scrape(node)[HELD].value() <= BOUND_MB * MEBIBYTE, what="memory within the bound")
        assert closed_for_memory(node) > before, "those that hold the most are closed"
        assert disk_reads(node) > reads_before
