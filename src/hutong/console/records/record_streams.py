"""The routes of records that keep coming: search and live tail.

Decides nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hutong.console.records.paging.asked import partitions_asked
from hutong.console.records.searching.asked import asked_search
from hutong.console.records.searching.stream import SearchStream
from hutong.console.records.shown import asked_forms
from hutong.console.records.tailing.stream import TailStream
from hutong.console.routes import ConsoleRoute
from hutong.console.streams import streamed
from hutong.web.answers import json

if TYPE_CHECKING:
    from collections.abc import Callable

    from hutong.console.desk import ConsoleDesk
    from hutong.console.records.budget import ReadBudget
    from hutong.console.records.showing import RecordShowing
    from hutong.rest.accounts import Account
    from hutong.web.answers import StreamedAnswer, WebAnswer
    from hutong.web.requests import WebRequest


class RecordStreams:
    """Streams with a consumer of their own each, which lives as long as they do."""

    def __init__(self, desk: ConsoleDesk, budget: ReadBudget, showing: RecordShowing) -> None:
        self._desk = desk
        self._budget = budget
        self._showing = showing

    def routes(self) -> list[ConsoleRoute]:
        return [
            ConsoleRoute("GET", "/api/topics/{topic}/messages/search", self.search),
            ConsoleRoute("GET", "/api/topics/{topic}/messages/tail", self.tail),
        ]

    async def search(self, request: WebRequest) -> StreamedAnswer | WebAnswer:
        """Stream what a search finds. The browser cancels it by closing the stream.

        With `check` it is only looked at: EventSource tells no page why a stream is refused.
        """
        asked = asked_search(request)
        if request.flag("check"):
            return json({})
        account = await self._desk.account(request)
        stream = SearchStream(self._desk, self._budget, self._showing, account, request.text("topic"))
        await self._opened(account, partial(stream.open, asked))
        return streamed(stream.rounds())

    async def tail(self, request: WebRequest) -> StreamedAnswer:
        """Stream what comes, by samples."""
        partitions, forms = partitions_asked(request.query.get("partitions", "")), asked_forms(request)
        account = await self._desk.account(request)
        stream = TailStream(self._desk, self._budget, self._showing, account, request.text("topic"))
        await self._opened(account, partial(stream.open, partitions, forms))
        return streamed(stream.rounds())

    async def _opened(self, account: Account, work: Callable[[], object]) -> None:
        """Take a consumer, which the stream gives back when it ends. Raises WebRefusal."""
        self._desk.gateway.take_reader(account)
        try:
            await self._desk.blocking(work)
        except BaseException:  # the browser may have gone meanwhile, which cancels
            self._desk.gateway.give_reader_back(account)
            raise
