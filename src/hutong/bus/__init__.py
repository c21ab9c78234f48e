"""The event bus: code that talks by address, each part in its own context, with back-pressure and typed failures."""

from hutong.bus.bus import EventBus
from hutong.bus.codecs import MessageCodec
from hutong.bus.consumer import Consumer
from hutong.bus.errors import BusClosed, FailureType, HandlerRaised, ReplyError
from hutong.bus.headers import Headers
from hutong.bus.interceptors import Delivery
from hutong.bus.message import Message
from hutong.bus.options import DeliveryOptions
from hutong.bus.producer import MessageProducer
from hutong.bus.reply import Reply

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
