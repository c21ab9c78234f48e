"""Topics that a client's Metadata request creates, where another node is the controller (`auto.create.topics.enable`).

Strategy: one CreateTopics request in the client's name, forwarded to the controller, which checks the client's rights
and bounds. A topic that is not known here when the answer comes is answered LEADER_NOT_AVAILABLE, as Kafka answers one
that is being created: clients ask again soon.

Knows nothing of the answer that waits for it. A node alone never imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from hutong.foundation.errors import HutongError
from hutong.wire.kafka.apis.k19_create_topics import CreatableTopic, CreateTopicsRequest
from hutong.wire.kafka.codec import codecs
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.kafka.headers import decode_response_header, encode_request_frame

if TYPE_CHECKING:
    from hutong.broker.handling.context import RequestContext
    from hutong.broker.topics.parts import TopicParts

_API_KEY: Final = 19
_VERSION: Final = 7
_SIZE_BYTES: Final = 4
_DEFAULT: Final = -1
_PASSED_ON: Final = frozenset(
    (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.POLICY_VIOLATION)
)


def create_remotely(
    names: Sequence[str], context: RequestContext[TopicParts], then: Callable[[dict[str, int]], None]
) -> None:
    """Ask the controller for these topics; `then` gets a code for each, LEADER_NOT_AVAILABLE where it may be made."""
    partitions = context.broker.settings.default_partitions
    request = CreateTopicsRequest([CreatableTopic(name, partitions, _DEFAULT) for name in names])
    frame = b"".join(encode_request_frame(request, _VERSION, 0, context.client_id))[_SIZE_BYTES:]

    def answered(outcome: bytes | HutongError) -> None:
        codes: dict[str, int] = dict.fromkeys(names, ErrorCode.LEADER_NOT_AVAILABLE)
        if not isinstance(outcome, HutongError):
            content = outcome[_SIZE_BYTES:]
            _, offset = decode_response_header(content, _API_KEY, _VERSION)
            response = codecs.decode_response(_API_KEY, _VERSION, content, offset)
            codes |= {topic.name: topic.error_code for topic in response.topics if topic.error_code in _PASSED_ON}
        then(codes)

    context.broker.cluster.forward(frame, context.session, answered)
