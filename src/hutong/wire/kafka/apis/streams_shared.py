"""Tables that both APIs of streams groups (KIP-1071) share, with the same rows in each."""

from hutong.wire.kafka.schema import INT32, array, int16, int32, int64, string, struct, uint16, value


@struct
class KeyValue:
    key: str = string()
    value: str = string()


@struct
class TopicInfo:
    """An internal topic. No partitions: their number follows from other topics; no replication factor: the default."""

    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: list[KeyValue] = array(KeyValue)


@value
class Endpoint:
    """The address at which a client answers interactive queries."""

    host: str = string()
    port: int = uint16()


@struct
class TaskOffset:
    subtopology_id: str = string()
    partition: int = int32()
    offset: int = int64()


@struct
class TaskIds:
    subtopology_id: str = string()
    partitions: list[int] = array(INT32)
