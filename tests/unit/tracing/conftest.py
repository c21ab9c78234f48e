"""A runtime, a bus and RPC on the test's own loop, traced into memory."""

from collections.abc import AsyncIterator, Iterator

import pytest

pytest.importorskip("opentelemetry.sdk")

from tests.unit.tracing.scenes import Recording

from hutong.bus import EventBus
from hutong.foundation.clock import SystemClock
from hutong.rpc import Rpc
from hutong.runtime.contexts import Context
from hutong.runtime.runtime import Runtime


@pytest.fixture
def recording() -> Iterator[Recording]:
    recording = Recording()
    yield recording
    recording.close()


@pytest.fixture
def failures() -> list[BaseException]:
    return []


@pytest.fixture
async def runtime(failures: list[BaseException]) -> AsyncIterator[Runtime]:
    def note(context: Context, error: BaseException) -> None:
        failures.append(error)

    async with Runtime(SystemClock(), exception_handler=note) as runtime:
        yield runtime


@pytest.fixture
async def bus(runtime: Runtime, recording: Recording) -> AsyncIterator[EventBus]:
    async with EventBus(runtime) as bus:
        recording.tracing.trace(bus)
        yield bus
        assert bus.replies_waiting == 0, "a test leaves no reply awaited"


@pytest.fixture
async def rpc(bus: EventBus, runtime: Runtime, recording: Recording) -> AsyncIterator[Rpc]:
    async with Rpc(bus, runtime) as rpc:
        recording.tracing.trace(rpc)
        yield rpc
