"""The disks of followers: they are cleaned, too."""

from confluent_kafka import Producer
from tests.support.waiting import until

from hutong.testing import EmbeddedCluster, Topic

RECORDS, KEYS, RECORD_BYTES = 2_000, 20, 1_000
SEGMENT_BYTES = 50_000
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1", "segment.bytes": str(SEGMENT_BYTES)}


def held_bytes(cluster: EmbeddedCluster) -> list[int]:
    """The bytes of records on each node."""
    sums = []
    for node in cluster.nodes:
        assert node.life is not None
        journals = [replica.journal for replica in node.life.sources.replicas.values()]
        sums.append(sum(journal.log(number).held_bytes for journal in journals for number in journal.log_ids()))
    return sums


def test_no_replica_keeps_all_that_was_ever_sent() -> None:
    settings = {"log.cleaner_backoff_ms": "50"}
    with EmbeddedCluster(topics=[Topic("orders", 1, COMPACTED)], settings=settings) as cluster:
        cluster.wait_until_in_sync()
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 1, "log_level": 0})
        for number in range(RECORDS):
            value = b"%d" % number
            producer.produce("orders", value.ljust(RECORD_BYTES, b"."), key=b"%d" % (number % KEYS), partition=0)
            if number % 40 == 0:
                producer.flush(30)
        assert producer.flush(30) == 0
        assert RECORDS * RECORD_BYTES > 20 * SEGMENT_BYTES
        until(lambda: max(held_bytes(cluster)) < 10 * SEGMENT_BYTES, what="replicas that are small again")
        newest = {record.key: record.text.rstrip(".") for record in cluster.records("orders", timeout=30)}
        assert newest == {b"%d" % (number % KEYS): str(number) for number in range(RECORDS - KEYS, RECORDS)}
