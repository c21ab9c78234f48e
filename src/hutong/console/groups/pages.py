"""Groups: the list, lag in batches for the rows in sight, one group whole, and its end.

Decides nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from confluent_kafka import KafkaException

from hutong.console.groups.others import other_group, other_shown, other_spans
from hutong.console.groups.reading import (
    GroupHasMembers,
    committed_of,
    committed_offsets,
    delete_group,
    described_groups,
    ends_of,
    log_spans,
)
from hutong.console.groups.shown import group_shown, listed_group, offsets_shown, places_assigned
from hutong.console.rights import SEE_GROUPS, has_right
from hutong.console.routes import ConsoleRoute
from hutong.rest.errors import refusal_of
from hutong.rest.limits import CALL_S_MAX
from hutong.web.answers import WebAnswer, WebRefusal, json

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka.admin import AdminClient

    from hutong.console.desk import ConsoleDesk
    from hutong.console.groups.resets.plan import LogSpan
    from hutong.web.requests import WebRequest

GROUPS_LISTED_MAX: Final = 20_000
LAGS_AT_ONCE_MAX: Final = 50
NAME_CHARACTERS_MAX: Final = 1_000
HAS_MEMBERS: Final = 40901
_OTHER_TYPES: Final = "Share and streams groups are shown by the console of a Hutong node alone."


class LagsBody(msgspec.Struct, frozen=True):
    groups: list[str]


class GroupPages:
    """The routes to groups."""

    def __init__(self, desk: ConsoleDesk) -> None:
        self._desk = desk

    def routes(self) -> list[ConsoleRoute]:
        one = "/api/groups/{group}"
        return [
            ConsoleRoute("GET", "/api/groups", self.list_groups),
            ConsoleRoute("POST", "/api/groups/lags", self.list_lags),
            ConsoleRoute("GET", one, self.show),
            ConsoleRoute("DELETE", one, self.delete, changes="group.delete"),
        ]

    async def list_groups(self, request: WebRequest) -> WebAnswer:
        account = await self._desk.account(request)
        ask = partial(account.admin.list_consumer_groups, request_timeout=CALL_S_MAX)
        found: Any = await self._desk.blocking(lambda: ask().result(CALL_S_MAX))
        told = await self._others(request)
        others, untold = told or ([], [])
        groups = sorted([*map(listed_group, found.valid), *others], key=lambda group: group["name"])
        # Of a node that does not answer the groups are missing; the others are of use.
        problems = [error.str() for error in (each.args[0] for each in found.errors)] + untold
        is_truncated = len(groups) > GROUPS_LISTED_MAX
        answer = {"groups": groups[:GROUPS_LISTED_MAX], "truncated": is_truncated, "problems": problems}
        return json({**answer, "has_all_types": told is not None})

    async def _others(self, request: WebRequest) -> tuple[list[dict[str, Any]], list[str]] | None:
        """Share groups and streams groups, and problems; None where they are not known, or not for this user."""
        node = self._desk.node
        if node is None:
            return None
        try:
            may_see = await has_right(self._desk, request, SEE_GROUPS)
        except WebRefusal as refusal:
            # The groups of consumers are of use without these.
            if refusal.status != 503:
                raise
            return [], [refusal.message]
        return await node.other_groups() if may_see else None

    async def list_lags(self, request: WebRequest) -> WebAnswer:
        """Lag and members of a few groups: those whose rows are in sight."""
        account, groups = await self._desk.account(request), request.json(LagsBody).groups
        if len(groups) > LAGS_AT_ONCE_MAX:
            raise WebRefusal(400, f"The lag of at most {LAGS_AT_ONCE_MAX} groups is asked for at once.", 40002)
        if not groups:
            return json({"lags": {}})
        return json({"lags": await self._desk.blocking(partial(_lags, account.admin, [*dict.fromkeys(groups)]))})

    async def show(self, request: WebRequest) -> WebAnswer:
        """One group, of any type."""
        account, group = await self._desk.account(request), group_of(request)
        found, spans = await self._desk.blocking(partial(_whole, account.admin, group))
        if found.state.name != "DEAD":
            return json(group_shown(found, spans))
        # So do brokers answer for one of another type, too.
        other = await other_group(self._desk, account.admin, group)
        if other is not None and self._desk.node is not None:
            places = await self._desk.blocking(partial(other_spans, account.admin, other))
            return json(other_shown(other, places, self._desk.node.number()))
        if not spans:
            raise WebRefusal(404, f"There is no group {group[:200]}. {_OTHER_TYPES}", 40403)
        return json(group_shown(found, spans))

    async def delete(self, request: WebRequest) -> WebAnswer:
        account, group = await self._desk.account(request), group_of(request)
        before = await self._desk.blocking(partial(committed_of, account.admin, group))
        await changing(self._desk, partial(delete_group, account.admin, group))
        await self._desk.record(request, "group.delete", group, before=offsets_shown(before))
        return WebAnswer(204)


def group_of(request: WebRequest) -> str:
    """The group of the path. Raises WebRefusal(400)."""
    group = request.text("group")
    # The library takes no NUL, and a name of that length no broker has.
    if len(group) > NAME_CHARACTERS_MAX or "\x00" in group:
        raise WebRefusal(400, "That is no name of a group.", 40002)
    return group


async def changing(desk: ConsoleDesk, call: Callable[[], None]) -> None:
    """Change something of a group. Raises WebRefusal(409) where it has members."""

    def checked() -> bool:
        try:
            call()
        except GroupHasMembers:
            return False
        return True

    if not await desk.blocking(checked):
        raise WebRefusal(409, "The group has members. Stop its consumers, then try again.", HAS_MEMBERS)


def _lags(admin: AdminClient, groups: list[str]) -> dict[str, Any]:
    committed = committed_offsets(admin, groups)
    described = described_groups(admin, groups)
    ends = ends_of(admin, {place for offsets in committed.values() for place in offsets})
    found: dict[str, Any] = {}
    for group in groups:
        known = described[group]
        if isinstance(known, BaseException):
            if not isinstance(known, KafkaException):
                raise known
            found[group] = {"lag": None, "members": None, "topics": None, "problem": refusal_of(known).message}
            continue
        offsets = committed.get(group)
        lag = (
            None if offsets is None else sum(max(0, ends[place] - at) for place, at in offsets.items() if place in ends)
        )
        topics = None if offsets is None else len({topic for topic, _ in offsets})
        found[group] = {"lag": lag, "members": len(known.members), "topics": topics, "problem": None}
    return found


def _whole(admin: AdminClient, group: str) -> tuple[Any, list[LogSpan]]:
    found = described_groups(admin, [group])[group]
    if isinstance(found, BaseException):
        raise found
    assigned = {place for member in found.members for place in places_assigned(member)}
    return found, log_spans(admin, group, also=assigned)
