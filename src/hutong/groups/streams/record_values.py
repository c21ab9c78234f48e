"""Values of the records of streams groups, written and read. `records.py` says which record is which.

Pure.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from hutong.foundation.errors import CorruptData, Refused
from hutong.groups.assigned.messages import RecordKind, StoredCurrent
from hutong.groups.assigned.records import TargetEpochValue, epochs_of
from hutong.groups.record_keys import decode_record
from hutong.groups.streams.configs import STANDBY_REPLICAS
from hutong.groups.streams.core import StreamsGroupCore
from hutong.groups.streams.member import StreamsMember
from hutong.groups.streams.messages import NOT_VALIDATED, Holding, StoredStreamsGroup, TaskRole
from hutong.groups.streams.record_tables import (
    GivenTasks,
    StreamsCurrentValue,
    StreamsGroupValue,
    StreamsMemberValue,
    StreamsTargetValue,
    TopologyValue,
)
from hutong.groups.streams.topology import Topology
from hutong.groups.streams.wire_topology import decoded, encoded
from hutong.wire.kafka.apis.streams_shared import Endpoint, KeyValue, TaskIds

_STANDBYS: Final = STANDBY_REPLICAS.removeprefix("streams.")  # Kafka's name of the setting in the record


def value_of(group: StreamsGroupCore, kind: RecordKind, member_id: str) -> Any:
    """The value of a record that the group has."""
    if kind is RecordKind.GROUP:
        return _group_value(group)
    # A group whose first heartbeat was refused has none.
    if kind is RecordKind.TOPOLOGY:
        return None if group.topology is None else TopologyValue(group.topology.epoch, encoded(group.topology))
    if kind is RecordKind.TARGET_EPOCH:
        return TargetEpochValue(group.assignment_epoch)
    member = group.members[member_id]
    if kind is RecordKind.MEMBER:
        return _member_value(member)
    if kind is RecordKind.TARGET:
        target = group.targets[member_id]
        return StreamsTargetValue(tasks_in(target, TaskRole.ACTIVE), tasks_in(target, TaskRole.STANDBY), [])
    return StreamsCurrentValue(
        member.epoch,
        member.previous_epoch,
        int(member.state),
        _given(member.assigned, TaskRole.ACTIVE),
        _given(member.assigned, TaskRole.STANDBY),
        [],
        _given(member.revoking, TaskRole.ACTIVE),
        _given(member.revoking, TaskRole.STANDBY),
        [],
    )


def apply(group: StoredStreamsGroup, kind: RecordKind, member_id: str, value: bytes) -> None:
    """Take over one value."""
    if kind is RecordKind.GROUP:
        decoded_group = decode_record(StreamsGroupValue, value)
        group.epoch, group.metadata_hash = decoded_group.epoch, decoded_group.metadata_hash
        group.standby_replicas = _standby_replicas(decoded_group)
    elif kind is RecordKind.TOPOLOGY:
        group.topology = _topology(decode_record(TopologyValue, value))
    elif kind is RecordKind.TARGET_EPOCH:
        group.assignment_epoch = decode_record(TargetEpochValue, value).assignment_epoch
    elif kind is RecordKind.MEMBER:
        group.members[member_id] = decode_record(StreamsMemberValue, value)
    elif kind is RecordKind.TARGET:
        target = decode_record(StreamsTargetValue, value)
        group.targets[member_id] = holdings_in(target.active_tasks, target.standby_tasks)
    else:
        group.currents[member_id] = _current(decode_record(StreamsCurrentValue, value))


def tasks_in(holdings: Iterable[Holding], role: TaskRole) -> list[TaskIds]:
    """The tasks in one role, by subtopology, as requests and records have them."""
    found: dict[str, list[int]] = {}
    for has_as, subtopology, index in sorted(holdings):
        if has_as is role:
            found.setdefault(subtopology, []).append(index)
    # Sorted, so that the same tasks are the same bytes.
    return [TaskIds(subtopology, indexes) for subtopology, indexes in found.items()]


def holdings_in(active: Iterable[TaskIds], standby: Iterable[TaskIds]) -> frozenset[Holding]:
    """The tasks of requests and records, in their roles."""
    return frozenset(
        (role, each.subtopology_id, index)
        for role, tasks in ((TaskRole.ACTIVE, active), (TaskRole.STANDBY, standby))
        for each in tasks
        for index in each.partitions
    )


def _group_value(group: StreamsGroupCore) -> StreamsGroupValue:
    # Kafka writes the epoch of a topology once its topics are there.
    is_validated = group.topology is not None and group.configured.is_ready
    return StreamsGroupValue(
        group.epoch,
        group.metadata_hash,
        group.topology.epoch if is_validated and group.topology is not None else NOT_VALIDATED,
        [KeyValue(_STANDBYS, str(group.times.standby_replicas))],
    )


def _standby_replicas(value: StreamsGroupValue) -> int:
    # A group whose last target had none, or of a version of Kafka that did not write it.
    configs = {config.key: config.value for config in value.last_assignment_configs or ()}
    try:
        return int(configs.get(_STANDBYS, "0"))
    except ValueError as error:
        raise CorruptData(f"a streams group in the groups' topic: {error}") from error


def _member_value(member: StreamsMember) -> StreamsMemberValue:
    return StreamsMemberValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if member.endpoint is None else Endpoint(*member.endpoint),
        client_tags=[KeyValue(key, value) for key, value in member.client_tags],
    )


def _given(holdings: Mapping[Holding, int], role: TaskRole) -> list[GivenTasks]:
    return [
        GivenTasks(
            tasks.subtopology_id,
            tasks.partitions,
            # As in Kafka epochs fence commits, which active tasks alone make.
            [holdings[role, tasks.subtopology_id, index] for index in tasks.partitions]
            if role is TaskRole.ACTIVE
            else None,
        )
        for tasks in tasks_in(holdings, role)
    ]


def _topology(value: TopologyValue) -> Topology:
    try:
        return decoded(value.epoch, value.subtopologies)
    except Refused as refused:
        raise CorruptData(f"a topology in the groups' topic: {refused.message}") from refused


def _current(value: StreamsCurrentValue) -> StoredCurrent[Holding]:
    epoch = value.member_epoch
    return StoredCurrent(
        epoch=epoch,
        previous_epoch=value.previous_member_epoch,
        state=value.state,
        assigned=_taken(value.active_tasks, TaskRole.ACTIVE, epoch)
        | _taken(value.standby_tasks, TaskRole.STANDBY, epoch),
        revoking=_taken(value.active_tasks_pending_revocation, TaskRole.ACTIVE, epoch)
        | _taken(value.standby_tasks_pending_revocation, TaskRole.STANDBY, epoch),
    )


def _taken(given: Iterable[GivenTasks], role: TaskRole, member_epoch: int) -> dict[Holding, int]:
    return {
        (role, each.subtopology_id, index): epoch
        for each in given
        for index, epoch in epochs_of(each.partitions, each.assignment_epochs, member_epoch)
    }
