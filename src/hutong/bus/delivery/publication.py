"""Publication: a copy of one message to each consumer of an address.

Knows no routes.
"""

from collections.abc import Sequence
from typing import Any

from hutong.bus.delivery.registrations import MessageReceiver
from hutong.bus.envelope.bodies import IMMUTABLE
from hutong.bus.envelope.codecs import Codecs
from hutong.bus.envelope.message import FullMessage, Message
from hutong.foundation.errors import LimitExceeded


def deliver_copies(message: Message, consumers: Sequence[MessageReceiver], codecs: Codecs) -> None:
    """Queue the message in the first consumer's context, and a copy of it in each other's.

    Raises LimitExceeded where one of the contexts is full, after all others have it: who keeps up must not lose a
    publication by who does not.
    """
    refused: LimitExceeded | None = None
    is_plain = message._credit is None and message._variables is None
    # Bridges register thousands of clients at one address and only encode the body: one copy serves all of them.
    shared: Any = message.body if consumers and consumers[0].shares_bodies else None
    for consumer in consumers[1:]:
        headers = message.header_pairs
        body = message.body
        # The message's own body is copied already; each further consumer may change what it gets.
        if message._codec is not None:
            body = message._codec.transform(body)
        elif type(body) not in IMMUTABLE:
            if shared is None or not consumer.shares_bodies:
                body, _ = codecs.prepare(body, None)
                shared = body if consumer.shares_bodies else shared
            else:
                body = shared
        more = (message._codec, message._credit, message._variables)
        another = FullMessage(message.address, body, headers, None, False, *more)
        refused = _queue(consumer, another, is_plain=is_plain) or refused
    # The first consumer comes last: once it has the body, its thread may change it while copies are made.
    if consumers:
        refused = _queue(consumers[0], message, is_plain=is_plain) or refused
    if refused is not None:
        raise refused


def _queue(consumer: MessageReceiver, message: Message, *, is_plain: bool) -> LimitExceeded | None:
    """Queue the message in the consumer's context. Returns the bound that it is at, where it is."""
    try:
        consumer.context.run(consumer.deliver if is_plain else consumer.take_carefully, message)
    except LimitExceeded as error:
        return error
    return None
