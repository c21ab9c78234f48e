"""SaslHandshake (key 17, versions 0-1): there is no SASL on this listener, so the request comes at the wrong time."""

from hutong.broker.handling.context import RequestContext
from hutong.wire.kafka.apis.k17_sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 17


def handle(request: SaslHandshakeRequest, context: RequestContext[object]) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
