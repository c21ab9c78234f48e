"""Redrives that run in this console: one for each topic at a time, a bounded number together.

Those that are over are kept for a while, so that a page that comes late sees the outcome.

Decides nothing about letters.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hutong.console.dead_letters.redriving.clients import RedriveClients
from hutong.console.dead_letters.redriving.driver import RedriveDriver
from hutong.console.dead_letters.redriving.machine import RedriveMachine
from hutong.console.dead_letters.redriving.messages import CancelRedrive
from hutong.rest.errors import too_many
from hutong.web.answers import WebRefusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hutong.console.dead_letters.redriving.messages import RedriveWish
    from hutong.console.desk import ConsoleDesk
    from hutong.rest.accounts import Account

REDRIVES_RUNNING_MAX: Final = 8
REDRIVES_KEPT_MAX: Final = 50
BUSY: Final = 40903
_log = logging.getLogger("hutong.console")


@dataclass(slots=True, eq=False)
class RunningRedrive:
    """A redrive and its user; it is seen by nobody else."""

    number: int
    user: str
    begun_ms: int  # since 1970
    driver: RedriveDriver
    task: asyncio.Task[None] | None = None

    @property
    def machine(self) -> RedriveMachine:
        return self.driver.machine


class RunningRedrives:
    """All redrives of this console, by number."""

    def __init__(self, desk: ConsoleDesk) -> None:
        self._desk = desk
        self._redrives: OrderedDict[int, RunningRedrive] = OrderedDict()
        self._last = 0

    async def begin(
        self, account: Account, wish: RedriveWish, then: Callable[[RunningRedrive], Awaitable[None]]
    ) -> RunningRedrive:
        """Begin a redrive; `then` is awaited at its end. Raises WebRefusal: 409, 429."""
        running = [each for each in self._redrives.values() if not each.machine.is_over]
        if not wish.is_dry and any(
            each.machine.wish.topic == wish.topic and not each.machine.wish.is_dry for each in running
        ):
            raise WebRefusal(409, "A redrive of this topic is running already. Wait for it, or cancel it.", BUSY)
        if len(running) >= REDRIVES_RUNNING_MAX:
            raise too_many(f"{REDRIVES_RUNNING_MAX} redrives are running")
        self._desk.gateway.take_reader(account)
        self._last += 1
        clients = RedriveClients(account.properties, wish.topic, is_dry=wish.is_dry)
        driver = RedriveDriver(RedriveMachine(wish), clients, self._desk.clock, self._desk.blocking)
        redrive = RunningRedrive(self._last, account.user, self._desk.clock.wall_ms(), driver)
        self._redrives[redrive.number] = redrive
        self._forget_old()
        redrive.task = asyncio.get_running_loop().create_task(self._run(redrive, account, then))
        redrive.task.add_done_callback(_report_fault)
        return redrive

    def find(self, account: Account, number: int) -> RunningRedrive:
        """Raises WebRefusal(404)."""
        redrive = self._redrives.get(number)
        if redrive is None or redrive.user != account.user:
            raise WebRefusal(404, f"There is no redrive {number} here any more.", 40403)
        return redrive

    def of_topic(self, account: Account, topic: str) -> list[RunningRedrive]:
        """The user's redrives of a topic, the latest first."""
        return [
            each
            for each in reversed(self._redrives.values())
            if each.user == account.user and each.machine.wish.topic == topic
        ]

    async def close(self) -> None:
        """End all of them after the batch under way: the next redrive of the topic goes on there."""
        for redrive in self._redrives.values():
            redrive.driver.handle(CancelRedrive())
        tasks = [redrive.task for redrive in self._redrives.values() if redrive.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(
        self, redrive: RunningRedrive, account: Account, then: Callable[[RunningRedrive], Awaitable[None]]
    ) -> None:
        try:
            await redrive.driver.run()
        finally:
            self._desk.gateway.give_reader_back(account)
        try:
            await then(redrive)
        # The session that began it may be over, or the audit's topic away.
        except WebRefusal as refusal:
            _log.warning("the end of redrive %d is not in the audit: %s", redrive.number, refusal.message)

    def _forget_old(self) -> None:
        over = [each.number for each in self._redrives.values() if each.machine.is_over]
        for number in over[: max(0, len(self._redrives) - REDRIVES_KEPT_MAX)]:
            del self._redrives[number]


def _report_fault(task: asyncio.Task[None]) -> None:
    """Give a fault of ours to the loop's handler: nobody awaits the task before the console closes."""
    if not task.cancelled():
        task.result()
