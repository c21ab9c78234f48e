"""The event bus, the contexts of its handlers, and the services that are called.

Knows no addresses: they may be as many as clients.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from hutong.server.monitoring.metric import COUNTER, GAUGE, Labelled, MessagingMetric, messaging_metric
from hutong.server.monitoring.sources import MessagingFigures

if TYPE_CHECKING:
    from hutong.bus.figures import BusFigures  # only a node with a bus needs it
    from hutong.rpc.figures import MethodFigures
    from hutong.runtime.runtime import RuntimeFigures

ReadMessaging = Callable[[MessagingFigures], Labelled]


def _bus(read: "Callable[[BusFigures], int]") -> ReadMessaging:
    return lambda figures: iter(() if figures.bus is None else (((), read(figures.bus)),))


def _runtime(read: "Callable[[RuntimeFigures], int]") -> ReadMessaging:
    return lambda figures: iter(() if figures.runtime is None else (((), read(figures.runtime)),))


def _services(read: "Callable[[MethodFigures], float]") -> ReadMessaging:
    """A figure of every method of every service that has been bound."""
    return lambda figures: ((labels, read(method)) for labels, method in figures.services.items())


METRICS: Final[tuple[MessagingMetric, ...]] = (
    messaging_metric(
        "hutong_bus_addresses",
        GAUGE,
        "Addresses of the event bus that somebody listens at.",
        _bus(lambda figures: figures.addresses),
    ),
    messaging_metric(
        "hutong_bus_consumers", GAUGE, "Consumers registered there.", _bus(lambda figures: figures.consumers)
    ),
    messaging_metric(
        "hutong_bus_replies_awaited",
        GAUGE,
        "Requests on the event bus that wait for their reply, and messages for durable addresses on their way.",
        _bus(lambda figures: figures.replies_awaited),
    ),
    messaging_metric(
        "hutong_bus_unanswered_total",
        COUNTER,
        "Requests that had a handler and no reply in time: it is still at work, or forgot to answer.",
        _bus(lambda figures: figures.unanswered_total),
    ),
    messaging_metric(
        "hutong_contexts",
        GAUGE,
        "Contexts of handlers, services and verticles.",
        _runtime(lambda figures: figures.contexts),
    ),
    messaging_metric(
        "hutong_context_queued",
        GAUGE,
        "Messages, calls and callbacks that wait in contexts.",
        _runtime(lambda figures: figures.queued),
    ),
    messaging_metric(
        "hutong_context_queued_longest",
        GAUGE,
        "Those that wait in the fullest context. One that keeps growing has a handler that cannot keep up.",
        _runtime(lambda figures: figures.queued_longest),
    ),
    messaging_metric(
        "hutong_worker_threads",
        GAUGE,
        "Threads for blocking work that were started.",
        _runtime(lambda figures: figures.worker_threads),
    ),
    messaging_metric(
        "hutong_worker_tasks_pending",
        GAUGE,
        "Blocking work that waits for one of them.",
        _runtime(lambda figures: figures.worker_tasks_pending),
    ),
    messaging_metric(
        "hutong_service_requests_total",
        COUNTER,
        "Calls of services in this process, over the bus, connections and gRPC.",
        _services(lambda figures: figures.requests_total),
        "service",
        "method",
    ),
    messaging_metric(
        "hutong_service_errors_total",
        COUNTER,
        "Of them, those that ended with a failure.",
        _services(lambda figures: figures.errors_total),
        "service",
        "method",
    ),
    messaging_metric(
        "hutong_service_requests_in_flight",
        GAUGE,
        "Of them, those that have not ended.",
        _services(lambda figures: figures.requests_total - figures.ended_total),
        "service",
        "method",
    ),
    messaging_metric(
        "hutong_service_processing_seconds_total",
        COUNTER,
        "Time from the arrival of a call in its context to its outcome.",
        _services(lambda figures: figures.processing_us_total / 1_000_000),
        "service",
        "method",
    ),
)
