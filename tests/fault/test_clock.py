"""A node that starts with a clock far ahead of the last use of its folder keeps what looks old."""

import os
import pathlib
import urllib.request

import pytest
from bench.kafka_bytes import produce_request, record_batch
from bench.raw_client import RawConnection, create_topic
from tests.support.confluent import read_partition
from tests.support.node import IS_HUTONG, Node
from tests.support.waiting import until

pytestmark = [
    pytest.mark.fault,
    pytest.mark.timeout(120),
    pytest.mark.skipif(not IS_HUTONG, reason="Kafka believes every clock"),
]
TOPIC = "kept"
OLD = ("log.retention_ms=1", "log.retention_check_interval_ms=1000", "metrics.listen=127.0.0.1:0")


def clock_ahead(node: Node) -> float:
    with urllib.request.urlopen(f"http://{node.process.fields['metrics']}/metrics?detail=full", timeout=10) as page:
        lines = page.read().decode().splitlines()
    return float(next(line.split()[-1] for line in lines if line.startswith("hutong_clock_ahead_seconds")))


@pytest.mark.parametrize(("hold", "is_kept"), [("3600000", True), ("0", False)])
def test_what_looks_old_after_a_start_is_kept_for_a_while(tmp_path: pathlib.Path, hold: str, is_kept: bool) -> None:
    with Node(tmp_path) as first:
        create_topic(first.address, TOPIC, records=0)
        with RawConnection(first.address) as connection:
            connection.call(produce_request(TOPIC, record_batch([b"old"])))
        first.stop()
    os.utime(tmp_path / "data" / "hutong.lock", (1_000_000_000, 1_000_000_000))
    with Node(tmp_path, *OLD, f"log.clock_jump_hold_ms={hold}") as second:
        log = second.log_path
        if is_kept:
            assert clock_ahead(second) > 365 * 86_400
            assert log.read_bytes().count(b"nothing is deleted for its age until") == 1
            assert len(read_partition(second.address, TOPIC)) == 1
        else:
            assert clock_ahead(second) == 0
            until(lambda: not read_partition(second.address, TOPIC), what="deletion by age")
