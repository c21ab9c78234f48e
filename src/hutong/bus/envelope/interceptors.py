"""Interceptors: a chain of functions through which messages pass on their way out of a sender and into a handler.

Strategy: each step has a delivery of its own, whose `next` works once, now or later, from any thread. Who does not call
it has dropped the message. An interceptor's error is reported and changes nothing: it may have called `next`, or may
have left that to somebody else. Where somebody awaits what the message brings (a request its reply, a reply its
requester), an interceptor that raises before `next` ends the wait at once, and a later `next` does nothing.

Knows no bus: where the chain ends, it calls what it was given.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from hutong.bus.envelope.message import FullMessage, Message
from hutong.bus.errors import ReplyError, carrying_failed
from hutong.foundation.errors import LimitExceeded

Interceptor = Callable[["Delivery"], object]
INTERCEPTORS_MAX = 64
"""Of one chain."""


class Delivery(Struct, eq=False):
    """One step of a message through a chain. `message` is what will be delivered, and may be changed."""

    message: Message
    _chain: Sequence[Interceptor]
    _then: Callable[[Message], object]
    _tell: Callable[[BaseException], None]
    _awaited: Any = None  # of a reply: the Reply that it would end
    _index: int = 0
    _is_used: bool = False

    @property
    def body(self) -> Any:
        return self.message.body

    @property
    def is_send(self) -> bool:
        return self.message.is_send

    def next(self) -> None:
        """Continue with the message. From any thread; a second call does nothing."""
        if self._is_used:
            return
        self._is_used = True
        index = self._index + 1
        if index == len(self._chain):
            try:
                self._then(self.message)
            except BaseException as error:
                self._fail(error)
                raise
        else:
            Delivery(self.message, self._chain, self._then, self._tell, self._awaited, index).begin()

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
            if not self._is_used and (self._awaited is not None or self.message._reply is not None):
                self._is_used = True
                self._fail(error)
            self._tell(error)

    def _fail(self, error: BaseException) -> None:
        """The message goes no further: end the waits that depend on it."""
        failure = error if isinstance(error, ReplyError) else carrying_failed("the message", error)
        for awaited in (self._awaited, self.message._reply):
            if awaited is not None:
                awaited.fail(failure)


def chain_with(chain: tuple[Interceptor, ...], interceptor: Interceptor) -> tuple[Interceptor, ...]:
    """The chain with one interceptor more. Raises TypeError for no callable, LimitExceeded at INTERCEPTORS_MAX."""
    if not callable(interceptor):
        raise TypeError(f"an interceptor is called with each delivery; {type(interceptor).__name__} is not callable")
    if len(chain) >= INTERCEPTORS_MAX:
        raise LimitExceeded("interceptors_max", INTERCEPTORS_MAX)
    return (*chain, interceptor)


def chain_without(chain: tuple[Interceptor, ...], interceptor: Interceptor) -> tuple[Interceptor, ...]:
    """The chain without an interceptor; the same one if that is not in it."""
    return tuple([present for present in chain if present != interceptor])
