"""Reports of disk space: what is reported, and what is not worth a report."""

from hutong.cluster.nodes import DiskSpace
from hutong.foundation.clock import ManualClock
from hutong.foundation.timers import TimerWheel
from hutong.server.cluster.disk_space import LOOK_MS, DiskReports

TOTAL = 1_600
LEAST = 400


class Disk:
    """A disk, and what was reported of it."""

    def __init__(self) -> None:
        self.free = 1_000
        self.clock = ManualClock()
        self.wheel = TimerWheel(self.clock.monotonic_ms())
        self.reports = DiskReports(lambda: (TOTAL, self.free), LEAST, self.clock, self.wheel)
        self.told: list[DiskSpace] = []
        self.reports.start(self.told.append)

    def look(self, free: int) -> list[DiskSpace]:
        """What is reported next, where so much is free."""
        self.free = free
        self.told.clear()
        self.clock.advance(LOOK_MS)
        self.wheel.advance(self.clock.monotonic_ms())
        return list(self.told)


def test_a_small_change_is_not_reported_until_it_adds_up() -> None:
    disk = Disk()
    assert disk.reports.space == DiskSpace(TOTAL, 1_000)
    assert disk.look(901) == []
    assert disk.look(900) == [DiskSpace(TOTAL, 900)]
    assert disk.look(850) == []
    assert disk.look(1_000) == [DiskSpace(TOTAL, 1_000)]


def test_too_little_space_is_reported_at_once_and_so_is_its_end() -> None:
    disk = Disk()
    assert disk.look(LEAST) == [DiskSpace(TOTAL, LEAST)]
    assert disk.look(LEAST - 1) == [DiskSpace(TOTAL, LEAST - 1, is_short=True)]
    assert disk.look(LEAST - 2) == []
    assert disk.look(LEAST) == [DiskSpace(TOTAL, LEAST)]


def test_nothing_is_reported_after_the_end() -> None:
    disk = Disk()
    disk.reports.close()
    assert disk.look(1) == []
