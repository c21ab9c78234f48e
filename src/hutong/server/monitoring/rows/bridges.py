"""Bridges of the event bus: their clients, and the frames from and to them.

Knows nothing of addresses.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from hutong.server.monitoring.metric import COUNTER, GAUGE, Labelled, Read, metric
from hutong.server.monitoring.sources import Sources

if TYPE_CHECKING:
    from hutong.bus.bridge.figures import BridgeFigures  # only a node with bridges needs it


def _bridge_frames(sources: Sources) -> Labelled:
    for name, figures in sources.bridges.items():
        yield (name, "in"), figures.frames_in_total
        yield (name, "out"), figures.frames_out_total


def _bridge_refusals(sources: Sources) -> Labelled:
    for name, figures in sources.bridges.items():
        for code, count in figures.refused_total.items():
            yield (name, code.name.lower()), count


def _bridges(read: "Callable[[BridgeFigures], int]") -> Read:
    return lambda sources: [((name,), read(figures)) for name, figures in sources.bridges.items()]


METRICS: Final = (
    metric(
        "hutong_bridge_clients",
        GAUGE,
        "Clients connected to a bridge of the event bus.",
        _bridges(lambda figures: figures.clients),
        "bridge",
    ),
    metric(
        "hutong_bridge_clients_total",
        COUNTER,
        "Clients that have connected to it.",
        _bridges(lambda figures: figures.clients_total),
        "bridge",
    ),
    metric(
        "hutong_bridge_registrations",
        GAUGE,
        "Addresses that its clients listen at.",
        _bridges(lambda figures: figures.registrations),
        "bridge",
    ),
    metric(
        "hutong_bridge_frames_total",
        COUNTER,
        "Frames from its clients (in) and to them (out).",
        _bridge_frames,
        "bridge",
        "direction",
    ),
    metric(
        "hutong_bridge_refused_total",
        COUNTER,
        "Frames to its clients that refuse something, by error code.",
        _bridge_refusals,
        "bridge",
        "code",
    ),
)
