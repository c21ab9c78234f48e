"""Asks the other nodes who leads the metadata, while this node does not hear of the coordinator.

Strategy: the register says who leads the metadata, and the metadata say everything else. A node that is cut off from
the coordinator alone would not hear of the next leader: it would follow the last one, and send its clients there. So it
asks all nodes that it has a link with, every half second, until it hears of the coordinator again. A state that another
node tells counts if it is newer than the known one; the group's replica follows, and applies the rest.

Decides nothing.
"""

from collections.abc import Callable, Mapping
from typing import Final

from hutong.cluster.coordinator.port import SessionState
from hutong.cluster.metadata_machine import METADATA_NAME
from hutong.cluster.peers.port import PeerMessage, Peers
from hutong.cluster.questions import QuestionCode
from hutong.cluster.records import decode_groups, encode_groups
from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError
from hutong.foundation.timers import Timer, TimerWheel
from hutong.foundation.waiting.pending import Continuation
from hutong.replication.group_state import PartitionGroupState

ASK_AGAIN_MS: Final = 500
ANSWER_MS_MAX: Final = 3_000


class MetadataInquiry:
    """One node's inquiry. `heard` gets the states that others tell; `known` has the newest of each group."""

    def __init__(
        self,
        known: Mapping[str, PartitionGroupState],
        heard: Callable[[PartitionGroupState], None],
        clock: Clock,
        timers: TimerWheel,
    ) -> None:
        self._known = known
        self._heard = heard
        self._clock = clock
        self._timers = timers
        self._peers: Peers | None = None
        self._others: Callable[[], list[int]] = list
        self._asking: Timer | None = None

    def begin(self, peers: Peers, others: Callable[[], list[int]]) -> None:
        """Answer the other nodes from now on. `others` are those that can be asked."""
        self._peers, self._others = peers, others
        peers.register(QuestionCode.METADATA_ASKED, self._asked)

    def session_changed(self, state: SessionState) -> None:
        """Ask while there is no session, and no longer."""
        if state is SessionState.CONNECTED:
            self.close()
        elif self._asking is None:
            self._ask()

    def close(self) -> None:
        """Ask no more."""
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None

    def _ask(self) -> None:
        self._asking = self._timers.add(self._clock.monotonic_ms() + ASK_AGAIN_MS, self._ask)
        if self._peers is None:
            return
        for node in self._others():
            self._peers.ask(node, PeerMessage(QuestionCode.METADATA_ASKED, {}), ANSWER_MS_MAX, self._answered)

    def _answered(self, outcome: PeerMessage | HutongError) -> None:
        # A node that knows nothing, or has another version, says nothing: the next round asks again.
        if isinstance(outcome, HutongError):
            return
        for state in decode_groups(bytes(outcome.body)):
            # Of all other groups the metadata tell, in their order.
            if state.name == METADATA_NAME:
                self._heard(state)

    def _asked(self, _node: int, _message: PeerMessage, then: Continuation[PeerMessage]) -> None:
        state = self._known.get(METADATA_NAME)
        then(PeerMessage(0, {}, encode_groups([] if state is None else [state])))
