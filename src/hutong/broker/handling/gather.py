"""One response out of many answers: complete when each of its parts has settled, in any order.

Strategy: the handler says `expect()` for each part before it starts it, and `settled()` comes once for each. Whether
some settle while the handler still runs makes no difference, because completion is only looked at once it has returned.

Knows nothing of what the parts are.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from hutong.broker.handling.context import Later
from hutong.foundation.errors import HutongError, Refused
from hutong.wire.kafka.error_codes import ErrorCode

ResponseT = TypeVar("ResponseT")


class Gather(Generic[ResponseT]):
    """A response in the making."""

    __slots__ = ("_later", "_outstanding", "response")

    def __init__(self, response: ResponseT) -> None:
        self.response = response
        self._outstanding = 0  # parts started and not yet settled; never negative
        self._later: Later[ResponseT] | None = None

    def expect(self) -> None:
        """One more part was started."""
        self._outstanding += 1

    def settled(self) -> None:
        """One part has its result."""
        self._outstanding -= 1
        if self._outstanding == 0 and self._later is not None:
            self._later.complete(self.response)

    def returned(self) -> ResponseT | Later[ResponseT]:
        """The handler's return value once every part was started."""
        if self._outstanding == 0:
            return self.response
        self._later = Later()
        return self._later


class _Result(Protocol):
    error_code: int
    error_message: str | None


def error_code_of(error: HutongError) -> int:
    """The wire code of an error: a refusal carries its own, everything else that reaches a handler is the disk's."""
    return error.code if isinstance(error, Refused) else ErrorCode.KAFKA_STORAGE_ERROR


def put_error(result: _Result, error: HutongError) -> None:
    """Fill the two fields that most results have."""
    result.error_code = error_code_of(error)
    result.error_message = str(error)
