"""Responses in the making: one of many parts, and the error fields that most results have.

Strategy: the handler calls `expect_part` for each part before it starts it, and `settle_part` comes once for each. Some
may settle while the handler still runs: `answer`, at its end, finds out whether any is outstanding.

Knows nothing of what the parts are.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Pending
from hutong.wire.kafka.error_codes import ErrorCode

ResponseT = TypeVar("ResponseT")


class PendingInParts(Pending[ResponseT]):
    """A response that is complete when each of its parts has settled, in any order."""

    __slots__ = ("_is_returned", "_outstanding", "response")

    def __init__(self, response: ResponseT) -> None:
        super().__init__()
        self.response = response
        self._outstanding = 0  # parts started and not yet settled; never negative
        self._is_returned = False

    def expect_part(self) -> None:
        """Count a part that is about to start."""
        self._outstanding += 1

    def settle_part(self) -> None:
        """Count a part that has its result in the response."""
        self._outstanding -= 1
        # Before the handler has returned, a count of zero means only that no later part has started yet.
        if self._outstanding == 0 and self._is_returned:
            self.complete(self.response)

    def answer(self) -> ResponseT | PendingInParts[ResponseT]:
        """The handler's return value once every part was started: the response itself if none is outstanding."""
        self._is_returned = True
        return self if self._outstanding else self.response


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
