"""The partitions' logs as share groups need them: where a group begins, where a log starts, and dead letters.

A dead letter is the record again in the group's dead-letter topic (`errors.deadletterqueue.topic.name`, KIP-1191). Its
headers give the reason and the origin, as those of durable addresses do (`hutong-dead-*`). It is written before the
record is archived, so a crash may write it twice, but cannot lose it. The topic is created if the node creates topics
that clients name. A record that cannot become a dead letter is logged and released. Batches are unpacked on a worker,
once each: a batch of letters continues with the unpacked records that the one before it left.

Knows nothing of members or sessions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.foundation.errors import HutongError, LimitExceeded, ProtocolError, Refused, UsageError
from hutong.journal.append.qos import Qos
from hutong.journal.log import DiskRead
from hutong.wire.kafka.batch.records import Record, build_batch, iterate_batches, iterate_records, parse_batch_header
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.share.remote_letters import RemoteLetters
    from hutong.broker.topics.catalogue import Topics
    from hutong.broker.topics.partition import Partition, Topic
    from hutong.foundation.clock import Clock
    from hutong.groups.share.delivery.messages import Bury
    from hutong.groups.share.records import PartitionKey
    from hutong.groups.share.settings import GroupRules
    from hutong.runtime.threads.offload import Offload

READ_BYTES: Final = 1024 * 1024
LETTERS_MAX: Final = 500  # in one batch
REJECTED: Final = ("Rejected", "a member of the group rejected the record")
EXHAUSTED: Final = ("DeliveryCountLimit", "the record was delivered as often as the group's settings allow")
_log = logging.getLogger("hutong.share")


class ShareLogs:
    """Implements `LogPort` of the share groups."""

    def __init__(
        self, topics: Topics, clock: Clock, offload: Offload, *, creates_topics: bool, default_partitions: int
    ) -> None:
        self.offload = offload
        self.elsewhere: RemoteLetters | None = None  # of a node alone there is none
        self._topics = topics
        self._clock = clock
        self._creates_topics = creates_topics
        self._default_partitions = default_partitions

    def find(self, key: PartitionKey) -> Partition | None:
        topic = self._topics.by_id(key.topic_id)
        return topic.partition(key.partition) if topic is not None else None

    def first_offset(self, key: PartitionKey, rules: GroupRules, then: Callable[[int | HutongError], None]) -> None:
        partition = self.find(key)
        if partition is None:
            then(Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            return
        log = partition.log
        # The group keeps its first offset for good, so it must not take it from a journal that has failed.
        if log.offline is not None:
            then(log.offline)
            return
        end_offset = log.last_stable_offset if rules.is_read_committed else log.high_watermark
        # share.auto.offset.reset of the group (KIP-932): earliest, latest, or by_duration, which looks for a timestamp.
        if rules.auto_offset_reset == "earliest":
            then(log.start_offset)
        elif rules.auto_offset_reset == "latest":
            # RocketMQ: a group begins with the first message of a queue that is still there, whatever it asks for.
            then(0 if rules.is_pop and log.start_offset == 0 else end_offset)
        else:

            def found(outcome: tuple[int, int] | HutongError) -> None:
                if isinstance(outcome, HutongError):
                    then(outcome)
                else:
                    # No record is that young: the group begins with the next one.
                    then(outcome[1] if outcome[1] >= 0 else end_offset)

            log.offset_for_timestamp(self._clock.wall_ms() - rules.reset_duration_ms, found)

    def start_offset(self, key: PartitionKey) -> int | None:
        partition = self.find(key)
        is_known = partition is not None and partition.log.offline is None
        return partition.log.start_offset if partition is not None and is_known else None

    def bury(self, key: PartitionKey, letter: Bury, topic: str, then: Callable[[bool], None]) -> None:
        source, target = self.find(key), self._topics.get(topic)
        # The topic was deleted: nothing is left to bury, so the record may be archived.
        if source is None:
            then(True)
        elif target is not None:
            _Burial(self, key, source, target, letter, then).bury_next()
        # As for auto.create.topics.enable: where clients may not create topics by naming them, neither may a group.
        elif self._creates_topics:

            def made(outcome: Topic | HutongError) -> None:
                if isinstance(outcome, HutongError):
                    _log.error("group %s: no dead-letter topic %s: %s", key.group_id, topic, outcome)
                    then(False)
                else:
                    _Burial(self, key, source, outcome, letter, then).bury_next()

            if self.elsewhere is not None:
                self.elsewhere.create(topic, self._default_partitions, made)
                return
            try:
                self._topics.get_or_create(topic, self._default_partitions, made)
            except Refused as refused:
                made(refused)
        else:
            _log.error("group %s: there is no dead-letter topic %s", key.group_id, topic)
            then(False)

    @property
    def now_ms(self) -> int:
        return self._clock.wall_ms()


class _Burial:
    """The dead letters of one range of offsets, written batch after batch."""

    __slots__ = ("_key", "_letter", "_logs", "_offset", "_rest", "_source", "_target", "_then")

    def __init__(
        self,
        logs: ShareLogs,
        key: PartitionKey,
        source: Partition,
        target: Topic,
        letter: Bury,
        then: Callable[[bool], None],
    ) -> None:
        self._logs = logs
        self._key = key
        self._source = source
        self._target = target
        self._letter = letter
        self._then = then
        self._offset = letter.first
        self._rest: Iterator[Record] | None = None  # of what was read, while records of it are left

    def bury_next(self) -> None:
        log = self._source.log
        # Retention may have deleted records while an earlier batch of letters was being written.
        self._offset = max(self._offset, log.start_offset)
        if self._offset > self._letter.last:
            self._then(True)
            return
        # A batch may hold more records than one batch of letters: its rest needs no second read.
        if self._rest is not None:
            self._make_letters(self._rest)
            return
        try:
            found = log.read(self._offset, READ_BYTES)
        # Deleted, or truncated by DeleteRecords since: done, as nothing can be copied any more.
        except Refused:
            self._then(True)  # it is not in the log any more
            return
        # Rejected records are often old, so they have left memory.
        if isinstance(found, DiskRead):
            log.read_from_disk(found, self._found)
        else:
            self._found(found.buffers)

    def _found(self, outcome: Sequence[memoryview] | HutongError) -> None:
        if isinstance(outcome, HutongError):
            _log.error("group %s: no dead letter could be written: %s", self._key.group_id, outcome)
            self._then(False)
        else:
            self._rest = _records(outcome, self._offset, self._letter.last)
            self._make_letters(self._rest)

    def _make_letters(self, rest: Iterator[Record]) -> None:
        """Make dead letters of the next records, on a worker."""
        try:
            self._logs.offload.submit(partial(self._letters, rest), self._letters_made)
        except LimitExceeded as error:
            _log.error("group %s: no dead letter could be written: %s", self._key.group_id, error)
            self._then(False)

    def _letters(self, rest: Iterator[Record]) -> tuple[list[Record], int, bool]:
        """The next dead letters, the offset after the last of their records, and True if there may be more."""
        letters, offset, size = [], self._offset, 0
        for record in rest:
            letters.append(self._letter_of(record))
            offset = record.offset + 1
            size += len(record.value or b"") + len(record.key or b"")
            # Count and bytes bound the memory of a batch of letters, and keep it below what a journal appends at once.
            if len(letters) >= LETTERS_MAX or size >= READ_BYTES // 2:
                return letters, offset, True
        return letters, offset, False

    def _letters_made(self, outcome: tuple[list[Record], int, bool] | BaseException) -> None:
        # The batch cannot be unpacked: it is damaged, too large, or its codec is not installed. Trying again would not
        # help.
        if isinstance(outcome, (ProtocolError, LimitExceeded, UsageError)):
            _log.error("group %s: a record cannot become a dead letter: %s", self._key.group_id, outcome)
            self._then(True)
            return
        # A fault of ours: the loop's handler reports it.
        if isinstance(outcome, BaseException):
            raise outcome
        letters, self._offset, has_more = outcome
        # The next round reads the log again, behind the last letter.
        if not has_more:
            self._rest = None
        if letters:
            self._append(letters)
        else:
            self._then(True)

    def _letter_of(self, record: Record) -> Record:
        # Few nodes bury anything, and every start would pay for the bus.
        from hutong.bus.durable.records import Death, StoredRecord, dead_letter

        error_type, error_text = REJECTED if self._letter.is_rejected else EXHAUSTED
        death = Death(
            self._key.group_id, error_type, error_text, self._letter.deliveries, first_failure_ms=0, last_failure_ms=0
        )
        stored = StoredRecord(
            self._source.topic_name,
            self._source.index,
            record.offset,
            record.timestamp_ms,
            record.key,
            record.value,
            list(record.headers and [(name, value) for name, value in record.headers]),
            0,
        )
        letter = dead_letter(stored, self._target.name, death)
        return Record(timestamp_ms=self._logs.now_ms, key=letter.key, value=letter.value, headers=letter.headers)

    def _append(self, records: list[Record]) -> None:
        # By the source's partition, so that letters of one partition keep their order.
        partition = self._target.partitions[self._source.index % len(self._target.partitions)]
        batch = build_batch(records)

        def ended(error: HutongError | None) -> None:
            # Durable: only now may the next batch follow, and at the end the source's records be archived.
            if error is None:
                self.bury_next()
                return
            _log.error("group %s: dead letters were refused: %s", self._key.group_id, error)
            # A letter has headers that its record has not, so it may be over the journal's bound: no attempt would
            # succeed.
            is_hopeless = isinstance(error, Refused) and error.code == ErrorCode.MESSAGE_TOO_LARGE
            if is_hopeless:
                self.bury_next()
            else:
                self._then(False)

        elsewhere = self._logs.elsewhere
        if elsewhere is not None and not partition.standing.is_led_here:
            elsewhere.append(partition, batch, ended)
            return
        outcome = partition.log.append([(memoryview(batch), parse_batch_header(batch))], Qos.ALL)
        if isinstance(outcome, HutongError):
            ended(outcome)
        else:
            partition.log.when_safe(Qos.ALL, ended)


def _records(buffers: Sequence[memoryview], first: int, last: int) -> Iterator[Record]:
    """The records from `first` to `last`. Raises ProtocolError, LimitExceeded, UsageError."""
    for view in buffers:
        for header, batch in iterate_batches(view):
            # A read returns whole batches from the one that holds the offset; markers hold no record of a client.
            if header.is_control or header.last_offset < first:
                continue
            for record in iterate_records(batch):
                if record.offset > last:
                    return
                if record.offset >= first:
                    yield record
