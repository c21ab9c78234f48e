"""Each safeguard of the journal switched off must be noticed: a crash test that cannot fail proves nothing."""

from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase
from hypothesis.stateful import run_state_machine_as_test
from tests.fault.journal_history import JournalHistory
from tests.unit.journal import test_recovery as transcripts

from hutong.foundation.errors import CorruptData
from hutong.journal import checkpointer, flusher, recovery, scan, writer
from hutong.journal.checkpoint import encode_checkpoint
from hutong.journal.producers import Producers
from hutong.journal.progress import Progress
from hutong.journal.resync import Behind
from hutong.journal.segments import Segment
from hutong.testing.disk import SimDisk, SimFile
from hutong.wire.kafka.records import BatchHeader

HISTORIES_MAX = 600
Patch = Callable[[pytest.MonkeyPatch], None]


def flushes_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimFile, "flush", lambda _self: None)


def acknowledges_before_the_flush(patch: pytest.MonkeyPatch) -> None:
    sealed = Progress.sealed

    def eager(
        self: Progress, end_position: int, log_ends: list[tuple[object, int]], begun_us: int, sealed_us: int
    ) -> None:
        sealed(self, end_position, log_ends, begun_us, sealed_us)  # type: ignore[arg-type]
        self.committed(end_position)
        self.flushed(end_position, sealed_us, sealed_us)

    patch.setattr(Progress, "sealed", eager)


def goes_on_after_a_failed_flush(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        flusher.Flusher, "fail", lambda self, _error: self._advance(self._writer.position, flusher.FlushTimes(0))
    )


def does_not_flush_directories(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimDisk, "sync_directory", lambda _self, _path: None)


def checkpoints_ahead_of_the_flush(patch: pytest.MonkeyPatch) -> None:
    def write_now(self: checkpointer.Checkpointer, is_clean: bool, then: Callable[[object], None]) -> None:
        position = self._writer.position
        content = encode_checkpoint(self._state(position, is_clean))
        self._submit(position, [(Path("/data/group/checkpoint"), lambda: content)], is_clean, then)

    patch.setattr(checkpointer.Checkpointer, "write", write_now)


def believes_batches_without_their_crc(patch: pytest.MonkeyPatch) -> None:
    def believe(_batch: memoryview, _header: BatchHeader) -> bool:
        return True

    patch.setattr(scan, "is_intact", believe)


def leaves_stale_bytes_behind_the_end(patch: pytest.MonkeyPatch) -> None:
    def believe_the_tail(
        _self: object, segment: Segment, _file: object, position: int, _end: int, _problem: object
    ) -> None:
        segment.allocated_bytes = position - segment.base_position

    patch.setattr(recovery._Recovery, "_cut", believe_the_tail)


def cuts_rot_as_if_it_were_a_torn_tail(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recovery, "look_behind", lambda *_: Behind(None, None))


def trusts_what_it_read_from_memory(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recovery._Recovery, "_write_again", lambda _self, _segments, _start, _end: None)


def forgets_producers_at_a_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Producers, "restore", lambda _self, _producer_id, _state: None)


def repeats_are_appended(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Producers, "admit", lambda *_: None)


def shows_what_is_not_flushed(patch: pytest.MonkeyPatch) -> None:
    note = writer.Writer._note

    def shown(self: writer.Writer, runs: dict[object, object], position: int, at: int, begun_us: int) -> None:
        note(self, runs, position, at, begun_us)  # type: ignore[arg-type]
        for log in runs:
            log.advance_high_watermark(log.sealed_offset)  # type: ignore[attr-defined]

    patch.setattr(writer.Writer, "_note", shown)


@pytest.mark.parametrize(
    "ablate",
    [
        flushes_nothing,
        acknowledges_before_the_flush,
        goes_on_after_a_failed_flush,
        does_not_flush_directories,
        checkpoints_ahead_of_the_flush,
        trusts_what_it_read_from_memory,
        forgets_producers_at_a_start,
        repeats_are_appended,
        shows_what_is_not_flushed,
    ],
)
def test_a_safeguard_switched_off_is_noticed(ablate: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    ablate(monkeypatch)
    settings = hypothesis.settings(
        max_examples=HISTORIES_MAX,
        stateful_step_count=60,
        deadline=None,
        derandomize=True,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    with pytest.raises(Exception):  # noqa: B017  # whatever it is that gives the missing safeguard away
        run_state_machine_as_test(JournalHistory, settings=settings)


@pytest.mark.parametrize(
    ("ablate", "transcript"),
    [
        (
            believes_batches_without_their_crc,
            transcripts.test_a_flipped_bit_in_what_was_in_flight_ends_the_journal_there,
        ),
        (
            cuts_rot_as_if_it_were_a_torn_tail,
            transcripts.test_a_flipped_bit_costs_only_the_last_chunk_and_else_nothing_is_decided,
        ),
        (leaves_stale_bytes_behind_the_end, transcripts.test_sectors_lost_in_the_middle_leave_no_stale_chunk_behind),
    ],
)
def test_a_check_switched_off_is_noticed_by_its_own_test(
    ablate: Patch, transcript: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a crash by chance hits too seldom."""
    transcript()
    ablate(monkeypatch)
    with pytest.raises((AssertionError, CorruptData, pytest.fail.Exception)):
        transcript()
