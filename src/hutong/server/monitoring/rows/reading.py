"""Reading: what left the cache, and the sessions of fetches.

Knows nothing of topics.
"""

from collections.abc import Callable
from typing import Final

from hutong.broker.fetch.actor_figures import ReadFigures
from hutong.broker.fetch.disk_reads import DiskReads
from hutong.broker.fetch.session_table import FetchSessions
from hutong.server.monitoring.metric import COUNTER, GAUGE, Labelled, Read, metric
from hutong.server.monitoring.sources import Sources


def _cold_reads(sources: Sources) -> Labelled:
    for group, journal in sources.journals.items():
        yield (group, "page_cache"), journal.reader.cached_reads_total
        yield (group, "worker"), journal.reader.worker_reads_total


def _from_disk_reads(read: Callable[[DiskReads], int]) -> Read:
    return lambda sources: [((), read(sources.disk_reads))] if sources.disk_reads is not None else []


def _of_actors(read: Callable[[ReadFigures], float]) -> Read:
    def samples(sources: Sources) -> Labelled:
        if sources.disk_reads is not None:
            for actor, figures in sources.disk_reads.by_actor:
                yield (actor.topic, ",".join(actor.groups), actor.client), read(figures)

    return samples


def _from_sessions(read: Callable[[FetchSessions], int]) -> Read:
    return lambda sources: [((), read(sources.fetch_sessions))] if sources.fetch_sessions is not None else []


_ACTOR: Final = ("topic", "consumergroup", "client")
METRICS: Final = (
    metric(
        "hutong_cold_reads_total",
        COUNTER,
        "Reads of what has left the cache, by who carried them out: the loop from the page cache, or a worker.",
        _cold_reads,
        "group",
        "by",
    ),
    metric(
        "hutong_cold_reads_refused_total",
        COUNTER,
        "Cold reads that found their queue full; the client was asked to retry.",
        _from_disk_reads(lambda disk_reads: disk_reads.refused_total),
    ),
    metric(
        "hutong_actor_read_bytes_total",
        COUNTER,
        "Bytes read from the disk for the readers of a topic in a group, or of a client without one; 50 have a row.",
        _of_actors(lambda figures: figures.bytes_total),
        *_ACTOR,
    ),
    metric(
        "hutong_actor_read_seconds_total",
        COUNTER,
        "Time that their reads took from beginning to end, without their time in the queue.",
        _of_actors(lambda figures: figures.used_us / 1e6),
        *_ACTOR,
    ),
    metric(
        "hutong_actor_reads_queued",
        GAUGE,
        "Their reads that wait for a turn, or are being read.",
        _of_actors(lambda figures: figures.queued),
        *_ACTOR,
    ),
    metric(
        "hutong_actor_reads_expired_total",
        COUNTER,
        "Their reads that waited too long, and were answered without records.",
        _of_actors(lambda figures: figures.expired_total),
        *_ACTOR,
    ),
    metric(
        "hutong_failed_reads_total",
        COUNTER,
        "Reads that the disk refused, or for which a file could not be opened; the log names the file.",
        lambda sources: [((group,), journal.reader.failures.total) for group, journal in sources.journals.items()],
        "group",
    ),
    metric(
        "hutong_damaged_reads_total",
        COUNTER,
        "Reads of bytes that failed their check; the log names the place.",
        _from_disk_reads(lambda disk_reads: disk_reads.damaged_total),
    ),
    metric(
        "kafka_server_fetchsessioncache_numincrementalfetchsessions",
        GAUGE,
        "Incremental fetch sessions.",
        _from_sessions(len),
    ),
    metric(
        "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached",
        GAUGE,
        "Partitions in them.",
        _from_sessions(lambda sessions: sessions.partitions),
    ),
    metric(
        "kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total",
        COUNTER,
        "Sessions that were evicted for others.",
        _from_sessions(lambda sessions: sessions.evictions_total),
    ),
)
