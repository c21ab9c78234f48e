"""A SCRAM client (RFC 5802) that does as it is told, for tests of the server: it can also lie.

Knows nothing of requests.
"""

import base64
import hashlib
import hmac

from hutong.security.sasl.scram import ScramExchange
from hutong.security.sasl.steps import CheckProof, Step


class ScramClient:
    """One exchange: `first`, then `final` of what the server says, then `verify`."""

    def __init__(self, hash_name: str, user: str, password: bytes, nonce: str = "fyko+d2lbbFgONRv9qkxdawL") -> None:
        self._hash_name = hash_name
        self._password = password
        self._bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self._server_signature = b""

    def first(self, header: str = "n,,") -> bytes:
        return f"{header}{self._bare}".encode()

    def final(self, challenge: bytes, *, header: str = "n,,", nonce: str | None = None) -> bytes:
        given = dict(part.split("=", 1) for part in challenge.decode().split(","))
        salted = hashlib.pbkdf2_hmac(self._hash_name, self._password, base64.b64decode(given["s"]), int(given["i"]))
        without_proof = f"c={base64.b64encode(header.encode()).decode()},r={nonce or given['r']}"
        signed = f"{self._bare},{challenge.decode()},{without_proof}".encode()
        client_key = hmac.digest(salted, b"Client Key", self._hash_name)
        signature = hmac.digest(hashlib.new(self._hash_name, client_key).digest(), signed, self._hash_name)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        self._server_signature = hmac.digest(
            hmac.digest(salted, b"Server Key", self._hash_name), signed, self._hash_name
        )
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def is_from_server(self, last: bytes) -> bool:
        """True if the server has shown that it knows the password too."""
        return last == b"v=" + base64.b64encode(self._server_signature)


def responded(exchange: ScramExchange, message: bytes) -> Step:
    """The exchange's step, with a proof checked at once."""
    step = exchange.respond(message)
    return step.outcome() if isinstance(step, CheckProof) else step
