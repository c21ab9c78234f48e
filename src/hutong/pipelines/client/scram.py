"""SCRAM as a client speaks it (RFC 5802): two messages each way, after which both know that the other knows.

Strategy: pure, one object for one exchange; our part of the nonce arrives by constructor. Names and passwords are taken
as the bytes of their UTF-8, without SASLprep, as Kafka takes them. A server that asks for too few rounds would learn
too much of the password, one that asks for too many would keep us busy: both are refused.

Knows nothing of connections. What is no SCRAM raises ProtocolError.
"""

import base64
import binascii
import hashlib
import hmac

from hutong.foundation.errors import ProtocolError

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS_MIN = 4_096
ITERATIONS_MAX = 1_000_000
HEADER = "n,,"  # no channel binding, no authorization id


class ScramClient:
    """One exchange: `first`, then `final` with the server's first message, then `verify` with its last."""

    def __init__(self, mechanism: str, user: str, password: str, nonce: str) -> None:
        self._hash_name = HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce
        self._bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self._server_signature = b""

    def first(self) -> bytes:
        return f"{HEADER}{self._bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        """The proof. Raises ProtocolError when the challenge is none, or asks for what we do not do."""
        text = _text(challenge)
        nonce, salt, iterations = _challenge(text)
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise ProtocolError("the server's challenge by SCRAM does not continue our nonce")
        salted = hashlib.pbkdf2_hmac(self._hash_name, self._password, salt, iterations)
        without_proof = f"c={base64.b64encode(HEADER.encode()).decode()},r={nonce}"
        signed = f"{self._bare},{text},{without_proof}".encode()
        client_key = hmac.digest(salted, b"Client Key", self._hash_name)
        signature = hmac.digest(hashlib.new(self._hash_name, client_key).digest(), signed, self._hash_name)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        server_key = hmac.digest(salted, b"Server Key", self._hash_name)
        self._server_signature = hmac.digest(server_key, signed, self._hash_name)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def verify(self, last: bytes) -> None:
        """Raises ProtocolError unless the server has shown that it knows the password too."""
        expected = b"v=" + base64.b64encode(self._server_signature)
        if not self._server_signature or not hmac.compare_digest(last.partition(b",")[0], expected):
            raise ProtocolError("the server does not know the password that it let us in with")


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise ProtocolError("the server's challenge by SCRAM is no text") from None


def _challenge(text: str) -> tuple[str, bytes, int]:
    """Nonce, salt and rounds of `r=...,s=...,i=...`; extensions may follow."""
    parts = text.split(",")
    if len(parts) < 3 or [part[:2] for part in parts[:3]] != ["r=", "s=", "i="]:
        raise ProtocolError("the server's challenge by SCRAM lacks nonce, salt or rounds")
    nonce, salt, rounds = (part[2:] for part in parts[:3])
    iterations = int(rounds) if rounds.isascii() and rounds.isdecimal() and len(rounds) < 10 else 0
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise ProtocolError(f"the server asks for {rounds[:10]} rounds of SCRAM, which is too few or too many")
    try:
        return nonce, base64.b64decode(salt, validate=True), iterations
    except (binascii.Error, ValueError):
        raise ProtocolError("the server's challenge by SCRAM has no salt") from None
