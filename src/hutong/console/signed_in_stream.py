"""A stream that ends with the session of its browser: a page that stays open shows nothing after a logout.

Knows nothing of what is streamed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, cast


class SignedInStream:
    """The chunks of another iterator, while `is_signed_in` is true. Each chunk counts as use of the session."""

    def __init__(self, chunks: AsyncIterator[bytes], is_signed_in: Callable[[], bool]) -> None:
        self._chunks = chunks
        self._is_signed_in = is_signed_in

    def __aiter__(self) -> SignedInStream:
        return self

    async def __anext__(self) -> bytes:
        chunk = await anext(self._chunks)
        # Asked behind the wait: the session may have ended meanwhile.
        if not self._is_signed_in():
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        aclose = cast("Callable[[], Coroutine[Any, Any, None]] | None", getattr(self._chunks, "aclose", None))
        if aclose is not None:
            await aclose()
