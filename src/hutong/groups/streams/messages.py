"""Events, replies and descriptions of a streams group, and its durable state.

Plain values. A `ticket` names one waiting request: the group answers each ticket exactly once, and the driver that
carries the answer out waits until everything that the group had stored until then is durable. `now_ms` is monotonic
time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, TypeAlias

from hutong.foundation.machine import Answer, Tick
from hutong.groups.assigned import records as stored
from hutong.groups.assigned.messages import (
    NO_TIMEOUT,
    EpochNote,
    Remove,
    RemoveReply,
    StoreFailed,
    StoreRecords,
    SubscribedTopicsChanged,
)
from hutong.groups.streams.topics import NewTopic, Status
from hutong.groups.streams.topology import Topology
from hutong.wire.kafka.error_codes import ErrorCode


class TaskRole(IntEnum):
    """The way in which a member runs a task: it processes records, or it keeps a copy of the task's state."""

    ACTIVE = 0
    STANDBY = 1


Holding: TypeAlias = tuple[TaskRole, str, int]
"""A task in a role: (role, subtopology, partition)."""

Endpoint: TypeAlias = tuple[str, int]
"""Host and port at which a client answers interactive queries."""

NOT_VALIDATED: Final = -1  # topology epoch of a group whose topics are not there yet


# ---- events


@dataclass(frozen=True, slots=True)
class StreamsHeartbeat:
    """StreamsGroupHeartbeat. None means "unchanged"."""

    ticket: int
    now_ms: int
    member_id: str
    epoch: int  # 0 joins, negative ones leave
    endpoint_epoch: int = 0  # of the endpoints that the client knows
    rack_id: str | None = None
    rebalance_timeout_ms: int = NO_TIMEOUT
    topology: Topology | None = None  # said by a member that joins
    owned: frozenset[Holding] | None = None  # in all roles; clients say them together
    process_id: str | None = None  # all threads of one process share the folders of their tasks
    endpoint: Endpoint | None = None  # `application.server`
    client_tags: tuple[tuple[str, str], ...] | None = None  # kept and shown; the assignor does not use them
    shuts_down: bool = False  # the member asks for the end of the whole application
    client_id: str = ""
    client_host: str = ""


Event: TypeAlias = StreamsHeartbeat | Remove | Tick | SubscribedTopicsChanged | StoreFailed


# ---- replies


@dataclass(frozen=True, slots=True)
class EndpointPartitions:
    """The share of a client with an endpoint: the partitions of each topic that its tasks read."""

    endpoint: Endpoint
    active: Mapping[str, tuple[int, ...]]  # topic -> partitions
    standby: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class StreamsReply:
    """`assignment` is None where the member knows it already, `endpoints` likewise."""

    error: ErrorCode
    message: str | None = None
    member_id: str = ""
    epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: frozenset[Holding] | None = None
    status: tuple[Status, ...] = ()  # several may hold at a time
    to_create: tuple[NewTopic, ...] = ()  # for the handler, not for the client
    endpoint_epoch: int = 0
    endpoints: tuple[EndpointPartitions, ...] | None = None


Reply: TypeAlias = StreamsReply | RemoveReply
Instruction: TypeAlias = Answer[Reply] | StoreRecords | EpochNote


# ---- descriptions


@dataclass(frozen=True, slots=True)
class StreamsMemberDescription:
    member_id: str
    rack_id: str | None
    epoch: int
    client_id: str
    client_host: str
    topology_epoch: int  # of the topology that it joined with
    process_id: str
    endpoint: Endpoint | None
    client_tags: tuple[tuple[str, str], ...]
    assigned: frozenset[Holding]
    target: frozenset[Holding]


@dataclass(frozen=True, slots=True)
class StreamsGroupDescription:
    """A group as StreamsGroupDescribe shows it; `partition_counts` is empty while topics are missing or do not fit."""

    group_id: str
    state: str
    epoch: int
    assignment_epoch: int
    topology: Topology | None
    partition_counts: Mapping[str, int]
    members: tuple[StreamsMemberDescription, ...]


# ---- stored


@dataclass(slots=True)
class StoredStreamsGroup(stored.StoredGroup[Any, Holding]):
    """A group as replayed from its records."""

    topology: Topology | None = None
    standby_replicas: int = 0  # of the last target
