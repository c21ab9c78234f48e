"""The routes of records: read by pages and one by one.

Decides nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from hutong.console.limits import VALUE_CHARS_MAX
from hutong.console.records.batches import RecordBatches
from hutong.console.records.paging.asked import asked_page
from hutong.console.records.paging.reading import ReadPage, read_one, read_page
from hutong.console.records.shown import asked_forms, raw_record
from hutong.console.routes import ConsoleRoute
from hutong.rest.reading.live import encode_positions
from hutong.web.answers import WebAnswer, WebRefusal, json

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from hutong.console.desk import ConsoleDesk
    from hutong.console.records.budget import ReadBudget
    from hutong.console.records.showing import RecordShowing
    from hutong.rest.accounts import Account
    from hutong.web.requests import WebRequest

    T = TypeVar("T")

ONE = "/api/topics/{topic}/messages/{partition:int}/{offset:int}"


class RecordPages:
    """Reads for one request. Each read has a consumer of its own, which costs a connection."""

    def __init__(self, desk: ConsoleDesk, budget: ReadBudget, showing: RecordShowing) -> None:
        self._desk = desk
        self._budget = budget
        self._showing = showing
        self._batches = RecordBatches(desk, budget)

    def routes(self) -> list[ConsoleRoute]:
        return [
            ConsoleRoute("GET", "/api/topics/{topic}/messages", self.page),
            ConsoleRoute("GET", ONE, self.one),
        ]

    async def page(self, request: WebRequest) -> WebAnswer:
        """A page of the topic."""
        account, topic = await self._desk.account(request), request.text("topic")
        asked, forms = asked_page(request), asked_forms(request)
        desk = self._desk
        page = await self._read(account, partial(read_page, account, topic, asked, desk.clock, desk.masks))
        self._budget.count(page.read_bytes)
        shown = await self._showing.shown(page.records, forms)
        missing = await self._batches.add(topic, shown)
        return json(_page(page, shown) | {"batches_missing": missing})

    async def one(self, request: WebRequest) -> WebAnswer:
        """One record, with as much of its value as is asked for; with `raw` its bytes, too."""
        account, topic = await self._desk.account(request), request.text("topic")
        forms = asked_forms(request, VALUE_CHARS_MAX)
        place = request.number("partition"), request.number("offset")
        found = await self._read(account, partial(read_one, account, topic, place, self._desk.clock, self._desk.masks))
        if found is None:
            raise WebRefusal(
                404,
                f"Partition {place[0]} has no record {place[1]}: it was deleted or compacted, or is to come.",
                40403,
            )
        self._budget.count(found.size_bytes)
        raw = {"raw": raw_record(found)} if request.flag("raw") else {}
        (shown,) = await self._showing.shown([found], forms)
        missing = await self._batches.add(topic, [shown])
        return json(shown | raw | {"batches_missing": missing})

    async def _read(self, account: Account, work: Callable[[], T]) -> T:
        """The outcome of a read on another thread, within the console's rate. Raises WebRefusal."""
        await self._budget.wait()
        self._desk.gateway.take_reader(account)
        try:
            return await self._desk.blocking(work)
        finally:
            self._desk.gateway.give_reader_back(account)


def _page(page: ReadPage, shown: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "records": shown,
        "older": None if page.older is None else encode_positions(page.older).decode(),
        "newer": encode_positions(page.newer).decode(),
        "begins": page.begins,
        "ends": page.ends,
        "is_partial": page.is_partial,
    }
