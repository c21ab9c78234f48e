"""Rules for the start and end of a range, from the options: offsets, timestamps, earliest, latest.

Names, forms and precedence are those of Spark's own Kafka source: one timestamp for all comes before timestamps by
partition, and those before offsets. Knows nothing of clusters: `planning.resolve` turns a rule into offsets.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from hutong.foundation.errors import UsageError
from hutong.pipelines.client.cluster import EARLIEST, LATEST, TopicPartition
from hutong.pipelines.option_values import count, parsed, typed

ENDING_OPTIONS = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")


@dataclass(frozen=True, slots=True)
class OffsetRule:
    """A rule for one end of a range: by partition if given, else by timestamp, else the position `otherwise`.

    Offsets may be `EARLIEST` or `LATEST`. `must_match`: a timestamp after the last record is an error; if not, it means
    the end of the partition. `option` is the option's name as the user wrote it.
    """

    otherwise: int
    offsets: Mapping[TopicPartition, int] | None = None
    timestamp_ms: int | None = None
    timestamps_ms: Mapping[TopicPartition, int] | None = None
    must_match: bool = True
    option: str = field(default="startingOffsets", compare=False)


def starting_rule(options: Mapping[str, str], streaming: bool) -> OffsetRule:
    """By default a stream starts at the end, a batch at the beginning. Raises UsageError."""
    rule = _rule(options, "starting", LATEST if streaming else EARLIEST)
    # As Spark's own source refuses it.
    if not streaming and (rule.otherwise == LATEST or LATEST in (rule.offsets or {}).values()):
        raise UsageError("startingOffsets cannot be latest in a batch query: there would be nothing to read")
    return rule


def ending_rule(options: Mapping[str, str], streaming: bool) -> OffsetRule:
    """Raises UsageError; a stream has no end."""
    if streaming:
        given = [name for name in ENDING_OPTIONS if name in options]
        if given:
            raise UsageError(f"option {given[0]} is for batch queries: a stream reads on; leave it out")
        return OffsetRule(LATEST, option="endingOffsets")
    rule = _rule(options, "ending", LATEST)
    if rule.otherwise == EARLIEST or EARLIEST in (rule.offsets or {}).values():
        raise UsageError("endingOffsets cannot be earliest: there would be nothing to read")
    return rule


def assignment(text: str) -> list[TopicPartition]:
    """Read {"topic": [0, 1]}. Raises ValueError."""
    assigned = [
        TopicPartition(typed(topic, str), typed(partition, int))
        for topic, partitions in typed(json.loads(text), dict).items()
        for partition in typed(partitions, list)
    ]
    if not assigned:
        raise ValueError("it names no partition")
    return assigned


def _rule(options: Mapping[str, str], side: str, default: int) -> OffsetRule:
    option = f"{side}Timestamp"
    timestamp_ms = count(options, option, least=0)
    # In the order of Spark's own source: one timestamp, timestamps by partition, offsets.
    if timestamp_ms is not None:
        return OffsetRule(default, timestamp_ms=timestamp_ms, must_match=_must_match(options, side), option=option)
    option = f"{side}OffsetsByTimestamp"
    if option in options:
        timestamps_ms = parsed(option, options[option], _by_partition)
        return OffsetRule(default, timestamps_ms=timestamps_ms, must_match=_must_match(options, side), option=option)
    option = f"{side}Offsets"
    text = options.get(option, "").strip()
    if text.lower() in ("", "earliest", "latest"):
        return OffsetRule({"earliest": EARLIEST, "latest": LATEST}.get(text.lower(), default), option=option)
    return OffsetRule(default, offsets=parsed(option, text, _by_partition), option=option)


def _must_match(options: Mapping[str, str], side: str) -> bool:
    """End after the last record are the end; starts after it are an error unless the user allows them."""
    strategy = options.get("startingOffsetsByTimestampStrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise UsageError(f"option startingOffsetsByTimestampStrategy is '{strategy}': take error or latest")
    return side == "starting" and strategy == "error"


def _by_partition(text: str) -> dict[TopicPartition, int]:
    """Read {"topic": {"0": 23, "1": -2}}."""
    return {
        TopicPartition(typed(topic, str), int(partition)): _position(typed(number, int))
        for topic, numbers in typed(json.loads(text), dict).items()
        for partition, number in typed(numbers, dict).items()
    }


def _position(number: int) -> int:
    if number < EARLIEST:
        raise ValueError(f"{number} is no offset: take one from 0, -1 for latest or -2 for earliest")
    return number
