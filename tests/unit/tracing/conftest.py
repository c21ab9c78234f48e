"""A runtime, a bus and RPC on the test's own loop, traced into memory."""

from collections.abc import Iterator

import pytest

pytest.importorskip("opentelemetry.sdk")

from tests.unit.tracing.scenes import Recording

from hutong.bus import EventBus
from hutong.rpc import Rpc


@pytest.fixture
def recording() -> Iterator[Recording]:
    recording = Recording()
    yield recording
    recording.close()


@pytest.fixture
def bus(bus: EventBus, recording: Recording) -> EventBus:
    recording.tracing.trace(bus)
    return bus


@pytest.fixture
def rpc(rpc: Rpc, recording: Recording) -> Rpc:
    recording.tracing.trace(rpc)
    return rpc
