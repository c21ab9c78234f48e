"""The principals of requests that are signed, as RocketMQ's AclClientRPCHook and its Go client sign them.

An access key is the name of a user: the same ACLs are about it as about Kafka's user of that name. A request that is
not signed has the principal of its connection. One that is signed and not by a key that is known is refused, even
where nothing is authorized: its client believes that it is somebody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.broker.rocketmq.refusals import RocketRefused
from hutong.security.access_keys import is_signed
from hutong.security.principals import USER, Principal
from hutong.wire.rocketmq.codes import ResponseCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hutong.wire.rocketmq.command import Command

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
_UNSIGNED_FLAG: Final = "_UNIQUE_KEY_QUERY"  # added behind the signature up to 4.9.3
_SIGNS_FLAG_FROM_VERSION: Final = 400


class Signatures:
    """The access keys of a node; without any, signatures mean nothing, as to a broker whose ACLs are off.

    Figures: `refused_total` counts requests that were not signed by their key.
    """

    def __init__(self, secrets: Mapping[str, bytes] | None = None) -> None:
        self.secrets = secrets or {}
        self.refused_total = 0

    def principal_of(self, command: Command, *, quietly: bool = False) -> Principal | None:
        """The principal that signed the request; None if nobody did. Raises RocketRefused, ProtocolError.

        Quietly: a refusal is not counted.
        """
        if not self.secrets:
            return None
        fields = command.ext()
        access_key = fields.get(ACCESS_KEY)
        if access_key is None:
            return None
        signed = {name: value for name, value in fields.items() if name != SIGNATURE}
        if command.version < _SIGNS_FLAG_FROM_VERSION:
            signed.pop(_UNSIGNED_FLAG, None)
        # Neither says whether the key is known, nor what a right signature would have been.
        if not is_signed(self.secrets, access_key, fields.get(SIGNATURE, ""), signed, command.body):
            self.refused_total += not quietly
            raise RocketRefused(ResponseCode.NO_PERMISSION, "The request is not signed by a key that is known here.")
        return Principal(USER, access_key)
