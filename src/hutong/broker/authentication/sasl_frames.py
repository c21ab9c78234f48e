"""The frames of an authentication: what is read of a client's, and each step of an exchange as an answer.

Knows nothing of connections, nor of what decides the steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hutong.foundation.errors import ProtocolError
from hutong.security.sasl.steps import Accepted, Challenge, Rejected, SaslFault
from hutong.wire.kafka.apis.k17_sasl_handshake import SaslHandshakeResponse
from hutong.wire.kafka.apis.k36_sasl_authenticate import SaslAuthenticateResponse
from hutong.wire.kafka.codec import codecs
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.kafka.headers import RequestHeader, encode_response_frame
from hutong.wire.kafka.registry import APIS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hutong.wire.buffer import Buffer

HANDSHAKE: Final = 17
AUTHENTICATE: Final = 36
_SIZE_BYTES: Final = 4
_OTHERWISE: Final = "Authentication failed."
_SENTENCES: Final = {
    SaslFault.CREDENTIALS: "Authentication failed: the user name or the password is wrong.",
    SaslFault.TOKEN: "Authentication failed: the access token is not accepted.",
    SaslFault.MALFORMED: "Authentication failed: the message is none of this mechanism.",
    SaslFault.PRINCIPAL: "Authentication failed: the user may not be another one.",
    SaslFault.BUSY: "Authentication failed: too many are being authenticated, try again.",
}


def decode(header: RequestHeader, frame: Buffer, body_at: int) -> Any:
    """The request of a version that we have. Raises ProtocolError."""
    key, version = header.api_key, header.api_version
    if version not in APIS[key].versions:
        raise ProtocolError(f"version {version} of API key {key} is not supported")
    return codecs.request_decoder(key, version)(frame, body_at)


def handshake(header: RequestHeader, mechanisms: Iterable[str], code: ErrorCode) -> list[Buffer]:
    """The answer to SaslHandshake: what may be chosen."""
    response = SaslHandshakeResponse(error_code=code, mechanisms=list(mechanisms))
    return encode_response_frame(HANDSHAKE, header.api_version, header.correlation_id, response)


def authenticate(header: RequestHeader, session_ms: int, step: Accepted | Challenge | Rejected) -> list[Buffer]:
    """The answer to SaslAuthenticate."""
    response = SaslAuthenticateResponse(error_code=ErrorCode.NONE, error_message=None, auth_bytes=b"")
    if isinstance(step, Rejected):
        response.error_code = ErrorCode.SASL_AUTHENTICATION_FAILED
        response.error_message = _SENTENCES.get(step.fault, _OTHERWISE)
    else:
        response.auth_bytes = step.data
        response.session_lifetime_ms = session_ms if isinstance(step, Accepted) else 0
    return encode_response_frame(AUTHENTICATE, header.api_version, header.correlation_id, response)


def illegal_state(header: RequestHeader) -> list[Buffer] | None:
    """The answer to a request of SASL's own where it does not belong; None to any other."""
    if header.api_key not in (HANDSHAKE, AUTHENTICATE) or header.api_version not in APIS[header.api_key].versions:
        return None
    code = ErrorCode.ILLEGAL_SASL_STATE
    if header.api_key == HANDSHAKE:
        return handshake(header, (), code)
    response = SaslAuthenticateResponse(error_code=code, error_message=_OTHERWISE, auth_bytes=b"")
    return encode_response_frame(AUTHENTICATE, header.api_version, header.correlation_id, response)


def raw(step: Accepted | Challenge | Rejected) -> list[Buffer] | None:
    """A message as a frame of its own (SaslHandshake version 0); a failure has no answer in it."""
    if isinstance(step, Rejected):
        return None
    return [len(step.data).to_bytes(_SIZE_BYTES, "big") + step.data]
