"""Logging in on a fresh connection: SaslHandshake, then SaslAuthenticate for each step of a mechanism (KIP-152).

A refusal is final: another try with the same password could lock the user out. Its message names the user, never the
password.
"""

from collections.abc import Callable

from hutong.foundation.errors import ProtocolError
from hutong.pipelines.client.connection import BrokerConnection
from hutong.pipelines.client.scram import ScramClient
from hutong.pipelines.client.security import OAUTHBEARER, PLAIN, SaslLogin
from hutong.pipelines.errors import AccessDenied
from hutong.wire.kafka.apis.k17_sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from hutong.wire.kafka.apis.k36_sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from hutong.wire.kafka.error_codes import ErrorCode

REPEATED_CHARACTERS_MAX = 200
"""The part of a broker's message that is repeated."""


def log_in(connection: BrokerConnection, login: SaslLogin, nonce: Callable[[], str]) -> int:
    """Return the session's length in ms, 0 for endless. Raises AccessDenied, ProtocolError or Unavailable."""
    _agree(connection, login.mechanism)
    if login.mechanism == PLAIN:
        return _step(connection, login, f"\0{login.user}\0{login.password}".encode()).session_lifetime_ms
    if login.mechanism == OAUTHBEARER:
        return _show_token(connection, login)
    client = ScramClient(login.mechanism, login.user, login.password, nonce())
    try:
        challenge = _step(connection, login, client.first())
        last = _step(connection, login, client.final(bytes(challenge.auth_bytes)))
        client.verify(bytes(last.auth_bytes))
    except ProtocolError as error:
        raise ProtocolError(f"logging in at {connection.peer} went wrong: {error}") from error
    return last.session_lifetime_ms


def _show_token(connection: BrokerConnection, login: SaslLogin) -> int:
    answer = _step(connection, login, f"n,,\x01auth=Bearer {login.password}\x01\x01".encode())
    # A broker that refuses the token says so without an error as yet (RFC 7628, 3.2.2): the connection is given up.
    if answer.auth_bytes:
        raise AccessDenied(f"the broker at {connection.peer} does not accept the access token")
    return answer.session_lifetime_ms


def _agree(connection: BrokerConnection, mechanism: str) -> None:
    response: SaslHandshakeResponse = connection.request(SaslHandshakeRequest(mechanism))
    if response.error_code == ErrorCode.NONE:
        return
    if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(response.mechanisms)[:REPEATED_CHARACTERS_MAX] or "nothing"
        raise AccessDenied(
            f"the broker at {connection.peer} does not take {mechanism}: set kafka.sasl.mechanism to one that it "
            f"offers ({offered})"
        )
    if response.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise AccessDenied(
            f"the broker at {connection.peer} asks for no password on that port: set kafka.security.protocol to "
            "PLAINTEXT or SSL, or take the port of a listener with SASL"
        )
    raise AccessDenied(f"the broker at {connection.peer} refused to talk of passwords (error {response.error_code})")


def _step(connection: BrokerConnection, login: SaslLogin, message: bytes) -> SaslAuthenticateResponse:
    response: SaslAuthenticateResponse = connection.request(SaslAuthenticateRequest(message))
    if response.error_code == ErrorCode.NONE:
        return response
    reason = (response.error_message or f"error {response.error_code}")[:REPEATED_CHARACTERS_MAX]
    raise AccessDenied(
        f"the broker at {connection.peer} did not let in user '{login.user}' by {login.mechanism}: check the name and "
        f"password in kafka.sasl.jaas.config ({reason})"
    )
