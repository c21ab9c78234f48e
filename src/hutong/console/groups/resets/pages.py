"""Resets of offsets: preview, change, undo.

Strategy: the page sends the offsets of the preview that its reader saw, so that nothing else is done. They are clamped
once more, since retention may have moved the beginning meanwhile.

Decides nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from confluent_kafka.admin import OffsetSpec

from hutong.console.groups.pages import changing, group_of
from hutong.console.groups.reading import alter_offsets, committed_of, log_spans, offsets_at, places_of
from hutong.console.groups.resets.plan import LogSpan, Place, ResetRow, ResetTo, ResetWish, clamped, planned
from hutong.console.groups.resets.undo import ResetShelf
from hutong.console.groups.shown import offsets_shown, row_shown
from hutong.console.routes import ConsoleRoute
from hutong.web.answers import WebAnswer, WebRefusal, json

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from hutong.console.desk import ConsoleDesk
    from hutong.web.requests import WebRequest

OFFSETS_MAX: Final = 10_000  # of one reset
TOPICS_MAX: Final = 1_000
_NUMBER_MAX: Final = 2**53
MOVED: Final = 40902


class PreviewBody(msgspec.Struct, frozen=True):
    """`topics`: all partitions of these; none: where the group has offsets. `partition` goes with one topic."""

    to: ResetTo
    value: int = 0
    group: str | None = None
    topics: list[str] = []
    partition: int | None = None


class WantedOffset(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    offset: int


class ResetBody(msgspec.Struct, frozen=True):
    offsets: list[WantedOffset]


class UndoBody(msgspec.Struct, frozen=True):
    """`even_if_moved`: though the group has committed since the reset."""

    even_if_moved: bool = False


class ResetPages:
    """The routes to resets."""

    def __init__(self, desk: ConsoleDesk) -> None:
        self._desk = desk
        self._shelf = ResetShelf()

    def routes(self) -> list[ConsoleRoute]:
        resets = "/api/groups/{group}/resets"
        return [
            ConsoleRoute("POST", f"{resets}/preview", self.preview),
            ConsoleRoute("GET", resets, self.list_resets),
            ConsoleRoute("POST", resets, self.reset, changes="group.reset"),
            ConsoleRoute("POST", f"{resets}/{{number:int}}/undo", self.undo, changes="group.undo_reset"),
        ]

    async def preview(self, request: WebRequest) -> WebAnswer:
        account, group, body = await self._desk.account(request), group_of(request), request.json(PreviewBody)
        if abs(body.value) > _NUMBER_MAX or len(body.topics) > TOPICS_MAX:
            raise WebRefusal(400, "The value is out of bounds.", 40002)
        if body.partition is not None and len(body.topics) != 1:
            raise WebRefusal(400, "A partition belongs to one topic: name it.", 40002)
        if body.to is ResetTo.GROUP and not body.group:
            raise WebRefusal(400, "Name the other group.", 40002)
        rows = await self._desk.blocking(partial(_planned, account.admin, group, body))
        return json({"rows": [row_shown(row) for row in rows], **_summary(rows)})

    async def reset(self, request: WebRequest) -> WebAnswer:
        account, group = await self._desk.account(request), group_of(request)
        wanted = {(each.topic, each.partition): each.offset for each in request.json(ResetBody).offsets}
        if not wanted or len(wanted) > OFFSETS_MAX:
            raise WebRefusal(400, f"A reset has 1 to {OFFSETS_MAX} offsets.", 40002)
        spans = await self._desk.blocking(partial(log_spans, account.admin, group, [*wanted]))
        rows = [clamped(span, wanted[span.place]) for span in spans]
        if len(rows) < len(wanted):
            raise WebRefusal(404, "Some of these partitions are not there, or may not be seen.", 40403)
        after = {row.place: row.after for row in rows if row.after is not None}
        before = {row.place: row.before for row in rows}
        await changing(self._desk, partial(alter_offsets, account.admin, group, after))
        await self._desk.record(request, "group.reset", group, offsets_shown(before), offsets_shown(after))
        done = self._shelf.keep(self._desk.session(request).token, group, before, after)
        return json({"rows": [row_shown(row) for row in rows], "undo": done.number})

    async def list_resets(self, request: WebRequest) -> WebAnswer:
        """The resets of this session that can be undone."""
        found = self._shelf.of_group(self._desk.session(request).token, group_of(request))
        return json({"resets": [{"number": done.number, "partitions": len(done.after)} for done in found]})

    async def undo(self, request: WebRequest) -> WebAnswer:
        account, group = await self._desk.account(request), group_of(request)
        token = self._desk.session(request).token
        done = self._shelf.find(token, group, request.number("number"))
        if done is None:
            raise WebRefusal(404, "That reset is not kept any more: undo it by hand, with the audit's record.", 40403)
        committed = await self._desk.blocking(partial(committed_of, account.admin, group))
        if done.moved(committed) and not request.json(UndoBody).even_if_moved:
            raise WebRefusal(409, "The group has gone on since the reset. To undo it now would repeat records.", MOVED)
        restored = done.restored
        if restored:
            await changing(self._desk, partial(alter_offsets, account.admin, group, restored))
        now = {place: committed.get(place) for place in restored}
        await self._desk.record(request, "group.undo_reset", group, offsets_shown(now), offsets_shown(restored))
        self._shelf.drop(token, done.number)
        # Kafka can delete offsets (KIP-496), the library cannot: those that were new stay.
        return json({"restored": len(restored), "left": len(done.before) - len(restored)})


def _planned(admin: AdminClient, group: str, body: PreviewBody) -> list[ResetRow]:
    """The rows of a preview. Blocks."""
    places: list[Place] | None = None
    if body.partition is not None:
        places = [(body.topics[0], body.partition)]
    elif body.topics:
        places = places_of(admin, body.topics)
    spans = log_spans(admin, group, places)
    return planned(ResetWish(body.to, body.value), spans, _found(admin, body, spans))


def _found(admin: AdminClient, body: PreviewBody, spans: list[LogSpan]) -> dict[Place, int | None]:
    if body.to is ResetTo.GROUP:
        other = committed_of(admin, body.group or "")
        return {span.place: other.get(span.place) for span in spans}
    if body.to is ResetTo.TIME:
        found = offsets_at(admin, {span.place: OffsetSpec.for_timestamp(body.value) for span in spans})
        return {place: offset if offset >= 0 else None for place, offset in found.items()}
    return {}


def _summary(rows: list[ResetRow]) -> dict[str, Any]:
    return {
        "changes": sum(row.is_change for row in rows),
        "again": sum(max(0, row.again) for row in rows),
        "skipped": sum(max(0, -row.again) for row in rows),
    }
