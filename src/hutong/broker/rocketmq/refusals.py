"""Refusals in RocketMQ's codes, and the codes that errors of the other rooms come to."""

from typing import Final

from hutong.foundation.errors import HutongError, LimitExceeded, PeerError, Refused
from hutong.remoting.channels.answers import refusal
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.rocketmq.codes import ResponseCode
from hutong.wire.rocketmq.command import Command


class RocketRefused(PeerError):
    """A request that is refused with a code of RocketMQ's."""

    def __init__(self, code: ResponseCode, text: str) -> None:
        super().__init__(text)
        self.code = code


_CODES: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: ResponseCode.NO_PERMISSION,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: ResponseCode.NO_PERMISSION,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ResponseCode.NO_PERMISSION,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ResponseCode.TOPIC_NOT_EXIST,
    ErrorCode.INVALID_TOPIC_EXCEPTION: ResponseCode.TOPIC_NOT_EXIST,
    ErrorCode.MESSAGE_TOO_LARGE: ResponseCode.MESSAGE_ILLEGAL,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: ResponseCode.SYSTEM_BUSY,
    ErrorCode.OFFSET_OUT_OF_RANGE: ResponseCode.PULL_OFFSET_MOVED,
    # Clients ask for the route again, and send to another queue meanwhile.
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ResponseCode.SERVICE_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ResponseCode.SERVICE_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ResponseCode.SERVICE_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR: ResponseCode.SERVICE_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR: ResponseCode.SERVICE_NOT_AVAILABLE,
}


def code_of(error_code: int) -> ResponseCode:
    """RocketMQ's code for one of Kafka's."""
    return _CODES.get(ErrorCode(error_code), ResponseCode.SYSTEM_ERROR)


def answer_of(error: HutongError) -> Command:
    """The answer to a request that failed."""
    if isinstance(error, RocketRefused):
        return refusal(error.code, str(error))
    if isinstance(error, Refused):
        return refusal(code_of(error.code), str(error))
    # Clients wait a moment and try again, as at RocketMQ's flow control.
    if isinstance(error, LimitExceeded):
        return refusal(ResponseCode.SYSTEM_BUSY, f"[LIMIT]{error}")
    return refusal(ResponseCode.SYSTEM_ERROR, str(error))
