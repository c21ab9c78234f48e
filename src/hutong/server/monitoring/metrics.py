"""Every metric of a node: its name, its meaning, and where its figure is read.

Strategy: one table. The rooms count with plain integers and histograms and know nothing of this; a scrape reads them
all, so a figure costs nothing until somebody asks. What Kafka's own exporters show under a name that dashboards know
has that name; the rest begins with `hutong_`. Labels are few and closed: partition groups, APIs, stages, levels of
service, reasons; never topics or clients. A histogram that has seen nothing is left out.

Decides nothing, and writes no text: `exposition` does.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hutong.broker.cold_reads import ColdReads
from hutong.broker.fetch_sessions import FetchSessions
from hutong.foundation.histograms import Histogram
from hutong.foundation.parking import ParkingLot
from hutong.foundation.regions import RegionCache
from hutong.journal.journal import Journal
from hutong.reactor.figures import ReactorFigures
from hutong.runtime.blocked import BlockedThreads
from hutong.runtime.collector import Collector
from hutong.runtime.stalls import StallMonitor
from hutong.server.monitoring.exposition import Family, Kind, Samples, Scale, Spread, Value, render
from hutong.transactions.driver import TransactionCoordinator
from hutong.wire.kafka.registry import APIS

if TYPE_CHECKING:
    from hutong.bus.bridge.figures import BridgeFigures  # only a node with bridges needs it

SECONDS: Final = Scale(4, 24, 1e-6)  # 16 us to 17 s
_CHUNK_BYTES: Final = Scale(7, 22)
_COUNT: Final = Scale(0, 12)
_STATM: Final = Path("/proc/self/statm")
_PAGE_BYTES: Final = 4096


@dataclass(slots=True)
class Sources:
    """Where the figures are. What the node has not made yet is empty or None, and shows no samples."""

    journals: dict[str, Journal]
    stalls: StallMonitor
    collector: Collector
    waits: dict[str, ParkingLot[Any]] = field(default_factory=dict)
    reactor: ReactorFigures | None = None
    requests_total: Mapping[int, int] = field(default_factory=dict)
    cold_reads: ColdReads | None = None
    fetch_sessions: FetchSessions | None = None
    transactions: TransactionCoordinator | None = None
    blocked: BlockedThreads | None = None
    bridges: "dict[str, BridgeFigures]" = field(default_factory=dict)


Read = Callable[[Sources], Samples]


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table."""

    family: Family
    read: Read


def exposition(sources: Sources) -> bytes:
    """All metrics as Prometheus reads them."""
    return render((metric.family, metric.read(sources)) for metric in METRICS)


def _stages(sources: Sources) -> Iterator[tuple[Sequence[str], Value]]:
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


def _acknowledgements(sources: Sources) -> Iterator[tuple[Sequence[str], Value]]:
    for group, journal in sources.journals.items():
        for qos, lot in journal.progress.lots.items():
            level = qos.name.lower()
            yield (group, level, "given"), lot.resumed_total
            yield (group, level, "expired"), lot.expired_total
            yield (group, level, "failed"), lot.failed_total


def _parked(sources: Sources) -> Iterator[tuple[Sequence[str], Value]]:
    for group, journal in sources.journals.items():
        for qos, lot in journal.progress.lots.items():
            yield (group, qos.name.lower()), len(lot)


def _requests(sources: Sources) -> Iterator[tuple[Sequence[str], Value]]:
    for api_key, count in sorted(sources.requests_total.items()):
        yield (APIS[api_key].name,), count


def _refused(sources: Sources) -> Iterator[tuple[Sequence[str], Value]]:
    if sources.reactor is not None:
        yield ("too_many",), sources.reactor.connections_refused_total
        yield ("too_many_of_one_address",), sources.reactor.connections_refused_per_ip_total


def _closed(sources: Sources) -> Iterator[tuple[Sequence[str], Value]]:
    if sources.reactor is not None:
        for reason, count in sources.reactor.closed_total.items():
            yield (reason.name.lower(),), count


def _waits(sources: Sources) -> Iterator[tuple[Sequence[str], Value]]:
    for name, lot in sources.waits.items():
        yield (name,), len(lot)


def _bridges(read: "Callable[[BridgeFigures], int]") -> Read:
    return lambda sources: [((name,), read(figures)) for name, figures in sources.bridges.items()]


def _bridge_frames(sources: Sources) -> Iterator[tuple[Sequence[str], Value]]:
    for name, figures in sources.bridges.items():
        yield (name, "in"), figures.frames_in_total
        yield (name, "out"), figures.frames_out_total


def _bridge_refusals(sources: Sources) -> Iterator[tuple[Sequence[str], Value]]:
    for name, figures in sources.bridges.items():
        for code, count in figures.refused_total.items():
            yield (name, code.name.lower()), count


def _cold_reads(sources: Sources) -> Iterator[tuple[Sequence[str], Value]]:
    for group, journal in sources.journals.items():
        yield (group, "page_cache"), journal.reader.cached_reads_total
        yield (group, "worker"), journal.reader.worker_reads_total


def _resident_bytes(_sources: Sources) -> Samples:
    try:
        return [((), int(_STATM.read_bytes().split()[1]) * _PAGE_BYTES)]
    except OSError:  # not on this system
        return []


def _each(read: Callable[[Journal], int]) -> Read:
    """A figure of every partition group."""
    return lambda sources: [((group,), read(journal)) for group, journal in sources.journals.items()]


def _each_cache(read: Callable[[RegionCache], int]) -> Read:
    return _each(lambda journal: read(journal.cache))


def _each_spread(read: Callable[[Journal], Histogram], scale: Scale) -> Read:
    def samples(sources: Sources) -> Iterator[tuple[Sequence[str], Value]]:
        for group, journal in sources.journals.items():
            histogram = read(journal)
            if histogram.count:
                yield (group,), Spread(histogram, scale)

    return samples


def _sum(read: Callable[[Journal], int]) -> Read:
    return lambda sources: [((), sum(read(journal) for journal in sources.journals.values()))]


def _reactor(read: Callable[[ReactorFigures], int]) -> Read:
    return lambda sources: [((), read(sources.reactor))] if sources.reactor is not None else []


def _from_cold_reads(read: Callable[[ColdReads], int]) -> Read:
    return lambda sources: [((), read(sources.cold_reads))] if sources.cold_reads is not None else []


def _from_sessions(read: Callable[[FetchSessions], int]) -> Read:
    return lambda sources: [((), read(sources.fetch_sessions))] if sources.fetch_sessions is not None else []


def _from_transactions(read: Callable[[TransactionCoordinator], int]) -> Read:
    return lambda sources: [((), read(sources.transactions))] if sources.transactions is not None else []


def _ended_transactions(sources: Sources) -> Iterator[tuple[Sequence[str], Value]]:
    if sources.transactions is not None:
        yield ("commit",), sources.transactions.committed_total
        yield ("abort",), sources.transactions.aborted_total


def _metric(name: str, kind: Kind, meaning: str, read: Read, *labels: str) -> Metric:
    return Metric(Family(name, kind, meaning, labels), read)


_COUNTER, _GAUGE, _HISTOGRAM = Kind
METRICS: Final = (
    _metric(
        "kafka_network_requestmetrics_requests_total",
        _COUNTER,
        "Requests by API.",
        _requests,
        "request",
    ),
    _metric(
        "kafka_server_brokertopicmetrics_messagesin_total",
        _COUNTER,
        "Records appended, those of internal topics included.",
        _sum(lambda journal: journal.figures.records_total),
    ),
    _metric(
        "kafka_server_brokertopicmetrics_bytesin_total",
        _COUNTER,
        "Bytes of record batches appended, those of internal topics included.",
        _sum(lambda journal: journal.figures.batch_bytes_total),
    ),
    _metric(
        "hutong_produce_stage_seconds",
        _HISTOGRAM,
        "Time on each stage of a produce: turn, queue, replicate, safe per chunk; write, fsync, release per flush.",
        _stages,
        "group",
        "stage",
    ),
    _metric(
        "hutong_chunk_bytes",
        _HISTOGRAM,
        "Size of a chunk: what one turn of the loop took in.",
        _each_spread(lambda journal: journal.figures.bytes_per_chunk, _CHUNK_BYTES),
        "group",
    ),
    _metric(
        "hutong_chunk_batches",
        _HISTOGRAM,
        "Record batches in a chunk.",
        _each_spread(lambda journal: journal.figures.batches_per_chunk, _COUNT),
        "group",
    ),
    _metric(
        "hutong_flush_chunks",
        _HISTOGRAM,
        "Chunks that one flush carried.",
        _each_spread(lambda journal: journal.figures.chunks_per_flush, _COUNT),
        "group",
    ),
    _metric(
        "hutong_flushes_total",
        _COUNTER,
        "Flushes that succeeded.",
        _each(lambda journal: journal.flusher.flushes_total),
        "group",
    ),
    _metric(
        "hutong_flushed_bytes_total",
        _COUNTER,
        "Bytes that they wrote.",
        _each(lambda journal: journal.flusher.flushed_bytes_total),
        "group",
    ),
    _metric(
        "hutong_unreleased_bytes",
        _GAUGE,
        "Bytes in memory that the disk, or a majority, does not have.",
        _each(lambda journal: journal.writer.dirty_bytes),
        "group",
    ),
    _metric(
        "hutong_group_congested",
        _GAUGE,
        "1 while so much is unreleased that producers are made to wait.",
        _each(lambda journal: journal.is_congested),
        "group",
    ),
    _metric(
        "hutong_group_disk_full",
        _GAUGE,
        "1 while the group refuses records because no space is left.",
        _each(lambda journal: journal.is_disk_full),
        "group",
    ),
    _metric(
        "hutong_group_failed",
        _GAUGE,
        "1 once a flush has failed: the group refuses records until the node is started again.",
        _each(lambda journal: journal.failure is not None),
        "group",
    ),
    _metric(
        "hutong_acknowledgements_parked",
        _GAUGE,
        "Acknowledgements that wait for the disk or a majority.",
        _parked,
        "group",
        "qos",
    ),
    _metric(
        "hutong_acknowledgements_total",
        _COUNTER,
        "What became of those that had to wait: given, expired or failed. Those of one request may count as one.",
        _acknowledgements,
        "group",
        "qos",
        "outcome",
    ),
    _metric(
        "hutong_regions_live",
        _GAUGE,
        "Regions of the journal cache.",
        _each_cache(lambda cache: cache.regions_live),
        "group",
    ),
    _metric(
        "hutong_regions_free",
        _GAUGE,
        "Regions kept to be used again.",
        _each_cache(lambda cache: cache.regions_free),
        "group",
    ),
    _metric(
        "hutong_region_hot_bytes",
        _GAUGE,
        "Newest bytes that readers find in memory.",
        _each_cache(lambda cache: cache.bytes_hot),
        "group",
    ),
    _metric(
        "hutong_region_escaped_bytes",
        _GAUGE,
        "Bytes of regions that were dropped and that a reader still holds.",
        _each_cache(lambda cache: cache.escaped_bytes),
        "group",
    ),
    _metric(
        "hutong_region_escapes_total",
        _COUNTER,
        "Regions that a reader still held when they were dropped.",
        _each_cache(lambda cache: cache.escapes_total),
        "group",
    ),
    _metric(
        "hutong_region_copied_views_total",
        _COUNTER,
        "Views that were copied because readers held too many regions.",
        _each_cache(lambda cache: cache.copied_views_total),
        "group",
    ),
    _metric(
        "hutong_cold_reads_total",
        _COUNTER,
        "Reads of what has left the cache, by who carried them out: the loop from the page cache, or a worker.",
        _cold_reads,
        "group",
        "by",
    ),
    _metric(
        "hutong_cold_reads_refused_total",
        _COUNTER,
        "Cold reads that found their queue full; the client was told to ask again.",
        _from_cold_reads(lambda cold_reads: cold_reads.refused_total),
    ),
    _metric(
        "hutong_damaged_reads_total",
        _COUNTER,
        "Reads that met bytes which fail their check; the log says where.",
        _from_cold_reads(lambda cold_reads: cold_reads.damaged_total),
    ),
    _metric(
        "hutong_checkpoints_total",
        _COUNTER,
        "Checkpoints written: what a start after a crash need not scan.",
        _each(lambda journal: journal.checkpointer.checkpoints_total),
        "group",
    ),
    _metric(
        "hutong_cleanings_total",
        _COUNTER,
        "Compactions that were carried out.",
        _each(lambda journal: journal.cleaner.cleanings_total),
        "group",
    ),
    _metric(
        "hutong_cleaning_reclaimed_bytes_total",
        _COUNTER,
        "Bytes that they gave back.",
        _each(lambda journal: journal.cleaner.reclaimed_bytes_total),
        "group",
    ),
    _metric(
        "hutong_waits",
        _GAUGE,
        "What is parked elsewhere: fetches for data, cold reads for a turn, held producers for the end of congestion.",
        _waits,
        "lot",
    ),
    _metric(
        "kafka_server_fetchsessioncache_numincrementalfetchsessions",
        _GAUGE,
        "Incremental fetch sessions.",
        _from_sessions(len),
    ),
    _metric(
        "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached",
        _GAUGE,
        "Partitions in them.",
        _from_sessions(lambda sessions: sessions.partitions),
    ),
    _metric(
        "kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total",
        _COUNTER,
        "Sessions that were evicted for others.",
        _from_sessions(lambda sessions: sessions.evictions_total),
    ),
    _metric("hutong_transactional_ids", _GAUGE, "Transactional ids that the node knows.", _from_transactions(len)),
    _metric(
        "hutong_transactions_total",
        _COUNTER,
        "Transactions that have ended, by how.",
        _ended_transactions,
        "outcome",
    ),
    _metric(
        "hutong_transactions_timed_out_total",
        _COUNTER,
        "Transactions that were aborted because they lasted longer than their producer had said.",
        _from_transactions(lambda transactions: transactions.timed_out_total),
    ),
    _metric(
        "hutong_connections_open",
        _GAUGE,
        "Connections of clients.",
        _reactor(lambda reactor: reactor.connections_open),
    ),
    _metric(
        "hutong_connections_accepted_total",
        _COUNTER,
        "Connections accepted.",
        _reactor(lambda reactor: reactor.connections_accepted_total),
    ),
    _metric("hutong_connections_refused_total", _COUNTER, "Connections over a limit.", _refused, "reason"),
    _metric("hutong_connections_closed_total", _COUNTER, "Connections that ended.", _closed, "reason"),
    _metric(
        "hutong_received_bytes_total",
        _COUNTER,
        "Bytes received from clients.",
        _reactor(lambda reactor: reactor.bytes_received_total),
    ),
    _metric(
        "hutong_sent_bytes_total",
        _COUNTER,
        "Bytes sent to clients.",
        _reactor(lambda reactor: reactor.bytes_sent_total),
    ),
    _metric(
        "hutong_writes_total",
        _COUNTER,
        "Writes to sockets; each carries all answers of a turn to one client.",
        _reactor(lambda reactor: reactor.writes_total),
    ),
    _metric(
        "hutong_reading_pauses_total",
        _COUNTER,
        "How often a connection was not read further because too much of it was under way or held.",
        _reactor(lambda reactor: reactor.reading_pauses_total),
    ),
    _metric(
        "hutong_unfinished_frame_bytes",
        _GAUGE,
        "Bytes of requests that have not arrived whole.",
        _reactor(lambda reactor: reactor.receiving_bytes),
    ),
    _metric(
        "hutong_bridge_clients",
        _GAUGE,
        "Clients connected to a bridge of the event bus.",
        _bridges(lambda figures: figures.clients),
        "bridge",
    ),
    _metric(
        "hutong_bridge_clients_total",
        _COUNTER,
        "Clients that have connected to it.",
        _bridges(lambda figures: figures.clients_total),
        "bridge",
    ),
    _metric(
        "hutong_bridge_registrations",
        _GAUGE,
        "Addresses that its clients listen at.",
        _bridges(lambda figures: figures.registrations),
        "bridge",
    ),
    _metric(
        "hutong_bridge_frames_total",
        _COUNTER,
        "Frames from its clients (in) and to them (out).",
        _bridge_frames,
        "bridge",
        "direction",
    ),
    _metric(
        "hutong_bridge_refused_total",
        _COUNTER,
        "Frames to its clients that refuse something, by error code.",
        _bridge_refusals,
        "bridge",
        "code",
    ),
    _metric(
        "hutong_loop_lateness_seconds",
        _HISTOGRAM,
        "How late the event loop served a timer: what any event would have waited.",
        lambda sources: [((), Spread(sources.stalls.lateness_us, SECONDS))],
    ),
    _metric(
        "hutong_loop_work_seconds",
        _HISTOGRAM,
        "Processor time of the event loop between two looks at it, which are 5 ms apart while nothing holds it up.",
        lambda sources: [((), Spread(sources.stalls.work_us, SECONDS))],
    ),
    _metric(
        "hutong_blocked_thread_warnings_total",
        _COUNTER,
        "Warnings that a handler blocks an event loop or a worker; the log names it.",
        lambda sources: [] if sources.blocked is None else [((), sources.blocked.warnings_total)],
    ),
    _metric(
        "hutong_garbage_collection_seconds",
        _HISTOGRAM,
        "Pauses of Python's collector, but for sweeps while the node is idle.",
        lambda sources: [((), Spread(sources.collector.collecting_us, SECONDS))],
    ),
    _metric(
        "process_cpu_seconds_total",
        _COUNTER,
        "Processor time of the process.",
        lambda _sources: [((), time.process_time())],
    ),
    _metric("process_resident_memory_bytes", _GAUGE, "Memory of the process that is in RAM.", _resident_bytes),
)
