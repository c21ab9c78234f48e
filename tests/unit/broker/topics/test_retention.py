"""The effect of topics' settings on journals, and the message when cleaning cannot continue."""

import json

import pytest
from tests.unit.journal.keyed import keyed, put, read_records
from tests.unit.journal.stage import Stage

from hutong.broker.topics.catalogue import Topics
from hutong.broker.topics.group_standing import standings_alone
from hutong.broker.topics.partition import Topic
from hutong.broker.topics.retention import Compaction, Retention, compaction_policy, retention_policy
from hutong.broker.topics.segment_roller import CHECK_INTERVAL_MS, SegmentRoller
from hutong.broker.topics.topic_config import INT64_MAX, effective
from hutong.foundation.waiting.table import WaitTable
from hutong.journal.append.log_tail import ROLL_BYTES_MIN
from hutong.journal.clean.compaction import CompactionPolicy
from hutong.journal.clean.retention import UNLIMITED, RetentionPolicy
from hutong.journal.settings import JournalSettings
from hutong.wire.kafka.batch.compression import Compression

HOUR_MS = 3_600_000
WEEK_MS = 168 * HOUR_MS
FOREVER = RetentionPolicy(UNLIMITED, UNLIMITED, WEEK_MS, 2**30)
EAGER = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0"}


@pytest.mark.parametrize(
    ("overrides", "policy"),
    [
        ({}, RetentionPolicy(WEEK_MS, UNLIMITED, WEEK_MS, 2**30)),
        ({"retention.ms": "-1", "retention.bytes": "5"}, RetentionPolicy(UNLIMITED, 5, WEEK_MS, 2**30)),
        ({"retention.ms": str(HOUR_MS)}, RetentionPolicy(HOUR_MS, UNLIMITED, HOUR_MS, 2**30)),
        ({"cleanup.policy": "", "retention.ms": "1", "retention.bytes": "1"}, FOREVER),
        ({"cleanup.policy": "", "segment.ms": "7"}, RetentionPolicy(UNLIMITED, UNLIMITED, 7, 2**30)),
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
    stage, said, interval_ms = Stage(), list[str](), 1_000
    waits: WaitTable[Topic] = WaitTable("topic_creations", stage.wheel, 1)
    topics = Topics({"days": stage.journal}, {}, bytes, waits, standings_alone(["days"], 0))
    for number, name in enumerate(("good", "bad", "plain"), 1):
        config = {} if name == "plain" else EAGER
        record = {"id": f"{number:032x}", "group": "days", "partitions": [number], "config": config}
        topics.replay(b"topic/" + name.encode(), json.dumps(record).encode())
    for log in (1, 2, 3):
        for number in range(20):
            put(stage, log, (b"k", b"%d" % number))
    stage.append_records(2, keyed(stage.clock.wall_ms(), (b"k", b"?")), attributes=Compression.ZSTD)
    stage.settle()
    compaction = Compaction(topics, {"days": stage.journal}, stage.wheel, stage.clock, lambda: interval_ms, said.append)
    compaction.start()
    for _ in range(3):
        stage.advance(1_100)
        stage.settle()
    assert len(read_records(stage, 1)) == 1
    assert len(read_records(stage, 3)) == 20
    assert said == ["bad-0 is not compacted any further: the batch at offset 20 cannot be unpacked"]
    put(stage, 1, (b"k", b"again"))
    interval_ms = 100
    compaction.interval_changed()
    for _ in range(3):
        stage.advance(110)
        stage.settle()
    assert len(read_records(stage, 1)) == 1, "the new interval counts at once"
    compaction.stop()
    put(stage, 1, (b"k", b"more"))
    stage.advance(5_000)
    stage.settle()
    assert len(read_records(stage, 1)) == 2


def test_nothing_is_deleted_from_a_topic_without_a_policy() -> None:
    stage = Stage()
    topics = catalogue(stage, {"cleanup.policy": "", "retention.ms": "1", "retention.bytes": "1"})
    for _ in range(20):
        put(stage, 1, (b"k", b"v" * 100))
    stage.settle()
    stage.advance(WEEK_MS)
    retention = Retention(topics, {"days": stage.journal}, stage.wheel, stage.clock, 1_000)
    retention.apply()
    stage.settle()
    assert stage.journal.log(1).start_offset == 0
    topics.replay(b"topic/t", topic_record({"retention.bytes": "1"}))
    retention.apply()
    stage.settle()
    assert stage.journal.log(1).start_offset > 0


def topic_record(config: dict[str, str]) -> bytes:
    return json.dumps({"id": "1" * 32, "group": "days", "partitions": [1], "config": config}).encode()


def catalogue(stage: Stage, config: dict[str, str]) -> Topics:
    waits: WaitTable[Topic] = WaitTable("topic_creations", stage.wheel, 1)
    topics = Topics({"days": stage.journal}, {}, bytes, waits, standings_alone(["days"], 0))
    topics.replay(b"topic/t", topic_record(config))
    return topics


def test_a_segment_is_closed_soon_after_it_is_old_and_nothing_is_looked_at_before() -> None:
    stage = Stage()
    topics = catalogue(stage, {"segment.ms": str(HOUR_MS)})
    roller = SegmentRoller(topics, {"days": stage.journal}, stage.wheel, stage.clock)
    roller.start()
    assert roller.due_in_ms == HOUR_MS, "an idle node sleeps"
    put(stage, 1, (b"k", b"v"))
    stage.settle()
    stage.advance(HOUR_MS - 1)
    assert stage.journal.active_age_ms == HOUR_MS - 1
    stage.advance(1)
    stage.settle()
    assert stage.journal.active_age_ms is None, "a new segment, with nothing in it"
    roller.stop()
    assert roller.due_in_ms is None


def test_a_setting_that_is_made_shorter_counts_within_seconds() -> None:
    stage = Stage()
    topics = catalogue(stage, {})
    roller = SegmentRoller(topics, {"days": stage.journal}, stage.wheel, stage.clock)
    roller.start()
    assert roller.due_in_ms == WEEK_MS
    put(stage, 1, (b"k", b"v"))
    stage.settle()
    topics.replay(b"topic/t", topic_record({"segment.ms": "100"}))
    assert roller.due_in_ms == CHECK_INTERVAL_MS
    stage.advance(CHECK_INTERVAL_MS)
    stage.settle()
    assert stage.journal.active_age_ms is None
    for _ in range(3):  # records that come later wait no longer
        put(stage, 1, (b"k", b"v"))
        stage.settle()
        assert stage.journal.active_age_ms is not None
        stage.advance(2 * CHECK_INTERVAL_MS)
        stage.settle()
        assert stage.journal.active_age_ms is None


def test_a_segment_without_records_of_the_topic_is_left_open() -> None:
    stage = Stage()
    topics = catalogue(stage, {"segment.ms": "100"})
    roller = SegmentRoller(topics, {"days": stage.journal}, stage.wheel, stage.clock)
    roller.start()
    put(stage, 2, (b"k", b"v"))  # of a log that wishes nothing
    stage.settle()
    for _ in range(3):
        stage.advance(CHECK_INTERVAL_MS)
        stage.settle()
    assert stage.journal.active_age_ms == 3 * CHECK_INTERVAL_MS
    put(stage, 1, (b"k", b"v"))
    stage.settle()
    stage.advance(CHECK_INTERVAL_MS)
    stage.settle()
    assert stage.journal.active_age_ms is None


def test_a_segment_is_closed_before_the_append_that_would_pass_the_segment_bytes_of_a_plain_topic() -> None:
    stage = Stage(JournalSettings())
    catalogue(stage, {"segment.bytes": str(ROLL_BYTES_MIN)})

    def closed_positions() -> list[int]:
        return [span.base_position for span in stage.journal.log(1).spans]

    for _ in range(3):
        put(stage, 1, (b"k", b"v" * 300_000))
        put(stage, 2, (b"k", b"v" * 600_000))  # of a log without that setting, in the same file
    assert closed_positions() == [], "1.8 MB of another log do not count"
    put(stage, 1, (b"k", b"v" * 300_000))
    assert closed_positions() == [0], "with it the log would have 1.2 MB in the file"
    assert stage.journal.log(1).spans.held_bytes < ROLL_BYTES_MIN


def test_a_segment_bytes_below_the_least_of_kafka_does_not_close_a_file_for_each_append() -> None:
    stage = Stage(JournalSettings())
    catalogue(stage, {"segment.bytes": "14"})
    for _ in range(3):
        put(stage, 1, (b"k", b"v" * 300_000))
    assert not list(stage.journal.log(1).spans)
