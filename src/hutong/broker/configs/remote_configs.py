"""Settings of groups that the node itself writes, where another node is the controller.

Strategy: one IncrementalAlterConfigs request in the node's name, forwarded to the controller. This node knows the
settings once it has applied what the controller wrote.

Knows nothing of what they mean. A node alone never imports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.broker.handling.own_session import own_session
from hutong.foundation.errors import HutongError, LimitExceeded, ProtocolError, Refused
from hutong.wire.kafka.apis.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from hutong.wire.kafka.codec import codecs
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.kafka.headers import decode_response_header, encode_request_frame

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hutong.broker.handling.cluster_view import ClusterView
    from hutong.foundation.waiting.pending import Continuation

_GROUP: Final = 32
_SET: Final = 0
_API_KEY: Final = 44
_VERSION: Final = 1
_SIZE_BYTES: Final = 4


def set_remotely(cluster: ClusterView, group: str, settings: Mapping[str, str], then: Continuation[None]) -> None:
    """Have the controller set these settings of a group, and leave others; `then` is called once they are durable."""
    changes = [AlterableConfig(name, _SET, value) for name, value in settings.items()]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(_GROUP, group, changes)])
    frame = b"".join(encode_request_frame(request, _VERSION, 0, None))[_SIZE_BYTES:]

    def answered(outcome: bytes | HutongError) -> None:
        then(outcome if isinstance(outcome, HutongError) else _error_in(outcome))

    cluster.forward(frame, own_session(), answered)


def _error_in(frame: bytes) -> HutongError | None:
    content = frame[_SIZE_BYTES:]
    # The controller may run another version of this program.
    try:
        _, offset = decode_response_header(content, _API_KEY, _VERSION)
        response: IncrementalAlterConfigsResponse = codecs.decode_response(_API_KEY, _VERSION, content, offset)
    except (ProtocolError, LimitExceeded) as error:
        return error
    (result,) = response.responses
    code = ErrorCode(result.error_code)
    return Refused(code, result.error_message or code.name) if code is not ErrorCode.NONE else None
