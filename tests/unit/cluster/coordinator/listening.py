"""A listener that keeps what it heard, and lets tests wait for it."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

from hutong.cluster.coordinator.port import Coordinator, CoordinatorRegister, NodeRegistration, SessionState
from hutong.foundation.waiting.pending import settle_future


class Listening:
    """The events that one node hears."""

    def __init__(self) -> None:
        self.members: Mapping[int, NodeRegistration] = {}
        self.register = CoordinatorRegister(-1, b"")
        self.registers: list[int] = []
        self.states: list[SessionState] = []
        self.calls = 0
        self._heard = asyncio.Event()

    def members_changed(self, members: Mapping[int, NodeRegistration]) -> None:
        self.members = members
        self._note()

    def register_changed(self, register: CoordinatorRegister) -> None:
        self.register = register
        self.registers.append(register.version)
        self._note()

    def session_changed(self, state: SessionState) -> None:
        if not self.states or self.states[-1] is not state:
            self.states.append(state)
        self._note()

    async def until(self, condition: Callable[["Listening"], object]) -> None:
        """Wait until what was heard makes it true; the test's own timeout is the bound."""
        while not condition(self):
            self._heard.clear()
            await self._heard.wait()

    async def until_members(self, *nodes: int) -> None:
        await self.until(lambda heard: set(heard.members) == set(nodes))

    async def until_state(self, state: SessionState) -> None:
        await self.until(lambda heard: heard.states and heard.states[-1] is state)

    def _note(self) -> None:
        self.calls += 1
        self._heard.set()


async def compare_and_set(coordinator: Coordinator, version: int, value: bytes) -> CoordinatorRegister:
    """Raises what it is refused with."""
    future: asyncio.Future[CoordinatorRegister] = asyncio.get_running_loop().create_future()
    coordinator.compare_and_set(version, value, partial(settle_future, future))
    return await future
