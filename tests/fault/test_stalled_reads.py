"""Reads of one partition group that do not return hold up no reader of another."""

import pathlib
from contextlib import ExitStack

import pytest
from bench.kafka_bytes import FetchLayout, fetch_request, produce_request, record_batch
from bench.raw_client import RawConnection, create_topic
from tests.support.faulty_node import faulty_node
from tests.support.node import IS_HUTONG

pytestmark = [
    pytest.mark.fault,
    pytest.mark.timeout(120),
    pytest.mark.skipif(not IS_HUTONG, reason="its disk is ours to stall"),
]
STALLED, SOUND = "stalled", "sound"
READERS = 40  # more than there are threads for reads, in the node and of a group
STALL_MS = 60_000


def test_others_are_read_while_the_reads_of_one_group_stall(tmp_path: pathlib.Path) -> None:
    node, control = faulty_node(tmp_path)
    with node, ExitStack() as stuck:
        create_topic(node.address, STALLED, records=0)
        create_topic(node.address, SOUND, configs={"retention.ms": "3600000"}, records=0)  # in another group
        with RawConnection(node.address) as connection:
            for topic in (STALLED, SOUND):
                connection.call(produce_request(topic, record_batch([b"v"])))
        node.restart()  # so that nothing is in memory
        control.plan(
            {"operation": "read_cached", "error": 11},  # EAGAIN: a worker is to read
            {"operation": "read", "pattern": "*/days/*", "latency_ms": STALL_MS},
        )
        for _ in range(READERS):
            stuck.enter_context(RawConnection(node.address)).send(fetch_request(STALLED, 0, wait_ms=0))
        layout = FetchLayout.of(SOUND)
        with RawConnection(node.address, timeout_s=20) as connection:  # well before a stalled read returns
            for _ in range(3):
                reply = connection.call(fetch_request(SOUND, 0, wait_ms=0))
                assert layout.error_code(reply) == 0
                assert layout.records(reply)
        node.kill()
