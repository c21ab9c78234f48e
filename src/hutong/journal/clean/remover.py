"""Removes segments from which nothing is kept any more, and gives their space back.

Strategy: two steps. On the loop the oldest segment is taken out as soon as no log keeps anything of it; cleaning takes
out the segments that it has replaced. Their files are removed later: once nobody reads them, once all statements so
far are on disk, and once the last checkpoint covers them. So a start always finds the end of each log and the state of
its producers. Some files are not removed but renamed, for new segments to overwrite (`recycled`), unless the disk is
nearly full.

A check is cheap: it begins with the log that kept the oldest segment the last time.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from hutong.foundation.errors import DiskFull, HutongError, StorageError, StorageShortage
from hutong.journal.append.progress import Progress
from hutong.journal.append.writer import Writer
from hutong.journal.clean.cleaner import Cleaner, WhenFlushed
from hutong.journal.clean.retention import is_alive
from hutong.journal.files.disk import Disk
from hutong.journal.files.recycled import RecycledFiles, is_worth_recycling, recycled_path
from hutong.journal.files.segment import Segment
from hutong.journal.format import chunk
from hutong.journal.log import PartitionLog
from hutong.journal.recover.checkpointer import Checkpointer
from hutong.journal.resources import JournalPart, JournalResources

_FREE_FACTOR: Final = 4  # files are recycled only while four times their bound is free


class Remover(JournalPart):
    """Takes dead segments out of one journal."""

    def __init__(
        self,
        resources: JournalResources,
        logs: Mapping[int, PartitionLog],
        progress: Progress,
        writer: Writer,
        checkpointer: Checkpointer,
        cleaner: Cleaner,
        when_flushed: WhenFlushed,
        recycled: RecycledFiles,
    ) -> None:
        super().__init__(resources)
        self._recycled = recycled
        self._is_disk_full = False
        self._logs = logs
        self._progress = progress
        self._writer = writer
        self._checkpointer = checkpointer
        self._cleaner = cleaner
        self._when_flushed = when_flushed
        self._may_have_dead = False
        self._trimmed_position: int | None = None  # of several replicas, all must know of the trim by then
        self._holder: PartitionLog | None = None  # a log that kept something of the oldest segment so far
        self._unused: list[Segment] = []  # whose files are to be removed
        self._is_taking_out = False  # the statements that must precede their removal are not made yet
        self._is_stopped = False

    def check_with_next_flush(self) -> None:
        """Check for dead segments with the next flush: a log gave up data."""
        self._may_have_dead = True
        self._trimmed_position = None

    def flushed(self) -> None:
        """Take out dead segments: the flushed position advanced."""
        if self._is_stopped:
            return
        if self._unused:
            self._remove_files()  # the disk may have been full
        if self._may_have_dead and self._is_trim_certain():
            self._take_out_dead()

    def stop(self) -> None:
        """Remove nothing more: the next start finds what is dead."""
        self._is_stopped = True

    def shortage_changed(self, shortage: StorageShortage | None) -> None:
        """Give the space of recycled files back while the disk is full."""
        self._is_disk_full = isinstance(shortage, DiskFull)
        if self._is_disk_full:
            self.remove_recycled()

    def remove_recycled(self) -> None:
        """Remove the files that wait for new segments."""
        self._remove(self._recycled.take_all())

    def _remove(self, paths: Sequence[Path]) -> None:
        if paths:
            self._jobs.submit(lambda: _remove(self._disk, paths), _is_removed)

    def check_space(self) -> None:
        """Remove recycled files if others have filled the disk meanwhile."""
        paths = self._recycled.take_all()
        if paths:
            self._jobs.submit(lambda: self._with_space(paths), self._recycle)

    def _with_space(self, paths: list[Path]) -> list[Path]:
        """The files that may stay, on a worker; the others are removed."""
        if self._has_space():
            return paths
        _remove(self._disk, paths)
        return []

    def _recycle(self, outcome: list[Path] | BaseException) -> None:
        """Take in files that a worker has left for new segments."""
        if isinstance(outcome, BaseException):
            raise outcome
        # The disk may have run full meanwhile.
        self._remove(outcome if self._is_disk_full else self._recycled.add(outcome))

    def _is_trim_certain(self) -> bool:
        """True unless another leader may never hear of the statement by which a log gave up data.

        On a full disk it cannot be stored before there is room.
        """
        if not self._progress.is_replicated or self._is_disk_full:
            return True
        if self._trimmed_position is None:
            self._writer.seal_chunk()
            self._trimmed_position = self._writer.position
        return self._progress.committed_position >= self._trimmed_position

    def _take_out_dead(self) -> None:
        """Oldest first, and never the active one or one that is not flushed."""
        self._may_have_dead = False
        self._is_taking_out = True
        is_any_out = must_state = False
        while (oldest := self._segments.oldest) is not None and oldest is not self._segments.active:
            if self._is_kept(oldest):
                break
            if self._is_last(oldest):
                self._may_have_dead = True  # it goes when something behind it is flushed
                # A quiet journal would keep it for ever. A replica that follows waits for what its leader says.
                must_state = self._writer.position == oldest.next_position
                break
            if self._cleaner.holds(oldest):
                break  # checked again when that has ended
            # A replica that lacks it copies the checkpoint, which must not need what is gone.
            if self._progress.is_replicated and not self._is_disk_full and not self._is_in_checkpoint(oldest):
                self._may_have_dead = True
                break
            self._segments.drop_oldest()
            is_any_out = True
            for log in self._logs.values():
                log.spans.drop_before(oldest.base_position + 1)
        self._is_taking_out = False
        if is_any_out or must_state:
            self._state_ends()
        if is_any_out:
            self._remove_files()

    def _state_ends(self) -> None:
        """State the end of each log without data: nothing else in the stream would name it."""
        if self._writer.is_following:  # only the leader says anything; a checkpoint holds the ends here
            return
        self._writer.seal_chunk()  # so that a log without data has nothing left to come
        for log in self._logs.values():
            is_empty = log.start_offset == log.end_offset or log.oldest_span() is None
            if is_empty and log.end_offset:
                self._writer.add_statement(chunk.START_MOVED, log.partition_id, log.end_offset)

    def _is_kept(self, oldest: Segment) -> bool:
        """True if a log keeps something of the oldest segment."""
        if self._holder is not None and not self._holder.is_deleted and is_alive(self._holder, oldest.base_position):
            return True
        holders = (log for log in self._logs.values() if is_alive(log, oldest.base_position))
        self._holder = next(holders, None)
        return self._holder is not None

    def cleaning_ended(self) -> None:
        self.check_with_next_flush()
        self.flushed()

    def segment_unused(self, segment: Segment) -> None:
        self._unused.append(segment)
        if not self._is_taking_out:
            self._remove_files()

    def _remove_files(self) -> None:
        """Remove the files that the last checkpoint covers, after a flush.

        On a full disk the flush fails and removal goes on, to make room: the checkpoint holds the logs' ends. Their new
        starts are stated once there is space. After a crash before that, a log starts at the first batch that is left
        in a file, so records that were deleted may be there again. A journal that has failed removes nothing.
        """
        if self._is_stopped:
            return
        unused, self._unused = self._unused, []

        def stated(error: HutongError | None) -> None:
            if error is not None and not isinstance(error, StorageShortage):
                self._unused += unused
                return
            removed = [each for each in unused if self._is_in_checkpoint(each)]
            self._unused += [segment for segment in unused if segment not in removed]
            if removed:
                room = 0 if self._is_disk_full else self._recycled.room
                self._jobs.submit(
                    lambda: self._release(removed, room), lambda outcome: self._released(removed, outcome)
                )

        self._when_flushed(stated)

    def _is_in_checkpoint(self, segment: Segment) -> bool:
        return segment.next_position is not None and segment.next_position <= self._checkpointer.last_position

    def _is_last(self, segment: Segment) -> bool:
        """Return True for the file that proves to the next start that the journal reaches its checkpoint.

        After a roll the next file has no name on the disk until something in it is flushed. Replicas that lack
        everything copy it, too.
        """
        assert segment.next_position is not None
        return segment.next_position >= self._progress.flushed_position

    def _release(self, segments: list[Segment], room: int) -> list[Path]:
        """Rename the files of up to `room` segments and remove all others, on a worker. Returns the renamed ones."""
        recycled: list[Path] = []
        room = room if self._has_space() else 0
        try:
            for segment in segments:
                if len(recycled) < room and is_worth_recycling(segment, self._settings):
                    recycled += self._rename(segment)
                self._disk.unlink(segment.path)
                self._disk.unlink(segment.index_path)
            # Before anything is written to the renamed: a crash must not give them back the names of segments.
            self._disk.sync_directory(self._segments.directory)
        except StorageError:
            _remove(self._disk, recycled)
            raise
        return recycled

    def _rename(self, segment: Segment) -> list[Path]:
        path = recycled_path(segment)
        # Also after a shortage in an earlier attempt, which may have got as far as this.
        with suppress(StorageError):
            # A journal that was split off has the same file, and would read what is written into it.
            if self._disk.has_other_names(segment.path):
                return []
            self._disk.rename(segment.path, path)
            return [path]
        return []

    def _has_space(self) -> bool:
        """True if the disk is far from full. Blocks."""
        wanted_bytes = _FREE_FACTOR * self._settings.recycled_bytes_max
        with suppress(StorageError):
            return wanted_bytes > 0 and self._disk.free_bytes(self._segments.directory) >= wanted_bytes
        return False

    def _released(self, removed: list[Segment], outcome: list[Path] | BaseException) -> None:
        if isinstance(outcome, list):
            self._recycle(outcome)
        elif isinstance(outcome, StorageShortage):
            self._unused += removed  # tried again with the next flush: a name that is gone already is fine
        elif isinstance(outcome, StorageError):
            self._events.removal_failed(outcome)
        else:
            raise outcome


def _remove(disk: Disk, paths: Sequence[Path]) -> None:
    """Remove recycled files. Blocks. What cannot be removed the next start removes."""
    for path in paths:
        with suppress(StorageError):
            disk.unlink(path)


def _is_removed(outcome: BaseException | None) -> None:
    if outcome is not None:
        raise outcome
