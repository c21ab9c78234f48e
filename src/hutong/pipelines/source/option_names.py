"""The names of all reading options, so that a misspelt one is reported instead of ignored.

Names unlike any of these are accepted: Spark passes on every option that a program sets, and its own Kafka source
accepts them too.
"""

import difflib
from collections.abc import Iterable

from hutong.foundation.errors import UsageError

READING_OPTIONS = (
    # Those of Spark's own Kafka source.
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "maxOffsetsPerTrigger",
    "maxRecordsPerPartition",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
    "minPartitions",
    "kafka.bootstrap.servers",
    "kafka.isolation.level",
    # Of clients of a schema registry.
    "schema.registry.url",
    "schema.registry.basic.auth.user.info",
    "schema.registry.ssl.truststore.location",
    # Ours.
    "columns",
    "keyFormat",
    "keyFraming",
    "keyMessage",
    "keySchema",
    "keySubject",
    "onUndecodable",
    "pushFilters",
    "recursiveFieldMaxDepth",
    "refresh",
    "valueFormat",
    "valueFraming",
    "valueMessage",
    "valueSchema",
    "valueSubject",
)
LIKENESS_MIN = 0.85


def refuse_misspelt(given: Iterable[str]) -> None:
    """Raises UsageError for a name that is nearly one of ours."""
    known = {name.lower(): name for name in READING_OPTIONS}
    for name in given:
        near = difflib.get_close_matches(name.lower(), known, 1, LIKENESS_MIN)
        if near and name.lower() not in known:
            raise UsageError(f"option {name} is unknown: did you mean {known[near[0]]}?")
