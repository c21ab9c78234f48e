"""Streams at their caller: an async generator that asks for batches, one of them ahead.

Strategy: the reader asks for as many items as it has room for, so a reader that stops reading stops the producer.
Leaving the loop closes the generator, which cancels the stream at the service. Knows no transport.
"""

import asyncio
from asyncio import get_running_loop
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final

from hutong.foundation.errors import HutongError
from hutong.rpc.call import Outcome
from hutong.rpc.calling.transport import CallSite, OutgoingCall, Transport
from hutong.rpc.descriptions.description import MethodDescription
from hutong.rpc.errors import error_of
from hutong.rpc.options import CallOptions
from hutong.rpc.streams import CANCEL, NEXT, Batch

BATCH_DEFAULT: Final = 64
"""Items asked for at once: as many again may be on their way."""


async def read_stream(
    transport: Transport, address: str, method: MethodDescription, options: CallOptions, errors: Any, lease: object
) -> AsyncGenerator[Any, None]:
    """The items of the stream at `address`. Raises what the service failed with, or a CallFailed.

    `lease` is held until its end: the object that streams would be closed under the stream otherwise.
    """
    asking = _Asking(transport, address, method, options)
    is_over = False
    try:
        asking.ask()
        while True:
            try:
                outcome = await asking.answer()
            except HutongError:
                is_over = True
                raise
            if outcome.failure is not None:
                is_over = True
                raise error_of(outcome.failure, errors)
            batch: Batch[Any] = outcome.value
            is_over = batch.done
            if not is_over:
                asking.ask()
            for item in batch.items:
                yield item
            if is_over:
                return
    finally:
        asking.stop(is_over=is_over)


async def read_lazily(
    open_stream: Callable[[], Awaitable[AsyncGenerator[Any, None]]],
) -> AsyncGenerator[Any, None]:
    """A stream whose call is made when its first item is asked for."""
    opened = await open_stream()
    try:
        async for item in opened:
            yield item
    finally:
        await opened.aclose()


class _Asking:
    """One request for items. It is not held by the generator's frame alone: an answer may come after its end."""

    def __init__(self, transport: Transport, address: str, method: MethodDescription, options: CallOptions) -> None:
        self._transport = transport
        self._timeout_ms = options.timeout_ms
        self._arguments = {"max": BATCH_DEFAULT, "wait_ms": max(1, options.timeout_ms // 2 - 50)}
        self._next = CallSite(address, NEXT, None, options.headers, Batch[method.result_type])  # type: ignore[name-defined]
        self._cancel = CallSite(address, CANCEL, None, options.headers)
        self._future: asyncio.Future[Outcome | HutongError] | None = None
        self._abandon: Callable[[], object] | None = None

    def ask(self) -> None:
        future: asyncio.Future[Outcome | HutongError] = get_running_loop().create_future()

        def done(outcome: Outcome | HutongError) -> None:
            if not future.done():
                future.set_result(outcome)

        self._future = future
        self._abandon = self._transport.begin_call(OutgoingCall(self._next, self._arguments), self._timeout_ms, done)

    async def answer(self) -> Outcome:
        assert self._future is not None
        outcome = await self._future
        self._abandon = None
        if isinstance(outcome, HutongError):
            raise outcome
        return outcome

    def stop(self, *, is_over: bool) -> None:
        """Cancel the stream unless it is over. Without waiting: a generator may be collected outside of a task."""
        if self._abandon is not None:
            self._abandon()
        if not is_over:
            self._transport.begin_call(OutgoingCall(self._cancel, {}), self._timeout_ms, _ignore)


def _ignore(_: Outcome | HutongError) -> None:
    """The stream is gone, or it goes when it has been idle for long enough."""
