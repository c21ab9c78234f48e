"""The file of the next segment, made ready while the active one still has room.

Strategy: creating, reserving and flushing a file would otherwise be part of the first flush into the new segment, for
which producers wait. A recycled file is ready at once. A new one has reserved blocks, and the first write to such a
block changes metadata, so a small flush takes half as long again as one into blocks that were written before, and
several times as long on a busy machine. So where flushes are small, the new file is filled with zeros, as PostgreSQL
fills new files of its WAL: a mebibyte at a time, in gaps between flushes. To a reader zeros are what reserved blocks
are, so it may stop at any piece. Large flushes gain less than the filling costs.

All calls come on the loop; the functions that take a disk or a file run on a worker.
"""

from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from hutong.foundation.errors import LimitExceeded, StorageError, StorageShortage
from hutong.journal.files.disk import Disk, DiskFile
from hutong.journal.files.recycled import RecycledFiles, blank_bytes
from hutong.journal.files.segment import PREPARED_NAME
from hutong.journal.resources import JournalPart, JournalResources
from hutong.journal.settings import JournalSettings

_PREPARE_FROM: Final = 0.5  # of the active segment: from here on the next one's file is made ready
_FILL_PACE: Final = 2.5  # bytes filled for each byte written from there on: done when a tenth is left


class PreparedFile(NamedTuple):
    """A file for the next segment."""

    file: DiskFile
    allocated_bytes: int
    stale_bytes: int  # may hold bytes of a former segment
    written_bytes: int  # whose blocks were written before


class NextFile(JournalPart):
    """Makes the next segment's file ready, and gives it out. Figure: filled_pieces_total."""

    def __init__(self, resources: JournalResources, recycled: RecycledFiles) -> None:
        super().__init__(resources)
        self.filled_pieces_total = 0
        self._recycled = recycled
        self._prepared: PreparedFile | None = None
        self._is_preparing = False  # a worker has the file
        self._flushes = 0  # into the active segment
        self._is_stopped = False

    def take(self) -> tuple[PreparedFile | None, Path | None]:
        """Take out the prepared file, or the path of a recycled one; neither where a worker has the prepared one."""
        prepared, self._prepared = self._prepared, None
        recycled = None
        # Both would go through the same name.
        if prepared is None and not self._is_preparing:
            recycled = self._recycled.take()
        self._recycled.reused_total += recycled is not None or (prepared is not None and prepared.stale_bytes > 0)
        self._flushes = 0
        return prepared, recycled

    def flushed(self, position: int) -> None:
        """Begin to prepare the file once the active segment is half full; `position` is flushed."""
        self._flushes += 1
        active = self._segments.active
        if active is None or self._is_preparing or self._is_stopped:
            return
        used_bytes = position - active.base_position
        since_begin_bytes = used_bytes - _PREPARE_FROM * self._settings.segment_bytes
        # Early enough for the worker, late enough that a quiet journal reserves no second file.
        if since_begin_bytes < 0:
            return
        if self._prepared is None:
            disk, directory, settings = self._disk, self._segments.directory, self._settings
            recycled = self._recycled.take()
            self._is_preparing = True
            self._jobs.submit(lambda: prepare_file(disk, directory, settings, recycled), self._is_prepared)
        elif (
            used_bytes < self._flushes * self._settings.filling_flush_bytes_max
            # In step with the writer: readers and flushes would wait for a burst of pieces.
            and self._prepared.written_bytes < _FILL_PACE * since_begin_bytes
        ):
            self._fill(self._prepared)

    def stop(self) -> None:
        """Begin nothing more."""
        self._is_stopped = True

    def discard(self) -> None:
        """Remove the prepared file: the journal ends."""
        prepared, self._prepared = self._prepared, None
        if prepared is not None:
            prepared.file.close()
            path = self._segments.directory / PREPARED_NAME
            self._jobs.submit(lambda: self._disk.unlink(path), self._is_discarded)

    def _fill(self, prepared: PreparedFile) -> None:
        settings = self._settings
        if prepared.written_bytes >= settings.segment_bytes:
            return
        self._prepared, self._is_preparing = None, True
        try:
            # As a read from the disk it gives way to flushes.
            self._jobs.submit_read(lambda: fill_piece(prepared, settings), self._is_filled)
        except LimitExceeded:  # reads are many: the next flush tries again
            self._prepared, self._is_preparing = prepared, False

    def _is_filled(self, outcome: PreparedFile | BaseException) -> None:
        self.filled_pieces_total += 1
        self._is_prepared(outcome)

    def _is_prepared(self, outcome: PreparedFile | BaseException) -> None:
        self._is_preparing = False
        if isinstance(outcome, StorageError):
            return  # only an advance on later work, which will meet the same fault where it matters
        if isinstance(outcome, BaseException):
            raise outcome
        self._prepared = outcome

    def _is_discarded(self, outcome: BaseException | None) -> None:
        if outcome is not None and not isinstance(outcome, StorageError):  # the next start removes it
            raise outcome


def prepare_file(disk: Disk, directory: Path, settings: JournalSettings, recycled: Path | None = None) -> PreparedFile:
    """A flushed file for a segment whose position is not known yet: `recycled`, or a new one with reserved blocks.

    Blocks. Raises StorageError.
    """
    path = directory / PREPARED_NAME
    if recycled is None:
        file = disk.create(path)
    else:
        try:
            disk.rename(recycled, path)
        except StorageError:
            with suppress(StorageError):
                disk.unlink(recycled)  # nobody would use it any more
            raise
        file = disk.open(path)
    try:
        if recycled is None:
            allocated_bytes, stale_bytes = min(settings.preallocate_bytes, settings.segment_bytes), 0
            file.preallocate(0, allocated_bytes)
        else:
            allocated_bytes = stale_bytes = file.size()
            # A crash between the renaming to a segment and its first flush must leave one that reads as empty.
            file.write([bytes(blank_bytes(0, stale_bytes, settings))], 0)
        file.flush()
    except StorageError:
        file.close()
        raise
    return PreparedFile(file, allocated_bytes, stale_bytes, stale_bytes)


def fill_piece(prepared: PreparedFile, settings: JournalSettings) -> PreparedFile:
    """Fill the next piece of a prepared file with zeros, up to the size of a segment.

    Blocks. Raises StorageError, after which the file is closed; where space is short it is good as it is.
    """
    start = prepared.written_bytes
    end = min(start + settings.filling_piece_bytes, settings.segment_bytes)
    try:
        prepared.file.write([bytes(end - start)], start)
        prepared.file.flush()
    except StorageShortage:
        return prepared._replace(written_bytes=settings.segment_bytes)  # what is left of the disk is for records
    except StorageError:
        prepared.file.close()
        raise
    return prepared._replace(allocated_bytes=max(prepared.allocated_bytes, end), written_bytes=end)
