"""Errors of brokers as answers of HTTP, with the codes of Confluent's REST proxy: the status, and two digits more.

Knows nothing of requests.
"""

from __future__ import annotations

from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from hutong.web.answers import WebAnswer, WebRefusal, json

_NOT_HERE: Final = (404, 40403)
_WRONG: Final = (400, 40002)
_FORBIDDEN: Final = (403, 40301)
_BUSY: Final = (503, 50301)
_TOO_MANY: Final = (429, 42901)
_BY_CODE: Final[dict[int, tuple[int, int]]] = {
    KafkaError.UNKNOWN_TOPIC_OR_PART: _NOT_HERE,
    KafkaError._UNKNOWN_TOPIC: _NOT_HERE,
    KafkaError._UNKNOWN_PARTITION: _NOT_HERE,
    KafkaError.GROUP_ID_NOT_FOUND: _NOT_HERE,
    KafkaError.RESOURCE_NOT_FOUND: _NOT_HERE,
    KafkaError.TOPIC_ALREADY_EXISTS: _WRONG,
    KafkaError.TOPIC_EXCEPTION: _WRONG,
    KafkaError.INVALID_PARTITIONS: _WRONG,
    KafkaError.INVALID_REPLICATION_FACTOR: _WRONG,
    KafkaError.INVALID_CONFIG: _WRONG,
    KafkaError.SECURITY_DISABLED: _WRONG,
    KafkaError.UNACCEPTABLE_CREDENTIAL: _WRONG,
    KafkaError.INVALID_REQUEST: _WRONG,
    KafkaError.POLICY_VIOLATION: _WRONG,
    KafkaError.INVALID_RECORD: _WRONG,
    KafkaError.INVALID_TIMESTAMP: _WRONG,
    KafkaError._INVALID_ARG: _WRONG,
    KafkaError.OFFSET_OUT_OF_RANGE: _WRONG,
    KafkaError._AUTO_OFFSET_RESET: _WRONG,  # the same, as the library says it to a consumer that resets nothing
    KafkaError.MSG_SIZE_TOO_LARGE: (413, 41301),
    KafkaError.RECORD_LIST_TOO_LARGE: (413, 41301),
    KafkaError.TOPIC_AUTHORIZATION_FAILED: _FORBIDDEN,
    KafkaError.GROUP_AUTHORIZATION_FAILED: _FORBIDDEN,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: _FORBIDDEN,
    KafkaError._AUTHENTICATION: (401, 40101),
    KafkaError.SASL_AUTHENTICATION_FAILED: (401, 40101),
    KafkaError._QUEUE_FULL: _TOO_MANY,
    KafkaError.THROTTLING_QUOTA_EXCEEDED: _TOO_MANY,
    KafkaError._TIMED_OUT: _BUSY,
    KafkaError._MSG_TIMED_OUT: _BUSY,
    KafkaError._TRANSPORT: _BUSY,
    KafkaError._ALL_BROKERS_DOWN: _BUSY,
    KafkaError.REQUEST_TIMED_OUT: _BUSY,
    KafkaError.NOT_ENOUGH_REPLICAS: _BUSY,
}
_SENTENCES: Final = {  # those of the REST proxy; the library's own begin with "Broker:" or "Local:"
    KafkaError._TIMED_OUT: "The brokers have not answered in time.",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "This server does not host this topic-partition.",
    KafkaError._UNKNOWN_TOPIC: "This server does not host this topic-partition.",
    KafkaError._UNKNOWN_PARTITION: "This server does not host this topic-partition.",
}
_NAMES: Final = {KafkaError(code).name(): place for code, place in _BY_CODE.items()}
_OTHER: Final = (500, 50002)  # "Kafka error" of the REST proxy


def refusal_of(error: Any) -> WebRefusal:
    """The refusal for an error of the client library."""
    cause: KafkaError = error.args[0] if isinstance(error, KafkaException) else error
    status, code = _BY_CODE.get(cause.code(), _OTHER)
    return WebRefusal(status, _SENTENCES.get(cause.code(), cause.str()), code)


def place_of(name: str) -> tuple[int, int]:
    """The status and the code for an error by its name, as `TOPIC_AUTHORIZATION_FAILED`."""
    return _NAMES.get(name, _OTHER)


def too_many(what: str) -> WebRefusal:
    """The refusal for one more where a bound is reached."""
    return WebRefusal(429, f"{what}: try again later", 42901, headers=[("Retry-After", "1")])


def refused_in_json(refusal: WebRefusal) -> WebAnswer:
    """The form in which clients of the REST proxy read refusals."""
    # Those of the engine and the routes have the status as their code, as in Confluent's.
    return json({"error_code": refusal.code, "message": refusal.message}, refusal.status, headers=refusal.headers)
