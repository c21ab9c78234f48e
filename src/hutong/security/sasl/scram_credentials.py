"""SCRAM's mechanisms and stored credentials (RFC 5802, section 3; RFC 7677).

Strategy: the server stores the salt and two keys. They verify a password and cannot be used to log in. A password is
the bytes of its UTF-8, without SASLprep, as in Kafka and its clients.

Knows nothing of messages or storage.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384
"""Both as Kafka has them: fewer are refused as too weak, more would make logins slow."""
SALT_BYTES_MAX: Final = 1024
SALTED_PASSWORD_BYTES_MAX: Final = 1024
NEW_SALT_BYTES: Final = 32
_CLIENT_KEY: Final = b"Client Key"
_SERVER_KEY: Final = b"Server Key"


@dataclass(frozen=True, slots=True)
class Mechanism:
    """One SCRAM mechanism: its number in Kafka's requests, its name, its hash and the least iterations it asks for."""

    number: int
    name: str
    hash_name: str
    iterations_min: int = ITERATIONS_MIN


SHA_256: Final = Mechanism(1, "SCRAM-SHA-256", "sha256")
SHA_512: Final = Mechanism(2, "SCRAM-SHA-512", "sha512")
MECHANISMS: Final = {mechanism.number: mechanism for mechanism in (SHA_256, SHA_512)}
MECHANISM_NAMES: Final = {mechanism.name: mechanism for mechanism in MECHANISMS.values()}


class Salted(NamedTuple):
    """A new password in the form in which a client sends it: salted and hashed."""

    iterations: int
    salt: bytes
    salted_password: bytes


@dataclass(frozen=True, slots=True)
class Credential:
    """The stored credential of one user for one mechanism. Its repr shows no secret."""

    iterations: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


def salted_password(mechanism: Mechanism, password: bytes, salt: bytes, iterations: int) -> bytes:
    """Hi() of RFC 5802. Slow on purpose: not for a loop."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password, salt, iterations)


def salt_password(
    mechanism: Mechanism, password: bytes, iterations: int, random_bytes: Callable[[int], bytes]
) -> Salted:
    """A new password with a salt of its own."""
    salt = random_bytes(NEW_SALT_BYTES)
    return Salted(iterations, salt, salted_password(mechanism, password, salt, iterations))


def credential(mechanism: Mechanism, salted: bytes, salt: bytes, iterations: int) -> Credential:
    """Derive the credential to store from a salted password."""
    client_key = hmac.digest(salted, _CLIENT_KEY, mechanism.hash_name)
    server_key = hmac.digest(salted, _SERVER_KEY, mechanism.hash_name)
    return Credential(iterations, salt, hashlib.new(mechanism.hash_name, client_key).digest(), server_key)


def is_password(mechanism: Mechanism, kept: Credential, password: bytes) -> bool:
    """Compare a password with a stored credential, in constant time. As slow as salting it."""
    salted = salted_password(mechanism, password, kept.salt, kept.iterations)
    return hmac.compare_digest(credential(mechanism, salted, kept.salt, kept.iterations).stored_key, kept.stored_key)


def decoy(mechanism: Mechanism, secret: bytes, user: str, iterations: int, salt_bytes: int) -> Credential:
    """Make up the credential of an unknown user: always the same for one name, and of a real one's shape.

    Without it, asking for the salt would reveal which users exist.
    """

    def derived(purpose: str, size: int) -> bytes:
        name = f"{purpose} {mechanism.name} {user}".encode()
        return hashlib.shake_256(hmac.digest(secret, name, "sha512")).digest(size)

    key_bytes = hashlib.new(mechanism.hash_name).digest_size
    return Credential(
        iterations, derived("salt", salt_bytes), derived("stored key", key_bytes), derived("server key", key_bytes)
    )
