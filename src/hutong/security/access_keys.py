"""Access keys of RocketMQ's clients, and the signatures that they make with their secrets.

    ACCESS_KEY = SECRET       one of each line; blank lines, and those that begin with `#`, count for nothing

A signature is an HMAC-SHA1 of a request's values, in the order of their names, and its body. To check one the secret
itself is needed, so it cannot be kept as SCRAM's are. Nothing in it is new from request to request: who reads a signed
request can send it again.

Knows nothing of files, nor of requests.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from hutong.wire.buffer import Buffer

KEYS_MAX: Final = 10_000
KEY_CHARACTERS_MAX: Final = 1024  # as of a user
SECRET_CHARACTERS_MIN: Final = 8
SECRET_CHARACTERS_MAX: Final = 1024
_DECOY: Final = b"the secret of access keys that are not there"


class AccessKeysWrong(ValueError):
    """A text that has no access keys. It names the line, and never a secret."""


def parse_access_keys(text: str) -> dict[str, bytes]:
    """The secrets by their access keys. Raises AccessKeysWrong."""
    secrets: dict[str, bytes] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        # A secret in base64 may end with an equals sign, and have some within.
        key, mark, secret = (part.strip() for part in line.partition("="))
        if not mark or not 0 < len(key) <= KEY_CHARACTERS_MAX:
            raise AccessKeysWrong(f"Line {number} is no ACCESS_KEY = SECRET.")
        if not SECRET_CHARACTERS_MIN <= len(secret) <= SECRET_CHARACTERS_MAX:
            bounds = f"from {SECRET_CHARACTERS_MIN} to {SECRET_CHARACTERS_MAX}"
            raise AccessKeysWrong(f"The secret in line {number} has not {bounds} characters.")
        if key in secrets:
            raise AccessKeysWrong(f"The access key in line {number} was there before.")
        if len(secrets) >= KEYS_MAX:
            raise AccessKeysWrong(f"There are more than {KEYS_MAX} access keys.")
        secrets[key] = secret.encode()
    return secrets


def is_signed(
    secrets: Mapping[str, bytes], access_key: str, shown: str, fields: Mapping[str, str], body: Buffer
) -> bool:
    """Return True if the signature is one that the access key's secret makes. It takes as long for an unknown key."""
    secret = secrets.get(access_key)
    content = "".join([fields[name] for name in sorted(fields)]).encode()
    made = hmac.new(secret or _DECOY, content, hashlib.sha1)
    made.update(body)
    is_right = hmac.compare_digest(base64.b64encode(made.digest()), shown.encode())
    return is_right and secret is not None
