"""The journal as its users see it: appends, acknowledgements, reads, watchers. Nothing sleeps; every turn is a step."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from tests.unit.journal.stage import DIRECTORY, SMALL, Stage, Steps, append_batch, records_of, values

from hutong.foundation.errors import CorruptData, HutongError, LimitExceeded, OwnerGone, Refused
from hutong.journal.append.log_appends import Appended
from hutong.journal.append.qos import Qos
from hutong.journal.journal import Journal
from hutong.journal.log import DiskRead
from hutong.journal.parts import JournalHost
from hutong.journal.read.walk import LOADS_ON_LOOP_MAX
from hutong.journal.recover.recovery import recover
from hutong.journal.settings import JournalSettings
from hutong.wire.kafka.batch.records import (
    Record,
    build_batch,
    is_intact,
    iterate_batches,
    iterate_records,
)


def code_of(outcome: Appended | HutongError | None) -> int:
    assert isinstance(outcome, Refused)
    return outcome.code


def test_offsets_are_given_at_once_and_acknowledged_when_the_service_level_is_met() -> None:
    stage = Stage()
    log = stage.journal.log(1)
    one_way = stage.append(log, b"a", qos=Qos.ONE_WAY)
    received = stage.append(log, b"b", b"c", qos=Qos.RECEIVE)
    safe = [stage.append(log, b"d", qos=qos) for qos in (Qos.PERSISTENCE, Qos.REPLICATION, Qos.ALL)]
    assert log.end_offset == 6
    assert (one_way.base_offset, received.base_offset) == (0, 1)
    stage.turn()
    assert [append.is_open for append in safe] == [True, False, True]  # a node alone waits for nobody else
    assert log.high_watermark == 0
    stage.steps.work()
    assert [append.is_open for append in safe] == [True, False, True]
    stage.steps.tell()
    assert [append.base_offset for append in safe] == [3, 4, 5]
    assert log.high_watermark == 6


def test_acknowledgements_come_in_the_order_of_appends() -> None:
    stage = Stage()
    batch = build_batch([Record(value=b"v")])
    order: list[int] = []
    for number in range(30):
        log = stage.journal.log(1 + number % 3)
        append_batch(log, batch, Qos.ALL, lambda _outcome, number=number: order.append(number))  # type: ignore[misc]
        if number % 7 == 0:
            stage.turn()
    stage.settle()
    assert order == list(range(30))


def test_one_flush_carries_everything_that_came_meanwhile() -> None:
    stage = Stage()
    stage.append(1, b"first")
    stage.turn()
    flushes = stage.disk.flushes_total
    later = []
    for number in range(5):
        later.append(stage.append(2 + number, b"later"))
        stage.turn()
    stage.steps.work()
    stage.steps.tell()  # the first one
    assert all(append.is_open for append in later)
    before = stage.journal.flusher.flushes_total
    stage.settle()
    assert not any(append.is_open for append in later)
    assert stage.journal.flusher.flushes_total == before + 1
    assert stage.disk.flushes_total > flushes


def test_batches_of_one_turn_share_a_chunk_and_a_log_lies_contiguous() -> None:
    stage = Stage()
    for number in range(6):
        stage.append(1 + number % 2, b"v%d" % number)
    stage.settle()
    assert stage.journal.figures.bytes_per_chunk.count == 1
    assert len(stage.read(1, 0)) == 1
    assert stage.read_all(1) == [(0, b"v0"), (1, b"v2"), (2, b"v4")]
    assert stage.read_all(2) == [(0, b"v1"), (1, b"v3"), (2, b"v5")]


def test_a_turn_that_brings_much_is_sealed_in_several_chunks() -> None:
    stage = Stage()
    appends = [stage.append(1, bytes(150)) for _ in range(6)]
    stage.settle()
    assert stage.journal.figures.bytes_per_chunk.count == 3  # two batches of about 220 bytes fit into one
    assert [append.base_offset for append in appends] == list(range(6))


def test_stored_batches_carry_their_offset_and_keep_their_crc() -> None:
    stage = Stage()
    stage.append(1, b"a", b"b")
    stage.append(1, b"c")
    stage.settle()
    (view,) = stage.read(1, 0)
    batches = list(iterate_batches(view))
    assert [header.base_offset for header, _ in batches] == [0, 2]
    assert all(is_intact(batch, header) for header, batch in batches)


def test_only_what_is_flushed_is_visible_unless_the_log_shows_what_is_received() -> None:
    stage = Stage()
    stage.journal.log(2).configure(receive_qos=True, log_append_time=False)
    for partition_id in (1, 2):
        stage.append(partition_id, b"v", qos=Qos.RECEIVE)
    stage.turn()
    assert stage.read(1, 0) == []
    assert records_of(stage.read(2, 0)) == [(0, b"v")]
    stage.settle()
    assert records_of(stage.read(1, 0)) == [(0, b"v")]


def test_a_reader_may_ask_for_what_is_not_visible_yet() -> None:
    stage = Stage()
    stage.append(1, b"v")
    stage.turn()
    assert stage.read(1, 0) == []
    assert records_of(stage.read(1, 0, up_to=10)) == [(0, b"v")]


def test_watchers_hear_each_advance_until_they_leave() -> None:
    stage = Stage()
    log = stage.journal.log(1)
    heard: list[int] = []

    def watcher() -> None:
        heard.append(log.high_watermark)

    log.watch(watcher)
    stage.append(log, b"a")
    stage.append(2, b"elsewhere")
    stage.settle()
    stage.append(log, b"b")
    stage.settle()
    log.unwatch(watcher)
    stage.append(log, b"c")
    stage.settle()
    assert heard == [1, 2]


@pytest.mark.parametrize("offset", [-1, 4])
def test_an_offset_outside_the_log_is_refused(offset: int) -> None:
    stage = Stage()
    stage.append(1, b"a", b"b", b"c")
    stage.settle()
    with pytest.raises(Refused) as refused:
        stage.read(1, offset)
    assert refused.value.code == 1
    assert stage.read(1, 3) == []


def test_an_offset_inside_a_batch_brings_the_whole_batch() -> None:
    stage = Stage()
    stage.append(1, *values(0, 5))
    stage.append(1, *values(5, 9))
    stage.append(1, *values(9, 12))
    stage.settle()
    assert [offset for offset, _ in records_of(stage.read(1, 7, 1))] == [5, 6, 7, 8]
    assert [offset for offset, _ in records_of(stage.read(1, 7))] == list(range(5, 12))


def test_limits_are_kept_by_whole_batches_but_at_least_one_comes() -> None:
    stage = Stage()
    for number in range(4):
        stage.append(1, b"v%d" % number)
        if number % 2:
            stage.turn()
    stage.settle()
    size = len(stage.read(1, 0, 1)[0])
    assert stage.read(1, 0, size - 1, at_least_one=False) == []
    assert stage.read(1, 0, 0, at_least_one=False) == []
    for count in range(1, 5):
        for max_bytes in (size * count, size * count + size - 1):
            assert len(records_of(stage.read(1, 0, max_bytes, at_least_one=False))) == count
    assert len(records_of(stage.read(1, 0, 0))) == 1


@pytest.mark.parametrize("is_hot", [True, False])
@pytest.mark.parametrize("max_bytes", range(60, 1000, 60))
def test_no_limit_makes_a_reader_skip_a_batch(is_hot: bool, max_bytes: int) -> None:
    """A large batch that does not fit any more must not be passed over for a small one behind it."""
    stage = Stage(replace(SMALL, chunk_bytes_max=1024, region_bytes=4096, cached_bytes_max=8192))
    for turn in range(5):
        for size in (1, 150, 20):
            stage.append(1, b"%d" % turn + bytes(size))
        stage.settle()
    if not is_hot:
        stage.close()
        stage.open()
    assert len(stage.read_all(1, max_bytes)) == 15


def fill(stage: Stage, turns: int, partitions: int = 3) -> dict[int, list[tuple[int, bytes]]]:
    """Several segments of batches of one to three records; returns what each partition must hold."""
    random = Random(turns)
    expected: dict[int, list[tuple[int, bytes]]] = {partition_id: [] for partition_id in range(1, partitions + 1)}
    for turn in range(turns):
        for _ in range(random.randint(1, 3)):
            partition_id = random.randint(1, partitions)
            batch = [b"%d-%d-%d" % (partition_id, turn, number) for number in range(random.randint(1, 3))]
            stage.append(partition_id, *batch)
            log = expected[partition_id]
            log += [(len(log) + number, value) for number, value in enumerate(batch)]
        stage.settle()
    return expected


@pytest.mark.parametrize("is_cached", [True, False])
@pytest.mark.parametrize("max_bytes", [1, 300, 5000])
def test_what_left_the_cache_reads_the_same_from_the_segments(is_cached: bool, max_bytes: int) -> None:
    stage = Stage()
    stage.disk.is_cached = is_cached
    expected = fill(stage, turns=150)
    assert len(stage.journal._parts.segments) > 4
    for partition_id, records in expected.items():
        log = stage.journal.log(partition_id)
        assert stage.read_all(log, max_bytes) == records
        for offset in range(0, log.high_watermark, 7):
            assert records_of(stage.read(log, offset, max_bytes))[-1][0] >= offset
    if is_cached:
        assert stage.journal.reader.cached_reads_total > 0
    else:
        assert isinstance(stage.journal.log(1).read(0, 10), DiskRead)


def test_a_read_on_the_loop_brings_little_rather_than_holding_it_up() -> None:
    settings = replace(SMALL, segment_bytes=1 << 23, batch_bytes_max=1 << 15, dirty_bytes_max=1 << 20)
    stage = Stage(settings)
    for _ in range(200):
        stage.append(1, b"mine")
        stage.append(2, bytes(20_000))
        stage.settle()
    stage.disk.is_cached = True
    log = stage.journal.log(1)
    cold = log.read(0, 1 << 20)
    assert isinstance(cold, DiskRead)
    on_loop = log.read_from_page_cache(cold)
    assert on_loop is not None
    assert 0 < len(records_of(on_loop)) <= LOADS_ON_LOOP_MAX
    stage.disk.is_cached = False
    assert len(records_of(stage.read(1, 0))) == 200


def test_cold_reads_may_have_workers_of_their_own() -> None:
    stage = Stage()
    expected = fill(stage, turns=60)
    stage.close()
    stage.disk.is_cached = False
    reads = Steps()
    recovered = recover(stage.disk, DIRECTORY, SMALL)
    host = JournalHost(stage.disk, stage.steps, stage.clock, stage.wheel, stage.turns.append, reads)
    journal = Journal(recovered, DIRECTORY, host, SMALL)
    log = journal.log(1)
    cold = log.read(0, 1)
    assert isinstance(cold, DiskRead)
    outcomes: list[list[memoryview] | HutongError] = []
    log.read_from_disk(cold, outcomes.append)
    stage.settle()
    assert outcomes == []
    reads.work()
    reads.tell()
    (found,) = outcomes
    assert isinstance(found, list)
    records = records_of(found)
    assert records == expected[1][: len(records)]


def test_closed_segments_are_read_without_their_index_files() -> None:
    stage = Stage()
    expected = fill(stage, turns=100)
    for name in stage.disk.list(stage.journal.directory):
        if name.endswith(".index"):
            stage.disk.unlink(stage.journal.directory / name)
    for partition_id, records in expected.items():
        assert stage.read_all(partition_id) == records


def test_a_damaged_batch_header_on_disk_is_an_error_and_not_a_wrong_record() -> None:
    stage = Stage()
    fill(stage, turns=100, partitions=1)
    stage.disk.flip_bit(stage.journal._parts.segments.all()[0].path, 50)
    with pytest.raises(CorruptData):
        stage.read_all(1)


def test_a_log_stamps_its_records_if_asked_to() -> None:
    stage = Stage()
    log = stage.journal.log(1)
    log.configure(receive_qos=False, log_append_time=True)
    stage.clock.advance(5_000)
    append = stage.append_records(log, [Record(timestamp_ms=17, value=b"v")])
    now_ms = stage.clock.wall_ms()
    stage.settle()
    assert isinstance(append.outcome, Appended)
    assert append.outcome.append_time_ms == now_ms
    (view,) = stage.read(log, 0)
    ((header, batch),) = iterate_batches(view)
    assert is_intact(batch, header)
    assert header.is_log_append_time
    assert [record.timestamp_ms for record in iterate_records(batch)] == [now_ms]


def test_a_batch_too_large_is_refused_and_takes_no_offset() -> None:
    stage = Stage()
    append = stage.append(1, bytes(SMALL.batch_bytes_max))
    assert code_of(append.outcome) == 10
    assert stage.journal.log(1).end_offset == 0


def test_repetitions_get_the_original_offset_once_it_is_safe() -> None:
    stage = Stage()
    producer: dict[str, Any] = {"producer_id": 9, "producer_epoch": 0}
    first = stage.append(1, b"a", b"b", base_sequence=0, **producer)
    in_turn = stage.append(1, b"a", b"b", base_sequence=0, **producer)
    stage.turn()
    in_flight = stage.append(1, b"a", b"b", base_sequence=0, **producer)
    impatient = stage.append(1, b"a", b"b", base_sequence=0, qos=Qos.RECEIVE, **producer)
    assert impatient.base_offset == 0
    assert all(append.is_open for append in (first, in_turn, in_flight))
    stage.settle()
    assert [append.base_offset for append in (first, in_turn, in_flight)] == [0, 0, 0]
    assert stage.append(1, b"a", b"b", base_sequence=0, **producer).base_offset == 0
    gap = stage.append(1, b"d", base_sequence=3, **producer)
    assert code_of(gap.outcome) == 45
    assert stage.journal.log(1).end_offset == 2


def test_what_outruns_the_disk_is_first_reported_then_refused() -> None:
    stage = Stage()
    heard: list[bool] = []
    stage.journal.watch_congestion(heard.append)
    appends = []
    while not stage.journal.is_congested:
        appends.append(stage.append(1, bytes(200)))
        stage.turn()
    assert heard == [True]
    refused = None
    while not isinstance(refused, LimitExceeded):
        append = stage.append(1, bytes(200))
        refused = append.outcome
        appends.append(append)
        stage.turn()
    assert stage.journal.writer.dirty_bytes < 2 * SMALL.dirty_bytes_max + 512
    stage.settle()
    assert heard == [True, False]
    assert all(isinstance(append.outcome, Appended) for append in appends[:-1])
    assert stage.append(1, b"v").is_open


def test_a_deleted_log_takes_nothing_and_its_name_is_gone() -> None:
    stage = Stage()
    log = stage.journal.log(1)
    pending = stage.append(log, b"v")
    stage.journal.delete_log(1)
    assert code_of(stage.append(log, b"w").outcome) == 3
    stage.settle()
    assert pending.base_offset == 0
    assert stage.journal.log_ids() == []


def test_deleting_before_an_offset_moves_the_start() -> None:
    stage = Stage()
    log = stage.journal.log(1)
    for number in range(5):
        stage.append(log, b"%d" % number)
    stage.settle()
    log.delete_before(3)
    log.delete_before(2)
    stage.settle()
    assert stage.read_all(log) == [(3, b"3"), (4, b"4")]
    with pytest.raises(Refused):
        stage.read(log, 2)
    with pytest.raises(Refused):
        log.delete_before(6)


def test_closing_flushes_what_was_accepted_and_refuses_the_rest() -> None:
    stage = Stage()
    append = stage.append(1, b"v")
    stage.close()
    assert append.base_offset == 0
    assert isinstance(stage.append(1, b"w").outcome, OwnerGone)


def test_aborting_fails_what_waits_and_hears_nothing_more() -> None:
    stage = Stage()
    append = stage.append(1, b"v")
    stage.turn()
    stage.journal.abort()
    stage.steps.work()
    stage.steps.tell()
    assert isinstance(append.outcome, OwnerGone)


def test_after_an_abort_nothing_that_was_noted_reaches_the_files() -> None:
    stage = Stage()
    stage.append(1, b"v")
    stage.settle()
    (name,) = [name for name in stage.disk.list(DIRECTORY) if name.endswith(".journal")]
    content = bytes(stage.disk.open(DIRECTORY / name).read(1 << 20, 0))
    append = stage.append(1, b"noted, and sealed by nobody yet")
    stage.journal.abort()
    assert isinstance(append.outcome, OwnerGone)
    stage.journal.log(1).delete_before(1)
    stage.settle()
    stage.advance(10_000)
    stage.settle()
    assert bytes(stage.disk.open(DIRECTORY / name).read(1 << 20, 0)) == content


def test_an_abort_with_a_reason_lets_reads_in_flight_end() -> None:
    stage = Stage()
    stage.append(1, b"v")
    stage.settle()
    stage.journal.abort()
    log = stage.open().log(1)
    read = log.read(0, 1 << 20)
    assert isinstance(read, DiskRead)
    outcomes: list[object] = []
    log.read_from_disk(read, outcomes.append)
    reason, released = Refused(6, "Another node leads."), []
    append = stage.append(1, b"w")
    stage.turn()
    stage.journal.abort(reason, lambda: released.append(True))
    assert append.outcome is reason
    assert not released
    stage.settle()
    assert released
    assert isinstance(outcomes[0], list)


def test_quiet_logs_keep_no_entries_for_bytes_that_left_the_cache() -> None:
    stage = Stage(JournalSettings(region_bytes=1024, cached_bytes_max=2048, chunk_bytes_max=256))
    quiet = [stage.journal.log(number) for number in range(1, 9)]
    for log in quiet:
        for _ in range(4):
            stage.append(log, b"v")
            stage.settle()
    for _ in range(40):
        stage.append(99, bytes(200))
        stage.settle()
    assert sum(len(log.cached_runs) for log in quiet) == 0
    assert 0 < len(stage.journal.log(99).cached_runs) < 40
