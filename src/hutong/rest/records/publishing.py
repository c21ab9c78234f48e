"""The outcomes of one request's records, each of which the client library reports on a thread of its own.

Decides nothing.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from hutong.bus.durable.outcomes import PublishFailed, Stored
from hutong.foundation.errors import LimitExceeded
from hutong.rest.errors import place_of
from hutong.web.answers import WebRefusal

if TYPE_CHECKING:
    from hutong.bus.durable.publishing import Publisher
    from hutong.bus.durable.records import OutgoingRecord

Outcome: TypeAlias = Stored | WebRefusal


async def publish(publisher: Publisher, records: Sequence[OutgoingRecord | WebRefusal]) -> list[Outcome]:
    """Store records; their outcomes come in the same order. A refusal in the place of a record stays one."""
    return await _Request(publisher, records).outcomes


class _Request:
    """Hands records over at once, and wakes the loop once for all of them: a wake-up costs more than a record."""

    def __init__(self, publisher: Publisher, records: Sequence[OutgoingRecord | WebRefusal]) -> None:
        self._loop = asyncio.get_running_loop()
        self.outcomes: asyncio.Future[list[Outcome]] = self._loop.create_future()
        self._found: dict[int, Outcome] = {}
        self._missing = len(records)
        self._lock = threading.Lock()  # over both: outcomes come on the library's thread, and on this one
        if not records:
            self.outcomes.set_result([])
        for place, record in enumerate(records):
            self._hand_over(publisher, place, record)

    def _hand_over(self, publisher: Publisher, place: int, record: OutgoingRecord | WebRefusal) -> None:
        if isinstance(record, WebRefusal):
            self._settle(place, record)
            return
        try:
            publisher.publish(record, partial(self._settle, place))
        except LimitExceeded as error:
            self._settle(place, WebRefusal(429, f"too many records are under way: {error}", 42901))
        except PublishFailed as error:
            self._settle(place, error)

    def _settle(self, place: int, outcome: Stored | PublishFailed | WebRefusal) -> None:
        with self._lock:
            self._found[place] = refusal_of_failure(outcome) if isinstance(outcome, PublishFailed) else outcome
            self._missing -= 1
            if self._missing:
                return
        try:
            self._loop.call_soon_threadsafe(self._finish)
        # The node has stopped, and its loop is closed.
        except RuntimeError:
            return

    def _finish(self) -> None:
        # The client may have gone, and its request with it.
        if not self.outcomes.done():
            self.outcomes.set_result([self._found[place] for place in range(len(self._found))])


def refusal_of_failure(error: PublishFailed) -> WebRefusal:
    """The answer for a record that is not known to be stored."""
    status, code = place_of(error.code)
    unknown = " It may be stored all the same." if error.is_outcome_unknown else ""
    return WebRefusal(status, f"{error}.{unknown}", code)
