"""A closed segment's index: from its file, or from the segment itself where that file is missing or damaged.

Runs on workers. Knows nothing of the running journal.
"""

from contextlib import suppress

from hutong.foundation.errors import CorruptData
from hutong.journal.files.disk import Disk, DiskFile, read_file
from hutong.journal.files.segment import Segment
from hutong.journal.format import chunk
from hutong.journal.format.index import SegmentIndex, parse_index
from hutong.journal.read.walk import SegmentWindow
from hutong.journal.settings import JournalSettings


def index_chunk(index: SegmentIndex, header: chunk.Chunk) -> None:
    """Note every partition's run of one chunk."""
    for run in header.runs():
        if run.kind == chunk.BATCHES:
            extents = index.of(run.partition_id)
            extents.add(run.base_offset, run.end_offset, header.position, run.bytes, run.max_timestamp_ms)


def rebuild_index(file: DiskFile, base_position: int, end_position: int, settings: JournalSettings) -> SegmentIndex:
    """Index a segment by its chunk headers up to `end_position`. Blocks. Raises CorruptData, StorageError."""
    index = SegmentIndex(base_position, settings.index_interval_bytes, settings.index_distance_bytes)
    window = SegmentWindow(file, base_position, end_position, settings.read_ahead_bytes, is_cached_only=False)
    position = base_position
    while position < end_position:
        header = window.chunk_at(position)
        index_chunk(index, header)
        window.count_used(header.header_bytes)
        position = header.end
    return index


def load_or_rebuild_index(
    disk: Disk, file: DiskFile, segment: Segment, disk_end: int, settings: JournalSettings
) -> SegmentIndex:
    """The index of a segment up to its end. Blocks. Raises CorruptData if the segment is damaged, StorageError."""
    end_position = disk_end if segment.end_position is None else segment.end_position
    with suppress(CorruptData):
        index = load_index(disk, segment, end_position, settings)
        if index is not None:
            return index
    return rebuild_index(file, segment.base_position, end_position, settings)


def load_index(disk: Disk, segment: Segment, end_position: int, settings: JournalSettings) -> SegmentIndex | None:
    """The index file, None if it is missing or covers another part. Blocks. Raises CorruptData, StorageError."""
    content = read_file(disk, segment.index_path)
    if content is None:
        return None
    covered, index = parse_index(content, settings.index_interval_bytes, settings.index_distance_bytes)
    # An index on disk may be of another moment: a crash can come between its writing and the checkpoint's.
    return index if covered == end_position and index.base_position == segment.base_position else None
