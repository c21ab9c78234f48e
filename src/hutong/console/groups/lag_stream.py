"""Lag over time as a stream: what is known of the last minutes, then a sample every two seconds.

Samples are taken only while somebody listens. A sample that another viewer has just taken is shared.

Decides nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from hutong.console.groups.lag_history import LagHistory, LagSample
from hutong.console.groups.others import SHARE, other_group, share_sums
from hutong.console.groups.pages import group_of
from hutong.console.groups.reading import committed_of, ends_of
from hutong.console.groups.shown import pace_shown, sample_shown
from hutong.console.routes import ConsoleRoute
from hutong.console.streams import Rounds, event, streamed
from hutong.web.answers import StreamedAnswer, WebRefusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from confluent_kafka.admin import AdminClient

    from hutong.console.desk import ConsoleDesk
    from hutong.rest.accounts import Account
    from hutong.web.requests import WebRequest

SAMPLE_INTERVAL_MS: Final = 2_000
Sums = tuple[int, int, int]
"""Of committed offsets, of ends, and the number of partitions where both are known."""
TakeSums: TypeAlias = "Callable[[], Awaitable[Sums]]"


class LagStream:
    """The route to lag over time."""

    def __init__(self, desk: ConsoleDesk) -> None:
        self._desk = desk
        self._history = LagHistory()

    def routes(self) -> list[ConsoleRoute]:
        return [ConsoleRoute("GET", "/api/groups/{group}/lag", self.follow)]

    async def follow(self, request: WebRequest) -> StreamedAnswer:
        """Follow one group. For a share group `type` is `share`: its node knows its lag."""
        account, group = await self._desk.account(request), group_of(request)
        take: TakeSums = partial(_take_sums, self._desk, account.admin, group)
        if request.query.get("type") == SHARE:
            take = partial(_take_share_sums, self._desk, account.admin, group)
        viewer = _LagViewer(self._desk, self._history, account, group, take)
        # The first sample is the user's own, so a group that they may not see is refused, whatever others have seen.
        await viewer.take_sample()
        return streamed(Rounds(viewer.round, self._desk.pause, SAMPLE_INTERVAL_MS))


class _LagViewer:
    """One browser at one group."""

    def __init__(
        self, desk: ConsoleDesk, history: LagHistory, account: Account, group: str, take_sums: TakeSums
    ) -> None:
        self._desk = desk
        self._take_sums = take_sums
        self._history = history
        self._account = account
        self._key = (account.user, group)
        self._shown_ms = -1  # the time of the last sample that the browser has

    async def take_sample(self) -> None:
        self._account.used_ms = self._desk.clock.monotonic_ms()
        now_ms = self._desk.clock.wall_ms()
        # Another viewer took one a moment ago.
        if self._history.samples(self._key, now_ms - SAMPLE_INTERVAL_MS // 2):
            return
        committed, end, partitions = await self._take_sums()
        self._history.add(self._key, LagSample(now_ms, partitions, committed, end))

    async def round(self) -> list[bytes]:
        problem = None
        if self._shown_ms >= 0:
            try:
                await self.take_sample()
            except WebRefusal as refusal:
                problem = refusal.message
        if problem is not None:
            return [event("problem", {"message": problem})]
        new = self._history.samples(self._key, self._shown_ms)
        if new:
            self._shown_ms = new[-1].time_ms
        pace = pace_shown(self._history.pace(self._key))
        return [event("lag", {"samples": [sample_shown(sample) for sample in new], **pace})]


async def _take_sums(desk: ConsoleDesk, admin: AdminClient, group: str) -> Sums:
    return await desk.blocking(partial(_sums, admin, group))


async def _take_share_sums(desk: ConsoleDesk, admin: AdminClient, group: str) -> Sums:
    found = await other_group(desk, admin, group)
    if found is None:
        raise WebRefusal(404, f"There is no share group {group[:200]}.", 40403)
    return await desk.blocking(partial(share_sums, admin, found))


def _sums(admin: AdminClient, group: str) -> Sums:
    """The sums of committed offsets and of ends, over the partitions where both are known. Blocks."""
    committed = committed_of(admin, group)
    ends = ends_of(admin, committed)
    known = [place for place in committed if place in ends]
    return sum(committed[place] for place in known), sum(ends[place] for place in known), len(known)
