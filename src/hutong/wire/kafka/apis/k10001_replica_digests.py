"""ReplicaDigests (key 10001), version 0, flexible: digests of what a replica of a partition holds. Hutong's own.

An entry of `entries` is an offset (eight bytes, big-endian) and eight bytes of the digest of the batch or the record
there. With `limit_offset` -1 the answer has the offsets of the replica alone.
"""

from hutong.wire.kafka.schema import boolean, int16, int32, int64, message, opaque, string


@message(api_key=10_001, versions="0", flexible="0+")
class ReplicaDigestsRequest:
    node_id: int = int32()
    topic: str = string()
    partition: int = int32()
    offset: int = int64()
    limit_offset: int = int64(default=-1)
    max_bytes: int = int32()
    by_record: bool = boolean()


@message(api_key=10_001, versions="0", flexible="0+")
class ReplicaDigestsResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    group: str = string()
    start_offset: int = int64()
    high_watermark: int = int64()
    cleaned_offset: int = int64()
    next_offset: int = int64()
    read_bytes: int = int64()
    entries: bytes = opaque()
