"""Reading whole chunks of the stream, to send them to another replica.

Strategy: from the cache where it has them, on the loop; else from the file of one segment, on a worker. A read brings
as many chunks as fit, and at least one. Only what is flushed is read from a file: the rest is in the cache for sure.

The chunks are not checked here: who takes them makes every check.
"""

from typing import Final

from hutong.foundation.errors import CorruptData, HutongError, LimitExceeded, StorageError
from hutong.foundation.waiting.pending import Continuation
from hutong.journal.append.progress import Progress
from hutong.journal.files.disk import Disk, DiskFile
from hutong.journal.files.segment import Segment
from hutong.journal.format import chunk
from hutong.journal.resources import JournalPart, JournalResources
from hutong.wire.buffer import Buffer

_HEADER_BYTES: Final = chunk.FIXED.size


class StreamGone(StorageError):
    """The stream has no such bytes any more: their segment was removed, or written again without some of them."""


class StreamReads(JournalPart):
    """The way out of one journal for its chunks."""

    def __init__(self, resources: JournalResources, progress: Progress) -> None:
        super().__init__(resources)
        self._progress = progress

    def cached(self, start: int, bytes_max: int) -> bytes | None:
        """Whole chunks from `start` on, where one begins; None where they have left the cache."""
        end = self._cache.end_position
        if end - start > bytes_max:
            end = self._cached_end(start, bytes_max)
        views = self._cache.view(start, end)
        return b"".join(views) if views is not None else None

    def _cached_end(self, start: int, bytes_max: int) -> int:
        """The end of the last chunk that fits, or of the first chunk; `start` where it is not in the cache."""
        position = start
        # A chunk never spans two regions of the cache, so the first view has its whole header.
        while views := self._cache.view(position, position + _HEADER_BYTES):
            end = position + chunk.chunk_bytes_at(views[0], 0, position)
            if end - start > bytes_max and position > start:
                break
            position = end
        return position

    def read(self, start: int, bytes_max: int, then: Continuation[Buffer]) -> None:
        """Read whole chunks from `start` on from their segment; `then` gets them.

        StreamGone where no file has them, or another StorageError, or LimitExceeded; perhaps at once.
        """
        oldest = self._segments.oldest
        if oldest is None or start < oldest.base_position:
            then(StreamGone(f"position {start} of {self._segments.directory} was removed"))
            return
        segment = self._segments.at(start)
        end = min(self._progress.flushed_position, segment.end_position or self._progress.flushed_position)
        # Cleaning has moved what is left there, so no other replica could follow with its own positions.
        if segment.range_end is not None:
            then(StreamGone(f"position {start} of {self._segments.directory} was cleaned"))
            return
        known_file = segment.file

        def ended(outcome: "_Read | BaseException") -> None:
            if isinstance(outcome, BaseException):
                raise outcome
            self._segments.end_reading(segment, outcome.file, None)
            then(outcome.result)

        self._segments.begin_reading(segment)
        try:
            self._jobs.submit_read(lambda: _Read(self._disk, segment, known_file, start, end, bytes_max), ended)
        except LimitExceeded as error:
            self._segments.end_reading(segment, None, None)
            then(error)


class _Read:
    """One read of a segment, which its constructor does on a worker. `file` is one that it opened."""

    def __init__(
        self, disk: Disk, segment: Segment, known: DiskFile | None, start: int, end: int, bytes_max: int
    ) -> None:
        self.file: DiskFile | None = None
        self.result: Buffer | HutongError
        try:
            if known is None:
                self.file = disk.open(segment.path)
            file = known or self.file
            assert file is not None
            self.result = _whole_chunks(file, segment.base_position, start, end, bytes_max)
        except CorruptData as error:
            self.result = CorruptData(f"{segment.path}: {error}")
        except HutongError as error:
            self.result = error


def _whole_chunks(file: DiskFile, base_position: int, start: int, end: int, bytes_max: int) -> Buffer:
    content = file.read(min(bytes_max, end - start), start - base_position)
    first_bytes = chunk.chunk_bytes_at(content, 0, start) if len(content) >= _HEADER_BYTES else 0
    if not first_bytes or start + first_bytes > end:
        raise CorruptData(f"the chunk at position {start} is cut off")
    # A chunk with one large batch may have more than any bound: it is sent alone.
    if first_bytes > len(content):
        return file.read(first_bytes, start - base_position)
    used = first_bytes
    while used + _HEADER_BYTES <= len(content):
        used_next = used + chunk.chunk_bytes_at(content, used, start + used)
        if used_next > len(content):
            break
        used = used_next
    return memoryview(content)[:used]
