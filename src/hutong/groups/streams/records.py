"""Records of streams groups, in Kafka's layout of `__consumer_offsets`.

Kafka's layout (StreamsGroupMetadata 17, StreamsGroupMemberMetadata 19, StreamsGroupTargetAssignmentMetadata 20,
StreamsGroupTargetAssignmentMember 21, StreamsGroupCurrentMemberAssignment 22, StreamsGroupTopology 23) so that tools
that read that topic read ours. The group's metadata hash is our own function of the topics.

Strategy: their values (`record_values.py`) are imported with the first record. Most nodes have no streams groups, and
every start would pay for a dozen tables (10 ms).

Pure.
"""

from typing import Any, Final

from hutong.groups.assigned.messages import RecordKind
from hutong.groups.assigned.records import GroupRecords
from hutong.groups.streams.core import StreamsGroupCore
from hutong.groups.streams.messages import StoredStreamsGroup


class StreamsGroupRecords(GroupRecords[StoredStreamsGroup]):
    """The records of streams groups."""

    def value(self, group: StreamsGroupCore, kind: RecordKind, member_id: str) -> Any:
        from hutong.groups.streams import record_values  # late, see above

        return record_values.value_of(group, kind, member_id)

    def apply(self, group: StoredStreamsGroup, kind: RecordKind, member_id: str, value: bytes) -> None:
        from hutong.groups.streams import record_values  # late, see above

        record_values.apply(group, kind, member_id, value)


RECORDS: Final = StreamsGroupRecords(
    {
        RecordKind.GROUP: 17,
        RecordKind.MEMBER: 19,
        RecordKind.TARGET_EPOCH: 20,
        RecordKind.TARGET: 21,
        RecordKind.CURRENT: 22,
        RecordKind.TOPOLOGY: 23,
    },
    StoredStreamsGroup,
)
