"""Secrets of delegation tokens (KIP-48), all of which follow from one secret of the cluster.

Strategy: a token's HMAC is its password for SCRAM, as Base64. Nothing secret is stored with a token: who has the key
and the token's id computes the rest, so every node with that key knows all tokens.

Knows nothing of owners, times or storage.
"""

from __future__ import annotations

import base64
import hmac
from typing import Final

from hutong.security.sasl.scram_credentials import ITERATIONS_MIN, Credential, Mechanism, credential, salted_password

SALT_BYTES: Final = 32
_SALT: Final = b"salt "


def hmac_of(token_id: str, secret: bytes) -> bytes:
    """Kafka's: HMAC-SHA-512 of the id with the cluster's secret."""
    return hmac.digest(secret, token_id.encode(), "sha512")


def token_credential(token_id: str, secret: bytes, mechanism: Mechanism) -> Credential:
    """The credential of a token. Takes some milliseconds.

    An HMAC cannot be guessed, so the fewest iterations that clients accept are enough.
    """
    password = base64.b64encode(hmac_of(token_id, secret))
    salt = hmac.digest(secret, _SALT + f"{mechanism.name} {token_id}".encode(), "sha512")[:SALT_BYTES]
    return credential(mechanism, salted_password(mechanism, password, salt, ITERATIONS_MIN), salt, ITERATIONS_MIN)
