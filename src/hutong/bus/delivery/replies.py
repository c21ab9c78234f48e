"""Delivery of replies: through the interceptors of both sides, then into the reply that is awaited.

Strategy: outbound interceptors run in the replying context, inbound ones in the requester's. Without interceptors a
reply is resumed where it was sent from.

Knows no addresses.
"""

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from hutong.bus.durable.addresses import is_durable
from hutong.bus.envelope.interceptors import Delivery, Interceptor
from hutong.bus.envelope.message import REPLY_PREFIX, Message
from hutong.bus.envelope.reply import Reply
from hutong.bus.errors import ReplyError
from hutong.foundation.errors import UsageError
from hutong.foundation.waiting.numbered import Numbers


class InterceptingBus(Protocol):
    """The services of a bus for delivery through interceptors."""

    @property
    def inbound_chain(self) -> Sequence[Interceptor]: ...

    @property
    def outbound_chain(self) -> Sequence[Interceptor]: ...

    def report(self, error: BaseException) -> None:
        """Report the error of an interceptor."""


def deliver_reply(bus: InterceptingBus, reply: Reply, message: Message) -> None:
    """Deliver the message as the reply. It is dropped if the reply is not awaited any more."""
    if bus.outbound_chain:
        Delivery(message, bus.outbound_chain, partial(carry_reply, bus, reply), bus.report, reply).begin()
    else:
        carry_reply(bus, reply, message)


def carry_reply(bus: InterceptingBus, reply: Reply, message: Message) -> None:
    """Deliver a reply that has passed the replier's interceptors."""
    # The interceptors of another process are its own.
    if bus.inbound_chain and not reply.is_remote:
        reply.arrive(partial(_receive_reply, bus, reply, message))
    else:
        _end_reply(reply, message)


def _receive_reply(bus: InterceptingBus, reply: Reply, message: Message) -> None:
    """In the requester's context."""
    if bus.inbound_chain:  # read again: interceptors may have come or gone on the way
        Delivery(message, bus.inbound_chain, partial(_end_reply, reply), bus.report, reply).begin()
    else:
        _end_reply(reply, message)


def _end_reply(reply: Reply, message: Message) -> None:
    if isinstance(message.body, ReplyError):
        reply.fail(message.body)
    else:
        reply.resume(message)


def awaited_reply(numbers: Numbers, address: str) -> Reply | None:
    """The reply awaited at this address, or None. Raises UsageError for a durable address."""
    if is_durable(address):
        raise UsageError(
            f"{address!r} is durable: it is published to, since each group receives every message; nobody replies."
        )
    number = address.removeprefix(REPLY_PREFIX)
    if not (number.isascii() and number.isdigit() and len(number) < 20):
        return None
    wait = numbers.find(int(number))
    return wait if isinstance(wait, Reply) else None
