"""Every bound of a journal, by name. Knows nothing of how a node is configured."""

from dataclasses import dataclass
from typing import Final

KIBIBYTE: Final = 1024
MEBIBYTE: Final = 1024 * KIBIBYTE


@dataclass(frozen=True, slots=True)
class JournalSettings:
    """Bounds of one partition group's journal. Sizes in bytes, times in milliseconds."""

    segment_bytes: int = 128 * MEBIBYTE  # a segment is closed before the chunk that would pass this
    preallocate_bytes: int = 16 * MEBIBYTE  # how far ahead of the writer a segment's blocks are reserved
    recycled_bytes_max: int = 0  # of dead files that new segments overwrite; others are removed
    filling_flush_bytes_max: int = 0  # where flushes are smaller on average, the next file is filled with zeros
    filling_piece_bytes: int = 1 * MEBIBYTE  # written with a flush of 1 to 2 ms, for which another flush may wait
    block_bytes: int = 4 * KIBIBYTE  # of the file system, or a page of its cache
    region_bytes: int = 4 * MEBIBYTE  # one region of the cache
    cached_bytes_max: int = 32 * MEBIBYTE  # flushed bytes that stay readable without the disk
    dirty_bytes_max: int = 16 * MEBIBYTE  # unflushed bytes at which the journal is congested; twice that is refused
    noted_batches_max: int = 64  # that nobody waits for, before they become a chunk
    lazy_flush_interval_ms: int = 50  # how long bytes that nobody waits for may stay unflushed
    lazy_flush_bytes: int = 4 * MEBIBYTE  # and how many
    chunk_bytes_max: int = 1 * MEBIBYTE  # a loop iteration with more seals early; a larger batch has its own chunk
    batch_bytes_max: int = 32 * MEBIBYTE  # and never more than a segment
    acknowledgements_max: int = 1_000_000  # parked at a time
    checkpoint_interval_ms: int = 60_000
    checkpoint_interval_bytes: int = 128 * MEBIBYTE  # a recovery scans at most this, and one flush
    checkpoint_interval_runs: int = 100_000  # the same bound in runs, a log's share of a chunk: about a second of work
    index_interval_bytes: int = 32 * KIBIBYTE  # of one partition's data between two entries of its index
    index_distance_bytes: int = 1 * MEBIBYTE  # of the journal covered by one entry
    indexes_loaded_max: int = 8  # indexes of closed segments kept in memory
    segments_open_max: int = 64  # files of closed segments kept open
    read_ahead_bytes: int = 256 * KIBIBYTE
    read_runs_max: int = 512  # views of one read
    producers_max: int = 10_000  # idempotent producers remembered for one log
    producer_expiry_ms: int = 86_400_000  # producer.id.expiration.ms of Kafka
    shortage_retry_ms: int = 1_000  # of space, open files or memory
    clean_keys_max: int = 500_000  # in one pass of cleaning; more are left to further passes
    clean_batch_bytes_max: int = 128 * MEBIBYTE  # what a batch may unpack to, to be cleaned
    clean_bytes_per_second_max: int = 0  # read and written by cleaning; 0 is without bound
