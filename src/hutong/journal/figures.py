"""The measurements of one journal on the way of a produce, stage by stage.

    append ── turn ──> sealed ── queue ──> a worker begins ── write ── fsync ──> done ── release ──> all resumed
      │                   └─────────────── replicate ───────────────> held
      └──────────────────────────── safe ─────────────────────────────> committed

Strategy: times are taken for a chunk, a flush or a commit, never for a request: everything of one loop iteration
shares the same ones. So a request costs nothing here, and a chunk a few additions.

Knows nothing of how figures are shown.
"""

from hutong.foundation.histograms import Histogram


class JournalFigures:
    """Histograms, times in microseconds, and totals since the journal was opened."""

    __slots__ = (
        "batch_bytes_total",
        "batches_per_chunk",
        "bytes_per_chunk",
        "chunks_per_flush",
        "fsync_us",
        "queue_us",
        "records_total",
        "release_us",
        "replicate_us",
        "safe_us",
        "turn_us",
        "write_us",
    )

    def __init__(self) -> None:
        self.turn_us = Histogram()  # of a chunk: from its first batch's arrival until it is sealed
        self.queue_us = Histogram()  # of a chunk: from there until a worker begins the flush that carries it
        self.write_us = Histogram()  # of a flush: handing the bytes to the system
        self.fsync_us = Histogram()  # of a flush: waiting for the disk to have them
        self.replicate_us = Histogram()  # of a chunk: from its sealing until all in-sync replicas say they hold it
        self.release_us = Histogram()  # of a flush: from the disk's answer until every acknowledgement has been given
        self.safe_us = Histogram()  # of a chunk: from its first batch's arrival until it is committed
        self.bytes_per_chunk = Histogram()
        self.batches_per_chunk = Histogram()
        self.chunks_per_flush = Histogram()
        self.records_total = 0
        self.batch_bytes_total = 0
