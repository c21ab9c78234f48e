"""Metadata (key 3), versions 0 to 13, flexible from 9.

Topics to ask for: in version 0 an empty list means all; from version 1 null means all and an empty list none. Version 1
adds racks, the controller and internal topics, 2 the cluster id, 4 the switch for auto-creation, 5 offline replicas, 7
leader epochs, 8 authorized operations (KIP-430), of which those of the cluster leave with 11 (KIP-700). Version 10 adds
topic ids, which may be asked for from 12 (KIP-516); such answers have a null name. Version 13 adds a top-level error.
"""

from hutong.wire.kafka.schema import INT32, array, boolean, int16, int32, message, string, struct, uuid


@struct
class MetadataRequestTopic:
    topic_id: bytes = uuid("10+")
    name: str | None = string(nullable="10+")


@message(api_key=3, versions="0-13", flexible="9+")
class MetadataRequest:
    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable="1+")
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10")
    include_topic_authorized_operations: bool = boolean("8+")


@struct
class MetadataResponseBroker:
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string("1+", nullable="1+", default=None)


@struct
class MetadataResponsePartition:
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32("7+", default=-1)
    replica_nodes: list[int] = array(INT32)
    isr_nodes: list[int] = array(INT32)
    offline_replicas: list[int] = array(INT32, "5+")


@struct
class MetadataResponseTopic:
    error_code: int = int16()
    name: str | None = string(nullable="12+")
    topic_id: bytes = uuid("10+")
    is_internal: bool = boolean("1+")
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32("8+", default=-(2**31))  # a bit set; the default means "not asked for"


@message(api_key=3, versions="0-13", flexible="9+")
class MetadataResponse:
    throttle_time_ms: int = int32("3+")
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string("2+", nullable="2+", default=None)
    controller_id: int = int32("1+", default=-1)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32("8-10", default=-(2**31))
    error_code: int = int16("13+")
