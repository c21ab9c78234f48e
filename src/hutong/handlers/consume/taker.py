"""A handlers' member of a group: its topics, read from what is committed, with transactions where they are asked for.

Strategy: commits and transactions are carried out between two polls. In a rebalance the thread asks the loop for the
last positions and waits for them, within a bound.

Knows no machine and no models.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final, Protocol

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from hutong.bus.durable.consume.consumer_thread import RESTART_S_MIN, RESTLESS_POLLS, ConsumerThread, ThreadListener
from hutong.bus.durable.failures import cause_of
from hutong.bus.durable.records import OutgoingRecord
from hutong.handlers.consume.messages import Place, TakenRecord
from hutong.handlers.consume.transactor import TransactionUnknown, Transactor

RECORDS_AT_ONCE_MAX: Final = 1_000
ANSWER_SLACK_S: Final = 5.0  # beyond the grace of handlers, for a loop that is blocked

Offsets = Mapping[Place, int]
LastWords = tuple[Offsets, Sequence[OutgoingRecord]]
"""Offsets to commit, and the records of their transaction."""

_log = logging.getLogger("hutong.handlers")


class TakingListener(ThreadListener, Protocol):
    """The callbacks of a taker, on the loop."""

    def given(self, places: Sequence[Place]) -> None: ...
    def leaving(self, places: Sequence[Place], answer: "Future[LastWords]") -> None: ...
    def gone(self, places: Sequence[Place] | None) -> None: ...
    def taken(self, records: Mapping[Place, Sequence[TakenRecord]]) -> None: ...


class RecordTaker(ConsumerThread[TakenRecord]):
    """One member of a group. Its public methods belong to the loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: TakingListener,
        settings: Mapping[str, Any],
        topics: Sequence[str],
        grace_s: float,
        transactor: Transactor | None,
    ) -> None:
        self._answer_s = grace_s + ANSWER_SLACK_S
        super().__init__(
            loop,
            listener,
            settings,
            topics,
            records_at_once_max=RECORDS_AT_ONCE_MAX,
            busy_s_max=self._answer_s,
            log=_log,
        )
        self._listener = listener
        self._transactor = transactor
        self._commit: LastWords | None = None  # asked for, not begun
        self._owned: set[Place] = set()  # of the thread alone

    def commit(self, words: LastWords) -> None:
        """Commit, then call `committed`; one at a time."""
        # No notify: the thread is in `poll`, and looks afterwards.
        self._commit = words

    def _begin_commit(self, consumer: Consumer) -> None:
        words, self._commit = self._commit, None
        if words is None:
            return
        # Asked for before a rebalance: another member may have committed further since, and transactions of it.
        if not words[0].keys() <= self._owned:
            self._report(self._listener.committed, "a partition was taken away meanwhile")
            return
        try:
            if self._transactor is not None:
                self._transactor.commit(consumer, *words)
                self._report(self._listener.committed, None)
            else:
                # Asynchronous: a synchronous commit would hold up taking for a round trip.
                consumer.commit(offsets=_positions(words[0]), asynchronous=True)
        except KafkaException as error:
            # Up to the restart in `_run`: it drops all partitions, and begins again at what is committed.
            if isinstance(error, TransactionUnknown):
                raise
            self._report(self._listener.committed, cause_of(error).str())

    def _sorted(self, messages: Sequence[Message]) -> dict[Place, list[TakenRecord]]:
        # While records come, a commit or a pause waits for the end of a short poll.
        self._restless_polls = RESTLESS_POLLS
        records: dict[Place, list[TakenRecord]] = {}
        for message in messages:
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            assert topic is not None and partition is not None and offset is not None, "it is a record"  # noqa: PT018
            key = message.key()
            record = TakenRecord(offset, key, len(message) + len(key or b""), message)
            # No `setdefault`: it would make a list for each record, of which there are 1,000 at once.
            found = records.get((topic, partition))
            if found is None:
                records[topic, partition] = [record]
            else:
                found.append(record)
        return records

    def _arrived(self, records: Mapping[Place, Sequence[TakenRecord]]) -> None:
        self._listener.taken(records)

    def _all_lost(self) -> None:
        self._owned.clear()
        self._report(self._listener.gone, None)

    def _close(self) -> None:
        if self._transactor is not None:
            self._transactor.close()

    # The three below assign nothing: then the client library does, as the strategy of the group wants it.
    def _on_assign(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        given = [(place.topic, place.partition) for place in places]
        self._owned.update(given)
        self._report(self._listener.given, given)
        self._restart_s = RESTART_S_MIN

    def _on_revoke(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        answer: Future[LastWords] = Future()
        leaving = [(place.topic, place.partition) for place in places]
        self._report(self._listener.leaving, leaving, answer)
        try:
            # The loop may be blocked by a handler: then the partitions go without a commit, and messages come again.
            words = answer.result(self._answer_s)
            # Asked for before the answer, so it comes first.
            asked, self._commit = self._commit, None
            if asked is not None:
                self._leave_with(consumer, asked)
                self._report(self._listener.committed, None)
            self._leave_with(consumer, words)
        except (TimeoutError, KafkaException) as error:
            _log.warning("%s: left without a commit, some messages come again: %s", ", ".join(self._topics), error)
            self._report(self._listener.committed, "a partition was taken away")
        self._owned.difference_update(leaving)
        self._report(self._listener.gone, leaving)

    def _leave_with(self, consumer: Consumer, words: LastWords) -> None:
        """Commit, and wait for it. Raises KafkaException."""
        offsets, records = words
        # Also without any records: offsets of a transactional group go by transactions alone (KIP-447).
        if self._transactor is not None:
            self._transactor.commit(consumer, offsets, records)
        else:
            self._commit_now(consumer, _positions(offsets))

    def _on_lost(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        lost = [(place.topic, place.partition) for place in places]
        self._owned.difference_update(lost)
        self._report(self._listener.gone, lost)


def _positions(offsets: Offsets) -> list[TopicPartition]:
    return [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]
