"""CHECK_TRANSACTION_STATE (39): what became of a transaction? The node asks a client of the producer's group.

It is sent oneway, as RocketMQ does. The client answers with END_TRANSACTION, or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hutong.broker.rocketmq.context import user_of
from hutong.broker.rocketmq.halves.half_messages import asked_about
from hutong.broker.rocketmq.records.positions import message_id
from hutong.remoting.errors import RemotingError
from hutong.wire.rocketmq.codes import RequestCode
from hutong.wire.rocketmq.command import Command
from hutong.wire.rocketmq.messages import StoredMessage, encode_message

if TYPE_CHECKING:
    from collections.abc import Callable

    from hutong.broker.rocketmq.halves.machine import HalfCheck
    from hutong.groups.rocketmq.clients import RocketClients
    from hutong.remoting.channels.channel import Channel


class TransactionChecks:
    """Sends checks."""

    def __init__(self, clients: RocketClients, channel_of: Callable[[int], Channel | None]) -> None:
        self._clients = clients
        self._channel_of = channel_of

    def may_ask(self, check: HalfCheck) -> bool:
        """Return True if somebody is there who could answer."""
        return self._channel(check) is not None

    def ask(self, check: HalfCheck, message: StoredMessage) -> None:
        """Send the check with the stored message."""
        channel = self._channel(check)
        # It has left meanwhile.
        if channel is None:
            return
        fields = {
            "tranStateTableOffset": str(check.offset),
            "commitLogOffset": str(message.physical_offset),
            "msgId": check.half.key,
            "transactionId": check.half.key,
            "offsetMsgId": message_id(message.store_host, message.physical_offset),
        }
        body = encode_message(asked_about(message, check.times))
        try:
            channel.oneway(Command(RequestCode.CHECK_TRANSACTION_STATE, fields=fields, body=body))
        # It does not read: the next check comes.
        except RemotingError:
            return

    def _channel(self, check: HalfCheck) -> Channel | None:
        """One of the group's channels, each time another one: the first may be a client that hangs."""
        numbers = self._clients.producer_connections(check.half.group)
        channels = [found for number in numbers if (found := self._channel_of(number)) is not None]
        # A group's name is anybody's; what is in the message is not.
        channels = [channel for channel in channels if user_of(channel) == check.half.user]
        return channels[-check.times % len(channels)] if channels else None
