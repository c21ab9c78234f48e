"""A transaction coordinator with its surroundings: clock, timers, state topic and markers do what the test says."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tests.unit.foundation.fake_state import FakeState

from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import HutongError
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import Owner
from hutong.transactions.driver import TransactionCoordinator
from hutong.transactions.machine import Transaction
from hutong.transactions.messages import CLASSIC, EPOCH_BUMPING, ProducerIdentity, TopicPartition, TransactionReply
from hutong.transactions.records import decode_key, decode_record, encode_record
from hutong.transactions.settings import TransactionSettings
from hutong.transactions.states import TransactionState
from hutong.wire.kafka.error_codes import ErrorCode

SETTINGS = TransactionSettings(
    timeout_ms_max=60_000, id_expiration_ms=100_000, id_expiration_check_interval_ms=50_000, admission_wait_ms_max=500
)
ID = "app"
P0, P1 = ("orders", 0), ("orders", 1)


@dataclass(frozen=True)
class Marked:
    """Markers as they were asked for."""

    producer: ProducerIdentity
    partitions: frozenset[TopicPartition]
    is_commit: bool


class FakeMarkers:
    """Partitions that take markers when the test lets them. Those in `broken` take none."""

    def __init__(self) -> None:
        self.asked: list[Marked] = []
        self.on_their_way: list[tuple[Marked, Callable[[frozenset[TopicPartition]], None]]] = []
        self.holds_back = False
        self.on_asked: Callable[[Marked], None] = lambda _marked: None
        self.broken: frozenset[TopicPartition] = frozenset()

    def write(
        self,
        producer: ProducerIdentity,
        partitions: frozenset[TopicPartition],
        then: Callable[[frozenset[TopicPartition]], None],
        *,
        is_commit: bool,
        coordinator_epoch: int,
    ) -> None:
        assert coordinator_epoch == 0
        marked = Marked(producer, partitions, is_commit)
        self.asked.append(marked)
        self.on_asked(marked)
        self.on_their_way.append((marked, then))
        if not self.holds_back:
            self.flush()

    def flush(self, count: int = 1_000) -> None:
        while self.on_their_way and count:
            marked, then = self.on_their_way.pop(0)
            count -= 1
            then(marked.partitions & self.broken)


class Numbers:
    """Producer ids from 1000 on."""

    def __init__(self) -> None:
        self.next = 1000
        self.failure: HutongError | None = None

    def take(self, then: Callable[[int | HutongError], None]) -> None:
        self.next += 1
        then(self.failure or self.next - 1)


class Stage:
    """`restart` is a crash: only what is durable is there afterwards."""

    def __init__(self, settings: TransactionSettings = SETTINGS) -> None:
        self.settings = settings
        self.clock = ManualClock()
        self.state = FakeState()
        self.numbers = Numbers()
        self.markers = FakeMarkers()
        self._start()

    def _start(self) -> None:
        self.wheel = TimerWheel(self.clock.monotonic_ms())
        self.coordinator = TransactionCoordinator(
            clock=self.clock,
            timers=self.wheel,
            state=self.state,
            producer_ids=self.numbers,
            markers=self.markers,
            settings=self.settings,
        )
        for key, value in self.state.durable:
            self.coordinator.replay(key, value)
        self.coordinator.start()

    def restart(self) -> None:
        self.state.on_their_way.clear()
        self.markers.on_their_way.clear()
        self._start()

    def pass_time(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.wheel.advance(self.clock.monotonic_ms())

    # ---- requests; each returns a list that gets the answer

    def init(self, timeout_ms: int = 10_000, expected: ProducerIdentity | None = None) -> list[TransactionReply]:
        replies: list[TransactionReply] = []
        self.coordinator.init(ID, timeout_ms, expected, Owner(), replies.append)
        return replies

    def initialised(self) -> ProducerIdentity:
        (reply,) = self.init()
        assert reply.error is ErrorCode.NONE
        return ProducerIdentity(reply.producer_id, reply.producer_epoch)

    def add(self, producer: ProducerIdentity, *partitions: TopicPartition) -> list[TransactionReply]:
        replies: list[TransactionReply] = []
        self.coordinator.add(ID, producer, frozenset(partitions), Owner(), replies.append)
        return replies

    def end(self, producer: ProducerIdentity, *, is_commit: bool, is_bumping: bool = False) -> list[TransactionReply]:
        replies: list[TransactionReply] = []
        version = EPOCH_BUMPING if is_bumping else CLASSIC
        self.coordinator.end(ID, producer, Owner(), replies.append, is_commit=is_commit, client_version=version)
        return replies

    def admit(
        self, producer: ProducerIdentity, *partitions: TopicPartition, may_add: bool
    ) -> list[Mapping[TopicPartition, ErrorCode]]:
        verdicts: list[Mapping[TopicPartition, ErrorCode]] = []
        self.coordinator.admit(
            ID, producer.producer_id, producer.producer_epoch, partitions, may_add=may_add, then=verdicts.append
        )
        return verdicts

    # ---- looking

    @property
    def transaction(self) -> Transaction:
        found = self.coordinator.get(ID)
        assert found is not None
        return found

    def state_now(self) -> TransactionState:
        return self.transaction.record.state

    @property
    def durable_states(self) -> list[TransactionState]:
        return [decode_record(value).state for key, value in self.state.durable if value and decode_key(key) == ID]

    def set_epoch(self, producer_epoch: int) -> None:
        """As if the id had come so far."""
        transaction = self.transaction
        transaction.record = replace(transaction.record, producer_epoch=producer_epoch)
        self.state.durable.append((self.state.durable[-1][0], encode_record(transaction.record)))


def errors(replies: Sequence[TransactionReply]) -> list[ErrorCode]:
    return [reply.error for reply in replies]
