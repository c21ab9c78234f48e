"""The journals: stages of a produce, flushes, acknowledgements, cache, checkpoints, cleaning; by partition group.

Knows nothing of requests.
"""

from collections.abc import Callable
from typing import Final

from hutong.foundation.regions import RegionCache
from hutong.server.monitoring.exposition import Scale, Spread
from hutong.server.monitoring.metric import (
    COUNTER,
    GAUGE,
    HISTOGRAM,
    SECONDS,
    Labelled,
    Read,
    each,
    each_spread,
    metric,
)
from hutong.server.monitoring.sources import Sources

_CHUNK_BYTES: Final = Scale(7, 22)
_COUNT: Final = Scale(0, 12)


def _stages(sources: Sources) -> Labelled:
    for group, journal in sources.journals.items():
        figures = journal.figures
        stages = {
            "turn": figures.turn_us,
            "queue": figures.queue_us,
            "write": figures.write_us,
            "fsync": figures.fsync_us,
            "replicate": figures.replicate_us,
            "release": figures.release_us,
            "safe": figures.safe_us,
        }
        for stage, histogram in stages.items():
            if histogram.count:
                yield (group, stage), Spread(histogram, SECONDS)


def _acknowledgements(sources: Sources) -> Labelled:
    for group, journal in sources.journals.items():
        for qos, waits in journal.progress.tables.items():
            level = qos.name.lower()
            yield (group, level, "given"), waits.resumed_total
            yield (group, level, "expired"), waits.expired_total
            yield (group, level, "failed"), waits.failed_total


def _parked(sources: Sources) -> Labelled:
    for group, journal in sources.journals.items():
        for qos, waits in journal.progress.tables.items():
            yield (group, qos.name.lower()), len(waits)


def _each_cache(read: Callable[[RegionCache], int]) -> Read:
    return each(lambda journal: read(journal.cache))


METRICS: Final = (
    metric(
        "hutong_produce_stage_seconds",
        HISTOGRAM,
        "Time on each stage of a produce: turn, queue, replicate, safe per chunk; write, fsync, release per flush.",
        _stages,
        "group",
        "stage",
    ),
    metric(
        "hutong_chunk_bytes",
        HISTOGRAM,
        "Size of a chunk: the records of one loop iteration.",
        each_spread(lambda journal: journal.figures.bytes_per_chunk, _CHUNK_BYTES),
        "group",
    ),
    metric(
        "hutong_chunk_batches",
        HISTOGRAM,
        "Record batches in a chunk.",
        each_spread(lambda journal: journal.figures.batches_per_chunk, _COUNT),
        "group",
    ),
    metric(
        "hutong_flush_chunks",
        HISTOGRAM,
        "Chunks that one flush carried.",
        each_spread(lambda journal: journal.figures.chunks_per_flush, _COUNT),
        "group",
    ),
    metric(
        "hutong_flushes_total",
        COUNTER,
        "Flushes that succeeded.",
        each(lambda journal: journal.flusher.flushes_total),
        "group",
    ),
    metric(
        "hutong_flushed_bytes_total",
        COUNTER,
        "Bytes that they wrote.",
        each(lambda journal: journal.flusher.flushed_bytes_total),
        "group",
    ),
    metric(
        "hutong_unreleased_bytes",
        GAUGE,
        "Bytes in memory that the disk, or a replica, does not have.",
        each(lambda journal: journal.writer.dirty_bytes),
        "group",
    ),
    metric(
        "hutong_group_congested",
        GAUGE,
        "1 while too much is unreleased, and producers are made to wait.",
        each(lambda journal: journal.is_congested),
        "group",
    ),
    metric(
        "hutong_group_disk_full",
        GAUGE,
        "1 while the group refuses records because no space is left.",
        each(lambda journal: journal.is_disk_full),
        "group",
    ),
    metric(
        "hutong_group_short_of_files",
        GAUGE,
        "1 while the group refuses records because the process or the machine is out of open files or memory.",
        each(lambda journal: journal.shortage is not None and not journal.is_disk_full),
        "group",
    ),
    metric(
        "hutong_group_failed",
        GAUGE,
        "1 once a flush has failed: the group refuses records until the node is started again.",
        each(lambda journal: journal.failure is not None),
        "group",
    ),
    metric(
        "hutong_acknowledgements_parked",
        GAUGE,
        "Acknowledgements that wait for the disk or for replicas.",
        _parked,
        "group",
        "qos",
    ),
    metric(
        "hutong_acknowledgements_total",
        COUNTER,
        "What became of those that had to wait: given, expired or failed. Those of one request may count as one.",
        _acknowledgements,
        "group",
        "qos",
        "outcome",
    ),
    metric(
        "hutong_regions_live",
        GAUGE,
        "Regions of the journal cache.",
        _each_cache(lambda cache: cache.regions_live),
        "group",
    ),
    metric(
        "hutong_region_hot_bytes",
        GAUGE,
        "Newest bytes that readers find in memory.",
        _each_cache(lambda cache: cache.cached_bytes),
        "group",
    ),
    metric(
        "hutong_region_escaped_bytes",
        GAUGE,
        "Bytes of regions that were dropped and that a reader still holds.",
        _each_cache(lambda cache: cache.escaped_bytes),
        "group",
    ),
    metric(
        "hutong_region_escapes_total",
        COUNTER,
        "Regions that a reader still held when they were dropped.",
        _each_cache(lambda cache: cache.escapes_total),
        "group",
    ),
    metric(
        "hutong_region_copied_views_total",
        COUNTER,
        "Views that were copied because readers held too many regions.",
        _each_cache(lambda cache: cache.copied_views_total),
        "group",
    ),
    metric(
        "hutong_checkpoints_total",
        COUNTER,
        "Checkpoints written: what a start after a crash need not scan.",
        each(lambda journal: journal.checkpointer.checkpoints_total),
        "group",
    ),
    metric(
        "hutong_recycled_files",
        GAUGE,
        "Dead journal files that wait for new segments.",
        each(lambda journal: len(journal.recycled)),
        "group",
    ),
    metric(
        "hutong_recycled_segments_total",
        COUNTER,
        "Segments that were begun in such a file.",
        each(lambda journal: journal.recycled.reused_total),
        "group",
    ),
    metric(
        "hutong_cleanings_total",
        COUNTER,
        "Compactions that were carried out.",
        each(lambda journal: journal.cleaner.cleanings_total),
        "group",
    ),
    metric(
        "hutong_cleaning_reclaimed_bytes_total",
        COUNTER,
        "Bytes that they gave back.",
        each(lambda journal: journal.cleaner.reclaimed_bytes_total),
        "group",
    ),
)
