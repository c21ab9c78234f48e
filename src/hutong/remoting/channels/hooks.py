"""Hooks: what wants to see requests before and answers after, on either side (RPCHook in RocketMQ).

Strategy: while there are none, a request costs nothing for them. `before` may change the command (its ext fields, to
sign it), or refuse it with `AbortProcess`, whose code the server answers and the client raises. They run on the loop's
thread, in the order they were added, and see what goes by the general ways alone: `Channel.begin` and `Channel.answer`
are for callers that cannot pay for them.

Knows no connections.
"""

import base64
import hashlib
import hmac
from typing import Protocol

from hutong.remoting.errors import AbortProcess
from hutong.wire.rocketmq.command import Command

NO_PERMISSION = 16


class Hook(Protocol):
    def before(self, address: str, request: Command) -> None: ...

    def after(self, address: str, request: Command, answer: Command) -> None: ...


class AclHook:
    """Signs requests as RocketMQ's AclClientRPCHook does: HMAC-SHA1 over the ext fields' values and the body."""

    def __init__(self, access_key: str, secret_key: str) -> None:
        self._access_key = access_key
        self._secret = secret_key.encode()

    def before(self, address: str, request: Command) -> None:
        fields = {name: value for name, value in request.ext().items() if name != "Signature"}
        fields["AccessKey"] = self._access_key
        request.fields = {**fields, "Signature": signature(self._secret, fields, bytes(request.body))}

    def after(self, address: str, request: Command, answer: Command) -> None:
        """Answers are not signed."""


class AclCheck:
    """At a server: refuses, with code 16, requests that none of these keys signed."""

    def __init__(self, secret_keys: dict[str, str]) -> None:
        """`secret_keys` by access key."""
        self._secrets = {access_key: secret.encode() for access_key, secret in secret_keys.items()}

    def before(self, address: str, request: Command) -> None:
        fields = dict(request.ext())
        shown = fields.pop("Signature", "")
        secret = self._secrets.get(fields.get("AccessKey", ""))
        if secret is None or not hmac.compare_digest(
            shown.encode(), signature(secret, fields, bytes(request.body)).encode()
        ):
            raise AbortProcess(NO_PERMISSION, "the request is not signed by a key that is known here")

    def after(self, address: str, request: Command, answer: Command) -> None:
        """Answers are not signed."""


def signature(secret: bytes, fields: dict[str, str], body: bytes) -> str:
    """Over the values in the order of their names, then the body."""
    content = "".join([value for _, value in sorted(fields.items())]).encode() + body
    return base64.b64encode(hmac.new(secret, content, hashlib.sha1).digest()).decode()
