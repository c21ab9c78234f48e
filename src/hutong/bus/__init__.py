"""The event bus: code that talks by address, each part in its own context, with back-pressure and typed failures."""

from hutong.bus.bus import EventBus
from hutong.bus.delivery.consumer import Consumer
from hutong.bus.delivery.producer import MessageProducer
from hutong.bus.envelope.codecs import MessageCodec
from hutong.bus.envelope.headers import Headers
from hutong.bus.envelope.interceptors import Delivery
from hutong.bus.envelope.message import Message
from hutong.bus.envelope.reply import Reply
from hutong.bus.errors import BusClosed, FailureType, HandlerRaised, ReplyError
from hutong.bus.options import DeliveryOptions

__all__ = [
    "BusClosed",
    "Consumer",
    "Delivery",
    "DeliveryOptions",
    "EventBus",
    "FailureType",
    "HandlerRaised",
    "Headers",
    "Message",
    "MessageCodec",
    "MessageProducer",
    "Reply",
    "ReplyError",
]
