"""A whole survey of a broker, a step at a time.

Knows nothing of metrics.
"""

from collections.abc import Iterator

from hutong.broker.broker import Broker
from hutong.server.monitoring.survey.groups import look_at_groups
from hutong.server.monitoring.survey.partitions import look_at_partitions
from hutong.server.monitoring.survey.result import Survey, SurveyLimits
from hutong.server.monitoring.survey.transactions import look_at_transactions


def survey_of(broker: Broker, limits: SurveyLimits, survey: Survey) -> Iterator[None]:
    """Fill in `survey`; between two steps others may have the loop."""
    yield from look_at_partitions(broker.topics, limits, survey)
    yield from look_at_groups(broker, limits, survey)
    yield from look_at_transactions(broker.transactions, broker.clock.wall_ms(), survey)
