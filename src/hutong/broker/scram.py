"""Users' SCRAM credentials (KIP-84, KIP-554), durable: what a server keeps to know them again (RFC 5802).

Strategy: a client sends the salted password; kept are the two keys made from it, which prove a password but cannot be
used to log in. Nobody asks for them yet: this node does not authenticate its clients.

Knows nothing of requests.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hutong.broker.durable_table import DurableTable
from hutong.foundation.errors import Refused
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.topics import StateLog
    from hutong.foundation.errors import HutongError

USERS_MAX: Final = 100_000
USER_CHARACTERS_MAX: Final = 1024
ITERATIONS_MAX: Final = 16384
_CLIENT_KEY: Final = b"Client Key"
_SERVER_KEY: Final = b"Server Key"


@dataclass(frozen=True, slots=True)
class Mechanism:
    """One SCRAM mechanism: its number in requests, its hash and the least iterations it asks for."""

    number: int
    name: str
    hash_name: str
    iterations_min: int


MECHANISMS: Final = {
    mechanism.number: mechanism
    for mechanism in (
        Mechanism(1, "SCRAM-SHA-256", "sha256", 4096),
        Mechanism(2, "SCRAM-SHA-512", "sha512", 4096),
    )
}


def mechanism_of(number: int) -> Mechanism:
    """Raises Refused(UNSUPPORTED_SASL_MECHANISM)."""
    if number not in MECHANISMS:
        raise Refused(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "There is no such SCRAM mechanism.")
    return MECHANISMS[number]


def check_credential(user: str, mechanism: Mechanism, iterations: int, salt: bytes, salted_password: bytes) -> None:
    """Raises Refused(UNACCEPTABLE_CREDENTIAL) where a credential cannot be kept."""
    check_user(user)
    if not mechanism.iterations_min <= iterations <= ITERATIONS_MAX:
        bounds = f"from {mechanism.iterations_min} to {ITERATIONS_MAX}"
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"A credential has {bounds} iterations.")
    if not salt or not salted_password:
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, "A credential has a salt and a password.")


def check_user(user: str) -> None:
    """Raises Refused(UNACCEPTABLE_CREDENTIAL)."""
    if not 0 < len(user) <= USER_CHARACTERS_MAX:
        raise Refused(
            ErrorCode.UNACCEPTABLE_CREDENTIAL, f"The name of a user has from 1 to {USER_CHARACTERS_MAX} characters."
        )


class ScramUsers:
    """User names with their credentials, by mechanism."""

    def __init__(self) -> None:
        self._table = DurableTable("scram/", USERS_MAX)
        self.replay = self._table.replay

    def start(self, state: StateLog) -> None:
        """From here on changes are recorded in `state`. Called once, after replay."""
        self._table.start(state)

    @property
    def users(self) -> list[str]:
        return sorted(self._table.entries)

    def iterations(self, user: str) -> Mapping[int, int] | None:
        """Of each mechanism that the user has a credential for; None for an unknown user."""
        kept = self._table.entries.get(user)
        return None if kept is None else {int(number): kept[number]["iterations"] for number in sorted(kept)}

    def has(self, user: str, mechanism: Mechanism) -> bool:
        """Whether there is such a credential, or one is on its way to the disk."""
        return str(mechanism.number) in (self._table.latest(user) or {})

    def change(
        self,
        user: str,
        removed: list[Mechanism],
        added: Mapping[int, tuple[int, bytes, bytes]],
        then: Callable[[HutongError | None], None],
    ) -> None:
        """Remove and set credentials of one user; `added` has (iterations, salt, salted password) by mechanism."""
        kept = dict(self._table.latest(user) or {})
        for mechanism in removed:
            kept.pop(str(mechanism.number), None)
        for number, (iterations, salt, salted_password) in added.items():
            kept[str(number)] = _credential(MECHANISMS[number], iterations, salt, salted_password)
        self._table.put(user, kept or None, then)


def _credential(mechanism: Mechanism, iterations: int, salt: bytes, salted_password: bytes) -> dict[str, Any]:
    """RFC 5802, section 3: StoredKey = H(HMAC(SaltedPassword, "Client Key")), ServerKey beside it."""
    client_key = hmac.digest(salted_password, _CLIENT_KEY, mechanism.hash_name)
    return {
        "iterations": iterations,
        "salt": salt.hex(),
        "stored_key": hashlib.new(mechanism.hash_name, client_key).hexdigest(),
        "server_key": hmac.digest(salted_password, _SERVER_KEY, mechanism.hash_name).hex(),
    }
