"""Groups as JSON for the pages.

Decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hutong.console.groups.lag_history import LagPace, LagSample
    from hutong.console.groups.resets.plan import LogSpan, Place, ResetRow

Json = dict[str, Any]


def state_shown(state: Any) -> str:
    """The state as Kafka's tools write it, in lower case: `stable`, `preparing rebalance`."""
    return str(state.name).lower().replace("_", " ").replace("rebalancing", "rebalance")


def listed_group(found: Any) -> Json:
    return {
        "name": found.group_id,
        "state": state_shown(found.state),
        "type": _type(found),
        # Nobody has ever joined it: a program commits to it by itself.
        "is_simple": found.is_simple_consumer_group,
    }


def group_shown(found: Any, spans: Sequence[LogSpan]) -> Json:
    """The group with its members, the assignment, and offsets by partition."""
    owners = {place: member.member_id for member in found.members for place in places_assigned(member)}
    partitions = [partition_shown(span, owners.get(span.place)) for span in spans]
    return {
        "name": found.group_id,
        "state": state_shown(found.state),
        "type": _type(found),
        "is_simple": found.is_simple_consumer_group,
        "assignor": found.partition_assignor or None,
        "coordinator": None if found.coordinator is None else found.coordinator.id,
        "members": [_member(member) for member in found.members],
        "partitions": partitions,
        "lag": sum(each["lag"] or 0 for each in partitions),
    }


def partition_shown(span: LogSpan, member_id: str | None) -> Json:
    topic, partition = span.place
    lag = None if span.committed is None else max(0, span.end - span.committed)
    return {
        "topic": topic, "partition": partition, "committed": span.committed, "begin": span.begin, "end": span.end,
        "lag": lag, "member_id": member_id,
    }  # fmt: skip


def places_assigned(member: Any) -> list[Place]:
    return [] if member.assignment is None else _places(member.assignment)


def row_shown(row: ResetRow) -> Json:
    topic, partition = row.place
    return {
        "topic": topic, "partition": partition, "before": row.before, "after": row.after, "begin": row.begin,
        "end": row.end, "again": row.again, "is_change": row.is_change, "reason": row.reason,
    }  # fmt: skip


def sample_shown(sample: LagSample) -> Json:
    return {"time_ms": sample.time_ms, "lag": sample.lag, "committed": sample.committed, "end": sample.end}


def pace_shown(pace: LagPace) -> Json:
    return {
        "consumed_per_s": pace.consumed_per_s,
        "produced_per_s": pace.produced_per_s,
        "catch_up_s": pace.catch_up_s,
    }


def offsets_shown(offsets: Mapping[Place, int | None]) -> Json:
    """Offsets for the audit: `topic/partition` and the number."""
    return {f"{topic}/{partition}": offset for (topic, partition), offset in offsets.items()}


def _member(member: Any) -> Json:
    target = getattr(member, "target_assignment", None)
    return {
        "member_id": member.member_id,
        "client_id": member.client_id,
        "instance_id": member.group_instance_id,
        "host": member.host.removeprefix("/"),
        "assigned": _assigned(places_assigned(member)),
        # Of the consumer protocol (KIP-848): what the member will have once others have let go.
        "target": None if target is None else _assigned(_places(target)),
    }


def _assigned(places: list[Place]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(places):
        found.setdefault(topic, []).append(partition)
    return found


def _places(assignment: Any) -> list[Place]:
    return [(each.topic, each.partition) for each in assignment.topic_partitions]


def _type(found: Any) -> str:
    kind = getattr(found, "type", None)
    return "classic" if kind is None else str(kind.name).lower()
