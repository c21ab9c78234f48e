"""The Kafka listener: connections, bytes, and what was refused or closed.

Knows nothing of requests.
"""

from collections.abc import Callable
from typing import Final

from hutong.reactor.figures import ReactorFigures
from hutong.reactor.memory_watch import MemoryWatch
from hutong.server.monitoring.metric import COUNTER, GAUGE, Labelled, Read, metric
from hutong.server.monitoring.sources import Sources


def _refused(sources: Sources) -> Labelled:
    if sources.reactor is not None:
        yield ("too_many",), sources.reactor.connections_refused_total
        yield ("too_many_of_one_address",), sources.reactor.connections_refused_per_ip_total


def _closed(sources: Sources) -> Labelled:
    if sources.reactor is not None:
        for reason, count in sources.reactor.closed_total.items():
            yield (reason.name.lower(),), count


def _reactor(read: Callable[[ReactorFigures], int]) -> Read:
    return lambda sources: [((), read(sources.reactor))] if sources.reactor is not None else []


def _memory(read: Callable[[MemoryWatch], int]) -> Read:
    return lambda sources: [((), read(sources.memory))] if sources.memory is not None else []


METRICS: Final = (
    metric(
        "hutong_connections_open",
        GAUGE,
        "Connections of clients.",
        _reactor(lambda reactor: reactor.connections_open),
    ),
    metric(
        "hutong_connections_accepted_total",
        COUNTER,
        "Connections accepted.",
        _reactor(lambda reactor: reactor.connections_accepted_total),
    ),
    metric("hutong_connections_refused_total", COUNTER, "Connections over a limit.", _refused, "reason"),
    metric("hutong_connections_closed_total", COUNTER, "Connections that ended.", _closed, "reason"),
    metric(
        "hutong_received_bytes_total",
        COUNTER,
        "Bytes received from clients.",
        _reactor(lambda reactor: reactor.bytes_received_total),
    ),
    metric(
        "hutong_sent_bytes_total",
        COUNTER,
        "Bytes sent to clients.",
        _reactor(lambda reactor: reactor.bytes_sent_total),
    ),
    metric(
        "hutong_writes_total",
        COUNTER,
        "Writes to sockets; each carries all answers of a turn to one client.",
        _reactor(lambda reactor: reactor.writes_total),
    ),
    metric(
        "hutong_reading_pauses_total",
        COUNTER,
        "How often a connection was not read further because too much of it was under way or held.",
        _reactor(lambda reactor: reactor.reading_pauses_total),
    ),
    metric(
        "hutong_unfinished_frame_bytes",
        GAUGE,
        "Bytes of requests that have not arrived whole.",
        _reactor(lambda reactor: reactor.receiving_bytes),
    ),
    metric(
        "hutong_connection_memory_bytes",
        GAUGE,
        "Memory that connections hold together: requests not done, answers not read.",
        _memory(lambda memory: memory.measure()),
    ),
    metric(
        "hutong_connection_memory_limit_bytes",
        GAUGE,
        "Its bound, beyond which whoever holds most is closed (`network.memory_bytes_max`).",
        _memory(lambda memory: memory.budget.bytes_max),
    ),
    metric(
        "hutong_connections_held",
        GAUGE,
        "Connections of which no further request is begun because memory is short and they hold much.",
        _memory(lambda memory: memory.budget.held_count),
    ),
    metric(
        "hutong_connections_held_total",
        COUNTER,
        "How often a connection began to be held for that.",
        _memory(lambda memory: memory.budget.holds_total),
    ),
)
