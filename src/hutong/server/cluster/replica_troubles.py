"""Has the controller know of the groups that this node cannot write: for good, or for now.

    the journal has failed     this node neither leads the group nor follows, until it is restarted
    it is short of space       another member leads, if one is not short, too; this node leaves the set
    there is space for a while it may join the set again, and lead

Strategy: no log has this news, so each new controller gets it anew. A shortage that is over counts for a while,
since a disk that has room for one flush may lack it for the next: leaders would come and go.

A node that cannot write the metadata hears of no new leaders by them, and would send its clients to old ones. So it
asks the controller for the states of all groups meanwhile.

Decides nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.broker.topics.lifetimes import METADATA_GROUP
from hutong.cluster.peers.port import PeerMessage
from hutong.cluster.questions import QuestionCode, decode_short, encode_short
from hutong.cluster.records import decode_groups, encode_groups
from hutong.foundation.errors import DiskFull, HutongError, Refused
from hutong.replication.group_state import NO_LEADER
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from hutong.cluster.driver import ClusterDriver
    from hutong.foundation.clock import Clock
    from hutong.foundation.errors import StorageShortage
    from hutong.foundation.timers import Timer, TimerWheel
    from hutong.foundation.waiting.pending import Continuation
    from hutong.journal.journal import Journal
    from hutong.server.cluster.control import ClusterControl

SPACE_MS: Final = 5_000  # about as long as a preferred leader waits that has come back
TOLD_AGAIN_MS: Final = 1_000
TOLD_MS_MAX: Final = 3_000
STATES_AGAIN_MS: Final = 250
_NO_CONTROLLER: Final = Refused(ErrorCode.NOT_CONTROLLER, "This node is not the controller.")


class ReplicaTroubles:
    """The troubles of this node's journals; at the controller those of others, too, on their way to its machine."""

    def __init__(self, driver: ClusterDriver, control: ClusterControl, clock: Clock, timers: TimerWheel) -> None:
        self._driver = driver
        self._control = control
        self._clock = clock
        self._timers = timers
        self._failed: set[str] = set()  # groups whose journal here has failed
        self._short_until_ms: dict[str, int] = {}  # groups that are short, or were a while ago
        self._polling: Timer | None = None
        control.on_controller = self.controller_changed

    def register(self) -> None:
        """Answer the other nodes' questions."""
        peers = self._driver.peers
        assert peers is not None
        peers.register(QuestionCode.REPLICA_FAILED, self._told_of_failure)
        peers.register(QuestionCode.REPLICA_SHORT, self._told_of_shortage)

    # -- of this node

    def watch(self, group: str, journal: Journal) -> None:
        """Note the shortages of a journal that was opened."""
        journal.on_shortage(partial(self._shortage_changed, group))

    def failed(self, group: str) -> None:
        """Have the controller know that this node's replica has failed: another node shall lead the group."""
        self._failed.add(group)
        self._tell_failed(group)

    def forget(self, group: str) -> None:
        """Forget a group that is no more."""
        self._failed.discard(group)
        self._short_until_ms.pop(group, None)

    def controller_changed(self) -> None:
        """Tell a new controller what the last one knew."""
        for group in sorted(self._failed):
            self._tell_failed(group)
        for group in sorted(self._short_until_ms):
            self._tell_short(group)

    def _shortage_changed(self, group: str, shortage: StorageShortage | None) -> None:
        is_known = group in self._short_until_ms
        # A shortage of files, memory or threads is over soon, and as likely at the other nodes.
        if not is_known and not isinstance(shortage, DiskFull):
            return
        self._short_until_ms[group] = self._clock.monotonic_ms() + SPACE_MS
        if not is_known:
            self._look_later(group)
            self._tell_short(group)

    def _look_later(self, group: str) -> None:
        self._timers.add(self._short_until_ms[group], partial(self._look, group))

    def _look(self, group: str) -> None:
        """Say that the shortage is over, if it is since a while."""
        if group not in self._short_until_ms:
            return
        replica, now_ms = self._driver.replicas[group], self._clock.monotonic_ms()
        if replica.failure is not None or replica.journal.shortage is not None:
            self._short_until_ms[group] = now_ms + SPACE_MS
        if now_ms < self._short_until_ms[group]:
            self._look_later(group)
            return
        del self._short_until_ms[group]
        self._tell_short(group)

    # -- to the controller

    def _tell_failed(self, group: str) -> None:
        own, controller = self._driver.own, self._control.controller
        if controller is not None:
            controller.replica_failed(own.node, own.incarnation, group)
            return
        self._control.ask(
            PeerMessage(QuestionCode.REPLICA_FAILED, {}, group.encode()),
            TOLD_MS_MAX,
            partial(self._heard, self._tell_failed, group),
        )

    def _tell_short(self, group: str) -> None:
        own, is_short = self._driver.own, group in self._short_until_ms
        if group == METADATA_GROUP:
            self._driver.metadata_short(own.node, own.incarnation, is_short=is_short)
        controller = self._control.controller
        if controller is not None:
            controller.replica_short(own.node, own.incarnation, group, is_short=is_short)
        elif self._driver.controller not in (NO_LEADER, own.node):
            self._control.ask(encode_short(group, is_short=is_short), TOLD_MS_MAX, partial(self._short_heard, group))

    def _short_heard(self, group: str, outcome: PeerMessage | HutongError) -> None:
        self._heard(self._tell_short, group, outcome)
        if isinstance(outcome, HutongError) or group != METADATA_GROUP:
            return
        for state in decode_groups(bytes(outcome.body)):
            self._driver.group_heard(state)
        if group in self._short_until_ms and self._polling is None:
            self._polling = self._timers.add(self._clock.monotonic_ms() + STATES_AGAIN_MS, self._poll)

    def _poll(self) -> None:
        self._polling = None
        if METADATA_GROUP in self._short_until_ms:
            self._tell_short(METADATA_GROUP)

    def _heard(self, tell: Callable[[str], None], group: str, outcome: PeerMessage | HutongError) -> None:
        if isinstance(outcome, HutongError):
            self._timers.add(self._clock.monotonic_ms() + TOLD_AGAIN_MS, partial(tell, group))

    # -- of other nodes

    def _told_of_failure(self, node: int, message: PeerMessage, then: Continuation[PeerMessage]) -> None:
        sender, controller = self._driver.live.get(node), self._control.controller
        if controller is None or sender is None:
            then(_NO_CONTROLLER)
            return
        # A name that no group has does no harm: nothing looks it up.
        controller.replica_failed(node, sender.incarnation, bytes(message.body).decode(errors="replace"))
        then(PeerMessage(0, {}))

    def _told_of_shortage(self, node: int, message: PeerMessage, then: Continuation[PeerMessage]) -> None:
        sender, controller = self._driver.live.get(node), self._control.controller
        group, is_short = decode_short(message)
        # Before there is a controller its metadata must be committed, which a member that is short holds up.
        if sender is not None and group == METADATA_GROUP and self._driver.controller == self._driver.own.node:
            self._driver.metadata_short(node, sender.incarnation, is_short=is_short)
            then(PeerMessage(0, {}, encode_groups(self._driver.groups.values())))
        elif controller is None or sender is None:
            then(_NO_CONTROLLER)
        else:
            controller.replica_short(node, sender.incarnation, group, is_short=is_short)
            then(PeerMessage(0, {}))
