"""A state topic on a real journal, on a disk that is full for a while."""

from tests.unit.journal.stage import SMALL, Stage

from hutong.broker.state.log_storage import LogStorage
from hutong.broker.state.state_topic import StateTopic
from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import HutongError, Refused


def test_a_state_that_is_ready_to_be_compacted_recovers_from_a_full_disk() -> None:
    stage = Stage()
    topic = StateTopic("__state", LogStorage(stage.journal.log(1)), ManualClock(), garbage_floor_bytes=10)
    outcomes: list[HutongError | None] = []
    stage.disk.capacity_bytes = stage.disk.used_bytes + 1
    topic.append(b"k", b"v", outcomes.append)
    stage.settle()
    assert isinstance(outcomes.pop(), Refused)
    stage.disk.capacity_bytes = None
    stage.advance(SMALL.shortage_retry_ms + 20)
    stage.settle()
    assert not stage.journal.is_disk_full
    assert dict(topic.live) == {b"k": b"v"}
    topic.append(b"l", b"w", outcomes.append)
    stage.settle()
    assert outcomes == [None]
    assert dict(topic.live) == {b"k": b"v", b"l": b"w"}
