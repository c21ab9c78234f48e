"""Every metric of a node, in the order of its page.

Strategy: one table, joined from the tables in `rows`, a module for each room. The rooms count with plain integers and
histograms and know nothing of this; a scrape reads them all, so a figure costs nothing until somebody asks. What
Kafka's own exporters show under a name that dashboards know has that name; the rest begins with `hutong_`. Labels are
few and closed: partition groups, APIs, stages, levels of service, reasons; never topics or clients. A histogram that
has seen nothing is left out.

Decides nothing, and writes no text: `exposition` does.
"""

from typing import Final

from hutong.server.monitoring.exposition import render
from hutong.server.monitoring.metric import Metric
from hutong.server.monitoring.rows import bridges, journals, network, process, reading, requests, security, transactions
from hutong.server.monitoring.sources import Sources

METRICS: Final[tuple[Metric, ...]] = (
    *requests.METRICS,
    *journals.METRICS,
    *reading.METRICS,
    *transactions.METRICS,
    *network.METRICS,
    *security.METRICS,
    *bridges.METRICS,
    *process.METRICS,
)


def exposition(sources: Sources) -> bytes:
    """All metrics as Prometheus reads them."""
    return render((metric.family, metric.read(sources)) for metric in METRICS)
