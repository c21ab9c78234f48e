"""Handlers: functions for the messages of topics and of bus addresses, with retries, dead letters and batches.

Names are imported when they are asked for: a program that only declares handlers starts without a client library.
"""

from typing import TYPE_CHECKING

from hutong.foundation.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from hutong.bus.durable.consume.retry import Retry
    from hutong.handlers.app import App
    from hutong.handlers.consume.driver import HandlingHalted
    from hutong.handlers.declare.context import MessageContext
    from hutong.handlers.declare.models import UndecodableMessage
    from hutong.handlers.declare.options import Output, RejectMessage

__all__ = ["App", "HandlingHalted", "MessageContext", "Output", "RejectMessage", "Retry", "UndecodableMessage"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "handlers.app": ("App",),
        "handlers.consume.driver": ("HandlingHalted",),
        "handlers.declare.context": ("MessageContext",),
        "handlers.declare.models": ("UndecodableMessage",),
        "handlers.declare.options": ("Output", "RejectMessage"),
        "bus.durable.consume.retry": ("Retry",),
    },
)
