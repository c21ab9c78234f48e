"""The server side of SCRAM (RFC 5802): two messages each way, after which both sides have proved the password.

Strategy: pure, one object for one exchange. The client must return the whole nonce (CVE-2024-56128). Proofs are
compared in constant time (CVE-2021-38153). An unknown user goes through the same steps with a decoy credential.

Knows no randomness: the server's part of the nonce arrives by constructor.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from hutong.foundation.errors import ProtocolError
from hutong.security.sasl.scram_credentials import Credential, Mechanism
from hutong.security.sasl.scram_messages import (
    ClientFinal,
    ClientFirst,
    parse_client_final,
    parse_client_first,
    server_final,
    server_first,
)
from hutong.security.sasl.steps import Accepted, Challenge, CheckProof, Rejected, SaslFault, Step

NOT_FOR_ANOTHER: Final = "a user asked to act for another one"


class Credentials(Protocol):
    """A store of users' credentials."""

    def credential(self, user: str, mechanism: Mechanism) -> Credential | None: ...

    def decoy(self, user: str, mechanism: Mechanism) -> Credential:
        """Return a made-up credential for an unknown user: always the same for one name."""
        ...


@dataclass(frozen=True, slots=True)
class TokenCredential:
    """The credential of a delegation token. Without an owner it is made up, and `life_ms` is 0."""

    credential: Credential
    owner: str | None
    life_ms: int


Tokens = Callable[[str, Mechanism], TokenCredential]
"""Looks up a delegation token by its id."""


class ScramExchange:
    """One exchange of one connection. `nonce` is our part: printable, without commas, never used before."""

    __slots__ = (
        "_first",
        "_is_known",
        "_is_over",
        "_kept",
        "_mechanism",
        "_nonce",
        "_server_first",
        "_token",
        "_tokens",
        "_users",
    )

    def __init__(self, mechanism: Mechanism, users: Credentials, nonce: str, tokens: Tokens | None = None) -> None:
        """Without `tokens` no delegation token is accepted."""
        self._mechanism = mechanism
        self._users = users
        self._tokens = tokens
        self._token: TokenCredential | None = None
        self._nonce = nonce
        self._first: ClientFirst | None = None
        self._kept: Credential | None = None
        self._is_known = False
        self._is_over = False
        self._server_first = ""

    def respond(self, message: bytes) -> Step:
        """The answer to the client's next message."""
        if self._is_over:
            return Rejected(SaslFault.STATE, "the exchange is over")
        try:
            if self._first is None:
                return self._begin(parse_client_first(message))
            self._is_over = True
            first, final = self._first, parse_client_final(message)
            return CheckProof(first.user, partial(self._finish, first, final))
        except ProtocolError as error:
            self._is_over = True
            return Rejected(SaslFault.MALFORMED, str(error))

    def _begin(self, first: ClientFirst) -> Step:
        # Kafka allows no impersonation by SASL either; delegation tokens are the way.
        if first.authorization_id not in ("", first.user):
            self._is_over = True
            return Rejected(SaslFault.PRINCIPAL, NOT_FOR_ANOTHER)
        self._first = first
        if first.is_token:
            # Else the token's id would be looked up as a user's name.
            if self._tokens is None:
                self._is_over = True
                return Rejected(SaslFault.MALFORMED, "a delegation token, which is not accepted here")
            self._token = self._tokens(first.user, self._mechanism)
            self._kept, self._is_known = self._token.credential, self._token.owner is not None
        else:
            kept = self._users.credential(first.user, self._mechanism)
            # Computed for known users too: the time of the answer must not reveal which users exist.
            decoy = self._users.decoy(first.user, self._mechanism)
            self._kept, self._is_known = kept or decoy, kept is not None
        self._nonce = first.nonce + self._nonce
        self._server_first = server_first(self._nonce, self._kept.salt, self._kept.iterations)
        return Challenge(self._server_first.encode())

    def _finish(self, first: ClientFirst, final: ClientFinal) -> Accepted | Rejected:
        kept, hash_name = self._kept, self._mechanism.hash_name
        assert kept is not None, "a credential is looked up with the first message"
        # RFC 5802, section 5.1: `c=` repeats the GS2 header, so that nobody has changed it on the way.
        if final.channel_binding != first.header.encode():
            return Rejected(SaslFault.MALFORMED, "the second message is not bound to the first")
        if not hmac.compare_digest(final.nonce, self._nonce):
            return Rejected(SaslFault.MALFORMED, "the nonce did not come back as it was given")
        signed = f"{first.bare},{self._server_first},{final.without_proof}".encode()
        signature = hmac.digest(kept.stored_key, signed, hash_name)
        # The strict `zip` below would raise ValueError.
        if len(final.proof) != len(signature):
            return Rejected(SaslFault.MALFORMED, "a proof of another mechanism's size")
        client_key = bytes(one ^ other for one, other in zip(final.proof, signature, strict=True))
        is_proven = hmac.compare_digest(hashlib.new(hash_name, client_key).digest(), kept.stored_key)
        # Both are computed always, so that the time reveals nothing about the user.
        if not (is_proven and self._is_known):
            return Rejected(SaslFault.CREDENTIALS, "unknown user or wrong password")
        data = server_final(hmac.digest(kept.server_key, signed, hash_name)).encode()
        token = self._token
        if token is None or token.owner is None:
            return Accepted(first.user, data)
        # KIP-48: the client is the token's owner, for as long as the token counts (KIP-368).
        return Accepted(token.owner, data, token.life_ms, is_by_token=True)
