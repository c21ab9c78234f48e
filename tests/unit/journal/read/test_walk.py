"""Cold reads: nothing is read twice, and nothing that is not what was appended reaches a reader."""

from dataclasses import replace

import pytest
from tests.unit.journal.stage import SMALL, Stage, records_of

from hutong.foundation.errors import CorruptData
from hutong.journal.files.disk import DiskFile
from hutong.journal.format.batches import find_damage
from hutong.journal.log import DiskRead
from hutong.journal.read.reader import LENT_PIECES_MAX
from hutong.journal.read.walk import WINDOW_BYTES_MAX, SegmentWindow
from hutong.journal.settings import JournalSettings
from hutong.testing.disks.simulated import SimFile
from hutong.wire.kafka.batch.records import Record, build_batch

BATCHES_PER_CHUNK = 3
RECORDS_PER_BATCH = 2
CHUNKS = 5
RECORDS_PER_CHUNK = BATCHES_PER_CHUNK * RECORDS_PER_BATCH
DAMAGED_CHUNK = 2


class CountingFile:
    """A file that knows how many bytes were read of it, and how often."""

    def __init__(self, file: DiskFile) -> None:
        self.bytes_read = self.reads = 0
        self._file = file

    def read_into(self, buffer: memoryview, position: int) -> int:
        got = self._file.read_into(buffer, position)
        self.bytes_read += got
        self.reads += 1
        return got

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


def cold_stage(is_cached: bool) -> tuple[Stage, list[tuple[int, bytes]]]:
    """A journal all of whose records left the memory: chunks of three batches, two partitions."""
    stage = Stage(replace(SMALL, chunk_bytes_max=4096, segment_bytes=1 << 16))
    expected: list[tuple[int, bytes]] = []
    for turn in range(CHUNKS):
        for batch in range(BATCHES_PER_CHUNK):
            values = [b"%d-%d-%d" % (turn, batch, number) for number in range(RECORDS_PER_BATCH)]
            expected += [(len(expected) + number, value) for number, value in enumerate(values)]
            stage.append(1, *values)
        stage.append(2, b"other")
        stage.settle()
    stage.close()
    stage.open()
    stage.disk.is_cached = is_cached
    return stage, expected


def chunk_bounds(stage: Stage) -> list[tuple[int, int]]:
    segment = stage.journal._parts.segments.all()[0]
    assert segment.file is None or isinstance(segment.file, SimFile)
    file = stage.disk.open(segment.path)
    window = SegmentWindow(file, 0, stage.journal.position, 1, is_cached_only=False)
    bounds, position = [], 0
    for _ in range(CHUNKS):
        header = window.chunk_at(position)
        bounds.append((position, header.end))
        position = header.end
    return bounds


def test_a_search_through_a_whole_segment_takes_no_more_memory_than_a_fetch() -> None:
    stage, _ = cold_stage(is_cached=False)
    found = stage.journal.log(1).read(0, 1 << 20)
    assert isinstance(found, DiskRead)
    outcomes: list[object] = []
    stage.journal.log(1).read_from_disk(replace(found, size=128 << 20), outcomes.append)
    stage.settle()
    assert [len(views) for views in outcomes if isinstance(views, list)] == [CHUNKS]
    assert stage.journal.reader._memory.mapped_total == LENT_PIECES_MAX


@pytest.mark.parametrize("is_cached", [True, False])
@pytest.mark.parametrize("bit", [0, 7])
def test_a_flipped_bit_anywhere_never_gives_a_wrong_record(is_cached: bool, bit: int) -> None:
    stage, expected = cold_stage(is_cached)
    stage.read_all(1)  # opens the file and the index
    path = stage.journal._parts.segments.all()[0].path
    start, end = chunk_bounds(stage)[DAMAGED_CHUNK]
    first, behind = DAMAGED_CHUNK * RECORDS_PER_CHUNK, (DAMAGED_CHUNK + 1) * RECORDS_PER_CHUNK
    refusals: list[str] = []
    for position in range(start, end):
        stage.disk.flip_bit(path, position, bit)
        for offset in range(len(expected)):
            try:
                found = records_of(stage.read(1, offset))
            except CorruptData as error:
                refusals.append(f"{offset >= first - RECORDS_PER_CHUNK} {error}")  # at most the damaged extent
                continue
            assert found, "a reader that gets nothing would ask again for ever"
            assert found[0][0] <= offset <= found[-1][0]
            assert found == expected[found[0][0] : found[-1][0] + 1]
        assert records_of(stage.read(1, 0))[-1][0] >= first - RECORDS_PER_CHUNK - 1
        assert records_of(stage.read(1, behind + RECORDS_PER_CHUNK)) == expected[behind + RECORDS_PER_CHUNK :]
        stage.disk.flip_bit(path, position, bit)
    assert len(refusals) >= end - start - 100, "nearly every byte of a chunk matters to this partition"
    assert [told for told in refusals if not told.startswith(f"True {path}: ") or "position" not in told] == []


def test_the_batches_before_a_damaged_one_are_served() -> None:
    stage, expected = cold_stage(is_cached=False)
    path = stage.journal._parts.segments.all()[0].path
    _, end = chunk_bounds(stage)[DAMAGED_CHUNK]
    last_batch = end - len(build_batch([Record(value=b"other")])) - 3
    stage.disk.flip_bit(path, last_batch)
    bad = (DAMAGED_CHUNK + 1) * RECORDS_PER_CHUNK - RECORDS_PER_BATCH
    assert records_of(stage.read(1, 0)) == expected[:bad]
    with pytest.raises(CorruptData, match=r"the batch at position \d+ fails its CRC"):
        stage.read(1, bad)
    assert records_of(stage.read(1, bad + RECORDS_PER_BATCH)) == expected[bad + RECORDS_PER_BATCH :]
    assert len(stage.read_all(2)) == CHUNKS


def test_a_run_with_gaps_between_its_batches_is_sound_where_the_chunk_says_so() -> None:
    first = build_batch([Record(value=b"a")], base_offset=5, leader_epoch=0)
    second = build_batch([Record(value=b"b")], base_offset=9, leader_epoch=0)
    view = memoryview(first + second)
    damage = find_damage(view, 5, 10, 0)
    assert damage is not None
    assert damage.is_gap
    assert damage.at == len(first)
    assert find_damage(view, 5, 10, 0, gaps_allowed=True) is None
    beyond = find_damage(view, 5, 9, 0, gaps_allowed=True)
    assert beyond is not None
    assert beyond.at == len(first)


def test_what_straddles_two_reads_is_one_view_and_read_once() -> None:
    stage = Stage(replace(SMALL, segment_bytes=1 << 24, chunk_bytes_max=1 << 20, region_bytes=1 << 20))
    stage.settings = replace(stage.settings, batch_bytes_max=1 << 20, dirty_bytes_max=1 << 24)
    stage.open()
    content = [bytes([number]) * 100_000 for number in range(30)]
    for value in content:
        stage.append(1, value)
        stage.settle()
    stage.close()
    stage.open()
    stage.disk.is_cached = False
    stage.read(1, 0, 1)  # opens the file
    segment = stage.journal._parts.segments.all()[0]
    assert segment.file is not None
    segment.file = counting = CountingFile(segment.file)  # type: ignore[assignment]
    assert [value for _, value in stage.read_all(1, WINDOW_BYTES_MAX)] == content
    assert counting.bytes_read < 1.2 * 30 * 100_000  # what does not fit into one answer is the next one's


def interleaved(
    batches_per_run: int, batch_bytes: int, wanted: int = 2
) -> tuple[Stage, list[tuple[int, bytes]], CountingFile]:
    """Four partitions that share each of ten chunks, none of it in memory, and the file that holds them."""
    large = JournalSettings(segment_bytes=1 << 26, checkpoint_interval_bytes=1 << 40)
    stage = Stage(large)
    expected: list[tuple[int, bytes]] = []
    for _ in range(10):
        for partition_id in range(4):
            for _ in range(batches_per_run):
                value = bytes([len(expected) % 251]) * batch_bytes
                stage.append(partition_id, value)
                if partition_id == wanted:
                    expected.append((len(expected), value))
        stage.settle()
    stage.close()
    stage.open()
    stage.disk.is_cached = False
    stage.read(wanted, 0, 1)  # opens the file
    segment = stage.journal._parts.segments.all()[0]
    assert segment.file is not None
    segment.file = counting = CountingFile(segment.file)  # type: ignore[assignment]
    return stage, expected, counting


@pytest.mark.parametrize("place", range(4))
def test_other_partitions_in_between_are_left_out(place: int) -> None:
    stage, expected, counting = interleaved(16, 15_000, place)
    read = records_of(stage.read(place, 0, 1 << 24))
    assert read == expected[: 8 * 16]
    assert counting.bytes_read < 1.3 * sum(len(value) for _, value in read)
    assert counting.reads <= 2 * 9, "the header and the run, for each and the one that is too much"


def test_a_part_of_a_run_is_one_read_of_the_file() -> None:
    stage, expected, counting = interleaved(16, 15_000)
    assert records_of(stage.read(2, 3, 100_000)) == expected[3:9]
    assert counting.reads <= 2
    assert counting.bytes_read < 22 * 15_000


def test_a_read_that_is_nearly_full_ends_with_a_whole_run() -> None:
    stage, expected, _ = interleaved(16, 15_000)
    assert records_of(stage.read(2, 0, 1_000_000)) == expected[:64]
    assert records_of(stage.read(2, 0, 700_000)) == expected[:46], "it would lack too much"


def test_many_small_runs_are_read_together() -> None:
    stage, expected, counting = interleaved(1, 1_000)
    assert records_of(stage.read(2, 0, 1 << 20)) == expected
    assert counting.reads <= 3
