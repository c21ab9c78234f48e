"""Publication: a copy of one message to each consumer of an address.

Knows no routes.
"""

from collections.abc import Sequence
from typing import Any

from hutong.bus.delivery.registrations import MessageReceiver
from hutong.bus.envelope.bodies import IMMUTABLE
from hutong.bus.envelope.codecs import Codecs
from hutong.bus.envelope.message import FullMessage, Message


def deliver_copies(message: Message, consumers: Sequence[MessageReceiver], codecs: Codecs) -> None:
    """Queue the message in the first consumer's context, and a copy of it in each other's."""
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
        consumer.context.run(consumer.deliver if is_plain else consumer.take_carefully, another)
    # The first consumer comes last: once it has the body, its thread may change it while copies are made.
    if consumers:
        first = consumers[0]
        first.context.run(first.deliver if is_plain else first.take_carefully, message)
