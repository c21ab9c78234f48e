"""The client library's errors as ours, and which of them will not pass by themselves.

Knows nothing of what is done about them.
"""

from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from hutong.bus.durable.outcomes import PublishFailed

HOPELESS: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_RECORD,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.INVALID_GROUP_ID,
        KafkaError.INCONSISTENT_GROUP_PROTOCOL,
        KafkaError.POLICY_VIOLATION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError._INVALID_ARG,
    }
)
"""Trying again does not help until somebody changes something."""

_MAYBE_STORED: Final = frozenset(
    {KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT, KafkaError._PURGE_INFLIGHT, KafkaError.REQUEST_TIMED_OUT}
)


def cause_of(error: Any) -> KafkaError:
    cause: KafkaError = error.args[0] if isinstance(error, KafkaException) else error
    return cause


def is_hopeless(error: Any) -> bool:
    return cause_of(error).code() in HOPELESS


def publish_failed(topic: str, error: Any) -> PublishFailed:
    cause = cause_of(error)
    return PublishFailed(
        f"{topic}: {cause.str()}",
        code=cause.name(),
        is_outcome_unknown=cause.code() in _MAYBE_STORED,
        is_hopeless=cause.code() in HOPELESS,
    )
