"""DeleteTopics (key 20), versions 1 to 6, flexible from 4.

Version 5 adds the message, 6 deletes by name or by id (KIP-516); until then TopicNames holds the names.
"""

from hutong.wire.kafka.schema import STRING, array, int16, int32, message, string, struct, uuid


@struct
class DeleteTopicState:
    name: str | None = string(nullable="0+", default=None)
    topic_id: bytes = uuid()


@message(api_key=20, versions="1-6", flexible="4+")
class DeleteTopicsRequest:
    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = array(STRING, "0-5")
    timeout_ms: int = int32()


@struct
class DeletableTopicResult:
    name: str | None = string(nullable="6+")
    topic_id: bytes = uuid("6+")
    error_code: int = int16()
    error_message: str | None = string("5+", nullable="5+", default=None)


@message(api_key=20, versions="1-6", flexible="4+")
class DeleteTopicsResponse:
    throttle_time_ms: int = int32()
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)
