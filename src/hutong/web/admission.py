"""Principals of requests: anybody, the bearer of a certificate, a user with a password by the Basic scheme (RFC 7617).

Knows nothing of where users are kept.
"""

import base64
import binascii
import hmac
from collections.abc import Callable
from typing import Final

from hutong.reactor.connections.handler import Peer
from hutong.security.principals import ANONYMOUS, USER, Principal
from hutong.web.answers import WebRefusal
from hutong.web.messages import HttpRequest
from hutong.web.requests import WebRequest

_CHALLENGE: Final = ("WWW-Authenticate", 'Basic realm="hutong", charset="UTF-8"')


def basic_credentials(request: HttpRequest | WebRequest) -> tuple[str, bytes]:
    """User and password of a request. Raises WebRefusal(401), with the challenge, for one without them."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        raise unauthorized()
    try:
        user, colon, password = base64.b64decode(token.strip(), validate=True).partition(b":")
        if colon and user:
            return user.decode(), password
    except (binascii.Error, ValueError):
        pass
    raise unauthorized()


def unauthorized() -> WebRefusal:
    """The same refusal for every fault, so that it does not show which accounts exist."""
    return WebRefusal(401, "user and password, please", headers=[_CHALLENGE])


class Everybody:
    """Admits all: as the principal of their certificate where `identify` finds one, else as ANONYMOUS."""

    def __init__(self, identify: Callable[[Peer], Principal] = lambda _peer: ANONYMOUS) -> None:
        self._identify = identify

    def admit(self, request: HttpRequest, peer: Peer) -> Principal:
        return self._identify(peer)


class OneUser:
    """Admits one user, whose password is in the settings."""

    def __init__(self, user: str, password: str) -> None:
        self._principal = Principal(USER, user)
        self._user = user.encode()
        self._password = password.encode()

    def admit(self, request: HttpRequest, peer: Peer) -> Principal:
        user, password = basic_credentials(request)
        # Both are compared, in constant time, so that the time tells nothing about either.
        if hmac.compare_digest(user.encode(), self._user) & hmac.compare_digest(password, self._password):
            return self._principal
        raise unauthorized()
