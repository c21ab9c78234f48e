"""Delegation tokens (KIP-48), durable: short-lived credentials with which programs act for a user, without a password.

Strategy: a token is a record of the metadata, with owner, renewers and times, and without secrets. Its HMAC follows
from the cluster's secret key, as in Kafka; without such a key there are no tokens. A token that has ended counts no
more, and its record is removed when later ones are created.

Knows nothing of requests or rights. Time arrives with each call.
"""

from __future__ import annotations

import base64
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from hutong.broker.state.durable_table import DurableTable
from hutong.foundation.errors import Refused
from hutong.foundation.waiting.pending import Continuation
from hutong.security.principals import USER, Principal
from hutong.security.sasl.scram import TokenCredential
from hutong.security.sasl.scram_credentials import ITERATIONS_MIN, Credential, Mechanism, decoy
from hutong.security.sasl.token_credentials import SALT_BYTES, hmac_of, token_credential
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.topics.catalogue import StateLog

TOKENS_MAX: Final = 10_000
RENEWERS_MAX: Final = 100
NAME_CHARACTERS_MAX: Final = 1024
REMOVALS_MAX: Final = 100  # of tokens that have ended, with each new one
CREDENTIALS_KEPT_MAX: Final = 1_000
_DAY_MS: Final = 24 * 60 * 60 * 1000
_DECOY_BYTES: Final = 32
_ID_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class TokenLimits:
    """Kafka's `delegation.token.secret.key`, `.max.lifetime.ms` and `.expiry.time.ms`. No secret: no tokens."""

    secret: bytes = field(default=b"", repr=False)
    lifetime_ms_max: int = 7 * _DAY_MS
    renewal_ms: int = _DAY_MS


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """One token. It counts until `expires_at_ms`, which renewals move, never beyond `ends_at_ms`."""

    id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued_at_ms: int
    expires_at_ms: int
    ends_at_ms: int

    def is_of(self, principal: Principal) -> bool:
        """True for its owner, the one who asked for it, and its renewers."""
        return principal in (self.owner, self.requester, *self.renewers)

    def has_ended(self, now_ms: int) -> bool:
        return self.expires_at_ms <= now_ms


class DelegationTokens:
    """The tokens of a cluster. Invariant: `_ids` has the HMAC of each durable token, and of no other."""

    def __init__(self, limits: TokenLimits, random_bytes: Callable[[int], bytes]) -> None:
        self._limits = limits
        self._random_bytes = random_bytes
        self._table = DurableTable("delegation-token/", TOKENS_MAX)
        self._table.on_change.append(self._changed)
        self._ids: dict[bytes, str] = {}
        self._credentials: OrderedDict[tuple[str, str], Credential] = OrderedDict()  # asked for last comes last
        self._decoy_secret = limits.secret or random_bytes(_DECOY_BYTES)
        self.replay = self._table.replay

    @property
    def are_offered(self) -> bool:
        return bool(self._limits.secret)

    def start(self, state: StateLog) -> None:
        """From here on changes are recorded in `state`. Called once, after replay."""
        self._table.start(state)

    def all(self) -> list[DelegationToken]:
        """All that are durable, those that have ended included."""
        return [_token(token_id, kept) for token_id, kept in self._table.entries.items()]

    def hmac(self, token: DelegationToken) -> bytes:
        return hmac_of(token.id, self._limits.secret)

    def create(
        self,
        owner: Principal,
        requester: Principal,
        renewers: Iterable[Principal],
        lifetime_ms: int,
        now_ms: int,
        then: Continuation[None],
    ) -> DelegationToken:
        """Make a token; `then` is called once it is durable. Raises Refused."""
        self.check_offered()
        named = tuple(dict.fromkeys(renewers))
        if len(named) > RENEWERS_MAX:
            raise Refused(ErrorCode.INVALID_REQUEST, f"A token has at most {RENEWERS_MAX} renewers.")
        for principal in (owner, *named):
            _check_principal(principal)
        limits = self._limits
        # As in Kafka, 0 and negative numbers ask for the most.
        lifetime_ms = min(lifetime_ms, limits.lifetime_ms_max) if lifetime_ms > 0 else limits.lifetime_ms_max
        ends_at_ms = now_ms + lifetime_ms
        expires_at_ms = min(ends_at_ms, now_ms + limits.renewal_ms)
        # As Kafka writes its ids: 16 bytes in Base64.
        token_id = base64.urlsafe_b64encode(self._random_bytes(_ID_BYTES)).rstrip(b"=").decode()
        token = DelegationToken(token_id, owner, requester, named, now_ms, expires_at_ms, ends_at_ms)
        self._remove_ended(now_ms)
        self._table.put(token_id, _entry(token), then)
        return token

    def renew(self, hmac: bytes, by: Principal, period_ms: int, now_ms: int, then: Continuation[None]) -> int:
        """Let a token count for longer. Returns until when; `then` is called once that is durable. Raises Refused."""
        token = self._owned(hmac, by)
        self._check_alive(token, now_ms)
        # As in Kafka, a renewal is never longer than what a new token gets.
        period_ms = self._limits.renewal_ms if period_ms < 0 else min(period_ms, self._limits.renewal_ms)
        return self._set_expiry(token, now_ms + period_ms, then)

    def expire(self, hmac: bytes, by: Principal, period_ms: int, now_ms: int, then: Continuation[None]) -> int:
        """Let a token count for so long; a negative period ends it at once. Returns until when. Raises Refused."""
        token = self._owned(hmac, by)
        if period_ms < 0:
            self._table.put(token.id, None, then)
            return now_ms
        self._check_alive(token, now_ms)
        return self._set_expiry(token, now_ms + period_ms, then)

    def credential(self, token_id: str, mechanism: Mechanism, now_ms: int) -> TokenCredential:
        """The credential of a token, or a made-up one that belongs to nobody."""
        # Computed always, so that the answer to an unknown id takes no less time than to a known one.
        made_up = decoy(mechanism, self._decoy_secret, f"token {token_id}", ITERATIONS_MIN, SALT_BYTES)
        kept = self._table.entries.get(token_id) if self.are_offered else None
        token = None if kept is None else _token(token_id, kept)
        if token is None or token.has_ended(now_ms):
            return TokenCredential(made_up, None, 0)
        # A listener's users are named without their kind, which is checked when a token is made.
        return TokenCredential(self._computed(token_id, mechanism), token.owner.name, token.expires_at_ms - now_ms)

    def check_invariants(self) -> None:
        assert set(self._ids.values()) == set(self._table.entries)
        assert len(self._credentials) <= CREDENTIALS_KEPT_MAX

    def _computed(self, token_id: str, mechanism: Mechanism) -> Credential:
        """Compute it, some milliseconds once, or take what was computed before."""
        key = token_id, mechanism.name
        found = self._credentials.get(key)
        if found is None:
            found = self._credentials[key] = token_credential(token_id, self._limits.secret, mechanism)
        self._credentials.move_to_end(key)
        if len(self._credentials) > CREDENTIALS_KEPT_MAX:
            self._credentials.popitem(last=False)
        return found

    def _owned(self, hmac: bytes, by: Principal) -> DelegationToken:
        """The token of an HMAC, for one who may change it. Raises Refused."""
        self.check_offered()
        token_id = self._ids.get(hmac)
        # The latest, not the durable one: two changes at the same time must not undo each other.
        kept = None if token_id is None else self._table.latest(token_id)
        if token_id is None or kept is None:
            raise Refused(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, "There is no such token.")
        token = _token(token_id, kept)
        if not token.is_of(by):
            raise Refused(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, "The token is somebody else's.")
        return token

    def _set_expiry(self, token: DelegationToken, expires_at_ms: int, then: Continuation[None]) -> int:
        changed = replace(token, expires_at_ms=min(expires_at_ms, token.ends_at_ms))
        self._table.put(token.id, _entry(changed), then)
        return changed.expires_at_ms

    def _remove_ended(self, now_ms: int) -> None:
        ended = [token.id for token in self.all() if token.has_ended(now_ms)]
        for token_id in ended[:REMOVALS_MAX]:
            # A failure leaves a record that counts for nothing; the next new token tries again.
            self._table.put(token_id, None, lambda _error: None)

    def check_offered(self) -> None:
        """Raises Refused(DELEGATION_TOKEN_AUTH_DISABLED)."""
        if not self.are_offered:
            raise Refused(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, "This node has no key for delegation tokens.")

    @staticmethod
    def _check_alive(token: DelegationToken, now_ms: int) -> None:
        if token.has_ended(now_ms):
            raise Refused(ErrorCode.DELEGATION_TOKEN_EXPIRED, "The token has ended.")

    def _changed(self, token_id: str, value: Any) -> None:
        hmac = hmac_of(token_id, self._limits.secret)
        if value is None:
            self._ids.pop(hmac, None)
            for key in [key for key in self._credentials if key[0] == token_id]:
                del self._credentials[key]
        else:
            self._ids[hmac] = token_id


def _check_principal(principal: Principal) -> None:
    # Kafka knows no other kind either; a listener makes users alone.
    if principal.kind != USER:
        raise Refused(ErrorCode.INVALID_PRINCIPAL_TYPE, "A principal is a User.")
    if not 0 < len(principal.name) <= NAME_CHARACTERS_MAX:
        raise Refused(ErrorCode.INVALID_REQUEST, f"A name has from 1 to {NAME_CHARACTERS_MAX} characters.")


def _entry(token: DelegationToken) -> dict[str, Any]:
    return {
        "owner": [token.owner.kind, token.owner.name],
        "requester": [token.requester.kind, token.requester.name],
        "renewers": [[renewer.kind, renewer.name] for renewer in token.renewers],
        "issued_at_ms": token.issued_at_ms,
        "expires_at_ms": token.expires_at_ms,
        "ends_at_ms": token.ends_at_ms,
    }


def _token(token_id: str, kept: Any) -> DelegationToken:
    return DelegationToken(
        token_id,
        Principal(*kept["owner"]),
        Principal(*kept["requester"]),
        tuple(Principal(*renewer) for renewer in kept["renewers"]),
        kept["issued_at_ms"],
        kept["expires_at_ms"],
        kept["ends_at_ms"],
    )
