"""Share groups and streams groups: their node tells members and progress, since confluent-kafka has no such requests.

Strategy: the node is asked with its own rights. So the brokers are asked as the user before and after: for the group,
and for its topics. A group that reads a topic which the user may not see is refused, as brokers refuse to describe it.

Decides nothing about groups.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hutong.console.groups.reading import committed_of, ends_of, existing_places, log_spans
from hutong.console.groups.resets.plan import LogSpan
from hutong.console.groups.shown import partition_shown
from hutong.foundation.errors import HutongError
from hutong.web.answers import WebRefusal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka.admin import AdminClient

    from hutong.console.desk import ConsoleDesk
    from hutong.console.groups.resets.plan import Place

SHARE: Final = "share"
STREAMS: Final = "streams"
Assigned = dict[str, list[int]]
_NOT_BEGUN: Final = (None, None)


@dataclass(frozen=True, slots=True)
class OtherMember:
    """`assigned` are partitions by topic, or tasks by subtopology in a streams group, as are the standby tasks."""

    member_id: str
    client_id: str
    host: str
    assigned: Assigned
    instance_id: str | None = None
    standby: Assigned = field(default_factory=dict)
    target: Assigned | None = None


@dataclass(frozen=True, slots=True)
class OtherGroup:
    """A group as `node` keeps it.

    `begun` has the first offset that is not done and the lag, of each partition of a share group; either may be None.
    `sources` are the topics that a subtopology of a streams group reads.
    """

    name: str
    kind: str
    state: str
    node: int
    assignor: str | None
    members: list[OtherMember]
    begun: dict[Place, tuple[int | None, int | None]] = field(default_factory=dict)
    sources: dict[str, list[str]] = field(default_factory=dict)

    @property
    def assigned(self) -> set[Place]:
        """The partitions that members of a share group have."""
        if self.kind != SHARE:
            return set()
        return {(topic, one) for member in self.members for topic, some in member.assigned.items() for one in some}

    @property
    def topics(self) -> list[str]:
        """All that the group reads."""
        shared = {topic for topic, _ in (*self.begun, *self.assigned)}
        return sorted(shared.union(*self.sources.values()))


async def other_group(desk: ConsoleDesk, admin: AdminClient, name: str) -> OtherGroup | None:
    """The group; None where there is none, or no node to ask. Raises WebRefusal: 403, 503."""
    if desk.node is None:
        return None
    # Of a group of another type brokers tell no offsets, but they check that the user may describe it.
    await desk.blocking(partial(committed_of, admin, name))
    try:
        return await desk.node.other_group(name)
    except HutongError as error:
        raise WebRefusal(503, f"{error} Look again in a moment.", 50301) from None


def other_shown(group: OtherGroup, spans: Iterable[LogSpan], own_node: int) -> dict[str, Any]:
    """The group as JSON, in the form of the groups of consumers."""
    partitions = [partition_shown(span, None) for span in spans]
    for each in partitions if group.kind == SHARE else ():
        # Records that were done ahead of the first open one are no lag: the broker knows them.
        each["lag"] = group.begun.get((each["topic"], each["partition"]), _NOT_BEGUN)[1]
    return {
        "name": group.name,
        "state": group.state,
        "type": group.kind,
        "is_simple": False,
        "assignor": group.assignor,
        "coordinator": group.node,
        "is_elsewhere": group.node != own_node,
        "members": [_member(member) for member in group.members],
        "sources": group.sources,
        "partitions": partitions,
        "lag": sum(each["lag"] or 0 for each in partitions),
    }


def other_spans(admin: AdminClient, group: OtherGroup) -> list[LogSpan]:
    """The group's place in each partition, and what the log has there. Blocks. Raises KafkaException."""
    places = existing_places(admin, group.topics)
    # Streams groups commit offsets as consumers do.
    if group.kind == STREAMS:
        return log_spans(admin, group.name, also=places)
    read = {*group.begun, *group.assigned}
    spans = log_spans(admin, group.name, [place for place in places if place in read])
    return [LogSpan(one.place, one.begin, one.end, group.begun.get(one.place, _NOT_BEGUN)[0]) for one in spans]


def share_sums(admin: AdminClient, group: OtherGroup) -> tuple[int, int, int]:
    """The sums of what is done and of the ends, over the partitions with a lag, and their number. Blocks."""
    lags = {place: lag for place, (_, lag) in group.begun.items() if lag is not None}
    ends = ends_of(admin, lags)
    known = [place for place in lags if place in ends]
    end = sum(ends[place] for place in known)
    return end - sum(lags[place] for place in known), end, len(known)


def _member(member: OtherMember) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "client_id": member.client_id,
        "instance_id": member.instance_id,
        "host": member.host.removeprefix("/"),
        "assigned": member.assigned,
        "standby": member.standby,
        "target": member.target,
    }
