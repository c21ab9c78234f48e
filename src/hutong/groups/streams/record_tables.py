"""The layouts of streams groups' records: those of Kafka's `__consumer_offsets`, as tables.

Pure. `records.py` says which record has which.
"""

from hutong.wire.kafka.apis.k88_streams_group_heartbeat import Subtopology
from hutong.wire.kafka.apis.streams_shared import Endpoint, KeyValue, TaskIds
from hutong.wire.kafka.schema import INT32, array, int8, int32, int64, message, nested, string
from hutong.wire.kafka.schema import struct as table


@message(versions="0-0", flexible="0+")
class StreamsGroupValue:
    epoch: int = int32()
    metadata_hash: int = int64()  # here without a tag, other than in a consumer group's record
    validated_topology_epoch: int = int32(tag=0, default=-1)  # -1 while topics are missing
    last_assignment_configs: list[KeyValue] | None = array(KeyValue, nullable="0+", tag=1, default=None)


@message(versions="0-0", flexible="0+")
class TopologyValue:
    # Kafka's record repeats the rows of the heartbeat that brought the topology.
    epoch: int = int32()
    subtopologies: list[Subtopology] = array(Subtopology)


@message(versions="0-0", flexible="0+")
class StreamsMemberValue:
    instance_id: str | None = string(nullable="0+")  # always null: there are no static members
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout_ms: int = int32(default=-1)
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: Endpoint | None = nested(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] = array(KeyValue)


@message(versions="0-0", flexible="0+")
class StreamsTargetValue:
    active_tasks: list[TaskIds] = array(TaskIds)
    standby_tasks: list[TaskIds] = array(TaskIds)
    warmup_tasks: list[TaskIds] = array(TaskIds)  # always empty, as in Kafka 4.3


@table
class GivenTasks:
    subtopology_id: str = string()
    partitions: list[int] = array(INT32)
    assignment_epochs: list[int] | None = array(INT32, nullable="0+", tag=0, default=None)  # KIP-1251


@message(versions="0-0", flexible="0+")
class StreamsCurrentValue:
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    active_tasks: list[GivenTasks] = array(GivenTasks)
    standby_tasks: list[GivenTasks] = array(GivenTasks)
    warmup_tasks: list[GivenTasks] = array(GivenTasks)
    active_tasks_pending_revocation: list[GivenTasks] = array(GivenTasks)
    standby_tasks_pending_revocation: list[GivenTasks] = array(GivenTasks)
    warmup_tasks_pending_revocation: list[GivenTasks] = array(GivenTasks)
