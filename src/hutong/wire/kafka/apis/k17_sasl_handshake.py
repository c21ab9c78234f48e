"""SaslHandshake (key 17), versions 0 and 1, never flexible.

After version 0 the tokens follow as bare frames, after version 1 inside SaslAuthenticate requests (KIP-152).
"""

from hutong.wire.kafka.schema import STRING, array, int16, message, string


@message(api_key=17, versions="0-1")
class SaslHandshakeRequest:
    mechanism: str = string()


@message(api_key=17, versions="0-1")
class SaslHandshakeResponse:
    error_code: int = int16()
    mechanisms: list[str] = array(STRING)
