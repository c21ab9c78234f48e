"""Topics that RocketMQ's clients need, created by the node that may: this one, or the controller of a cluster.

Strategy: in a cluster the controller gets Kafka's CreateTopics in the client's name, and the answer waits until this
node has heard of the topic. Clients that ask for the same topic meanwhile share the request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.holders import holder_of
from hutong.broker.handling.session import ClientSession
from hutong.foundation.errors import HutongError, LimitExceeded, ProtocolError, Refused
from hutong.foundation.waiting.table import Owner, WaitTable
from hutong.security.principals import CLUSTER_NODE
from hutong.wire.kafka.apis.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from hutong.wire.kafka.codec import codecs
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.kafka.headers import decode_response_header, encode_request_frame

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from hutong.broker.broker import Broker
    from hutong.broker.handling.listeners import Listener
    from hutong.broker.topics.partition import Topic
    from hutong.foundation.timers import TimerWheel
    from hutong.foundation.waiting.pending import Continuation

WAIT_MS_MAX: Final = 10_000
WAITING_MAX: Final = 10_000
_API_KEY: Final = 19
_VERSION: Final = 7
_SIZE_BYTES: Final = 4
_DEFAULT: Final = -1


class TopicCreation:
    """Finds topics, and creates those that are missing. Close it with the node."""

    def __init__(self, broker: Broker, listener: Listener, timers: TimerWheel) -> None:
        self._broker = broker
        self._listener = listener
        self._waiting: WaitTable[Topic] = WaitTable("topics that the controller creates", timers, WAITING_MAX)
        self._asked: set[str] = set()  # of the controller, which has not answered
        broker.topics.on_change.append(self._topic_changed)

    def get_or_create(
        self,
        asked: RequestContext[Any],
        name: str,
        partition_count: int,
        then: Continuation[Topic],
        overrides: Mapping[str, str] | None = None,
    ) -> None:
        """The topic, created first where it is missing, in the name of who asked. Raises Refused, LimitExceeded."""
        topics = self._broker.topics
        topic = topics.get(name)
        if topic is not None:
            then(topic)
        elif self._broker.cluster.is_alone:
            topics.get_or_create(name, partition_count, then, holder_of(asked), overrides or {})
        else:
            deadline_ms = self._broker.clock.monotonic_ms() + WAIT_MS_MAX
            self._waiting.park(name, then, deadline_ms=deadline_ms)
            if name not in self._asked:
                self._asked.add(name)
                self._ask_controller(asked.session, name, partition_count, overrides or {})

    def get_or_create_own(
        self, name: str, partition_count: int, then: Continuation[Topic], overrides: Mapping[str, str]
    ) -> None:
        """The same for a topic that the node itself needs."""
        session = ClientSession(0, "", 0, self._listener, Owner(), _nothing)
        session.principal = CLUSTER_NODE
        self.get_or_create(RequestContext(0, None, session, self._broker), name, partition_count, then, overrides)

    def close(self, error: HutongError) -> None:
        """End all waits."""
        self._waiting.close(error)

    def _ask_controller(
        self, session: ClientSession, name: str, partition_count: int, overrides: Mapping[str, str]
    ) -> None:
        configs = [CreatableTopicConfig(key, value) for key, value in overrides.items()]
        request = CreateTopicsRequest([CreatableTopic(name, partition_count, _DEFAULT, configs=configs)])
        frame = b"".join(encode_request_frame(request, _VERSION, 0, "rocketmq"))[_SIZE_BYTES:]

        def answered(outcome: bytes | HutongError) -> None:
            self._asked.discard(name)
            error = outcome if isinstance(outcome, HutongError) else _error_in(outcome)
            # One that another node has asked for a moment earlier comes as well.
            if error is not None and not (isinstance(error, Refused) and error.code == ErrorCode.TOPIC_ALREADY_EXISTS):
                self._waiting.fail_all(name, error)

        self._broker.cluster.forward(frame, session, answered)

    def _topic_changed(self, topic: Topic, exists: bool) -> None:
        if exists:
            self._waiting.resume_all(topic.name, topic)


def _nothing() -> None:
    """The release of a session that has no connection."""


def _error_in(frame: bytes) -> HutongError | None:
    """The controller's refusal, or None."""
    content = frame[_SIZE_BYTES:]
    try:
        _, offset = decode_response_header(content, _API_KEY, _VERSION)
        response: CreateTopicsResponse = codecs.decode_response(_API_KEY, _VERSION, content, offset)
    except (ProtocolError, LimitExceeded) as error:
        return error
    (topic,) = response.topics
    code = ErrorCode(topic.error_code)
    return Refused(code, topic.error_message or code.name) if topic.error_code else None
