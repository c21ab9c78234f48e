"""Groups that were split off, and that a new node is about to copy: they are made small first.

Strategy: such a group begins with all that its source had. Its leader removes what other partitions have there, by the
journal's cleaning, and tells the controller when that is done. So moving one partition copies its own records, not
those of its former group. Followers clean by themselves. A leader that steps down drops its part: the next one begins.

Decides nothing.
"""

from functools import partial
from typing import Final

from hutong.cluster.controller.commands import CommandReply, GroupIsLean
from hutong.cluster.driver import ClusterDriver
from hutong.cluster.image import ClusterImage
from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError
from hutong.foundation.timers import TimerWheel
from hutong.server.cluster.control import ClusterControl

AGAIN_MS: Final = 500  # as long as the metadata do not say that the controller knows


class LeanGroups:
    """Looks after the groups that this node leads and that are to be made small."""

    def __init__(
        self, image: ClusterImage, driver: ClusterDriver, control: ClusterControl, clock: Clock, timers: TimerWheel
    ) -> None:
        self._image = image
        self._driver = driver
        self._control = control
        self._clock = clock
        self._timers = timers
        self._under_way: set[str] = set()
        self._is_closed = False

    def look(self) -> None:
        """Begin with what is to be made small: a group is led here, or another one was split off."""
        for name in [each for each in self._image.targets if each in self._image.groups]:
            replica = self._driver.replicas.get(name)
            if replica is not None and replica.is_leading and name not in self._under_way:
                self._under_way.add(name)
                replica.journal.shed_garbage(partial(self._shed, name))

    def close(self) -> None:
        self._is_closed = True

    def _shed(self, name: str, error: HutongError | None) -> None:
        if error is None:
            self._control.command(GroupIsLean(name), partial(self._told, name))
        else:  # it is led by another node, or will be led here anew
            self._under_way.discard(name)

    def _told(self, name: str, _reply: CommandReply | HutongError) -> None:
        """Tell it again, if need be: there may have been no controller, and the group may have another leader now."""
        self._timers.add(self._clock.monotonic_ms() + AGAIN_MS, partial(self._look_again, name))

    def _look_again(self, name: str) -> None:
        self._under_way.discard(name)
        if not self._is_closed:
            self.look()
