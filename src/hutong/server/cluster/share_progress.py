"""The progress of share groups in a cluster: kept by the leader of its log, asked for by all nodes.

Strategy: the progress of a group is in the log of its shard, which a new leader replays into a `KeptProgress`.
`RoutedProgress` finds the leader of each moment, this node or another one, and asks again until it has an answer or the
time is over: an election takes a second or two. Asking again is safe. A write names the version before it, and one that
was stored already is accepted again.

Decides nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from hutong.broker.state.state_topic import StateTopic
from hutong.broker.topics.internal_topics import SHARE_TOPIC
from hutong.broker.topics.lifetimes import SHARE_GROUP, group_of_slot, shard_of
from hutong.cluster.driver import ClusterDriver
from hutong.cluster.peers.port import PeerMessage, Peers
from hutong.cluster.questions import QuestionCode
from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, ProtocolError, Refused
from hutong.foundation.waiting.pending import Continuation
from hutong.groups.share.delivery.progress import KeptProgress, ProgressVersions, ProgressWrite
from hutong.groups.share.records import PartitionKey, ProgressSummary
from hutong.replication.group_state import NO_LEADER
from hutong.server.broker.coordinator_life import Apply, CoordinatorLife
from hutong.server.broker.environment import BrokerEnvironment
from hutong.server.broker.share_coordinators import progress_of
from hutong.server.cluster import share_questions as questions
from hutong.server.cluster.asking_again import AskingAgain
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


class ShareProgressLife(CoordinatorLife[KeptProgress]):
    """The progress that this node keeps."""

    def __init__(self, environment: BrokerEnvironment, versions: ProgressVersions) -> None:
        self._versions = versions
        super().__init__(environment, SHARE_TOPIC, "share groups' progress")

    def _make(self, state: StateTopic, _epoch: int) -> KeptProgress:
        return KeptProgress(state, self._versions)

    def _closed(self) -> KeptProgress:
        return KeptProgress(NoProgressState(), self._versions)

    def _replay_of(self, parts: KeptProgress) -> Apply:
        return progress_of(parts)

    def _late_of(self, parts: KeptProgress) -> Apply:
        return progress_of(parts)

    def _begin(self, _parts: KeptProgress) -> None:
        """It does nothing by itself."""

    def _end(self, _parts: KeptProgress) -> None:
        """Nothing waits here: writes wait for the log."""


class RoutedProgress:
    """Implements `ProgressPort` on every node."""

    is_shared = True

    def __init__(
        self, driver: ClusterDriver, lives: Sequence[ShareProgressLife], clock: Clock, asking: AskingAgain
    ) -> None:
        """`lives` has one for each shard of groups."""
        self._driver = driver
        self._lives = lives
        self._clock = clock
        self._asking = asking

    def register(self, peers: Peers) -> None:
        """Answer the other nodes' questions."""
        peers.register(QuestionCode.SHARE_PROGRESS, self._asked)

    # ---- the port

    def read(self, key: PartitionKey, then: Continuation[bytes | None]) -> None:
        self._ask(key.group_id, questions.encode_read(key), _decoding(questions.decode_found, then))

    def write(self, write: ProgressWrite, then: Continuation[None]) -> None:
        self._ask(write.key.group_id, questions.encode_write(write), _decoding(_nothing, then))

    def summaries(self, group_id: str, then: Continuation[Mapping[PartitionKey, ProgressSummary]]) -> None:
        self._ask(group_id, questions.encode_summaries_asked(group_id), _decoding(questions.decode_summaries, then))

    def replace(self, offsets: Mapping[PartitionKey, int | None], then: Continuation[None]) -> None:
        group_ids = {key.group_id for key in offsets}
        if not group_ids:
            then(None)
            return
        (group_id,) = group_ids  # nobody replaces the progress of several groups at once
        self._ask(group_id, questions.encode_replace(offsets), _decoding(_nothing, then))

    # ---- asking

    def _ask(self, group_id: str, message: PeerMessage, then: Continuation[PeerMessage]) -> None:
        def settled(outcome: PeerMessage | HutongError) -> None:
            if isinstance(outcome, HutongError) and _may_be_asked_again(outcome):
                outcome = Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"The group's progress could not be had: {outcome}")
            then(outcome)

        attempt: Callable[[Continuation[PeerMessage]], None] = partial(self._attempt, group_id, message)
        until_ms = self._clock.monotonic_ms() + WAIT_MS_MAX
        self._asking.ask(attempt, _may_be_asked_again, again_ms=AGAIN_MS, until_ms=until_ms, then=settled)

    def _attempt(self, group_id: str, message: PeerMessage, then: Continuation[PeerMessage]) -> None:
        """Ask the leader of this moment."""
        state = self._driver.groups.get(group_of_slot(SHARE_GROUP, shard_of(group_id, len(self._lives))))
        own, peers = self._driver.own.node, self._driver.peers
        leader = NO_LEADER if state is None else state.leader
        if leader == own:
            self._answer(message, then)
        elif leader == NO_LEADER or peers is None or not peers.is_open(leader):
            then(_NOT_KEPT)
        else:
            peers.ask(leader, message, ASK_MS_MAX, then)

    # ---- answering

    def _asked(self, _node: int, message: PeerMessage, then: Continuation[PeerMessage]) -> None:
        self._answer(message, then)

    def _answer(self, message: PeerMessage, then: Continuation[PeerMessage]) -> None:
        match message.fields.get("asked"):
            case questions.READ:
                key = questions.decode_read(message)
                self._kept(key.group_id, then, lambda kept: kept.read(key, _encoding(questions.encode_found, then)))
            case questions.WRITE:
                write = questions.decode_write(message)
                self._kept(write.key.group_id, then, lambda kept: kept.write(write, _encoding(_done, then)))
            case questions.SUMMARIES:
                group_id = bytes(message.body).decode(errors="replace")
                found = _encoding(questions.encode_summaries, then)
                self._kept(group_id, then, lambda kept: kept.summaries(group_id, found))
            case questions.REPLACE:
                offsets = questions.decode_replace(message)
                group_id = next((key.group_id for key in offsets), "")
                self._kept(group_id, then, lambda kept: kept.replace(offsets, _encoding(_done, then)))
            case asked:
                raise ProtocolError(f"a question about progress that is none: {asked!r}")

    def _kept(self, group_id: str, then: Continuation[PeerMessage], use: Callable[[KeptProgress], None]) -> None:
        """Use the progress of the group's shard, if this node keeps it."""
        life = self._lives[shard_of(group_id, len(self._lives))]
        if life.code is ErrorCode.NONE:
            use(life.parts)
        else:
            then(_NOT_KEPT)


def _may_be_asked_again(error: HutongError) -> bool:
    return not isinstance(error, Refused) or error.code != ErrorCode.FENCED_STATE_EPOCH


def _encoding(encode: Callable[[T], PeerMessage], then: Continuation[PeerMessage]) -> Callable[[T | HutongError], None]:
    return lambda outcome: then(outcome if isinstance(outcome, HutongError) else encode(outcome))


def _decoding(decode: Callable[[PeerMessage], T], then: Continuation[T]) -> Continuation[PeerMessage]:
    return lambda outcome: then(outcome if isinstance(outcome, HutongError) else decode(outcome))


def _done(_outcome: None) -> PeerMessage:
    return PeerMessage(0, {})


def _nothing(_message: PeerMessage) -> None:
    return None
