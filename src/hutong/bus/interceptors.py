"""Interceptors: a chain of functions through which messages pass on their way out of a sender and into a handler.

Strategy: each step has a delivery of its own, whose `next` works once, now or later, from any thread. Who does not call
it has dropped the message. What an interceptor raises is told of and changes nothing: it may have called `next`, or may
have left that to somebody else.

Knows no bus: where the chain ends, it calls what it was given.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from hutong.bus.message import FullMessage, Message

Interceptor = Callable[["Delivery"], object]
INTERCEPTORS_MAX = 64
"""Of one chain."""


class Delivery(Struct, eq=False):
    """One step of a message through a chain. `message` is what will be delivered, and may be changed."""

    message: Message
    _chain: Sequence[Interceptor]
    _then: Callable[[Message], object]
    _tell: Callable[[BaseException], None]
    _index: int = 0
    _is_used: bool = False

    @property
    def body(self) -> Any:
        return self.message.body

    @property
    def is_send(self) -> bool:
        return self.message.is_send

    def next(self) -> None:
        """Let the message go on. From any thread; a second call does nothing."""
        if self._is_used:
            return
        self._is_used = True
        index = self._index + 1
        if index == len(self._chain):
            self._then(self.message)
        else:
            Delivery(self.message, self._chain, self._then, self._tell, index).begin()

    def begin(self) -> None:
        """Call this step's interceptor."""
        try:
            result = self._chain[self._index](self)
            if result is not None and asyncio.iscoroutine(result):
                result.close()
                raise TypeError("an interceptor is a plain function; what takes time may call delivery.next() later")
        except Exception as error:  # noqa: BLE001  # a supervisor: interceptors are other people's code
            if not self._is_used and isinstance(self.message, FullMessage):
                self.message._credit = None  # the error has the message in its frames, and may be kept for long
            self._tell(error)
