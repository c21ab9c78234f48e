"""The journal's safeguards, each with a way to switch it off.

Strategy: a patch replaces one safeguard by what somebody might have written who had not thought of it. Histories that
hypothesis generates, always the same ones, are run until one of them breaks; where a fault must meet a rare state, the
transcript that was written for it is run instead.

python -m tests.fault.ablations    prints for each how many histories it took
"""

import contextlib
import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from tests.fault.ablation_search import Safeguard, histories_until_broken, print_safeguards
from tests.fault.journal_history import JournalHistory
from tests.unit.foundation import test_regions as regions
from tests.unit.journal.files import test_recycled as recycled
from tests.unit.journal.recover import test_past_faults as past_faults
from tests.unit.journal.recover import test_recovery as transcripts

from hutong.foundation.errors import FlushFailed, HutongError
from hutong.foundation.regions import RegionCache
from hutong.journal.append import flusher, writer
from hutong.journal.append.log_appends import Appended, LogAppends
from hutong.journal.append.producers import Producers
from hutong.journal.append.qos import Qos
from hutong.journal.clean.cleaner_output import CLEANING_NAME
from hutong.journal.clean.record_filter import RecordFilter
from hutong.journal.clean.remover import Remover
from hutong.journal.files.disk import replace_file
from hutong.journal.files.segment import Segment
from hutong.journal.files.segments import Segments
from hutong.journal.recover import checkpointer, recovery, scan
from hutong.journal.recover.checkpoint import CHECKPOINT_NAME, encode_checkpoint
from hutong.testing.disks.simulated import SimDisk, SimFile
from hutong.wire.kafka.batch.records import BatchHeader

HISTORIES_MAX: Final = 1_500
STEPS_MAX: Final = 60


# -- acknowledging


def flushes_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimFile, "flush", lambda _self: None)


def acknowledges_before_the_flush(patch: pytest.MonkeyPatch) -> None:
    def eager(self: writer.Writer, end_position: int) -> None:
        self._progress.awaited_position = end_position
        parked, self._waits = self._waits, {}
        for waits in parked.values():
            for then, _ in waits:
                then(None)

    patch.setattr(writer.Writer, "_park_waits", eager)  # checkpoints and searches wait as ever: they seal first


def shows_what_is_not_flushed(patch: pytest.MonkeyPatch) -> None:
    index_runs = writer.Writer._index_runs

    def shown(self: writer.Writer, runs: dict[Any, Any], *where: int) -> None:
        index_runs(self, runs, *where)
        for log in runs:
            log.advance_high_watermark(log.sealed_offset)

    patch.setattr(writer.Writer, "_index_runs", shown)


def acknowledges_repetitions_at_once(patch: pytest.MonkeyPatch) -> None:
    check = LogAppends._check

    def checked(self: LogAppends, batch: memoryview, header: BatchHeader, _qos: Qos) -> Appended | HutongError | None:
        return check(self, batch, header, Qos.RECEIVE)

    patch.setattr(LogAppends, "_check", checked)


def appends_repetitions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Producers, "admit", lambda *_: None)


def forgets_producers_at_a_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Producers, "restore", lambda _self, _producer_id, _state: None)


# -- a disk that fails


def goes_on_after_a_failed_flush(patch: pytest.MonkeyPatch) -> None:
    ended = flusher.Flusher._ended

    def deaf(self: flusher.Flusher, end: int, outcome: object) -> None:
        is_lost = isinstance(outcome, FlushFailed)
        ended(self, end, flusher.FlushTimes(0) if is_lost else outcome)

    patch.setattr(flusher.Flusher, "_ended", deaf)


def tries_a_failed_flush_again(patch: pytest.MonkeyPatch) -> None:
    flush = SimFile.flush

    def stubborn(self: SimFile) -> None:
        with contextlib.suppress(FlushFailed):
            flush(self)
            return
        flush(self)

    patch.setattr(SimFile, "flush", stubborn)


def forgets_what_a_full_disk_did_not_take(patch: pytest.MonkeyPatch) -> None:
    def carefree(self: flusher.Flusher, _error: object) -> None:
        self._advance(self._writer.position, flusher.FlushTimes(0))

    patch.setattr(flusher.Flusher, "_is_short", carefree)


# -- files and names


def does_not_flush_directories(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimDisk, "sync_directory", lambda _self, _path: None)


def checkpoints_ahead_of_the_flush(patch: pytest.MonkeyPatch) -> None:
    def write_now(self: checkpointer.Checkpointer, is_clean: bool, then: Callable[[object], None]) -> None:
        position = self._writer.position
        content = encode_checkpoint(self._state(position, is_clean))
        self._submit(position, [(self._segments.directory / CHECKPOINT_NAME, lambda: content)], is_clean, then)

    patch.setattr(checkpointer.Checkpointer, "write_checkpoint", write_now)


def replaces_files_by_what_is_not_flushed(patch: pytest.MonkeyPatch) -> None:
    def hasty(disk: SimDisk, path: Path, content: bytes) -> None:
        with pytest.MonkeyPatch.context() as unflushed:
            unflushed.setattr(SimFile, "flush", lambda _self: None)
            replace_file(disk, path, content)

    patch.setattr(checkpointer, "replace_file", hasty)


def closes_files_that_are_still_to_be_flushed(patch: pytest.MonkeyPatch) -> None:
    roll = Segments.roll

    def rolled(self: Segments, position: int) -> Segment:
        closed = self.active
        if closed is not None:
            closed.is_complete = True
            self._remember(self._opened, closed)
        return roll(self, position)

    patch.setattr(Segments, "roll", rolled)


def removes_files_before_a_checkpoint_covers_them(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Remover, "_is_in_checkpoint", lambda _self, _segment: True)


def says_nothing_of_what_is_given_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(writer.Writer, "add_statement", lambda *_: None)


# -- memory


def uses_regions_again_that_are_read(patch: pytest.MonkeyPatch) -> None:
    def drop_oldest(self: RegionCache) -> mmap.mmap:
        region = self._regions.popleft()
        self.oldest_position = region.end
        return region.memory

    patch.setattr(RegionCache, "_drop_oldest", drop_oldest)


# -- recovery


def trusts_what_it_read_from_memory(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recovery._Recovery, "_write_again", lambda _self, _segments, _start, _end: None)


def believes_batches_without_their_crc(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scan, "_has_crc", lambda _checked, _crc: True)


def leaves_stale_bytes_behind_the_end(patch: pytest.MonkeyPatch) -> None:
    def believe_the_tail(
        _self: object, segment: Segment, _file: object, position: int, _end: int, _problem: object
    ) -> None:
        segment.allocated_bytes = position - segment.base_position

    patch.setattr(recovery._Recovery, "_cut", believe_the_tail)


def does_not_end_a_flush_with_a_blank_header(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(flusher, "blank_bytes", lambda *_: 0)


def believes_batches_of_another_header(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scan, "_check_digest", lambda *_scanned: None)


# -- cleaning


def publishes_a_cleaned_file_unflushed(patch: pytest.MonkeyPatch) -> None:
    flush = SimFile.flush

    def flushed(self: SimFile) -> None:
        if self._path.name != CLEANING_NAME:
            flush(self)

    patch.setattr(SimFile, "flush", flushed)


def forgets_tombstones_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RecordFilter, "_is_over", lambda _self, _rules, _header: True)


SAFEGUARDS: Final = (
    Safeguard("a position counts as flushed after fdatasync", flushes_nothing),
    Safeguard("an acknowledgement waits for the flush", acknowledges_before_the_flush),
    Safeguard("a record is shown once it is flushed", shows_what_is_not_flushed),
    Safeguard(
        "a repetition waits until its original is flushed",
        acknowledges_repetitions_at_once,
        past_faults.test_a_repeated_batch_on_a_receive_log_is_not_acknowledged_before_its_original_is_on_disk,
    ),
    Safeguard("sequence numbers are checked", appends_repetitions),
    Safeguard("checkpoints keep what producers have sent", forgets_producers_at_a_start),
    Safeguard("a failed flush ends the journal", goes_on_after_a_failed_flush),
    Safeguard("a failed flush is not tried again", tries_a_failed_flush_again),
    Safeguard("what a full disk refused is written later", forgets_what_a_full_disk_did_not_take),
    Safeguard("directories are flushed after names change", does_not_flush_directories),
    Safeguard("a checkpoint speaks only of what is flushed", checkpoints_ahead_of_the_flush),
    Safeguard("a file is flushed before it takes another's name", replaces_files_by_what_is_not_flushed),
    Safeguard(
        "a file stays open until all of it is flushed",
        closes_files_that_are_still_to_be_flushed,
        past_faults.test_a_closed_segment_keeps_its_file_until_all_of_it_is_flushed,
    ),
    Safeguard(
        "a file goes once a checkpoint covers it",
        removes_files_before_a_checkpoint_covers_them,
        past_faults.test_no_file_goes_that_only_a_checkpoint_to_come_would_speak_of,
    ),
    Safeguard("what is given up is said in the journal", says_nothing_of_what_is_given_up),
    Safeguard(
        "a region that is read is not used again",
        uses_regions_again_that_are_read,
        regions.test_a_region_with_a_reader_escapes_and_is_not_written_again,
    ),
    Safeguard("recovery writes again what may have been in flight", trusts_what_it_read_from_memory),
    Safeguard(
        "recovery checks the CRC of each batch",
        believes_batches_without_their_crc,
        transcripts.test_a_flipped_bit_in_what_was_in_flight_ends_the_journal_there,
    ),
    Safeguard(
        "recovery cuts off a torn tail",
        leaves_stale_bytes_behind_the_end,
        transcripts.test_sectors_lost_in_the_middle_leave_no_stale_chunk_behind,
    ),
    Safeguard(
        "a flush into a recycled file ends with a blank header",
        does_not_end_a_flush_with_a_blank_header,
        recycled.test_a_killed_process_leaves_a_journal_without_a_problem,
    ),
    Safeguard(
        "recovery checks the digest of each chunk",
        believes_batches_of_another_header,
        recycled.test_a_torn_write_in_front_of_a_stale_batch_with_the_same_offsets_is_noticed,
    ),
    Safeguard("a cleaned file is flushed before it gets its name", publishes_a_cleaned_file_unflushed),
    Safeguard("tombstones stay for their time", forgets_tombstones_at_once),
)


def histories_until_noticed(safeguard: Safeguard) -> int | None:
    """The number of histories without the safeguard until one breaks; None if `HISTORIES_MAX` do not."""
    noticed_by = (AssertionError, HutongError)  # and nothing else: a patch that does not fit proves nothing
    return histories_until_broken(JournalHistory, safeguard.leave_out, HISTORIES_MAX, STEPS_MAX, noticed_by)


if __name__ == "__main__":
    print_safeguards(SAFEGUARDS, histories_until_noticed)
