"""SaslAuthenticate (key 36, versions 0-2): the listener has no SASL, so the request comes at the wrong time."""

from hutong.broker.handling.context import RequestContext
from hutong.wire.kafka.apis.k36_sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 36


def handle(request: SaslAuthenticateRequest, context: RequestContext[object]) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message="This listener does not authenticate its clients."
    )
