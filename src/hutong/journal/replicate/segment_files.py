"""The files of a journal for another replica, which lacks more than the stream has.

Strategy: the last checkpoint, the segments before its position, and the clean offsets: that is what a start needs. The
list is made in one moment on the loop, for cleaning moves what the segments and the clean offsets say together. The
small files are held as they were then. Segments are read part by part. One that is removed or cleaned meanwhile is
gone, and another list names its successor.

Knows nothing of who asks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hutong.foundation.errors import CorruptData, HutongError, LimitExceeded, StorageShortage
from hutong.foundation.waiting.pending import Continuation
from hutong.journal.files.disk import Disk, DiskFile, read_file
from hutong.journal.files.segment import Segment
from hutong.journal.format.clean_offsets import CLEAN_OFFSETS_NAME, encode_clean_offsets
from hutong.journal.log import PartitionLog
from hutong.journal.recover.checkpoint import CHECKPOINT_NAME, parse_checkpoint
from hutong.journal.recover.checkpointer import Checkpointer
from hutong.journal.replicate.stream_reads import StreamGone
from hutong.journal.resources import JournalPart, JournalResources
from hutong.wire.buffer import Buffer


@dataclass(frozen=True, slots=True)
class FileListing:
    """All files that hold the stream before a position, by name with their sizes; `contents` has the small ones."""

    position: int
    sizes: Mapping[str, int]
    contents: Mapping[str, Buffer]


class SegmentFiles(JournalPart):
    """The way out of one journal for its files."""

    def __init__(
        self, resources: JournalResources, logs: Mapping[int, PartitionLog], checkpointer: Checkpointer
    ) -> None:
        super().__init__(resources)
        self._logs = logs
        self._checkpointer = checkpointer

    def list_files(self, then: Continuation[FileListing]) -> None:
        """List the files; `then` gets StorageShortage where that works a little later, or another error."""

        def ended(outcome: "tuple[int, Buffer] | BaseException") -> None:
            if isinstance(outcome, tuple):
                then(self._listing(*outcome))
            elif isinstance(outcome, HutongError):
                then(outcome)
            else:
                raise outcome

        self._checkpointer.begin_checkpoint()  # for the next list: the shorter is the tail behind it
        try:
            self._jobs.submit_read(lambda: _checkpoint(self._disk, self._segments.directory), ended)
        except LimitExceeded as error:
            then(error)

    def _listing(self, position: int, checkpoint: Buffer) -> FileListing | StorageShortage:
        segments = [segment for segment in self._segments.all() if segment.base_position <= position]
        if not segments or any((segment.range_end or 0) > position for segment in segments):
            return StorageShortage("segments were removed or cleaned since the last checkpoint was read")
        # As they are now in memory: the file may be older than the segments, and readers would see aborted records.
        offsets = {number: log.clean_offset for number, log in self._logs.items() if log.clean_offset}
        contents: dict[str, Buffer] = {CHECKPOINT_NAME: checkpoint, CLEAN_OFFSETS_NAME: encode_clean_offsets(offsets)}
        sizes = {name: len(content) for name, content in contents.items()}
        sizes.update({segment.path.name: _size_before(segment, position) for segment in segments})
        return FileListing(position, sizes, contents)

    def read_part(
        self, listing: FileListing, name: str, start: int, bytes_max: int, then: Continuation[Buffer]
    ) -> None:
        """Read a part of a listed file; `then` gets it, StreamGone, or another error, perhaps at once."""
        content = listing.contents.get(name)
        if content is not None:
            then(content[start : start + bytes_max])
            return
        count = min(bytes_max, listing.sizes.get(name, 0) - start)
        segment = next((each for each in self._segments.all() if each.path.name == name), None)
        if segment is None or count <= 0:
            then(StreamGone(f"{self._segments.directory} has no file {name} of more than {start} bytes"))
            return
        known_file = segment.file

        def ended(outcome: "_PartRead | BaseException") -> None:
            if isinstance(outcome, BaseException):
                raise outcome
            self._segments.end_reading(segment, outcome.file, None)
            then(outcome.result)

        self._segments.begin_reading(segment)
        try:
            self._jobs.submit_read(lambda: _PartRead(self._disk, segment, known_file, start, count), ended)
        except LimitExceeded as error:
            self._segments.end_reading(segment, None, None)
            then(error)


class _PartRead:
    """One read, which its constructor does on a worker. `file` is one that it opened."""

    def __init__(self, disk: Disk, segment: Segment, known: DiskFile | None, start: int, count: int) -> None:
        self.file: DiskFile | None = None
        self.result: Buffer | HutongError
        try:
            if known is None:
                self.file = disk.open(segment.path)
            file = known or self.file
            assert file is not None
            self.result = file.read(count, start)
            if len(self.result) < count:
                self.result = CorruptData(f"{segment.path} is shorter than it was")
        except HutongError as error:
            self.result = error


def _checkpoint(disk: Disk, directory: Path) -> tuple[int, Buffer]:
    """The position and the content of the checkpoint on disk. Blocks. Raises StorageError."""
    content = read_file(disk, directory / CHECKPOINT_NAME)
    if content is None:
        raise StorageShortage(f"{directory} has no checkpoint yet")
    return parse_checkpoint(content).position, content


def _size_before(segment: Segment, position: int) -> int:
    """The bytes of its file that hold the stream before a position. A cleaned segment is before it as a whole."""
    end = position if segment.end_position is None else segment.end_position
    return (end if segment.range_end is not None else min(end, position)) - segment.base_position
