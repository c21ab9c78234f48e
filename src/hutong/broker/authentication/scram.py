"""Users' SCRAM credentials (KIP-84, KIP-554), durable: what a server keeps to know them again (RFC 5802).

Strategy: a client sends the salted password; kept are the two keys made from it, which prove a password but cannot be
used to log in. PLAIN is answered from the same credentials: a password that salts to the key is the right one. A secret
of this node's own makes the salts by which unknown users are answered, so that nobody learns who has an account.

Knows nothing of requests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from hutong.broker.state.durable_table import DurableTable
from hutong.foundation.errors import Refused
from hutong.foundation.waiting.pending import Continuation
from hutong.security.sasl import scram_credentials
from hutong.security.sasl.scram_credentials import (
    ITERATIONS_MAX,
    MECHANISMS,
    NEW_SALT_BYTES,
    SALT_BYTES_MAX,
    SALTED_PASSWORD_BYTES_MAX,
    SHA_256,
    SHA_512,
    Credential,
    Mechanism,
)
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.topics.catalogue import StateLog

USERS_MAX: Final = 100_000
USER_CHARACTERS_MAX: Final = 1024
DECOY_ITERATIONS: Final = 8192  # as `hutong user add` has it
_SECRET: Final = "secret"
_SECRET_BYTES: Final = 32
_NOBODY: Final = {"iterations": DECOY_ITERATIONS, "salt": "00" * 32, "stored_key": "00" * 64, "server_key": "00" * 64}


def mechanism_of(number: int) -> Mechanism:
    """Return the mechanism of Kafka's number for it. Raises Refused(UNSUPPORTED_SASL_MECHANISM)."""
    if number not in MECHANISMS:
        raise Refused(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "There is no such SCRAM mechanism.")
    return MECHANISMS[number]


def check_credential(user: str, mechanism: Mechanism, iterations: int, salt: bytes, salted_password: bytes) -> None:
    """Check that a credential can be kept. Raises Refused(UNACCEPTABLE_CREDENTIAL)."""
    check_user(user)
    # RFC 5802 leaves the count to the server. A worker hashes a PLAIN password as many times.
    if not mechanism.iterations_min <= iterations <= ITERATIONS_MAX:
        bounds = f"from {mechanism.iterations_min} to {ITERATIONS_MAX}"
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"A credential has {bounds} iterations.")
    if not salt or not salted_password:
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, "A credential has a salt and a password.")
    if len(salt) > SALT_BYTES_MAX or len(salted_password) > SALTED_PASSWORD_BYTES_MAX:
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"A salt has at most {SALT_BYTES_MAX} bytes.")


def check_user(user: str) -> None:
    """Check the length of a name. Raises Refused(UNACCEPTABLE_CREDENTIAL)."""
    if not 0 < len(user) <= USER_CHARACTERS_MAX:
        raise Refused(
            ErrorCode.UNACCEPTABLE_CREDENTIAL, f"The name of a user has from 1 to {USER_CHARACTERS_MAX} characters."
        )


class ScramUsers:
    """User names with their credentials, by mechanism."""

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self._random_bytes = random_bytes
        self._table = DurableTable("scram/", USERS_MAX)
        self._decoys = DurableTable("scram-decoys/", 1)

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one record of the log, if it is one of these."""
        self._table.replay(key, value)
        self._decoys.replay(key, value)

    def start(self, state: StateLog) -> None:
        """From here on changes are recorded in `state`. Called once, after replay."""
        self._table.start(state)
        self._decoys.start(state)

    @property
    def users(self) -> list[str]:
        return sorted(self._table.entries)

    def iterations(self, user: str) -> Mapping[int, int] | None:
        """The iterations of each of the user's credentials, by mechanism; None for an unknown user."""
        kept = self._table.entries.get(user)
        return None if kept is None else {int(number): kept[number]["iterations"] for number in sorted(kept)}

    def has(self, user: str, mechanism: Mechanism) -> bool:
        """True if there is such a credential, or one is being written."""
        return str(mechanism.number) in (self._table.latest(user) or {})

    def change(
        self,
        user: str,
        removed: list[Mechanism],
        added: Mapping[int, tuple[int, bytes, bytes]],
        then: Continuation[None],
    ) -> None:
        """Remove and set credentials of one user; `added` has (iterations, salt, salted password) by mechanism."""
        # The latest, not the durable one: two changes at the same time must not undo each other.
        kept = dict(self._table.latest(user) or {})
        for mechanism in removed:
            kept.pop(str(mechanism.number), None)
        for number, (iterations, salt, salted_password) in added.items():
            mechanism = MECHANISMS[number]
            kept[str(number)] = _entry(scram_credentials.credential(mechanism, salted_password, salt, iterations))
        self._table.put(user, kept or None, then)

    def remove(self, user: str, then: Continuation[None]) -> None:
        """Remove a user with all credentials."""
        self._table.put(user, None, then)

    def credential(self, user: str, mechanism: Mechanism) -> Credential | None:
        """The user's stored credential, once it is durable."""
        kept = (self._table.entries.get(user) or {}).get(str(mechanism.number))
        parsed = _credential(kept or _NOBODY)  # for unknown users too, or the time would betray them
        return None if kept is None else parsed

    def decoy(self, user: str, mechanism: Mechanism) -> Credential:
        """A fake credential for an unknown user: the same each time, also after a restart of this node."""
        secret = bytes.fromhex(self._decoys.latest(_SECRET) or self._new_secret())
        return scram_credentials.decoy(mechanism, secret, user, DECOY_ITERATIONS, NEW_SALT_BYTES)

    def password_check(self, user: str) -> Callable[[bytes], bool]:
        """Return a check of the user's password. It takes milliseconds, and as many for an unknown user."""
        decoy = self.decoy(user, SHA_512)  # made for known users too, or the time would betray unknown ones
        for mechanism in (SHA_512, SHA_256):
            kept = self.credential(user, mechanism)
            if kept is not None:
                return _password_check(mechanism, kept, is_known=True)
        return _password_check(SHA_512, decoy, is_known=False)

    def _new_secret(self) -> str:
        """Make the secret of decoys. If it cannot be stored, the next start makes another."""
        secret = self._random_bytes(_SECRET_BYTES).hex()
        self._decoys.put(_SECRET, secret, lambda _error: None)
        return secret


def _password_check(mechanism: Mechanism, kept: Credential, *, is_known: bool) -> Callable[[bytes], bool]:
    return lambda password: scram_credentials.is_password(mechanism, kept, password) and is_known


def _entry(credential: Credential) -> dict[str, Any]:
    return {
        "iterations": credential.iterations,
        "salt": credential.salt.hex(),
        "stored_key": credential.stored_key.hex(),
        "server_key": credential.server_key.hex(),
    }


def _credential(entry: Mapping[str, Any]) -> Credential:
    salt, stored_key, server_key = (bytes.fromhex(entry[name]) for name in ("salt", "stored_key", "server_key"))
    return Credential(entry["iterations"], salt, stored_key, server_key)
