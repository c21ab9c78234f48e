"""A table kept in a compacted topic: the latest value of each key, read whole at a start, written by one owner.

Strategy: one partition, so that the log is one order. The owner reads a table to its end, then claims it with a record
of a higher epoch than any before. From then on no other process should write, so the offsets of its writes follow one
another without a gap. At a gap the owner reads the records in it before it counts its write as done. If one of them is
a claim, another owner has taken over, and every write fails from then on, also those in the log already. So a replaced
owner never acts upon a write that its successor has not read. Its later writes are in the log all the same, and are
read at the next start: users of the table must tolerate that.

Knows nothing of the meaning of values. The client library is called on threads; callbacks run on the owner's loop.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from hutong.bus.durable.failures import cause_of, publish_failed
from hutong.bus.durable.outcomes import PublishFailed, Stored
from hutong.bus.durable.publishing import Publisher
from hutong.bus.durable.records import OutgoingRecord
from hutong.foundation.errors import CorruptData, HutongError, UsageError
from hutong.foundation.machine_host import StateRecord
from hutong.foundation.waiting.pending import Continuation

CLAIM_KEY: Final = b"\x00owner"
VALUE_BYTES_MAX: Final = 960 << 10  # with key and batch header below the topic's max.message.bytes
WRITES_IN_FLIGHT_MAX: Final = 20_000
REQUEST_S_MAX: Final = 15.0
LOAD_S_MAX: Final = 300.0  # without any record
POLL_S: Final = 0.1
READ_MAX: Final = 1_000
CLOSE_S_MAX: Final = 10.0
NOT_THERE_YET: Final = frozenset(
    {
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
    }
)
COMPACTED: Final = {
    "cleanup.policy": "compact",
    "retention.ms": "-1",
    "segment.bytes": str(16 << 20),  # only closed segments are cleaned
    "min.cleanable.dirty.ratio": "0.5",
    "max.message.bytes": str(1 << 20),  # a broker with a smaller default would refuse the largest values for ever
}

Apply = Callable[[bytes, bytes | None], None]
"""Called with key and value of each record, in the order of the log; None: deleted."""

_log = logging.getLogger("hutong.bus.durable")


class TableLost(HutongError):
    """Another owner has taken the table over, or it was closed: nothing more is written."""


class CompactedTable:
    """The table in the topic `topic`, for the owner on `loop`, where all its methods are called.

    `settings` are the client library's. Values have at most VALUE_BYTES_MAX bytes, keys are not empty and do not begin
    with a zero byte; what else is asked raises ValueError.
    """

    def __init__(self, topic: str, settings: Mapping[str, Any], publisher_settings: Mapping[str, Any]) -> None:
        self.topic = topic
        self.epoch = 0
        self.failure: TableLost | None = None  # why nothing is written any more
        self._settings = dict(settings)
        self._publisher = Publisher({**publisher_settings, "linger.ms": 0}, WRITES_IN_FLIGHT_MAX)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_contested = False  # another owner has claimed our epoch
        self._next_offset = 0  # of the next write that is reported, if nobody else writes
        self._reports: deque[tuple[Continuation[None], HutongError | None]] = deque()
        self._is_reporting = False
        self._lock = threading.Lock()  # over reports, which come on a thread

    async def open(self, apply: Apply) -> None:
        """Read everything, then claim it. `apply` is called before this returns, on another thread.

        Raises UsageError where the topic is none that a table can be kept in, PublishFailed where it cannot be written,
        and CorruptData.
        """
        self._loop = asyncio.get_running_loop()
        try:
            await self._loop.run_in_executor(None, self._open, apply)
        except KafkaException as error:
            raise publish_failed(self.topic, error) from error

    def put(self, key: bytes, value: bytes | None, settled: Continuation[None]) -> None:
        """Write, or with None delete. `settled` is called on the loop, in the order of the writes.

        Raises LimitExceeded where too much is under way, TableLost once the table is lost, and ValueError.
        """
        if self.failure is not None:
            raise self.failure
        if not key or key.startswith(b"\x00") or len(value or b"") > VALUE_BYTES_MAX:
            raise ValueError(f"a key is not empty and begins with no zero byte; a value has up to {VALUE_BYTES_MAX} B")
        self._publisher.publish(
            OutgoingRecord(self.topic, key, value, []), lambda outcome: self._reported(outcome, settled)
        )

    def append_all(self, records: Sequence[StateRecord], then: Continuation[None]) -> None:
        """Write several records; `then` is called once on the loop: with None when all are durable, or with an error.

        Raises nothing but ValueError: a refused write is reported like one that failed.
        """
        left, failure = len(records), None

        def settled(error: HutongError | None) -> None:
            nonlocal left, failure
            left -= 1
            failure = failure or error
            if not left:
                then(failure)

        for key, value in records:
            try:
                self.put(key, value, settled)
            except HutongError as error:
                assert self._loop is not None
                # Later: the caller may be a machine's driver that carries out instructions, and must not be fed now.
                self._loop.call_soon(settled, error)

    async def close(self) -> None:
        """Wait for what is under way, at most CLOSE_S_MAX; then nothing is written any more. A second call is fine."""
        await asyncio.get_running_loop().run_in_executor(None, self._publisher.close, CLOSE_S_MAX)
        if self.failure is None:
            self.failure = TableLost(f"the table {self.topic} is closed")

    # On other threads

    def _open(self, apply: Apply) -> None:
        self._make_topic()
        end = self._read(0, None, apply)
        while True:
            self.epoch += 1
            epoch, claimed = self.epoch, self._claim()
            if claimed > end:  # another process wrote between the read and the claim
                self._read(end, claimed, apply)
            end = self._next_offset = claimed + 1
            # Nobody claimed a higher epoch, or the same one, while this claim was on its way.
            if self.epoch == epoch and not self._is_contested:
                return

    def _make_topic(self) -> None:
        admin = AdminClient(self._settings)
        wanted = NewTopic(self.topic, num_partitions=1, replication_factor=-1, config=COMPACTED)
        try:
            admin.create_topics([wanted], request_timeout=REQUEST_S_MAX)[self.topic].result()
        except KafkaException as error:
            # Creating comes first, as it is atomic: of two owners that start at once, one makes the topic, the other
            # checks it.
            if cause_of(error).code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            self._check_topic(admin)

    def _check_topic(self, admin: AdminClient) -> None:
        found = admin.list_topics(self.topic, timeout=REQUEST_S_MAX).topics[self.topic]
        # Only one partition is one order, and the claims depend on it.
        if len(found.partitions) != 1:
            raise UsageError(f"The topic {self.topic} has {len(found.partitions)} partitions; a table needs one.")
        resource = ConfigResource(ConfigResource.Type.TOPIC, self.topic)
        config = admin.describe_configs([resource], request_timeout=REQUEST_S_MAX)[resource].result()
        policy = config["cleanup.policy"].value
        # `compact,delete` is refused as well: retention would remove keys that are never written again.
        if policy != "compact":
            raise UsageError(
                f"The topic {self.topic} has cleanup.policy={policy}, by which it would forget; a table needs compact."
            )

    def _read(self, start: int, end: int | None, apply: Apply) -> int:
        """Records from `start` up to `end`, by default all that are there now. Returns the offset behind them."""
        settings = {
            **self._settings,
            "group.id": f"{self.topic}-table",  # never joined: the library wants a name
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            # A position that does not exist is an error: to begin elsewhere would skip records of the table.
            "auto.offset.reset": "error",
        }
        place = TopicPartition(self.topic, 0, start or OFFSET_BEGINNING)
        consumer = Consumer(settings)
        try:
            if end is None:
                end = _end_of(consumer, place)
            consumer.assign([place])
            self._read_until(consumer, end, apply)
        finally:
            consumer.close()
        return end

    def _read_until(self, consumer: Consumer, end: int, apply: Apply) -> None:
        """Compaction leaves gaps, also before `end`: there the position says how far it is."""
        silent_s = 0.0
        position = 0
        while position < end:
            first = consumer.poll(POLL_S)  # `consume` alone would wait for its time to end
            messages = [] if first is None else [first, *consumer.consume(READ_MAX - 1, 0)]
            silent_s = 0.0 if messages else silent_s + POLL_S
            # The client library tries for ever while no broker answers; a start must end some day.
            if silent_s > LOAD_S_MAX:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"{self.topic} could not be read"))
            for message in messages:
                error = message.error()
                offset = message.offset()
                assert offset is not None
                if error is None:
                    # The next pass reads what is behind the end, so each record is applied once.
                    if offset < end:
                        self._apply(message.key() or b"", message.value(), apply)
                    position = max(position, offset + 1)
                # The offset of this event is the end of the log, so it also passes records that compaction has removed.
                elif error.code() == KafkaError._PARTITION_EOF:
                    position = max(position, offset)
                # A broker that restarts is waited for, up to LOAD_S_MAX; other errors do not go away.
                elif not error.retriable() and error.code() != KafkaError._ALL_BROKERS_DOWN:
                    raise KafkaException(error)

    def _apply(self, key: bytes, value: bytes | None, apply: Apply) -> None:
        if key != CLAIM_KEY:
            apply(key, value)
            return
        try:
            epoch = int(value or b"0")
        except ValueError:
            raise CorruptData(f"{self.topic} has a claim that is none") from None
        self._is_contested = self._is_contested or epoch == self.epoch
        self.epoch = max(self.epoch, epoch)

    def _claim(self) -> int:
        done = threading.Event()
        outcomes: list[Stored | PublishFailed] = []

        def claimed(outcome: Stored | PublishFailed) -> None:
            outcomes.append(outcome)
            done.set()

        self._is_contested = False
        self._publisher.publish(OutgoingRecord(self.topic, CLAIM_KEY, b"%d" % self.epoch, []), claimed)
        done.wait()  # the client library reports every record, at the latest when its time is over
        outcome = outcomes[0]
        if isinstance(outcome, PublishFailed):
            raise outcome
        return outcome.offset

    def _reported(self, outcome: Stored | PublishFailed, settled: Continuation[None]) -> None:
        """On the thread of the reports, in the order of the log."""
        failure: HutongError | None = self.failure
        # It may be in the log all the same. The next write that is stored then meets a gap, and the gap is read.
        if failure is None and isinstance(outcome, PublishFailed):
            failure = outcome
        elif failure is None and isinstance(outcome, Stored):
            # Another process wrote in between, or a write that was reported as failed is in the log after all.
            if outcome.offset != self._next_offset:
                failure = self._check_gap(self._next_offset, outcome.offset)
            self._next_offset = max(self._next_offset, outcome.offset + 1)
        self._report(settled, failure)

    def _check_gap(self, start: int, end: int) -> HutongError | None:
        """Apply writes of others, and writes of ours that were given up and stored all the same."""
        epoch = self.epoch
        self._is_contested = False
        try:
            if start < end:
                self._read(start, end, lambda _key, _value: None)
        # Another owner's claim cannot be ruled out now, so the table counts as lost.
        except (KafkaException, CorruptData) as error:
            self.failure = TableLost(f"the table {self.topic}: others wrote to it, and it could not be read: {error}")
        if self.epoch > epoch or self._is_contested:
            self.failure = TableLost(f"the table {self.topic} has another owner, of epoch {self.epoch}")
        if self.failure is not None:
            _log.error("%s", self.failure)
        return self.failure

    def _report(self, settled: Continuation[None], failure: HutongError | None) -> None:
        with self._lock:
            self._reports.append((settled, failure))
            # One wake-up of the loop for all reports that come before it runs: it costs a system call.
            if self._is_reporting:
                return
            self._is_reporting = True
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(self._settle_on_loop)
        except RuntimeError:
            if not self._loop.is_closed():
                raise  # else no caller waits any more

    def _settle_on_loop(self) -> None:
        with self._lock:
            reports, self._reports = self._reports, deque()
            self._is_reporting = False
        for settled, failure in reports:
            settled(failure)


def _end_of(consumer: Consumer, place: TopicPartition) -> int:
    """The offset behind the last record. A topic that was just made is not known everywhere at once."""
    left_s = REQUEST_S_MAX
    while True:
        try:
            return int(consumer.get_watermark_offsets(place, REQUEST_S_MAX)[1])
        except KafkaException as error:
            left_s -= POLL_S
            if left_s <= 0 or cause_of(error).code() not in NOT_THERE_YET:
                raise
            consumer.poll(POLL_S)  # nothing is assigned: it only waits
