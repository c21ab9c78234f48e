"""PLAIN (RFC 4616): one message with the password itself. Only fit for a connection that is encrypted.

Strategy: the message is taken apart here; whether the password is right, somebody else finds out, because it is slow.

Knows nothing of users.
"""

from __future__ import annotations

from typing import Final

from hutong.security.sasl.steps import CheckPassword, Rejected, SaslFault, Step

NAME: Final = "PLAIN"


class PlainExchange:
    """One exchange of one connection."""

    __slots__ = ("_is_over",)

    def __init__(self) -> None:
        self._is_over = False

    def respond(self, message: bytes) -> Step:
        """`[authorization id] NUL user NUL password`."""
        if self._is_over:
            return Rejected(SaslFault.STATE, "PLAIN has one message")
        self._is_over = True
        parts = message.split(b"\0")
        if len(parts) != 3:
            return Rejected(SaslFault.MALFORMED, "a PLAIN message has three parts")
        try:
            authorization_id, user = parts[0].decode(), parts[1].decode()
        except UnicodeDecodeError:
            return Rejected(SaslFault.MALFORMED, "a name that is no UTF-8")
        if not user or not parts[2]:
            return Rejected(SaslFault.MALFORMED, "a PLAIN message without user or password")
        if authorization_id not in ("", user):
            return Rejected(SaslFault.PRINCIPAL, "a user asked to act for another one")
        return CheckPassword(user, parts[2])
