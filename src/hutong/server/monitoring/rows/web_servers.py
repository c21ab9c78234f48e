"""Servers of HTTP: answers by their status, connections, and answers without an end.

The page of metrics itself is none of them.
"""

from typing import Final

from hutong.server.monitoring.metric import COUNTER, GAUGE, Labelled, metric
from hutong.server.monitoring.sources import Sources


def _answers(sources: Sources) -> Labelled:
    for name, server in sources.web.items():
        for status, count in sorted(server.answers_total.items()):
            yield (name, str(status)), count


METRICS: Final = (
    metric(
        "hutong_web_answers_total",
        COUNTER,
        "Answers of an HTTP server, by status.",
        _answers,
        "server",
        "status",
    ),
    metric(
        "hutong_web_connections",
        GAUGE,
        "Connections of an HTTP server.",
        lambda sources: [((name,), server.figures.connections_open) for name, server in sources.web.items()],
        "server",
    ),
    metric(
        "hutong_web_streams",
        GAUGE,
        "Streamed answers and WebSockets of an HTTP server that have not ended.",
        lambda sources: [((name,), server.streams) for name, server in sources.web.items()],
        "server",
    ),
)
