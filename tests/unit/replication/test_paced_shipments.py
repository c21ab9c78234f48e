"""The pace of copies: what is moved waits, and who is in sync or reads what is new does not."""

from collections.abc import Callable
from typing import Any, cast

from hutong.foundation.clock import ManualClock
from hutong.foundation.pace import BytePace
from hutong.foundation.timers import TimerWheel
from hutong.replication.leading.shipments import Shipments
from hutong.replication.replica_messages import ChunksShipped
from hutong.replication.settings import ReplicationSettings

PART = 1_000
RATE = 10_000  # a part in 100 ms
IN_SYNC, NEW, OTHER = 1, 2, 3


def test_copies_share_a_rate_and_a_pause_is_not_made_up_for() -> None:
    pace = BytePace(RATE)
    assert pace.due_ms(0) == 0
    pace.count(PART, 0)
    pace.count(PART, 0)
    assert pace.due_ms(10) == 200
    pace.count(PART, 1_000)
    assert pace.due_ms(1_000) == 1_100


def test_another_rate_counts_at_once() -> None:
    pace = BytePace(1)
    pace.count(PART, 0)
    assert pace.due_ms(0) == 1_000_000
    pace.alter(RATE)
    assert pace.due_ms(5) == 5
    pace.count(PART, 5)
    assert pace.due_ms(5) == 105


class Leader:
    """A leader whose stream is on the disk, or in the cache."""

    def __init__(self) -> None:
        self.is_cached = False
        self.sent: list[tuple[int, int]] = []  # node and position
        self.clock = ManualClock()
        self.wheel = TimerWheel(self.clock.monotonic_ms())
        self.pace = BytePace(RATE)
        self.shipments = Shipments(
            "days",
            1,
            cast(Any, self),
            cast(Any, self),
            self.clock,
            self.wheel,
            ReplicationSettings(),
            lambda node, _start, end: self.shipments.ship(node, end),
            self.pace,
            lambda node: node != IN_SYNC,
            lambda: 0,
        )

    def cached(self, start: int, bytes_max: int) -> bytes | None:
        return bytes(PART) if self.is_cached else None

    def read(self, start: int, bytes_max: int, then: Callable[[bytes], None]) -> None:
        then(bytes(PART))

    def send(self, node: int, message: ChunksShipped) -> None:
        self.sent.append((node, message.start_position))
        # A few are enough: else a follower that is not paced would be sent the whole window at once.
        if message.start_position >= 3 * PART:
            self.shipments.leave(node)

    def wait(self, milliseconds: int) -> list[tuple[int, int]]:
        """What is sent in that time."""
        self.sent.clear()
        self.clock.advance(milliseconds)
        self.wheel.advance(self.clock.monotonic_ms())
        return list(self.sent)


def test_one_that_is_not_in_sync_gets_what_is_on_the_disk_at_the_pace_of_copies() -> None:
    leader = Leader()
    for node in (NEW, OTHER):
        leader.shipments.join(node, 0)
        leader.shipments.ship(node, 0)
    assert leader.sent == [(NEW, 0)]
    assert leader.wait(99) == []
    assert len(leader.wait(1)) == 1
    sent = [each for _ in range(6) for each in (leader.wait(99), leader.wait(1))]
    assert [len(each) for each in sent] == [0, 1] * 6, "one part at a time, though two copies go on"
    assert {node for each in sent for node, _ in each} == {NEW, OTHER}


def test_one_that_is_in_sync_and_one_that_reads_what_is_new_do_not_wait() -> None:
    leader = Leader()
    leader.shipments.join(IN_SYNC, 0)
    leader.shipments.ship(IN_SYNC, 0)
    assert leader.sent == [(IN_SYNC, position * PART) for position in range(4)]
    leader.sent.clear()
    leader.is_cached = True
    leader.shipments.join(NEW, 0)
    leader.shipments.ship(NEW, 0)
    assert leader.sent == [(NEW, position * PART) for position in range(4)]


def test_one_that_waits_goes_on_soon_where_the_rate_is_altered() -> None:
    leader = Leader()
    leader.pace.alter(1)
    leader.shipments.join(NEW, 0)
    leader.shipments.ship(NEW, 0)
    assert leader.wait(10_000) == [], "a part takes 1,000 s"
    leader.pace.alter(RATE)
    assert leader.wait(1_000)


def test_nothing_is_read_for_one_that_has_left_meanwhile() -> None:
    leader = Leader()
    leader.shipments.join(NEW, 0)
    leader.shipments.ship(NEW, 0)
    leader.shipments.leave(NEW)
    assert leader.wait(1_000) == []
