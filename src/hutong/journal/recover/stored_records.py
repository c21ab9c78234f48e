"""Stored batches whose records are not those that their header promises, for `hutong doctor`.

Strategy: such batches are intact: their CRC covers what a client sent, and older versions of this node checked no more.
Readers hang or fail on them. So each batch is unpacked within a bound and walked once, as a produce request is, run by
run: at most one run and one unpacked batch are in memory. Findings are bounded, and the rest is counted.

A cleaned segment may have gaps between offsets, and batches without records. There offsets must rise; elsewhere they
must follow each other.

Blocks; for command-line tools.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

from hutong.foundation.errors import LimitExceeded, ProtocolError, UsageError
from hutong.journal.files.segment import parse_segment_name
from hutong.journal.format import chunk
from hutong.journal.recover.inspect import JournalProblem, Lost, Remedy
from hutong.wire.kafka.batch.record_contents import examine_batch, unpack_in_place
from hutong.wire.kafka.batch.record_walk import examine_sparse
from hutong.wire.kafka.batch.records import HEADER_BYTES, MAGIC, iterate_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hutong.journal.recover.inspect import Inspector, SegmentFile
    from hutong.journal.recover.scan import ScannedChunk
    from hutong.wire.buffer import Buffer
    from hutong.wire.kafka.batch.records import BatchHeader

FINDINGS_MAX: Final = 100
"""Of one journal: more are counted, not listed."""


def find_false_batches(inspector: Inspector) -> list[JournalProblem]:
    """Examine the records of every sound chunk. Raises StorageError."""
    findings: list[JournalProblem] = []
    more = 0
    for segment, part in inspector.contents():
        if isinstance(part, JournalProblem):
            continue
        for problem in _examine_chunk(inspector, segment, part):
            if len(findings) < FINDINGS_MAX:
                findings.append(problem)
            else:
                more += 1
    if more:
        sentence = f"{more} more batches do not hold what their headers say"
        findings.append(JournalProblem(inspector.directory, None, sentence, Remedy.READ_PAST))
    return findings


def _examine_chunk(inspector: Inspector, segment: SegmentFile, scanned: ScannedChunk) -> Iterator[JournalProblem]:
    name = parse_segment_name(segment.path.name)
    is_cleaned = name is not None and name.range_end is not None
    with closing(inspector.disk.open(segment.path)) as file:
        for run, _, _ in scanned.runs:
            if run.kind != chunk.BATCHES:  # a statement, or a run that was given up
                continue
            content = file.read(run.bytes, run.position - segment.base_position)
            position = run.position
            for header, batch in iterate_batches(memoryview(content)):
                sentence = _fault_of(header, batch, is_cleaned, inspector.settings.clean_batch_bytes_max)
                if sentence is not None:
                    offsets = [Lost(run.partition_id, header.base_offset, header.last_offset + 1)]
                    yield JournalProblem(segment.path, position, sentence, Remedy.READ_PAST, lost=offsets)
                position += header.size


def _fault_of(header: BatchHeader, batch: Buffer, is_cleaned: bool, bytes_max: int) -> str | None:
    """A sentence on the batch at fault; None for a sound one."""
    if header.magic != MAGIC:
        return f"the batch has format {header.magic}, which no reader of this version knows"
    try:
        if is_cleaned:
            _examine_cleaned(header, batch, bytes_max)
            return None
        contents = examine_batch(header, batch, bytes_max)
    except ProtocolError as error:
        return f"the records of the batch are not those that its header says: {error}"
    except LimitExceeded:
        return f"the records of the batch unpack to more than {bytes_max} bytes"
    except UsageError as error:  # the codec is not installed: nothing is known of the batch
        return str(error).rstrip(".")
    promised = header.last_offset - header.base_offset + 1
    if promised != header.record_count:
        return f"the batch takes {promised} offsets and has {header.record_count} records"
    if not header.is_log_append_time and contents.greatest_timestamp_ms != header.max_timestamp_ms:
        found_ms = contents.greatest_timestamp_ms
        return f"the greatest timestamp of the batch is {found_ms}, its header says {header.max_timestamp_ms}"
    return None


def _examine_cleaned(header: BatchHeader, batch: Buffer, bytes_max: int) -> None:
    """Check a batch of which cleaning has taken records. Raises as `examine_batch`."""
    if not header.record_count:  # no codec unpacks nothing
        if len(batch) > HEADER_BYTES:
            raise ProtocolError(f"{len(batch) - HEADER_BYTES} bytes follow the last record")
        return
    data, start = unpack_in_place(header, batch, bytes_max)
    last_delta = header.last_offset - header.base_offset
    examine_sparse(data, start, header.record_count, header.base_timestamp_ms, last_delta)
