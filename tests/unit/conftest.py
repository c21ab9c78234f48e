"""Fixtures of all unit tests: a real runtime, a bus on it and RPC over that, on the test's own loop."""

from collections.abc import AsyncIterator

import pytest

from hutong.bus import EventBus
from hutong.foundation.clock import SystemClock
from hutong.rpc import Rpc
from hutong.runtime.contexts.contexts import Context
from hutong.runtime.runtime import Runtime


@pytest.fixture
def failures() -> list[BaseException]:
    """Collects what handlers and implementations raised and nobody caught."""
    return []


@pytest.fixture
async def runtime(failures: list[BaseException]) -> AsyncIterator[Runtime]:
    def note(context: Context, error: BaseException) -> None:
        failures.append(error)

    async with Runtime(SystemClock(), exception_handler=note) as runtime:
        yield runtime


@pytest.fixture
async def bus(runtime: Runtime) -> AsyncIterator[EventBus]:
    async with EventBus(runtime) as bus:
        yield bus
        assert bus.replies_waiting == 0, "a test leaves no reply awaited"


@pytest.fixture
async def rpc(bus: EventBus, runtime: Runtime) -> AsyncIterator[Rpc]:
    async with Rpc(bus, runtime) as rpc:
        yield rpc
