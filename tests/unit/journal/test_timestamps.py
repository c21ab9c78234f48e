"""Searching by time gives what looking at every record gives."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.journal.stage import Stage

from hutong.foundation.errors import HutongError
from hutong.journal.log import PartitionLog
from hutong.journal.timestamps import NOT_FOUND, Found
from hutong.wire.kafka.compression import Compression
from hutong.wire.kafka.records import Record

batches = st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=4), max_size=30)


def first_from(stage: Stage, log: PartitionLog, timestamp_ms: int) -> Found | HutongError:
    outcomes: list[Found | HutongError] = []
    log.offset_for_timestamp(timestamp_ms, outcomes.append)
    stage.settle()
    (outcome,) = outcomes
    return outcome


def greatest(stage: Stage, log: PartitionLog) -> Found | HutongError:
    outcomes: list[Found | HutongError] = []
    log.offset_of_max_timestamp(outcomes.append)
    stage.settle()
    (outcome,) = outcomes
    return outcome


@settings(max_examples=60, deadline=None)
@given(batches, st.integers(0, 30), st.booleans())
def test_a_search_agrees_with_looking_at_every_record(script: list[list[int]], trimmed: int, is_reopened: bool) -> None:
    stage = Stage()
    told: list[Found] = []
    for number, timestamps in enumerate(script):
        records = [Record(timestamp_ms=timestamp_ms, value=bytes(90)) for timestamp_ms in timestamps]
        compression = Compression.GZIP if number % 3 == 0 else Compression.NONE
        stage.append_records(1, records, compression=compression)
        stage.append(2, bytes(100))
        told += [(timestamp_ms, len(told) + at) for at, timestamp_ms in enumerate(timestamps)]
        if number % 2:
            stage.settle()
    stage.settle()
    start = min(trimmed, len(told))
    stage.journal.log(1).delete_before(start)
    stage.settle()
    if is_reopened:
        stage.close()
        stage.open()
    log, visible = stage.journal.log(1), told[start:]
    for timestamp_ms in range(0, 42, 3):
        expected = next((found for found in visible if found[0] >= timestamp_ms), NOT_FOUND)
        assert first_from(stage, log, timestamp_ms) == expected
    best = max(visible, key=lambda found: (found[0], -found[1]), default=NOT_FOUND)
    assert greatest(stage, log) == best


def test_a_search_waits_for_what_readers_of_the_cache_can_see() -> None:
    stage = Stage()
    log = stage.journal.log(1)
    log.configure(receive_qos=True, log_append_time=False)
    stage.append_records(log, [Record(timestamp_ms=7, value=b"v")])
    stage.turn()
    outcomes: list[Found | HutongError] = []
    log.offset_for_timestamp(5, outcomes.append)
    assert outcomes == []
    stage.settle()
    assert outcomes == [(7, 0)]


def test_a_batch_that_cannot_be_decoded_answers_with_its_first_offset() -> None:
    stage = Stage()
    stage.append_records(1, [Record(timestamp_ms=5, value=b"v")])
    stage.append_records(1, [Record(timestamp_ms=9, value=b"v")] * 3, attributes=Compression.GZIP)  # but it is not
    stage.settle()
    assert first_from(stage, stage.journal.log(1), 8) == (9, 1)
