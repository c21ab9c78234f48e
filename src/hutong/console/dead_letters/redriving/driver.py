"""Carries a redrive out: the machine's instructions one after the other, each on another thread than the loop's.

Decides nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaException

from hutong.bus.durable.failures import cause_of, is_hopeless
from hutong.console.dead_letters.redriving.clients import BatchRefused, RedriveClients, is_fenced
from hutong.console.dead_letters.redriving.machine import RedriveMachine
from hutong.console.dead_letters.redriving.messages import (
    LettersRead,
    LettersStored,
    OpenRedrive,
    ReadLetters,
    RedriveEvent,
    RedriveFailed,
    RedriveInstruction,
    RedriveOpened,
    RedriveOver,
    StoreLetters,
)
from hutong.console.dead_letters.redriving.progress import UnreadableProgress
from hutong.foundation.errors import HutongError
from hutong.foundation.machine import Tick

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hutong.foundation.clock import Clock

FENCED: Final = "Another redrive of this topic has begun, here or elsewhere: it goes on where this one was."


class RedriveDriver:
    """One redrive on the loop. `blocking` runs a call on another thread; `clients` is used by one call at a time."""

    def __init__(
        self,
        machine: RedriveMachine,
        clients: RedriveClients,
        clock: Clock,
        blocking: Callable[[Callable[[], Any]], Awaitable[Any]],
    ) -> None:
        self.machine = machine
        self._clients = clients
        self._clock = clock
        self._blocking = blocking
        self._instructions: deque[RedriveInstruction] = deque()
        self._news = asyncio.Event()  # for the one that runs it: an instruction, or another time to wake up
        self._changed = asyncio.Event()  # for those that watch; replaced at each change

    async def run(self) -> None:
        """Run it to its end."""
        self._add(self.machine.begin())
        while True:
            while self._instructions:
                instruction = self._instructions.popleft()
                if isinstance(instruction, RedriveOver):
                    await self._blocking(self._clients.close)
                    return
                self.handle(await self._carry_out(instruction))
            await self._wait()

    def handle(self, event: RedriveEvent) -> None:
        """Feed an event of a user or of a step."""
        self._add(self.machine.handle(event))
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def next_change(self) -> None:
        """Wait until something has happened."""
        await self._changed.wait()

    def _add(self, instructions: Any) -> None:
        self._instructions.extend(instructions)
        self._news.set()

    async def _wait(self) -> None:
        due_ms = self.machine.next_tick_ms()
        self._news.clear()
        if due_ms is None:
            await self._news.wait()
            return
        try:
            async with asyncio.timeout(max(0, due_ms - self._clock.monotonic_ms()) / 1_000):
                await self._news.wait()
        except TimeoutError:
            self.handle(Tick(max(due_ms, self._clock.monotonic_ms())))

    async def _carry_out(self, instruction: RedriveInstruction) -> RedriveEvent:
        try:
            outcome: RedriveEvent = await self._blocking(partial(self._attempt, instruction))
        # Of the threads, all of which may be busy: the step has not begun.
        except HutongError as error:
            return RedriveFailed(str(error), self._clock.monotonic_ms())
        return outcome

    def _attempt(self, instruction: RedriveInstruction) -> RedriveEvent:
        """The outcome of a step. Blocks."""
        try:
            return self._done(instruction)
        except BatchRefused as refusal:
            reason, now_ms, targets = cause_of(refusal).str(), self._clock.monotonic_ms(), refusal.targets
            return RedriveFailed(reason, now_ms, is_letters_fault=not targets, refused_targets=targets)
        except KafkaException as error:
            cause = cause_of(error)
            reason = FENCED if is_fenced(cause) else cause.str()
            return RedriveFailed(reason, self._clock.monotonic_ms(), is_final=is_fenced(cause) or is_hopeless(error))
        except UnreadableProgress as error:
            return RedriveFailed(str(error), self._clock.monotonic_ms(), is_final=True)

    def _done(self, instruction: RedriveInstruction) -> RedriveEvent:
        match instruction:
            case OpenRedrive():
                return RedriveOpened(self._clients.open(), self._clock.monotonic_ms())
            case ReadLetters(records_max, positions):
                letters, ended = self._clients.read(records_max, positions)
                return LettersRead(letters, ended, self._clock.monotonic_ms())
            case StoreLetters():
                self._clients.store(instruction)
                return LettersStored(self._clock.monotonic_ms())
        raise AssertionError(f"{instruction} is no step")
