"""What a start makes of what lies on disk: torn tails, flipped bits, lost indexes and checkpoints."""

import dataclasses
import struct
from pathlib import Path
from random import Random

import pytest
from crc32c import crc32c
from tests.unit.journal.stage import DIRECTORY, SMALL, Stage, values

from hutong.foundation.errors import CorruptData, Refused, StorageError, UnknownFormat
from hutong.journal.append.producers import UNKNOWN_OFFSET
from hutong.journal.clean.retention import RetentionPolicy
from hutong.journal.files.disk import DiskFile, read_file
from hutong.journal.files.segment import segment_name
from hutong.journal.format import chunk
from hutong.journal.recover.recovery import SET_ASIDE_SUFFIX, recover
from hutong.testing.disks.simulated import SimDisk

FIRST = DIRECTORY / segment_name(0)


def disk_with(content: bytes, name: Path = FIRST) -> SimDisk:
    disk = SimDisk()
    disk.make_directory(DIRECTORY)
    file = disk.create(name)
    file.write([content], 0)
    file.flush()
    disk.sync_directory(DIRECTORY)
    return disk


def three_batches() -> tuple[bytes, list[int]]:
    """The bytes of a journal of three batches in three chunks, and where each chunk ends."""
    stage = Stage()
    ends = []
    for number in range(3):
        stage.append(1, b"record-%d" % number)
        stage.settle()
        ends.append(stage.journal.position)
    return bytes(read_file(stage.disk, FIRST) or b"")[: ends[-1]], ends


CONTENT, ENDS = three_batches()
RECORDS = [(number, b"record-%d" % number) for number in range(3)]


def records_before(position: int) -> list[tuple[int, bytes]]:
    return RECORDS[: sum(end <= position for end in ENDS)]


def sound_bytes(content: bytes) -> int:
    """The length up to which the content is as it was. A blank tail completes a record that ends with zeros."""
    pairs = zip(content, CONTENT, strict=False)
    return next((at for at, (found, written) in enumerate(pairs) if found != written), min(len(content), len(CONTENT)))


@pytest.mark.parametrize("tail", [0, 700], ids=["file ends there", "blank tail"])
def test_a_tail_torn_at_any_byte_leaves_a_valid_prefix_that_can_be_appended_to(tail: int) -> None:
    for size in range(len(CONTENT) + 1):
        content = CONTENT[:size] + bytes(tail)
        stage = Stage(disk=disk_with(content))
        expected = records_before(sound_bytes(content))
        assert stage.read_all(1) == expected
        assert stage.journal.position == ([0, *ENDS])[len(expected)]
        stage.append(1, b"new")
        stage.settle()
        stage.open()
        assert stage.read_all(1) == [*expected, (len(expected), b"new")]
        assert stage.problems() == []


def test_a_flipped_bit_costs_only_the_last_chunk_and_else_nothing_is_decided() -> None:
    """A chunk that was flushed before a later one was made has rotted: a person must say how much to give up."""
    for at in range(len(CONTENT)):
        damaged = bytearray(CONTENT)
        damaged[at] ^= 1 << at % 8
        disk = disk_with(bytes(damaged))
        if at < ENDS[1]:
            with pytest.raises(CorruptData) as refused:
                recover(disk, DIRECTORY, SMALL)
            place = max(end for end in (0, *ENDS) if end <= at)
            assert str(FIRST) in str(refused.value), f"byte {at}"
            assert f"position {place}" in str(refused.value), f"byte {at}"
            assert bytes(read_file(disk, FIRST) or b"") == damaged, "nothing was changed"
        else:
            stage = Stage(disk=disk)
            assert stage.read_all(1) == records_before(at), f"byte {at}"
            _, missing, sentence = stage.journal.recovery.sentences()
            assert sentence.startswith(f"{FIRST}: ")
            assert sentence.endswith(f"the journal was cut at position {ENDS[1]}.")
            assert "checkpoint is missing" in missing


def in_flight() -> tuple[bytes, list[int]]:
    """The same three batches, when none of them had been flushed before the last one was there."""
    stage, ends = Stage(), []
    for _, value in RECORDS:
        stage.append(1, value)
        stage.turn()
        ends.append(stage.journal.position)
    stage.settle()
    return bytes(read_file(stage.disk, FIRST) or b"")[: ends[-1]], ends


def test_sectors_lost_in_the_middle_leave_no_stale_chunk_behind() -> None:
    """Chunks beyond a hole in what was in flight were never acknowledged; no later append may make them reappear."""
    content, ends = in_flight()
    for number in range(3):
        start = ([0, *ends])[number]
        holed = content[:start] + bytes(ends[number] - start) + content[ends[number] :]
        stage = Stage(disk=disk_with(holed + bytes(100)))
        expected = RECORDS[:number]
        assert stage.read_all(1) == expected
        told = [sentence for sentence in stage.journal.recovery.sentences() if f"cut at position {start}" in sentence]
        assert len(told) == (number < 2)
        stage.append(1, b"record-%d" % number)  # the same size as what was lost: the next stale chunk would fit
        stage.settle()
        stage.disk.crash(Random(0))
        stage.open()
        assert stage.read_all(1) == RECORDS[: number + 1]


def test_a_flipped_bit_in_what_was_in_flight_ends_the_journal_there() -> None:
    content, ends = in_flight()
    for at in range(len(content)):
        damaged = bytearray(content)
        damaged[at] ^= 1 << at % 8
        stage = Stage(disk=disk_with(bytes(damaged)))
        assert stage.read_all(1) == RECORDS[: sum(end <= at for end in ends)], f"byte {at}"


@pytest.mark.parametrize("damage", ["blanked", "header", "payload", "cut short", "lost"])
def test_a_rotten_segment_is_not_given_up_with_all_that_follow(damage: str) -> None:
    stage, _ = filled()
    stage.close()
    stage.disk.unlink(DIRECTORY / "checkpoint")
    segments = [name for name in stage.disk.list(DIRECTORY) if name.endswith(".journal")]
    path = DIRECTORY / segments[1]
    base = int(segments[1].split(".")[0])
    match damage:
        case "blanked":
            stage.disk.open(path).write([bytes(512)], 0)
        case "header":
            stage.disk.flip_bit(path, 20)
        case "payload":
            stage.disk.flip_bit(path, 120)
        case "cut short":
            stage.disk.open(path).truncate(0)
        case "lost":
            stage.disk.unlink(path)
            path = DIRECTORY / segments[0]
    before = {name: bytes(read_file(stage.disk, DIRECTORY / name) or b"") for name in stage.disk.list(DIRECTORY)}
    with pytest.raises(CorruptData) as refused:
        recover(stage.disk, DIRECTORY, SMALL)
    assert str(refused.value).startswith(f"{path}: ")
    assert f"position {base}" in str(refused.value)
    assert "nothing was changed" in str(refused.value)
    for name in before.keys() - {name for name in before if name.endswith(".index")}:
        assert bytes(read_file(stage.disk, DIRECTORY / name) or b"") == before[name]


def filled(turns: int = 60) -> tuple[Stage, dict[int, list[tuple[int, bytes]]]]:
    """A stage with several segments of two partitions, everything flushed."""
    stage = Stage()
    expected: dict[int, list[tuple[int, bytes]]] = {1: [], 2: []}
    for turn in range(turns):
        partition_id = 1 + turn % 2
        batch = values(turn * 3, turn * 3 + 1 + turn % 3)
        stage.append(partition_id, *batch)
        log = expected[partition_id]
        log += [(len(log) + number, value) for number, value in enumerate(batch)]
        stage.settle()
    return stage, expected


def read_both(stage: Stage) -> dict[int, list[tuple[int, bytes]]]:
    return {1: stage.read_all(1), 2: stage.read_all(2)}


def test_a_clean_stop_leaves_nothing_to_scan() -> None:
    stage, expected = filled()
    stage.close()
    assert not any(name.endswith((".tmp", ".prepared")) for name in stage.disk.list(DIRECTORY))
    reads = stage.disk.reads_total
    recovery = stage.open().recovery
    assert (recovery.was_clean, recovery.scanned_bytes, recovery.sentences()) == (True, 0, [])
    assert stage.disk.reads_total - reads < 12
    assert read_both(stage) == expected


def test_a_new_directory_is_clean() -> None:
    assert Stage().journal.recovery.sentences() == []


def test_after_a_crash_only_what_follows_the_checkpoint_is_scanned() -> None:
    stage, expected = filled()
    stage.journal.checkpointer.begin_checkpoint()
    stage.settle()
    checkpointed = stage.journal.position
    expected[1] += [(len(expected[1]), b"later")]
    stage.append(1, b"later")
    stage.settle()
    position = stage.journal.position
    stage.crash(Random(1))
    recovery = stage.open().recovery
    assert recovery.scanned_bytes == position - checkpointed
    assert not recovery.was_clean
    assert len(recovery.sentences()) == 1
    assert read_both(stage) == expected


def test_closing_a_segment_writes_a_checkpoint() -> None:
    stage, _ = filled()
    assert stage.journal.checkpointer.checkpoints_total > 0
    assert stage.journal.position - stage.journal.checkpointer.last_position <= SMALL.segment_bytes


def test_many_small_runs_bring_a_checkpoint_as_many_bytes_do() -> None:
    stage = Stage(dataclasses.replace(SMALL, segment_bytes=1 << 20, checkpoint_interval_runs=10))
    for number in range(9):
        stage.append(1 + number % 3, b"v")
        stage.settle()
    assert stage.journal.checkpointer.checkpoints_total == 0
    stage.append(1, b"v")
    stage.settle()
    assert stage.journal.checkpointer.checkpoints_total == 1
    stage.crash(Random(1))
    assert stage.open().recovery.scanned_bytes == 0


def test_time_brings_a_checkpoint_only_if_there_is_something_new() -> None:
    stage = Stage()
    stage.append(1, b"v")
    stage.settle()
    before = stage.journal.checkpointer.checkpoints_total
    for _ in range(3):
        stage.advance(SMALL.checkpoint_interval_ms + 100)
        stage.settle()
    assert stage.journal.checkpointer.checkpoints_total == before + 1
    assert len(stage.wheel) == 0


@pytest.mark.parametrize("damage", ["lost", "flipped", "cut", "empty"])
def test_without_a_sound_checkpoint_everything_is_read(damage: str) -> None:
    stage, expected = filled()
    stage.close()
    path = DIRECTORY / "checkpoint"
    if damage == "lost":
        stage.disk.unlink(path)
    elif damage == "flipped":
        stage.disk.flip_bit(path, 30)
    else:
        stage.disk.open(path).truncate(0 if damage == "empty" else 20)
    recovery = stage.open().recovery
    assert recovery.scanned_bytes == stage.journal.position
    assert any("everything was read" in sentence for sentence in recovery.sentences())
    assert recovery.has_damaged_checkpoint == (damage != "lost")
    assert read_both(stage) == expected


def test_a_journal_that_ends_before_its_checkpoint_has_lost_what_was_acknowledged() -> None:
    stage, _ = filled(turns=12)
    stage.close()
    file = stage.disk.open(FIRST)
    file.truncate(file.size() - 10)
    with pytest.raises(CorruptData, match=f"^{FIRST}: the journal ends at position .*acknowledged records are missing"):
        recover(stage.disk, DIRECTORY, SMALL)
    for name in stage.disk.list(DIRECTORY):
        if name.endswith(".journal"):
            stage.disk.unlink(DIRECTORY / name)
    with pytest.raises(CorruptData, match="the journal ends at position 0, but"):
        recover(stage.disk, DIRECTORY, SMALL)


@pytest.mark.parametrize("damage", ["lost", "flipped", "cut", "foreign"])
@pytest.mark.parametrize("which", [0, -1], ids=["closed", "active"])
def test_a_missing_or_wrong_index_is_rebuilt(damage: str, which: int) -> None:
    stage, expected = filled()
    stage.close()
    indexes = [DIRECTORY / name for name in stage.disk.list(DIRECTORY) if name.endswith(".index")]
    path, other = indexes[which], indexes[1]
    if damage == "lost":
        stage.disk.unlink(path)
    elif damage == "flipped":
        stage.disk.flip_bit(path, 50)
    elif damage == "cut":
        stage.disk.open(path).truncate(40)
    else:
        stage.disk.create(path).write([read_file(stage.disk, other) or b""], 0)
    stage.open()
    assert read_both(stage) == expected
    stage.close()
    assert stage.problems() == []


def test_segments_behind_a_torn_chunk_are_set_aside_not_removed() -> None:
    """One flush went over three segments, and the power went when only parts of it were on disk."""
    stage = Stage()
    stage.append(1, b"safe")
    stage.settle()
    while len(stage.journal._parts.segments) < 3:
        stage.append(1, bytes(400))
        stage.turn()
    stage.settle()
    names = [name for name in stage.disk.list(DIRECTORY) if name.endswith(".journal")]
    stage.disk.flip_bit(DIRECTORY / names[1], 45)
    stage.disk.unlink(DIRECTORY / "checkpoint")
    stage.journal.abort()
    recovery = stage.open().recovery
    assert stage.journal.position == int(names[1].split(".")[0])
    aside = [name for name in stage.disk.list(DIRECTORY) if name.endswith(SET_ASIDE_SUFFIX)]
    assert aside == [name + SET_ASIDE_SUFFIX for name in names[2:]]
    assert f"{DIRECTORY / names[1]}: the chunk header at position" in "\n".join(recovery.sentences())
    assert stage.read_all(1)[0] == (0, b"safe")
    stage.append(1, b"new")
    stage.settle()
    stage.open()
    assert stage.read_all(1)[-1][1] == b"new"


@pytest.mark.parametrize("suffix", [".index", "checkpoint"])
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_bit_flipped_anywhere_beside_the_journal_costs_nothing(suffix: str, is_clean: bool) -> None:
    """Whatever is not the journal itself can be made again from it."""
    stage, expected = filled(turns=24)
    if is_clean:
        stage.close()
    else:
        stage.journal.checkpointer.begin_checkpoint()
        stage.settle()
        stage.journal.abort()
    files = {name: bytes(read_file(stage.disk, DIRECTORY / name) or b"") for name in stage.disk.list(DIRECTORY)}
    damaged_names = [name for name in files if name.endswith(suffix)]
    assert damaged_names
    for damaged_name in damaged_names:
        for at in range(len(files[damaged_name])):
            disk = disk_with(b"")
            for name, content in files.items():
                disk.create(DIRECTORY / name).write([content], 0)
            disk.flip_bit(DIRECTORY / damaged_name, at, at % 8)
            again = Stage(disk=disk)
            assert read_both(again) == expected, f"{damaged_name}, byte {at}"
            told = [sentence for sentence in again.journal.recovery.sentences() if damaged_name in sentence]
            if not told:  # of a closed segment's index a start reads only the summary; a read finds out the rest
                told = [problem for problem in again.problems() if damaged_name in problem]
            assert len(told) == 1, f"{damaged_name}, byte {at}: {told}"


def test_a_hole_before_the_checkpoint_is_refused() -> None:
    stage, _ = filled()
    stage.close()
    segments = [name for name in stage.disk.list(DIRECTORY) if name.endswith(".journal")]
    stage.disk.unlink(DIRECTORY / segments[1])
    with pytest.raises(CorruptData, match="restore it from a copy"):
        recover(stage.disk, DIRECTORY, SMALL)


def test_producers_survive_by_checkpoint_and_by_scan() -> None:
    for is_checkpointed in (True, False):
        stage = Stage()
        for sequence in range(9):
            stage.append(1, b"v", producer_id=5, producer_epoch=1, base_sequence=sequence)
            if sequence == 6 and is_checkpointed:
                stage.settle()
                stage.journal.checkpointer.begin_checkpoint()
            stage.settle()
        stage.crash(Random(0))
        stage.open()
        repeated = stage.append(1, b"v", producer_id=5, producer_epoch=1, base_sequence=6)
        assert repeated.base_offset == 6
        displaced = stage.append(1, b"v", producer_id=5, producer_epoch=1, base_sequence=0)
        assert displaced.base_offset == UNKNOWN_OFFSET
        gap = stage.append(1, b"v", producer_id=5, producer_epoch=1, base_sequence=10)
        assert isinstance(gap.outcome, Refused)
        assert gap.outcome.code == 45


@pytest.mark.parametrize("is_checkpointed", [True, False])
def test_starts_and_deletions_survive(is_checkpointed: bool) -> None:
    stage, expected = filled(turns=20)
    stage.journal.log(1).delete_before(10)
    stage.journal.delete_log(2)
    stage.settle()
    if is_checkpointed:
        stage.journal.checkpointer.begin_checkpoint()
        stage.settle()
    stage.crash(Random(0))
    stage.open()
    assert stage.journal.log_ids() == [1]
    assert stage.read_all(1) == expected[1][10:]


def test_a_log_whose_every_segment_is_gone_keeps_its_end() -> None:
    stage = Stage()
    for number in range(5):
        stage.append(1, b"%d" % number)
        stage.settle()
    stage.advance(10_000)
    for _ in range(60):
        stage.append(2, bytes(100))
        stage.settle()
    stage.journal.enforce_retention({1: RetentionPolicy(retention_ms=1_000)})
    stage.settle()
    stage.journal.enforce_retention({2: RetentionPolicy(retention_bytes=5_000)})
    stage.settle()
    assert stage.journal._parts.segments.oldest is not None
    assert stage.journal._parts.segments.oldest.base_position > 0
    stage.crash(Random(0))
    stage.disk.unlink(DIRECTORY / "checkpoint")
    stage.open()
    log = stage.journal.log(1)
    assert (log.start_offset, log.end_offset) == (5, 5)
    assert stage.append(1, b"next").is_open
    stage.settle()
    assert stage.read_all(1) == [(5, b"next")]


def test_an_empty_segment_takes_a_chunk_larger_than_a_segment_and_keeps_its_file() -> None:
    """Closed at the position at which it begins, it would share its file name with the next, and be removed."""
    stage = Stage(dataclasses.replace(SMALL, segment_bytes=2048, region_bytes=4096))
    logs = range(1, 60)
    for partition_id in logs:
        stage.append(partition_id, b"")
    stage.settle()
    # The power goes between the naming of the next file and its first flush.
    stage.disk.create(DIRECTORY / segment_name(stage.journal.position))
    stage.disk.sync_directory(DIRECTORY)
    stage.journal.abort()
    stage.open()
    stage.journal.checkpointer.begin_checkpoint()
    for partition_id in logs:
        stage.journal.delete_log(partition_id)  # which is stated: all in one chunk
    stage.settle()
    position = stage.journal.position
    stage.crash(Random(0))
    stage.open()
    assert stage.journal.position == position


def test_leftovers_of_a_crash_are_cleared() -> None:
    stage, expected = filled()
    stage.close()
    for name in ("next.prepared", "checkpoint.tmp", "00000000000000000000.index.tmp"):
        stage.disk.create(DIRECTORY / name)
    stage.open()
    assert not any(name.endswith((".tmp", ".prepared")) for name in stage.disk.list(DIRECTORY))
    assert read_both(stage) == expected


def test_a_full_disk_does_not_keep_a_journal_from_opening() -> None:
    stage, expected = filled()
    stage.crash(Random(0))
    for name in stage.disk.list(DIRECTORY):
        if name.endswith(".index"):
            stage.disk.unlink(DIRECTORY / name)
    stage.disk.capacity_bytes = 0
    recovery = stage.open().recovery
    assert read_both(stage) == expected
    assert any("could not be written" in sentence for sentence in recovery.sentences())


def of_version(version: int, content: bytes) -> bytes:
    """The first chunk as another version of this program might have written it: only what all versions share fits."""
    other = bytearray(content)
    other[8:10] = version.to_bytes(2, "big")
    other[4:8] = crc32c(bytes(other[8 : ENDS[0]])).to_bytes(4, "big")
    return bytes(other)


def in_version_2(content: bytes) -> bytes:
    """The chunks as an earlier version wrote them, without a digest, each where the one before it ends."""
    older, at = b"", 0
    while at < len(content):
        header = chunk.parse_header(content, at, at)
        payload = content[at + header.header_bytes : header.end]
        total_bytes = header.header_bytes - 4 + len(payload)
        fixed = (2, header.entry_count, chunk.FLUSH_UNKNOWN, total_bytes, header.leader_epoch)
        checked = struct.pack(">HHIIiQq", *fixed, len(older), header.append_time_ms) + header.entries
        older += chunk.MAGIC + struct.pack(">I", crc32c(checked)) + checked + payload
        at = header.end
    return older


def test_a_journal_of_the_version_without_digests_is_read_and_continued() -> None:
    stage = Stage(disk=disk_with(in_version_2(CONTENT)))
    assert stage.journal.recovery.repairs == [f"{DIRECTORY / 'checkpoint'} is missing; everything was read."]
    assert stage.journal.position == ENDS[-1] - 4 * len(ENDS)
    assert stage.read_all(1) == RECORDS
    stage.append(1, b"new")
    stage.settle()
    for _ in range(2):
        assert stage.read_all(1) == [*RECORDS, (3, b"new")]
        stage.close()
        assert stage.problems() == []
        stage.open()
        assert stage.journal.recovery.was_clean


@pytest.mark.parametrize("version", [1, chunk.VERSION + 1])
def test_a_chunk_of_another_version_is_neither_guessed_at_nor_cut_off(version: int) -> None:
    disk = disk_with(of_version(version, CONTENT))
    with pytest.raises(UnknownFormat, match=f"^{FIRST}: the chunk at position 0 has format {version}, this version"):
        recover(disk, DIRECTORY, SMALL)
    assert bytes(read_file(disk, FIRST) or b"") == of_version(version, CONTENT)


def test_a_disk_that_fails_is_an_error_and_not_an_empty_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = disk_with(CONTENT)

    def failing(path: Path) -> DiskFile:
        raise StorageError(f"cannot open {path}: Input/output error")

    monkeypatch.setattr(disk, "open", failing)
    with pytest.raises(StorageError):
        recover(disk, DIRECTORY, SMALL)
