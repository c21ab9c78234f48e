"""The event bus, the contexts of its handlers, and the services that are called.

Knows no addresses: they may be as many as clients.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from hutong.server.monitoring.metric import COUNTER, GAUGE, Labelled, Read, metric
from hutong.server.monitoring.sources import Sources

if TYPE_CHECKING:
    from hutong.bus.figures import BusFigures  # only a node with a bus needs it
    from hutong.rpc.figures import MethodFigures
    from hutong.runtime.runtime import RuntimeFigures


def _bus(read: "Callable[[BusFigures], int]") -> Read:
    return lambda sources: [] if sources.bus is None else [((), read(sources.bus.figures))]


def _runtime(read: "Callable[[RuntimeFigures], int]") -> Read:
    return lambda sources: [] if sources.runtime is None else [((), read(sources.runtime.figures))]


def _services(read: "Callable[[MethodFigures], float]") -> Read:
    """A figure of every method of every service that has been bound."""

    def samples(sources: Sources) -> Labelled:
        rpc = sources.rpc()
        for (service, method), figures in {} if rpc is None else rpc.registry.figures().items():
            yield (service, method), read(figures)

    return samples


METRICS: Final = (
    metric(
        "hutong_bus_addresses",
        GAUGE,
        "Addresses of the event bus that somebody listens at.",
        _bus(lambda figures: figures.addresses),
    ),
    metric("hutong_bus_consumers", GAUGE, "Consumers registered there.", _bus(lambda figures: figures.consumers)),
    metric(
        "hutong_bus_replies_awaited",
        GAUGE,
        "Requests on the event bus that wait for their reply, and messages for durable addresses on their way.",
        _bus(lambda figures: figures.replies_awaited),
    ),
    metric(
        "hutong_bus_unanswered_total",
        COUNTER,
        "Requests that had a handler and no reply in time: it is still at work, or forgot to answer.",
        _bus(lambda figures: figures.unanswered_total),
    ),
    metric(
        "hutong_contexts",
        GAUGE,
        "Contexts of handlers, services and verticles.",
        _runtime(lambda figures: figures.contexts),
    ),
    metric(
        "hutong_context_queued",
        GAUGE,
        "Messages, calls and callbacks that wait in contexts.",
        _runtime(lambda figures: figures.queued),
    ),
    metric(
        "hutong_context_queued_longest",
        GAUGE,
        "Those that wait in the fullest context. One that keeps growing has a handler that cannot keep up.",
        _runtime(lambda figures: figures.queued_longest),
    ),
    metric(
        "hutong_worker_threads",
        GAUGE,
        "Threads for blocking work that were started.",
        _runtime(lambda figures: figures.worker_threads),
    ),
    metric(
        "hutong_worker_tasks_pending",
        GAUGE,
        "Blocking work that waits for one of them.",
        _runtime(lambda figures: figures.worker_tasks_pending),
    ),
    metric(
        "hutong_service_requests_total",
        COUNTER,
        "Calls of services in this process, over the bus, connections and gRPC.",
        _services(lambda figures: figures.requests_total),
        "service",
        "method",
    ),
    metric(
        "hutong_service_errors_total",
        COUNTER,
        "Of them, those that ended with a failure.",
        _services(lambda figures: figures.errors_total),
        "service",
        "method",
    ),
    metric(
        "hutong_service_requests_in_flight",
        GAUGE,
        "Of them, those that have not ended.",
        _services(lambda figures: figures.requests_total - figures.ended_total),
        "service",
        "method",
    ),
    metric(
        "hutong_service_processing_seconds_total",
        COUNTER,
        "Time from the arrival of a call in its context to its outcome.",
        _services(lambda figures: figures.processing_us_total / 1_000_000),
        "service",
        "method",
    ),
)
