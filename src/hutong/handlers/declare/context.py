"""The circumstances of a message, for handlers that ask for them by annotation.

Strategy: everything is read from the client library's message when it is asked for, since most handlers ask for a key
or nothing.

Knows no handlers.
"""

from typing import Any

from hutong.bus.durable.records import decode_headers
from hutong.bus.envelope.headers import Headers


class MessageContext:
    """The circumstances of one message: annotate a parameter with this type.

    `attempt` counts from 1. Messages of a bus address have `address` and `headers` alone; the others are empty.
    """

    __slots__ = ("_headers", "_message", "address", "attempt")

    def __init__(self, message: Any, attempt: int, address: str = "", headers: Headers | None = None) -> None:
        self._message = message
        self._headers = headers
        self.attempt = attempt
        self.address = address

    @property
    def headers(self) -> Headers:
        """As text: `get(name)`, `get_all(name)`, `items()`."""
        if self._headers is None:
            # `of`: the bounds of the bus are for its own messages, a record may have more.
            self._headers = Headers.of(tuple(decode_headers(self.raw_headers)))
        return self._headers

    @property
    def raw_headers(self) -> list[tuple[str, bytes | None]]:
        return [] if self._message is None else [*(self._message.headers() or ())]

    @property
    def key(self) -> bytes | None:
        key: bytes | None = None if self._message is None else self._message.key()
        return key

    @property
    def topic(self) -> str:
        return "" if self._message is None else str(self._message.topic())

    @property
    def partition(self) -> int:
        return -1 if self._message is None else int(self._message.partition())

    @property
    def offset(self) -> int:
        return -1 if self._message is None else int(self._message.offset())

    @property
    def timestamp_ms(self) -> int:
        """Milliseconds since 1970, by producer or broker; -1 where there is none."""
        return -1 if self._message is None else int(self._message.timestamp()[1])
