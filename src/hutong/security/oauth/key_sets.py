"""Parse a provider's key set (JWKS, RFC 7517) into public keys, by their ids.

Strategy: only asymmetric keys for signatures count, and only their public members are read. The algorithms of a key
follow from its type and curve. So a token cannot make an RSA key serve as an HMAC secret (RFC 8725, section 2.1). A key
that is of no use here is skipped, as RFC 7517 (section 5) has it; a set without any usable key is refused.

Knows nothing of tokens, nor where the bytes come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from hutong.foundation.errors import ProtocolError

SET_BYTES_MAX: Final = 512 * 1024
KEYS_MAX: Final = 100
KEY_ID_CHARACTERS_MAX: Final = 1024
RSA_BITS: Final = range(2048, 8193)  # RFC 7518, section 3.3, asks for 2048; more than 8192 make a check slow
RSA_EXPONENT_MAX: Final = 1 << 32  # for the same reason; all but a few keys have 65537
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES: Final = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512", "Ed25519": "EdDSA"}
_PUBLIC_MEMBERS: Final = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}
ALGORITHMS: Final = frozenset((*_RSA, *_CURVES.values()))
"""Every algorithm that a token may have: none of them is `none`, and none has a shared secret."""


@dataclass(frozen=True, slots=True)
class Key:
    """A public key, as the library has it, with the algorithms that it may check."""

    algorithms: tuple[str, ...]
    public: Any = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeySet:
    """Keys by id, and those without one."""

    by_id: Mapping[str, Key]
    without_id: tuple[Key, ...] = ()

    def __len__(self) -> int:
        return len(self.by_id) + len(self.without_id)

    def find(self, key_id: str | None, algorithm: str) -> Key | None:
        """The key that a token names. Without a name, the only key of the algorithm."""
        if key_id is not None:
            return self.by_id.get(key_id)
        fitting = [key for key in (*self.by_id.values(), *self.without_id) if algorithm in key.algorithms]
        return fitting[0] if len(fitting) == 1 else None


def parse_key_set(data: bytes) -> KeySet:
    """Raises ProtocolError for bytes that are no key set, or one without a usable key."""
    # A provider has a few keys, of some hundred bytes each.
    if len(data) > SET_BYTES_MAX:
        raise ProtocolError(f"a key set of more than {SET_BYTES_MAX} bytes")
    try:
        parsed = msgspec.json.decode(data)
    # RecursionError: arrays nested thousands deep.
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise ProtocolError("a key set that is no JSON") from None
    listed = parsed.get("keys") if isinstance(parsed, dict) else None
    if not isinstance(listed, list):
        raise ProtocolError("a key set without its list of keys")
    # Each takes time to decode, and a mistake must not hold the thread.
    if len(listed) > KEYS_MAX:
        raise ProtocolError(f"a key set with more than {KEYS_MAX} keys")
    by_id: dict[str, Key] = {}
    without_id: list[Key] = []
    for entry in listed:
        key = _key(entry) if isinstance(entry, dict) else None
        if key is None:
            continue
        key_id = entry.get("kid")
        if key_id is None:
            without_id.append(key)
        # Headers of tokens are bounded, so no token has a longer id. Of a repeated id the first key stays.
        elif isinstance(key_id, str) and len(key_id) <= KEY_ID_CHARACTERS_MAX:
            by_id.setdefault(key_id, key)
    # More likely a mistake than a provider without keys: what was fetched before stays in use.
    if not by_id and not without_id:
        raise ProtocolError("a key set without a usable key")
    return KeySet(by_id, tuple(without_id))


def _key(entry: Mapping[str, Any]) -> Key | None:
    """The key of one entry; None if it is of no use for checking signatures."""
    kind = entry.get("kty")
    # RFC 7517, section 4.2: a key for encryption must not check signatures.
    if not isinstance(kind, str) or kind not in _PUBLIC_MEMBERS or entry.get("use", "sig") != "sig":
        return None
    members = {name: entry.get(name) for name in _PUBLIC_MEMBERS[kind]}
    if not all(isinstance(value, str) for value in members.values()):
        return None
    algorithms: tuple[str, ...] = _RSA if kind == "RSA" else (_CURVES.get(cast(str, members["crv"]), ""),)
    stated = entry.get("alg")
    # `Ed25519` is the newer name of EdDSA with that curve (RFC 9864).
    if stated == "Ed25519":
        stated = "EdDSA"
    if stated is not None:
        algorithms = tuple(algorithm for algorithm in algorithms if algorithm == stated)
    if not algorithms or not ALGORITHMS.issuperset(algorithms):
        return None
    try:
        public = PyJWK({"kty": kind, **members}, algorithms[0]).key
    # Numbers that are no key: cryptography raises ValueError, the rest of the decoding its own errors.
    except (PyJWTError, ValueError, TypeError):
        return None
    if isinstance(public, RSAPublicKey):
        is_bounded = public.key_size in RSA_BITS and public.public_numbers().e <= RSA_EXPONENT_MAX
        return Key(algorithms, public) if is_bounded else None
    return Key(algorithms, public)
