"""The progress of share groups in a cluster: kept by the leader of its log, asked for by all nodes.

Strategy: `load` replays the log into a `KeptProgress` on a new leader, `unload` forgets it. `RoutedProgress` finds the
leader of each moment, this node or another one, and asks again until it has an answer or the time is over: an
election takes a second or two. Asking again is safe. A write names the version before it, and one that was stored
already is accepted again.

Decides nothing.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeVar

from hutong.broker.state.state_topic import StateTopic
from hutong.broker.topics.catalogue import SHARE_TOPIC
from hutong.cluster.driver import ClusterDriver
from hutong.cluster.peers.port import PeerMessage, Peers
from hutong.cluster.questions import QuestionCode
from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, OwnerGone, ProtocolError, Refused
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.pending import Continuation
from hutong.groups.share.delivery.progress import KeptProgress, ProgressVersions, ProgressWrite
from hutong.groups.share.records import PartitionKey, ProgressSummary
from hutong.journal.log import PartitionLog
from hutong.replication.group_state import NO_LEADER
from hutong.server.broker.environment import BrokerEnvironment
from hutong.server.broker.group_coordinators import load_in_background
from hutong.server.broker.share_coordinators import progress_of
from hutong.server.cluster import share_questions as questions
from hutong.wire.kafka.error_codes import ErrorCode

AGAIN_MS: Final = 50
ASK_MS_MAX: Final = 2_000  # a node that was stopped does not answer: the next leader is asked soon
WAIT_MS_MAX: Final = 15_000  # for an election; clients give a request 30 s (request.timeout.ms)
_NOT_KEPT: Final = Refused(ErrorCode.NOT_COORDINATOR, "This node does not keep the progress of share groups.")
T = TypeVar("T")


class NoProgressState:
    """The state of a node that keeps no progress: it has none, and takes none."""

    live: Mapping[bytes, bytes] = {}

    def append_all(self, _records: object, then: Continuation[None]) -> None:
        then(_NOT_KEPT)


class ShareProgressLife:
    """The progress that this node keeps: `load` makes it serve, `unload` ends that."""

    def __init__(self, environment: BrokerEnvironment, versions: ProgressVersions) -> None:
        self.on_swap: list[Callable[[KeptProgress], None]] = []
        self.is_serving = False
        self._environment = environment
        self._versions = versions
        self._state: StateTopic | None = None  # of what is kept, or is being loaded
        self.kept = self._none()

    async def load(self, log: PartitionLog) -> None:
        """Replay all progress, and serve it. Nothing happens where `unload` comes first.

        Raises CorruptData, StorageError.
        """
        self.unload()
        self._state = state = self._environment.state_topic(SHARE_TOPIC, log)
        kept = KeptProgress(state, self._versions)
        apply = progress_of(kept)
        try:
            await state.replay(apply)
        except HutongError:
            # Its journal may be closed by now.
            if self._state is state:
                self.unload()
                raise
        if self._state is not state:
            return
        state.on_late = apply
        self._swap(kept)
        self.is_serving = True

    def load_soon(self, log: PartitionLog, failed: Callable[[], None]) -> None:
        """`load` while other work goes on. A failure is logged."""
        load_in_background(self._environment, "share groups", self.load(log), failed)

    def unload(self) -> None:
        """Serve no more: what is on its way to the log is given up."""
        state, self._state = self._state, None
        if state is None:
            return
        self.is_serving = False
        self._swap(self._none())
        state.close(OwnerGone("this node keeps the progress of share groups no more"))

    def _none(self) -> KeptProgress:
        return KeptProgress(NoProgressState(), self._versions)

    def _swap(self, kept: KeptProgress) -> None:
        self.kept = kept
        for swapped in self.on_swap:
            swapped(kept)


class RoutedProgress:
    """Implements `ProgressPort` on every node."""

    is_shared = True

    def __init__(
        self, driver: ClusterDriver, life: ShareProgressLife, group: str, clock: Clock, timers: TimerWheel
    ) -> None:
        self._driver = driver
        self._life = life
        self._group = group  # whose leader keeps the progress
        self._clock = clock
        self._timers = timers
        self._is_closed = False

    def register(self, peers: Peers) -> None:
        """Answer the other nodes' questions."""
        peers.register(QuestionCode.SHARE_PROGRESS, self._asked)

    def close(self) -> None:
        """Ask no more: callers that wait get an error with the next look."""
        self._is_closed = True

    # ---- the port

    def read(self, key: PartitionKey, then: Continuation[bytes | None]) -> None:
        self._ask(questions.encode_read(key), _decoding(questions.decode_found, then))

    def write(self, write: ProgressWrite, then: Continuation[None]) -> None:
        self._ask(questions.encode_write(write), _decoding(_nothing, then))

    def summaries(self, group_id: str, then: Continuation[Mapping[PartitionKey, ProgressSummary]]) -> None:
        self._ask(questions.encode_summaries_asked(group_id), _decoding(questions.decode_summaries, then))

    def replace(self, offsets: Mapping[PartitionKey, int | None], then: Continuation[None]) -> None:
        if not offsets:
            then(None)
        else:
            self._ask(questions.encode_replace(offsets), _decoding(_nothing, then))

    # ---- asking

    def _ask(self, message: PeerMessage, then: Continuation[PeerMessage]) -> None:
        self._attempt(message, self._clock.monotonic_ms() + WAIT_MS_MAX, then)

    def _attempt(self, message: PeerMessage, until_ms: int, then: Continuation[PeerMessage]) -> None:
        def answered(outcome: PeerMessage | HutongError) -> None:
            if not isinstance(outcome, HutongError) or _is_final(outcome):
                then(outcome)
            elif self._is_closed or self._clock.monotonic_ms() >= until_ms:
                then(Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"The group's progress could not be had: {outcome}"))
            else:
                again = partial(self._attempt, message, until_ms, then)
                self._timers.add(self._clock.monotonic_ms() + AGAIN_MS, again)

        state, own, peers = self._driver.groups.get(self._group), self._driver.own.node, self._driver.peers
        leader = NO_LEADER if state is None else state.leader
        if leader == own:
            self._answer(message, answered)
        elif leader == NO_LEADER or peers is None or not peers.is_open(leader):
            answered(_NOT_KEPT)
        else:
            peers.ask(leader, message, ASK_MS_MAX, answered)

    # ---- answering

    def _asked(self, _node: int, message: PeerMessage, then: Continuation[PeerMessage]) -> None:
        self._answer(message, then)

    def _answer(self, message: PeerMessage, then: Continuation[PeerMessage]) -> None:
        kept = self._life.kept
        if not self._life.is_serving:
            then(_NOT_KEPT)
            return
        match message.fields.get("asked"):
            case questions.READ:
                kept.read(questions.decode_read(message), _encoding(questions.encode_found, then))
            case questions.WRITE:
                kept.write(questions.decode_write(message), _encoding(_done, then))
            case questions.SUMMARIES:
                group_id = bytes(message.body).decode(errors="replace")
                kept.summaries(group_id, _encoding(questions.encode_summaries, then))
            case questions.REPLACE:
                kept.replace(questions.decode_replace(message), _encoding(_done, then))
            case asked:
                raise ProtocolError(f"a question about progress that is none: {asked!r}")


def _is_final(error: HutongError) -> bool:
    return isinstance(error, Refused) and error.code == ErrorCode.FENCED_STATE_EPOCH


def _encoding(encode: Callable[[T], PeerMessage], then: Continuation[PeerMessage]) -> Callable[[T | HutongError], None]:
    return lambda outcome: then(outcome if isinstance(outcome, HutongError) else encode(outcome))


def _decoding(decode: Callable[[PeerMessage], T], then: Continuation[T]) -> Continuation[PeerMessage]:
    return lambda outcome: then(outcome if isinstance(outcome, HutongError) else decode(outcome))


def _done(_outcome: None) -> PeerMessage:
    return PeerMessage(0, {})


def _nothing(_message: PeerMessage) -> None:
    return None
