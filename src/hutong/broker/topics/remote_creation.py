"""The question to the controller for new topics, in the name of a client or of the node itself.

Strategy: one CreateTopics request, forwarded to the controller, which checks the rights and bounds of who asks. This
node knows the topics once it has applied what the controller wrote.

Knows nothing of what waits for them. A node alone never imports it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from hutong.foundation.errors import HutongError, LimitExceeded, ProtocolError, Refused
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
    from hutong.broker.handling.cluster_view import ClusterView
    from hutong.broker.handling.session import ClientSession
    from hutong.foundation.waiting.pending import Continuation

_API_KEY: Final = 19
_VERSION: Final = 7
_SIZE_BYTES: Final = 4
_DEFAULT: Final = -1


def new_topic(name: str, partition_count: int, overrides: Mapping[str, str] | None = None) -> CreatableTopic:
    """A topic with the cluster's replicas."""
    configs = [CreatableTopicConfig(key, value) for key, value in (overrides or {}).items()]
    return CreatableTopic(name, partition_count, _DEFAULT, configs=configs)


def create_remotely(
    cluster: ClusterView,
    topics: Sequence[CreatableTopic],
    session: ClientSession,
    client_id: str | None,
    then: Continuation[Mapping[str, Refused | None]],
) -> None:
    """Ask the controller for these topics; `then` gets by name None or why it is not made, or the error of all."""
    request = CreateTopicsRequest([*topics])
    frame = b"".join(encode_request_frame(request, _VERSION, 0, client_id))[_SIZE_BYTES:]

    def answered(outcome: bytes | HutongError) -> None:
        then(outcome if isinstance(outcome, HutongError) else _outcomes_in(outcome))

    cluster.forward(frame, session, answered)


def _outcomes_in(frame: bytes) -> Mapping[str, Refused | None] | HutongError:
    content = frame[_SIZE_BYTES:]
    # The controller may run another version of this program.
    try:
        _, offset = decode_response_header(content, _API_KEY, _VERSION)
        response: CreateTopicsResponse = codecs.decode_response(_API_KEY, _VERSION, content, offset)
    except (ProtocolError, LimitExceeded) as error:
        return error
    return {
        topic.name: Refused(ErrorCode(topic.error_code), topic.error_message or ErrorCode(topic.error_code).name)
        if topic.error_code
        else None
        for topic in response.topics
    }
