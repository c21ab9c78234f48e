"""What topics' settings ask of the journals, and what is said when cleaning cannot go on."""

import json

import pytest
from tests.unit.journal.keyed import keyed, put, read_records
from tests.unit.journal.stage import Stage

from hutong.broker.partition import Topic
from hutong.broker.retention import Compaction, compaction_policy, retention_policy
from hutong.broker.topic_config import INT64_MAX, effective
from hutong.broker.topics import Topics
from hutong.foundation.parking import ParkingLot
from hutong.journal.compaction import CompactionPolicy
from hutong.journal.retention import UNLIMITED, RetentionPolicy
from hutong.wire.kafka.compression import Compression

HOUR_MS = 3_600_000
WEEK_MS = 168 * HOUR_MS
EAGER = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0"}


@pytest.mark.parametrize(
    ("overrides", "policy"),
    [
        ({}, RetentionPolicy(WEEK_MS, UNLIMITED, WEEK_MS, 2**30)),
        ({"retention.ms": "-1", "retention.bytes": "5"}, RetentionPolicy(UNLIMITED, 5, WEEK_MS, 2**30)),
        ({"retention.ms": str(HOUR_MS)}, RetentionPolicy(HOUR_MS, UNLIMITED, HOUR_MS, 2**30)),
        ({"segment.ms": "7", "segment.bytes": "14"}, RetentionPolicy(WEEK_MS, UNLIMITED, 7, 14)),
        ({"cleanup.policy": "compact", "retention.ms": "1"}, RetentionPolicy(UNLIMITED, UNLIMITED, WEEK_MS, 2**30)),
        (
            {"cleanup.policy": "compact", "max.compaction.lag.ms": "9"},
            RetentionPolicy(UNLIMITED, UNLIMITED, 9, 2**30),
        ),
        (
            {"cleanup.policy": "compact,delete", "retention.ms": "8", "max.compaction.lag.ms": "9"},
            RetentionPolicy(8, UNLIMITED, 8, 2**30),
        ),
    ],
)
def test_what_a_topic_keeps(overrides: dict[str, str], policy: RetentionPolicy) -> None:
    assert retention_policy(effective(overrides, {})) == policy


def test_what_a_compacted_topic_asks_for() -> None:
    assert compaction_policy(effective({}, {})) == CompactionPolicy(0, INT64_MAX, 24 * HOUR_MS, 0.5)
    overrides = {
        "min.compaction.lag.ms": "1",
        "max.compaction.lag.ms": "2",
        "delete.retention.ms": "3",
        "min.cleanable.dirty.ratio": "0.25",
    }
    assert compaction_policy(effective(overrides, {})) == CompactionPolicy(1, 2, 3, 0.25)


def test_compacted_topics_are_cleaned_and_what_prevents_it_is_said_once() -> None:
    stage, said = Stage(), list[str]()
    lot: ParkingLot[Topic] = ParkingLot("topic_creations", stage.wheel, 1)
    topics = Topics({"days": stage.journal}, {}, lambda count: bytes(count), lot)
    for number, name in enumerate(("good", "bad", "plain"), 1):
        config = {} if name == "plain" else EAGER
        record = {"id": f"{number:032x}", "group": "days", "partitions": [number], "config": config}
        topics.replay(b"topic/" + name.encode(), json.dumps(record).encode())
    for log in (1, 2, 3):
        for number in range(20):
            put(stage, log, (b"k", b"%d" % number))
    stage.append_records(2, keyed(stage.clock.wall_ms(), (b"k", b"?")), attributes=Compression.ZSTD)
    stage.settle()
    compaction = Compaction(topics, {"days": stage.journal}, stage.wheel, stage.clock, 1_000, said.append)
    compaction.start()
    for _ in range(3):
        stage.advance(1_100)
        stage.settle()
    assert len(read_records(stage, 1)) == 1
    assert len(read_records(stage, 3)) == 20
    assert said == ["bad-0 is not compacted any further: the batch at offset 20 cannot be unpacked"]
    compaction.stop()
    put(stage, 1, (b"k", b"more"))
    stage.advance(5_000)
    stage.settle()
    assert len(read_records(stage, 1)) == 2
