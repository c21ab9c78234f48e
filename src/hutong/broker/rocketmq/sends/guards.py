"""Guards of the short way: signatures, rights and quotas of plain messages.

Strategy: a message passes where all allow it. One that does not pass goes the long way, which finds the same, answers
its client and counts it. So nothing is logged or counted here that is there.

Decides nothing of rights and quotas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hutong.broker.rights.authorization import may
from hutong.broker.rocketmq.context import RocketContext, connected_principal
from hutong.foundation.errors import HutongError
from hutong.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from hutong.broker.rocketmq.context import RocketParts
    from hutong.broker.rocketmq.metering import Metering
    from hutong.remoting.channels.channel import Channel
    from hutong.wire.rocketmq.command import Command


class SendGuards:
    """The guards of one node."""

    def __init__(self, parts: RocketParts, metering: Metering) -> None:
        self._parts = parts
        self._authorizer = parts.broker.authorizer
        self._meter = parts.broker.meter
        self._metering = metering

    @property
    def need_requests(self) -> bool:
        """True while each request has to be looked at by itself."""
        return bool(self._meter.is_on or self._parts.signatures.secrets)

    def allow(self, command: Command, channel: Channel, topic: str) -> bool:
        """True if the message may be stored now; then it counts for the quotas of its client."""
        # Most nodes have none of them.
        if not (self._authorizer.is_on or self._meter.is_on or self._parts.signatures.secrets):
            return True
        began_us = self._parts.broker.clock.monotonic_us()
        try:
            context = RocketContext(command, channel, self._parts, quietly=True)
            if not may(context.kafka(), Operation.WRITE, ResourceType.TOPIC, topic, quietly=True):
                return False
            return not self._meter.is_on or self._metering.admit(context, began_us)
        except HutongError:
            return False

    def allow_connected(self, channel: Channel, topic: str) -> bool:
        """True if an unsigned message of this connection may be stored, where `need_requests` is False."""
        if not self._authorizer.is_on:
            return True
        try:
            principal = connected_principal(channel, self._parts)
        except HutongError:
            return False
        host = channel.peer.address
        return self._authorizer.allows_client(
            str(principal), host, Operation.WRITE, ResourceType.TOPIC, topic, quietly=True
        )
