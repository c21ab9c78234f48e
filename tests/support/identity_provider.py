"""A small OpenID Connect provider: keys, a token endpoint for client credentials, and a key set, over HTTP.

Strategy: tokens are made by PyJWT with keys of this process. A test can turn the keys, break the endpoint, or sign what
no provider would. `requests` counts what was asked, by path.

Knows nothing of nodes.
"""

import base64
import json
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

ISSUER: Final = "https://provider.example"
AUDIENCE: Final = "hutong"
SECRET: Final = "of the client"
_BODY_BYTES_MAX: Final = 10_000


class SigningKey:
    """A private key with its id."""

    def __init__(self, key_id: str, algorithm: str = "RS256") -> None:
        self.id, self.algorithm = key_id, algorithm
        self.private: Any
        if algorithm.startswith("ES"):
            curve = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}[algorithm]
            self.private = ec.generate_private_key(curve)
            public = ECAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        elif algorithm == "EdDSA":
            self.private = ed25519.Ed25519PrivateKey.generate()
            public = OKPAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        else:
            self.private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
            public = RSAAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        public.pop("key_ops", None)
        self.public: dict[str, Any] = {**public, "kid": key_id, "use": "sig"}

    def sign(self, claims: dict[str, Any], **headers: Any) -> str:
        # Not `jwt.encode`, which refuses some of the claims that tests want.
        content = json.dumps(claims).encode()
        return jwt.PyJWS().encode(content, self.private, self.algorithm, headers={"kid": self.id, **headers})


def key_set(*keys: SigningKey) -> bytes:
    return json.dumps({"keys": [key.public for key in keys]}).encode()


def claims_of(name: str, now_s: float, life_s: float = 300, **more: Any) -> dict[str, Any]:
    claims = {"sub": name, "iss": ISSUER, "aud": AUDIENCE, "iat": int(now_s), "exp": int(now_s + life_s)}
    return {name: value for name, value in {**claims, "scope": "kafka", **more}.items() if value is not None}


class IdentityProvider:
    """`with IdentityProvider() as provider:` answers at `jwks_url` and `token_url`."""

    def __init__(self) -> None:
        self.keys = [SigningKey("first", "RS256"), SigningKey("second", "ES256")]
        self.life_s: float = 300
        self.is_broken = False
        self.requests: Counter[str] = Counter()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.jwks_url, self.token_url = f"{self.url}/jwks", f"{self.url}/token"

    def token(self, name: str, key: int = 0, **claims: Any) -> str:
        return self.keys[key].sign(claims_of(name, time.time(), self.life_s, **claims))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, path: str, body: bytes, authorization: str) -> tuple[int, bytes]:
        self.requests[path] += 1
        if self.is_broken:
            return 503, b"{}"
        if path == "/jwks":
            return 200, key_set(*self.keys)
        if path != "/token":
            return 404, b"{}"
        # RFC 6749, section 2.3.1: the client names itself by HTTP's Basic scheme.
        scheme, _, encoded = authorization.partition(" ")
        user, _, secret = base64.b64decode(encoded).decode().partition(":") if scheme == "Basic" else ("", "", "")
        asked = parse_qs(body.decode())
        if secret.replace("+", " ") != SECRET or asked.get("grant_type") != ["client_credentials"]:
            return 401, b'{"error":"invalid_client"}'
        answer = {"access_token": self.token(user), "token_type": "Bearer", "expires_in": int(self.life_s)}
        return 200, json.dumps(answer).encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._respond(b"")

            def do_POST(self) -> None:
                self._respond(self.rfile.read(min(int(self.headers["Content-Length"] or 0), _BODY_BYTES_MAX)))

            def _respond(self, body: bytes) -> None:
                status, answer = provider.answer(self.path, body, self.headers.get("Authorization", ""))
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None: ...

        return Handler
