"""Groups that were split off, and that a new node is about to copy: they are made small first.

Strategy: such a group begins with all that its source had. Its leader removes what other partitions have there, by the
journal's cleaning, and tells the controller when that is done. So moving one partition copies its own records, not
those of its former group. Followers clean by themselves.

Decides nothing.
"""

from typing import Final

from hutong.cluster.controller.commands import CommandReply, GroupIsLean
from hutong.cluster.driver import ClusterDriver
from hutong.cluster.image import ClusterImage
from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError
from hutong.foundation.timers import Timer, TimerWheel
from hutong.server.cluster.control import ClusterControl

STEP_MS: Final = 200


class LeanGroups:
    """Looks after the groups that this node leads, while there are any to be made small."""

    def __init__(
        self, image: ClusterImage, driver: ClusterDriver, control: ClusterControl, clock: Clock, timers: TimerWheel
    ) -> None:
        self._image = image
        self._driver = driver
        self._control = control
        self._clock = clock
        self._timers = timers
        self._timer: Timer | None = None

    def look(self) -> None:
        """Take the next step now, and others later: a group is led here, or another one was split off."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting = [name for name in self._image.targets if name in self._image.groups]
        led = [self._driver.replicas[name] for name in waiting if name in self._driver.replicas]
        for replica in [each for each in led if each.is_leading]:
            if replica.journal.shed_garbage():
                self._control.command(GroupIsLean(replica.name), _ignore)
        if waiting:
            self._timer = self._timers.add(self._clock.monotonic_ms() + STEP_MS, self.look)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _ignore(_reply: CommandReply | HutongError) -> None:
    """Go on: as long as the metadata do not say that the controller knows, it hears of it again."""
