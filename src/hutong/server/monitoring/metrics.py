"""Every metric of a node, in the order of its page.

Strategy: two tables, joined from the tables in `rows`, a module for each package. Packages count with plain integers
and histograms and know nothing of this; a scrape reads them all, so a figure costs nothing until somebody asks. Those
of the first table have few samples. Those of the second have as many as there are topics and groups: they are read
from a survey, up to the bounds of `[metrics]`. The page is made in steps, so figures far apart are of different
moments.

What Kafka's own exporters show under a name that dashboards know has that name; the rest begins with `hutong_`. Labels
of the first table are closed: partition groups, APIs, stages, levels of service, reasons. A histogram that has seen
nothing is left out.

Decides nothing, and writes no text: `exposition` does.
"""

from collections.abc import Iterator
from typing import Final

from hutong.broker.broker import Broker
from hutong.server.monitoring.exposition import render, render_written
from hutong.server.monitoring.metric import MessagingMetric, Metric, Surveyed
from hutong.server.monitoring.rows import (
    bridges,
    bus_nodes,
    bus_sharing,
    clustered,
    examining,
    groups,
    journals,
    messaging,
    network,
    node,
    process,
    reading,
    request_times,
    requests,
    scheduling,
    schemas,
    security,
    telemetry,
    topics,
    transactions,
    web_servers,
)
from hutong.server.monitoring.sources import Sources
from hutong.server.monitoring.survey.groups import survey_groups
from hutong.server.monitoring.survey.partitions import survey_partitions
from hutong.server.monitoring.survey.result import Survey, SurveyLimits
from hutong.server.monitoring.survey.transactions import survey_transactions

AT_ONCE: Final[tuple[Metric, ...]] = (
    *node.METRICS,
    *clustered.METRICS,
    *requests.METRICS,
    *request_times.METRICS,
    *examining.METRICS,
    *journals.METRICS,
    *reading.METRICS,
    *scheduling.METRICS,
    *transactions.METRICS,
    *groups.METRICS,
    *network.METRICS,
    *security.METRICS,
    *telemetry.METRICS,
    *bridges.METRICS,
    *web_servers.METRICS,
    *schemas.METRICS,
    *process.METRICS,
)
SURVEYED: Final[tuple[Surveyed, ...]] = (*node.SURVEYED, *topics.SURVEYED, *groups.SURVEYED, *transactions.SURVEYED)
OF_MESSAGING: Final[tuple[MessagingMetric, ...]] = (
    *messaging.METRICS,
    *bus_nodes.METRICS,
    *bus_sharing.METRICS,
)
METRICS: Final[tuple[Metric | MessagingMetric | Surveyed, ...]] = (*AT_ONCE, *OF_MESSAGING, *SURVEYED)


def exposition(sources: Sources, limits: SurveyLimits, *, is_brief: bool = False) -> Iterator[bytes]:
    """All metrics as Prometheus reads them, a step at a time; between two steps others may have the loop.

    A brief page leaves out what `brief` names, and the headings of families without a sample.
    """
    from hutong.server.monitoring.brief import Detail  # late: a start is shorter without

    detail = Detail(is_brief, sources.broker is None or sources.broker.cluster.is_alone)
    step, with_empty = detail.histogram_step, not is_brief
    at_once = (
        (metric.family, detail.kept(metric.family, metric.samples(sources)))
        for metric in AT_ONCE
        if detail.shows(metric.family)
    )
    yield from render(at_once, histogram_step=step, with_empty=with_empty)
    figures = sources.messaging()
    messaging_rows = ((metric.family, metric.read(figures)) for metric in OF_MESSAGING)
    yield from render(messaging_rows, histogram_step=step, with_empty=with_empty)
    if sources.broker is None:
        yield from render(((metric.family, ()) for metric in SURVEYED), with_empty=with_empty)
        return
    survey = _empty_survey(sources, sources.broker)
    for _ in _fill_survey(survey, sources.broker, limits):
        yield b""
    for surveyed in filter(lambda row: detail.shows(row.family), SURVEYED):
        yield from render_written(surveyed.family, surveyed.read(survey), with_empty=with_empty)


def _empty_survey(sources: Sources, broker: Broker) -> Survey:
    journals = sources.journals
    figures = [journal.figures for journal in journals.values()]
    return Survey(
        failed_groups=frozenset(group for group, journal in journals.items() if journal.failure is not None),
        is_alone=broker.cluster.is_alone,
        is_controller=broker.cluster.is_controller,
        traffic=(
            sum(figure.records_total for figure in figures),
            sum(figure.batch_bytes_total for figure in figures),
            broker.served_bytes_total,
        ),
    )


def _fill_survey(survey: Survey, broker: Broker, limits: SurveyLimits) -> Iterator[None]:
    yield from survey_partitions(broker.topics, limits, survey)
    yield from survey_groups(broker, limits, survey)
    for shard in broker.shards:
        yield from survey_transactions(shard.transactions, broker.clock.wall_ms(), survey)
