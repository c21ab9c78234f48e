"""SASL authentication of one connection: its mechanism, phase, user and session length (KIP-368).

Strategy: a small table of phases. FAILED is final. If sessions expire, an authenticated client may authenticate again,
as the same user with the same mechanism; until it has done so no other request is answered. Time arrives with each
event.

Knows nothing of requests: the driver decides how messages travel and which requests each phase accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from hutong.security.sasl.steps import (
    Accepted,
    Challenge,
    CheckPassword,
    CheckProof,
    CheckToken,
    Rejected,
    SaslFault,
    Step,
)

BEGIN_AGAIN_INTERVAL_MS: Final = 1_000
"""Kafka's bound: a client that authenticates again sooner than this is refused."""


class SaslPhase(Enum):
    HANDSHAKE = "handshake"  # no mechanism is chosen
    EXCHANGE = "exchange"  # the client's next message is awaited
    CHECKING = "checking"  # a password, a proof or a token is being checked, or waits for that
    AUTHENTICATED = "authenticated"
    FAILED = "failed"


class Exchange(Protocol):
    """The messages of one mechanism."""

    def respond(self, message: bytes) -> Step: ...


@dataclass(slots=True)
class Rules:
    """A listener's mechanisms, and the length of a session (0: as long as its connection).

    `session_ms` may change: the new value applies to authentications that begin later.
    """

    exchanges: Mapping[str, Callable[[], Exchange]]
    session_ms: int = 0


class Login:
    """One connection. `is_open` while its requests are answered: it is authenticated, and that still counts.

    Invariant: is_open exactly while AUTHENTICATED and not expired; user is None until the first AUTHENTICATED.
    """

    __slots__ = (
        "_begun_again_at_ms",
        "_exchange",
        "_is_expired",
        "_rules",
        "_session_ms",
        "accepted_total",
        "is_open",
        "is_raw",
        "mechanism",
        "phase",
        "user",
    )

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._session_ms = rules.session_ms
        self._exchange: Exchange | None = None
        self._begun_again_at_ms: int | None = None
        self._is_expired = False
        self.accepted_total = 0
        self.is_open = False
        self.is_raw = False  # whether messages come as bare frames (SaslHandshake version 0)
        self.mechanism: str | None = None
        self.phase = SaslPhase.HANDSHAKE
        self.user: str | None = None

    def begin_exchange(self, mechanism: str, *, is_raw: bool, now_ms: int) -> Rejected | None:
        """Start the mechanism that the client has chosen. Return None if its messages may come now."""
        again = self.phase is SaslPhase.AUTHENTICATED
        # A second SaslHandshake inside an exchange could swap the mechanism under a half-checked password.
        if not again and self.phase is not SaslPhase.HANDSHAKE:
            return self._reject(SaslFault.STATE, "a mechanism was chosen twice")
        make = self._rules.exchanges.get(mechanism)
        # Kafka closes the connection after UNSUPPORTED_SASL_MECHANISM: FAILED is final.
        if make is None:
            return self._reject(SaslFault.MECHANISM, "a mechanism that is not offered")
        if again:
            # KIP-368: re-authentication keeps the mechanism, and needs SaslAuthenticate requests, not bare frames.
            if mechanism != self.mechanism or is_raw:
                return self._reject(SaslFault.MECHANISM, "another mechanism than the first time")
            self._begun_again_at_ms = now_ms
        self.mechanism, self.is_raw = mechanism, is_raw
        # Taken when an authentication begins, so that a changed setting does not cut running sessions.
        self._session_ms = self._rules.session_ms
        self._exchange = make()
        self.phase, self.is_open = SaslPhase.EXCHANGE, False
        return None

    def may_begin_again(self, now_ms: int) -> bool:
        """Return True if an authenticated client may authenticate again now: only if sessions expire."""
        # Without sessions that expire Kafka's clients have no reason to come again.
        if self.phase is not SaslPhase.AUTHENTICATED or not self._session_ms:
            return False
        begun_at_ms = self._begun_again_at_ms
        return begun_at_ms is None or now_ms - begun_at_ms >= BEGIN_AGAIN_INTERVAL_MS

    def respond(self, message: bytes) -> Step:
        """Process the client's next message and return the next step."""
        if self.phase is not SaslPhase.EXCHANGE or self._exchange is None:
            return self._reject(SaslFault.STATE, "a message outside of an exchange")
        step = self._exchange.respond(message)
        match step:
            case Accepted():
                return self._accept(step)
            case CheckPassword() | CheckProof() | CheckToken():
                self.phase = SaslPhase.CHECKING
            case Rejected():
                return self._reject(step.fault, step.detail)
        return step

    def checked(self, user: str, *, is_right: bool) -> Accepted | Rejected:
        """Take the result of a password check."""
        assert self.phase is SaslPhase.CHECKING, "a password was checked that nobody had asked about"
        if not is_right:
            return self._reject(SaslFault.CREDENTIALS, "unknown user or wrong password")
        return self._accept(Accepted(user))

    def proved(self, asked: CheckProof) -> Accepted | Rejected:
        """Check a SCRAM proof now."""
        assert self.phase is SaslPhase.CHECKING, "a proof was checked that nobody had given"
        outcome = asked.outcome()
        return self._accept(outcome) if isinstance(outcome, Accepted) else self._reject(outcome.fault, outcome.detail)

    def token_checked(self, step: Accepted | Challenge | Rejected) -> Accepted | Challenge | Rejected:
        """Take the exchange's step after the check of a token."""
        assert self.phase is SaslPhase.CHECKING, "a token was checked that nobody had given"
        match step:
            case Accepted():
                return self._accept(step)
            case Rejected():
                return self._reject(step.fault, step.detail)
        # RFC 7628, section 3.2.3: the error is a challenge, which the client answers.
        self.phase = SaslPhase.EXCHANGE
        return step

    def fail(self, fault: SaslFault, detail: str) -> Rejected:
        """Reject the client for a fault that the driver found."""
        return self._reject(fault, detail)

    def expire(self) -> None:
        """End the session: its time is over."""
        self._is_expired = True
        self.is_open = False

    @property
    def session_ms(self) -> int:
        """The session's length; 0: as long as its connection."""
        return self._session_ms

    def check_invariants(self) -> None:
        assert self.is_open is (self.phase is SaslPhase.AUTHENTICATED and not self._is_expired)
        assert self.user is not None or self.phase is not SaslPhase.AUTHENTICATED
        assert (self._exchange is not None) is (self.phase in (SaslPhase.EXCHANGE, SaslPhase.CHECKING))

    def _accept(self, accepted: Accepted) -> Accepted | Rejected:
        # KIP-368: a connection keeps its principal, which rights, quotas and groups rely on.
        if self.user not in (None, accepted.user):
            return self._reject(SaslFault.PRINCIPAL, "another user than the first time")
        self.user = accepted.user
        # KIP-368: a session ends with what its client has shown, or sooner where the listener says so.
        if accepted.session_ms is not None:
            self._session_ms = min(accepted.session_ms, self._session_ms or accepted.session_ms)
        self._exchange = None
        self._is_expired = False
        self.accepted_total += 1
        self.phase, self.is_open = SaslPhase.AUTHENTICATED, True
        return accepted

    def _reject(self, fault: SaslFault, detail: str) -> Rejected:
        self._exchange = None
        self.phase, self.is_open = SaslPhase.FAILED, False
        return Rejected(fault, detail)
