"""WriteTxnMarkers (key 27), versions 1 to 2, flexible from 1.

Coordinators send it to the partitions' leaders, administrators to abort a transaction that hangs (KIP-664). Version 2
adds the transaction's version (KIP-1228).
"""

from hutong.wire.kafka.apis.shared import PartitionErrorCode
from hutong.wire.kafka.schema import INT32, array, boolean, int8, int16, int32, int64, message, string, struct


@struct
class WritableTxnMarkerTopic:
    name: str = string()
    partition_indexes: list[int] = array(INT32)


@struct
class WritableTxnMarker:
    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_result: bool = boolean()
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)
    coordinator_epoch: int = int32()
    transaction_version: int = int8("2+")


@message(api_key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersRequest:
    markers: list[WritableTxnMarker] = array(WritableTxnMarker)


@struct
class WritableTxnMarkerTopicResult:
    name: str = string()
    partitions: list[PartitionErrorCode] = array(PartitionErrorCode)


@struct
class WritableTxnMarkerResult:
    producer_id: int = int64()
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult)


@message(api_key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersResponse:
    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult)
