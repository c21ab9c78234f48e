"""The Kafka listener: connections, bytes, and what was refused or closed.

Knows nothing of requests.
"""

from collections.abc import Callable
from typing import Final

from hutong.reactor.accept.acceptor import Acceptor
from hutong.reactor.figures import ReactorFigures
from hutong.reactor.memory.watch import MemoryWatch
from hutong.server.monitoring.exposition import Samples
from hutong.server.monitoring.metric import COUNTER, GAUGE, Labelled, Read, metric
from hutong.server.monitoring.sources import Sources


def _refused(sources: Sources) -> Labelled:
    if sources.reactor is not None:
        yield ("too_many",), sources.reactor.connections_refused_total
        yield ("too_many_of_one_address",), sources.reactor.connections_refused_per_ip_total
        yield ("too_fast_from_one_address",), sources.reactor.connections_refused_per_ip_rate_total


def _closed(sources: Sources) -> Labelled:
    if sources.reactor is not None:
        for reason, count in sources.reactor.closed_total.items():
            yield (reason.name.lower(),), count


def _reactor(read: Callable[[ReactorFigures], int]) -> Read:
    return lambda sources: [((), read(sources.reactor))] if sources.reactor is not None else []


def _memory(read: Callable[[MemoryWatch], int]) -> Read:
    return lambda sources: [((), read(sources.memory))] if sources.memory is not None else []


def _depleted(sources: Sources) -> Samples:
    if sources.reactor is None:
        return []
    now_ms = 0 if sources.broker is None else sources.broker.clock.monotonic_ms()
    return [((), sources.reactor.queue.depleted_ms(now_ms) / 1000)]


def _each_listener(read: Callable[[Acceptor], int | float]) -> Read:
    return lambda sources: [((name,), read(acceptor)) for name, acceptor in sources.acceptors.items()]


def _idle(sources: Sources) -> Samples:
    return [((), sources.stalls.idle_share)]


METRICS: Final = (
    metric(
        "hutong_listener_connections",
        GAUGE,
        "Connections of clients, by listener: Kafka's connection-count.",
        _each_listener(lambda acceptor: acceptor.connections_accepted_total - acceptor.connections_left_total),
        "listener",
    ),
    metric(
        "kafka_server_socket_server_metrics_connection_creation_total",
        COUNTER,
        "Connections accepted, by listener; its rate is Kafka's connection-accept-rate.",
        _each_listener(lambda acceptor: acceptor.connections_accepted_total),
        "listener",
    ),
    metric(
        "kafka_server_socket_server_metrics_connection_close_total",
        COUNTER,
        "Connections that ended, by listener; its rate is Kafka's connection-close-rate.",
        _each_listener(lambda acceptor: acceptor.connections_left_total),
        "listener",
    ),
    metric(
        "hutong_acceptor_blocked_seconds_total",
        COUNTER,
        "Time in which nobody could be accepted, for want of room or for the pace; its rate is AcceptorBlockedPercent.",
        _each_listener(lambda acceptor: acceptor.accept_blocked_ms_total / 1000),
        "listener",
    ),
    metric(
        "kafka_network_socketserver_networkprocessoravgidle_percent",
        GAUGE,
        "How much of the last minute the event loop had nothing to do, from 0 to 1.",
        _idle,
    ),
    metric(
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
        GAUGE,
        "The same: one loop reads requests and handles them.",
        _idle,
    ),
    metric(
        "kafka_network_requestchannel_requestqueuesize",
        GAUGE,
        "Requests received that wait for the processor.",
        _reactor(lambda reactor: reactor.queue.requests),
    ),
    metric(
        "kafka_network_requestchannel_responsequeuesize",
        GAUGE,
        "Answers that wait for one to an earlier request of their connection.",
        lambda sources: [((), sum(acceptor.answers_waiting for acceptor in sources.acceptors.values()))],
    ),
    metric(
        "hutong_request_queue_bytes",
        GAUGE,
        "Bytes of requests that are not begun, those that have not arrived whole included.",
        _reactor(lambda reactor: reactor.queue.bytes),
    ),
    metric(
        "hutong_request_queue_full_total",
        COUNTER,
        "How often no connection was read because too many requests, or bytes of them, waited.",
        _reactor(lambda reactor: reactor.queue.full_total),
    ),
    metric(
        "hutong_request_memory_depleted_seconds_total",
        COUNTER,
        "Time in which network.queued_max_request_bytes were in use; its rate is MemoryPoolAvgDepletedPercent.",
        _depleted,
    ),
    metric(
        "hutong_connections_open", GAUGE, "Connections of clients.", _reactor(lambda reactor: reactor.connections_open)
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
        "hutong_sent_bytes_total", COUNTER, "Bytes sent to clients.", _reactor(lambda reactor: reactor.bytes_sent_total)
    ),
    metric(
        "hutong_writes_total",
        COUNTER,
        "Writes to sockets; each carries all answers of one loop iteration to one client.",
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
        "Its bound, beyond which the connections that hold most are closed (`network.memory_bytes_max`).",
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
