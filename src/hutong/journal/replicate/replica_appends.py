"""Taking the leader's chunks into this journal, at the positions that they have there.

Strategy: every check that recovery makes, before anything of a chunk counts. Then the chunk is appended as it is, and
the logs learn from it what the leader's learned: offsets, producers, transactions, starts and deletions. So a replica
that becomes the leader has nothing to load.

What was taken before changes nothing. Decides nothing about epochs: the caller knows who leads.
"""

from collections.abc import Callable, Mapping

from hutong.foundation.errors import CorruptData
from hutong.journal.append.leader_epochs import LeaderEpochs, epoch_node
from hutong.journal.append.learning import learn_batch
from hutong.journal.append.writer import Writer
from hutong.journal.format import chunk
from hutong.journal.log import PartitionLog
from hutong.journal.recover.scan import ScannedChunk, scan_chunks
from hutong.wire.buffer import Buffer


class ReplicaAppends:
    """The way into one journal for chunks that another replica has made."""

    def __init__(
        self,
        writer: Writer,
        epochs: LeaderEpochs,
        logs: Mapping[int, PartitionLog],
        log_of: Callable[[int], PartitionLog],
        forget: Callable[[PartitionLog], None],
    ) -> None:
        """`log_of` makes a log where there is none; `forget` drops one that is deleted."""
        self._writer = writer
        self._epochs = epochs
        self._logs = logs
        self._log_of = log_of
        self._forget = forget

    def append(self, position: int, content: Buffer) -> None:
        """Append the whole chunks of `content`, the first of which begins at `position`.

        Those that are here already are passed over. Raises CorruptData for a chunk that is not sound, or that does not
        follow; the ones before it are taken. Raises the journal's own error while it takes nothing.
        """
        writer = self._writer
        end = position + len(content)
        begin = max(position, writer.position)
        if position > writer.position:
            raise CorruptData(f"chunks from position {position} on do not follow position {writer.position}")
        for scanned in scan_chunks(_ShippedChunks(position, memoryview(content)), begin, end):
            refusal = writer.replica_refusal
            if refusal is not None:
                raise refusal
            self._take(scanned, content[scanned.header.position - position : scanned.header.end - position])
        if writer.position < end:
            raise CorruptData(f"no chunk begins at position {writer.position} of the leader's stream")

    def _take(self, scanned: ScannedChunk, whole: Buffer) -> None:
        header, runs = scanned
        if header.leader_epoch < self._writer.leader_epoch:
            raise CorruptData(f"the chunk at position {header.position} goes back to epoch {header.leader_epoch}")
        for run, _, _ in runs:
            known = self._logs.get(run.partition_id)
            if run.kind == chunk.BATCHES and known is not None and run.base_offset < known.end_offset:
                raise CorruptData(f"partition {run.partition_id} goes back to offset {run.base_offset}")
        for run, _, _ in runs:
            self._obey(run)
        logs = {run.partition_id: self._log_of(run.partition_id) for run, _, _ in runs if run.kind == chunk.BATCHES}
        for run, batches, markers in runs:
            if run.kind == chunk.BATCHES:
                log = logs[run.partition_id]
                log.end_offset = run.end_offset
                for batch in batches:
                    if batch.producer_id >= 0:
                        learn_batch(log, batch, markers.get(batch.base_offset), header.append_time_ms)
        # Only the first chunk of an epoch counts.
        if header.leader_epoch > self._epochs.last:
            self._epochs.note(header.leader_epoch, header.position, epoch_node(header))
        self._writer.take_chunk(header, whole, logs)

    def _obey(self, run: chunk.LogRun) -> None:
        """Do what a statement says; in a chunk they come before its batches."""
        if run.kind == chunk.DELETED:
            deleted = self._logs.get(run.partition_id)
            if deleted is not None:
                self._forget(deleted)
        elif run.kind == chunk.START_MOVED:
            self._log_of(run.partition_id).begin_at(run.base_offset)
        elif run.kind == chunk.LOST and run.offset_count:
            log = self._log_of(run.partition_id)
            log.end_offset = max(log.end_offset, run.end_offset)


class _ShippedChunks:
    """The content of a message, for the scan."""

    def __init__(self, position: int, content: memoryview) -> None:
        self._position = position
        self._content = content

    def view(self, position: int, size: int) -> memoryview:
        at = position - self._position
        return self._content[at : at + size]

    def count_used(self, size: int) -> None:
        """Nothing is read ahead in memory."""
