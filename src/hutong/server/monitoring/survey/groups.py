"""Groups of all kinds: their members and states, how far they have read, and how far behind they are.

Strategy: one walk over the names of all groups, oldest first, so that a new one changes no other's series. Lag counts
offsets up to the high watermark, as Kafka's tools do; its age is that of the next record to be read. A group's topic
whose partitions would exceed the bound goes into one sum of that group; groups beyond theirs, into one sum together.

Knows nothing of requests, and decides nothing about groups.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

from hutong.broker.broker import Broker
from hutong.broker.topics.partition import Partition
from hutong.groups.directory import GroupKind
from hutong.groups.share.driver import state_of
from hutong.server.monitoring.exposition import braced
from hutong.server.monitoring.survey.result import (
    OFFSET_LABELS,
    OTHER,
    SHARE_LABELS,
    GroupRow,
    OffsetRow,
    StepBudget,
    Survey,
    SurveyLimits,
)

if TYPE_CHECKING:
    from hutong.broker.coordinators.broker_shard import BrokerShard

Shard: TypeAlias = "Broker | BrokerShard"
_SHARE_WORK: Final = 20  # its progress may have to be decoded
_Place = tuple[Partition, int, int]  # a partition, how far the group has read it, and its lag


class _Rows:
    """The rows of groups of one sort, which the bounds apply to."""

    def __init__(self, limits: SurveyLimits, survey: Survey, *, is_share: bool) -> None:
        self.is_share = is_share
        self._limits = limits
        self._survey = survey
        self._labels = SHARE_LABELS if is_share else OFFSET_LABELS
        self._kind = f"{'share_' if is_share else ''}group"
        self.groups = survey.share_groups if is_share else survey.groups
        self.offsets = survey.share_offsets if is_share else survey.offsets
        self._members = self._offset = self._lag = self._partitions = self._folded_groups = 0

    def room(self) -> int:
        return self._limits.group_partitions_max - len(self.offsets)

    def add_group(self, group_id: str, members: int) -> bool:
        """Add a row for the group; False where the bound is reached, and it is added to the sum instead."""
        # A group may have the very name of the sum: two series of one name would make the page invalid.
        if len(self.groups) < self._limits.groups_max and group_id != OTHER:
            self.groups.append(GroupRow(braced(self._labels[:1], (group_id,)), members))
            return True
        self._folded_groups += 1
        self._members += members
        return False

    def add(self, group_id: str, place: _Place, now_ms: int) -> None:
        partition, offset, lag = place
        labels = braced(self._labels, (group_id, partition.topic_name, str(partition.index)))
        self.offsets.append(OffsetRow(labels, offset, lag, _age_ms(partition, offset, lag, now_ms)))

    def fold(self, place: _Place) -> None:
        self._offset += place[1]
        self._lag += place[2]
        self._partitions += 1

    def end_group(self, group_id: str) -> None:
        """Add the sum of those partitions of a group that have no row."""
        if self._partitions:
            self._add_sum(group_id)

    def end(self) -> None:
        """Add the sum of the groups that have no row."""
        if self._folded_groups:
            self.groups.append(GroupRow(braced(self._labels[:1], (OTHER,)), self._members))
            self._survey.folded[f"{self._kind}s"] += self._folded_groups
        if self._partitions:
            self._add_sum(OTHER)

    def _add_sum(self, group_id: str) -> None:
        # A sum has no age: the next records of several partitions are of different times.
        labels = braced(self._labels, (group_id, OTHER, OTHER))
        self.offsets.append(OffsetRow(labels, self._offset, self._lag, None))
        self._survey.folded[f"{self._kind}_partitions"] += self._partitions
        self._offset = self._lag = self._partitions = 0


def survey_groups(broker: Broker, limits: SurveyLimits, survey: Survey) -> Iterator[None]:
    """Fill in the groups of `survey`, a step at a time."""
    consumers = _Rows(limits, survey, is_share=False)
    sharers = _Rows(limits, survey, is_share=True)
    beyond: list[tuple[Shard, str]] = []  # come last, so that their sums become one
    pace = StepBudget()
    names = ((shard, group_id) for shard in broker.shards for group_id in shard.groups.directory.newest_last())
    for shard, group_id in names:
        kind = shard.groups.directory.kind(group_id)
        found = _state_and_members(shard, group_id, kind)
        # Other work runs between two steps, so a group may have been deleted since its name was read.
        if kind is None or found is None:
            continue
        state, members = found
        survey.states[kind.value, state] += 1
        rows = sharers if kind is GroupKind.SHARE else consumers
        if rows.add_group(group_id, members):
            yield from _survey_offsets(shard, group_id, rows, pace, is_single=True)
        else:
            beyond.append((shard, group_id))
        # Counting members takes time, too: large groups end a step earlier.
        if pace.is_over(1 + members // 10):
            yield
    # A name may belong to another kind of group by now; the sum takes it either way.
    for shard, group_id in beyond:
        rows = sharers if shard.groups.directory.kind(group_id) is GroupKind.SHARE else consumers
        yield from _survey_offsets(shard, group_id, rows, pace, is_single=False)
    consumers.end()
    sharers.end()


def _state_and_members(broker: Shard, group_id: str, kind: GroupKind | None) -> tuple[str, int] | None:
    """State and members, None for a group that has gone meanwhile."""
    if kind is GroupKind.CLASSIC:
        classic = broker.groups.get(group_id)
        return None if classic is None else (classic.state.value, len(classic.member_table.members))
    if kind in (GroupKind.CONSUMER, GroupKind.STREAMS):
        group = broker.consumer_groups.get(group_id) or broker.streams_groups.get(group_id)
        return None if group is None else (group.state.value, len(group.members))
    shared = broker.share_groups.get(group_id)
    return None if shared is None else (state_of(shared), len(shared))


def _survey_offsets(broker: Shard, group_id: str, rows: _Rows, pace: StepBudget, *, is_single: bool) -> Iterator[None]:
    now_ms = broker.clock.wall_ms()
    places = _shared_places(broker, group_id) if rows.is_share else _places(broker, group_id)
    for of_topic in places:
        # All partitions of a topic or none: half of a topic's lag would mislead.
        has_room = is_single and len(of_topic) <= rows.room()
        for place in of_topic:
            if has_room:
                rows.add(group_id, place, now_ms)
            else:
                rows.fold(place)
            if pace.is_over(_SHARE_WORK if rows.is_share else 1):
                yield
    if is_single:
        rows.end_group(group_id)


def _places(broker: Shard, group_id: str) -> Iterator[list[_Place]]:
    """The group's committed offsets, topic by topic."""
    for name in list(broker.groups.offsets.table.of_group(group_id)):
        topic = broker.topics.get(name)
        committed = broker.groups.offsets.table.of_group(group_id).get(name)  # read again: a step may have passed
        if topic is None or committed is None:
            continue
        found: list[_Place] = []
        for index in sorted(committed):
            partition = topic.partition(index)
            if partition is not None:
                offset = committed[index].offset
                # Never below zero: a group may have committed an offset past the end, or the log was cut off.
                found.append((partition, offset, max(0, partition.log.high_watermark - offset)))
        yield found


def _shared_places(broker: Shard, group_id: str) -> Iterator[list[_Place]]:
    """A share group's offsets. Records acknowledged after the offset are no lag (KIP-1226)."""
    progress = broker.share_progress
    for key in progress.keys_of(group_id):
        topic = broker.topics.by_id(key.topic_id)
        partition = topic.partition(key.partition) if topic is not None else None
        found = progress.summary(key)
        if partition is not None and found is not None:
            lag = max(0, partition.log.high_watermark - found.start_offset - found.done_ahead)
            yield [(partition, found.start_offset, lag)]


def _age_ms(partition: Partition, offset: int, lag: int, now_ms: int) -> int | None:
    if not lag:
        return 0
    # -1 where memory has no time for the offset. Clients set the times, so one may be in the future.
    timestamp_ms = partition.log.timestamp_near(offset)
    return None if timestamp_ms < 0 else max(0, now_ms - timestamp_ms)
