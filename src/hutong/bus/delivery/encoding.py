"""The codecs of a bus, and the messages that it makes with them.

Knows no routes.
"""

from typing import Any

from hutong.bus.delivery.interception import InterceptedBus
from hutong.bus.delivery.registrations import Registrations
from hutong.bus.envelope.codecs import Codecs, MessageCodec
from hutong.bus.envelope.message import FullMessage
from hutong.bus.envelope.reply import Reply
from hutong.bus.options import DeliveryOptions


class EncodingBus(InterceptedBus):
    """The part of an event bus that keeps its codecs."""

    def __init__(self, registrations: Registrations) -> None:
        super().__init__(registrations)
        self._codecs = Codecs()

    def register_codec(self, codec: MessageCodec[Any, Any], *, default_for: type | None = None) -> None:
        """Let bodies be sent by a codec: by its name in the options, or by their exact type, `default_for`.

        Raises ValueError where the name or the type has a codec already, as the system's have.
        """
        with self._lock:
            self._codecs.register(codec, default_for)

    def unregister_codec(self, name: str) -> None:
        """Forget a codec; no harm if there is none. Raises ValueError for a system codec."""
        with self._lock:
            self._codecs.unregister(name)

    def _message(
        self, address: str | int, body: Any, options: DeliveryOptions, *, is_send: bool, reply: Reply | None = None
    ) -> FullMessage:
        body, codec = self._codecs.prepare(body, options.codec_name)
        # The tuple is never changed in place, so message and options share it (see `Headers`).
        headers = None if options.headers is None else options.headers.pairs
        return FullMessage(address, body, headers, reply, is_send, codec)
