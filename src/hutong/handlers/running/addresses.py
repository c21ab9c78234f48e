"""Handlers of bus addresses: a body to the model, the result to the reply.

Knows no topics.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hutong.bus.errors import FailureType, ReplyError
from hutong.handlers.declare.context import MessageContext
from hutong.handlers.declare.models import UndecodableMessage, to_body
from hutong.handlers.declare.options import AddressHandler

if TYPE_CHECKING:
    from hutong.bus import Message
    from hutong.bus.bus import EventBus
    from hutong.bus.delivery.consumer import Consumer

UNDECODABLE_CODE: Final = 400  # the failure code of a body that is not the model


def register(bus: "EventBus", handler: AddressHandler) -> "Consumer":
    consumer: Consumer = bus.consumer(handler.address, bus_handler(handler))
    return consumer


def bus_handler(handler: AddressHandler) -> "Callable[[Message], Awaitable[Any]]":
    """The function that the bus calls. A plain function runs on a thread, so that it does not stop the loop."""
    signature = handler.signature

    async def handle(message: "Message") -> Any:
        try:
            body = handler.convert(message.body)
        except UndecodableMessage as error:
            raise ReplyError(FailureType.RECIPIENT_FAILURE, UNDECODABLE_CODE, str(error)) from None
        arguments = signature.arguments(body, partial(_context, message))
        if signature.is_async:
            returned = await signature.function(*arguments)
        else:
            returned = await asyncio.to_thread(signature.function, *arguments)
        # A reply even where nothing is returned: the sender waits for the end of the handler.
        if message.reply_address is not None and returned is None:
            message.reply(None)
        return to_body(returned)

    return handle


def _context(message: "Message") -> MessageContext:
    return MessageContext(None, 1, message.address, message.headers)
