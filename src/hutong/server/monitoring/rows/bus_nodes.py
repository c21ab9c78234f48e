"""The other nodes of a clustered bus: messages and bytes from and to each, and what waits for it.

Strategy: the nodes that this one has known longest are shown singly, up to NODES_SHOWN_MAX, and all others are summed,
so a page has a bound.

Knows no addresses.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from hutong.server.monitoring.metric import COUNTER, GAUGE, Labelled, MessagingMetric, messaging_metric
from hutong.server.monitoring.sources import MessagingFigures

if TYPE_CHECKING:
    from hutong.bus.clustered.figures import OtherNodeFigures  # only a node of a cluster needs it

NODES_SHOWN_MAX: Final = 100
OTHERS: Final = "(other)"
ReadNode = Callable[["OtherNodeFigures"], int]
ReadMessaging = Callable[[MessagingFigures], Labelled]


def _each(read: ReadNode) -> ReadMessaging:
    return lambda figures: (((node,), value) for node, value in _values(figures, read))


def _directions(received: ReadNode, sent: ReadNode) -> ReadMessaging:
    def samples(figures: MessagingFigures) -> Labelled:
        for node, value in _values(figures, received):
            yield (node, "in"), value
        for node, value in _values(figures, sent):
            yield (node, "out"), value

    return samples


def _values(figures: MessagingFigures, read: ReadNode) -> Iterator[tuple[str, int]]:
    shown, others = figures.bus_nodes[:NODES_SHOWN_MAX], figures.bus_nodes[NODES_SHOWN_MAX:]
    for each in shown:
        yield each.node, read(each)
    if others:
        yield OTHERS, sum([read(each) for each in others])


METRICS: Final[tuple[MessagingMetric, ...]] = (
    messaging_metric(
        "hutong_bus_node_connected",
        GAUGE,
        "1 while this node is connected to another one of the bus; it connects when it first sends there.",
        _each(lambda figures: int(figures.is_connected)),
        "node",
    ),
    messaging_metric(
        "hutong_bus_node_messages_total",
        COUNTER,
        "Messages and replies from another node of the bus (in) and to it (out).",
        _directions(lambda figures: figures.received_total, lambda figures: figures.sent_total),
        "node",
        "direction",
    ),
    messaging_metric(
        "hutong_bus_node_bytes_total",
        COUNTER,
        "Bytes of their frames.",
        _directions(lambda figures: figures.received_bytes_total, lambda figures: figures.sent_bytes_total),
        "node",
        "direction",
    ),
    messaging_metric(
        "hutong_bus_node_queued",
        GAUGE,
        "Messages that wait for another node of the bus: it does not read, or there is no connection yet.",
        _each(lambda figures: figures.queued),
        "node",
    ),
    messaging_metric(
        "hutong_bus_node_queued_bytes",
        GAUGE,
        "Bytes of their frames. A send is refused at 64 MiB.",
        _each(lambda figures: figures.queued_bytes),
        "node",
    ),
)
