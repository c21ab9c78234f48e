"""The client library's side of a consumer: the only thread that touches it.

Strategy: one thread polls, so a handler that is slow never costs the membership in the group, and the loop never waits
for the network. It hands records over in batches, and carries commits and transactions out between two polls. In a
rebalance it asks the loop for the last positions and waits for them, within a bound.

Knows no machine and no models.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from hutong.bus.durable.failures import cause_of, is_hopeless
from hutong.bus.durable.records import OutgoingRecord
from hutong.handlers.consume.messages import Place, TakenRecord
from hutong.handlers.consume.transactor import TransactionUnknown, Transactor

POLL_S: Final = 0.1
RESTLESS_POLL_S: Final = 0.005  # while records came lately: a commit or a pause waits for the end of a poll
RESTLESS_POLLS: Final = 200
RECORDS_AT_ONCE_MAX: Final = 1_000
BATCHES_UNDER_WAY_MAX: Final = 4
PATIENCE_S: Final = 0.05  # with a full partition, before it is paused
ANSWER_SLACK_S: Final = 5.0  # beyond the grace of handlers, for a loop that is blocked
LEAVE_POLLS_MIN: Final = 4  # an assignment that was on its way comes before its revocation
LEAVE_POLLS_MAX: Final = 2_000
RESTART_S_MIN: Final = 0.5
RESTART_S_MAX: Final = 30.0

Offsets = Mapping[Place, int]
LastWords = tuple[Offsets, Sequence[OutgoingRecord]]
"""Offsets to commit, and the records of their transaction."""

_log = logging.getLogger("hutong.handlers")


class TakingListener(Protocol):
    """The callbacks of a taker, on the loop."""

    def given(self, places: Sequence[Place]) -> None: ...
    def leaving(self, places: Sequence[Place], answer: "Future[LastWords]") -> None: ...
    def gone(self, places: Sequence[Place] | None) -> None: ...
    def taken(self, records: Mapping[Place, Sequence[TakenRecord]]) -> None: ...
    def committed(self, error: str | None) -> None: ...
    def troubled(self, code: str, text: str, *, is_hopeless: bool) -> None: ...
    def ended(self, error: BaseException | None) -> None: ...


class RecordTaker:
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
        self._loop = loop
        self._listener = listener
        self._settings = settings
        self._topics = list(topics)
        self._answer_s = grace_s + ANSWER_SLACK_S
        self._transactor = transactor
        self._restart_s = RESTART_S_MIN
        self._commit: LastWords | None = None  # asked for, not begun
        self._restless_polls = 0
        self._wanted_paused: frozenset[Place] = frozenset()
        self._paused: frozenset[Place] = frozenset()
        self._batches_under_way = 0
        self._owned: set[Place] = set()  # of the thread alone
        self._is_stopping = False
        self._news = threading.Condition()  # of all the above
        self._thread = threading.Thread(target=self._run, name=f"take-{topics[0]}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Leave the group in order, then call `ended`."""
        with self._news:
            self._is_stopping = True
            self._news.notify()

    def pause(self, place: Place) -> None:
        self._want(self._wanted_paused | {place})

    def resume(self, place: Place) -> None:
        self._want(self._wanted_paused - {place})

    def forget(self, places: Sequence[Place]) -> None:
        self._want(self._wanted_paused - frozenset(places))

    def commit(self, words: LastWords) -> None:
        """Commit, then call `committed`; one at a time."""
        # No notify: the thread is in `poll`, and looks afterwards.
        self._commit = words

    def _want(self, paused: frozenset[Place]) -> None:
        with self._news:
            self._wanted_paused = paused
            self._news.notify()

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            while not self._is_stopping:
                try:
                    self._take_until_stopped()
                # A client is of no use after a fatal error, such as fencing by a member with the same
                # group.instance.id, or a transaction of unknown outcome.
                except KafkaException as error:
                    self._report_trouble(cause_of(error))
                    with self._news:
                        self._news.wait_for(lambda: self._is_stopping, self._restart_s)
                    # Doubled: each new client rebalances the whole group.
                    self._restart_s = min(2 * self._restart_s, RESTART_S_MAX)
            if self._transactor is not None:
                self._transactor.close()
        except BaseException as error:  # noqa: BLE001  # a supervisor: the listener gets it, whatever it is
            failure = error
        self._report(self._listener.ended, failure)

    def _take_until_stopped(self) -> None:
        consumer = Consumer({**self._settings, "error_cb": self._erred, "on_commit": self._on_commit})
        self._paused = frozenset()
        self._owned.clear()
        try:
            consumer.subscribe(
                self._topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
            )
            while not self._is_stopping:
                self._poll_once(consumer)
        finally:
            _leave(consumer)
            # In this order: the machine drops its partitions before it hears that a commit failed.
            self._report(self._listener.gone, None)
            self._report(self._listener.committed, "the consumer was closed")

    def _poll_once(self, consumer: Consumer) -> None:
        self._settle_pauses(consumer)
        words, self._commit = self._commit, None
        if words is not None:
            self._begin_commit(consumer, words)
        first = consumer.poll(RESTLESS_POLL_S if self._paused or self._restless_polls else POLL_S)
        self._restless_polls = max(0, self._restless_polls - 1)
        # `consume` alone would wait for a full batch or its time-out; after `poll`, it takes what is there.
        if first is not None:
            self._restless_polls = RESTLESS_POLLS
            self._hand_over([first, *consumer.consume(RECORDS_AT_ONCE_MAX - 1, 0)])

    def _begin_commit(self, consumer: Consumer, words: LastWords) -> None:
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

    def _on_commit(self, error: KafkaError | None, places: list[TopicPartition]) -> None:
        # OffsetCommit has an error for each partition, and the request itself may succeed in spite of it.
        failed = error or next((place.error for place in places if place.error is not None), None)
        self._report(self._listener.committed, None if failed is None else failed.str())

    def _settle_pauses(self, consumer: Consumer) -> None:
        with self._news:
            # A loop that is busy stops the taking here: else its queue would grow without a bound.
            self._news.wait_for(
                lambda: self._is_stopping or self._batches_under_way < BATCHES_UNDER_WAY_MAX, self._answer_s
            )
            # `pause` of the client library discards what it has fetched ahead, so a partition that is soon free is not
            # paused.
            if not self._wanted_paused <= self._paused:
                self._news.wait_for(lambda: self._is_stopping or self._wanted_paused <= self._paused, PATIENCE_S)
            wanted = self._wanted_paused
        if wanted != self._paused:
            # The wish may be older than a rebalance: only partitions of this member can be paused.
            owned = {(place.topic, place.partition) for place in consumer.assignment()}
            consumer.pause(_places(owned & wanted - self._paused))
            consumer.resume(_places(owned & self._paused - wanted))
            self._paused = wanted & owned

    def _hand_over(self, messages: Sequence[Any]) -> None:
        records: dict[Place, list[TakenRecord]] = {}
        for message in messages:
            error = message.error()
            if error is not None:
                self._erred(error)
                continue
            key = message.key()
            record = TakenRecord(message.offset(), key, len(message) + len(key or b""), message)
            place = (message.topic(), message.partition())
            found = records.get(place)
            if found is None:
                records[place] = [record]
            else:
                found.append(record)
        if records:
            with self._news:
                self._batches_under_way += 1
            self._report(self._take_over, records)

    def _take_over(self, records: Mapping[Place, Sequence[TakenRecord]]) -> None:
        """On the loop."""
        self._listener.taken(records)
        with self._news:
            self._batches_under_way -= 1
            self._news.notify()

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
                self._commit_now(consumer, asked)
                self._report(self._listener.committed, None)
            self._commit_now(consumer, words)
        except (TimeoutError, KafkaException) as error:
            _log.warning("%s: left without a commit, some messages come again: %s", ", ".join(self._topics), error)
            self._report(self._listener.committed, "a partition was taken away")
        self._owned.difference_update(leaving)
        self._report(self._listener.gone, leaving)

    def _commit_now(self, consumer: Consumer, words: LastWords) -> None:
        """Wait for it. Raises KafkaException."""
        offsets, records = words
        if self._transactor is not None:
            self._transactor.commit(consumer, offsets, records)
        elif offsets:
            for done in consumer.commit(offsets=_positions(offsets), asynchronous=False) or ():
                if done.error is not None:
                    raise KafkaException(done.error)

    def _on_lost(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        lost = [(place.topic, place.partition) for place in places]
        self._owned.difference_update(lost)
        self._report(self._listener.gone, lost)

    def _erred(self, error: KafkaError) -> None:
        # Raised through `poll`, which calls this, up to the restart in `_run`.
        if error.fatal():
            raise KafkaException(error)
        self._report_trouble(error)

    def _report_trouble(self, error: KafkaError) -> None:
        """A topic that is not there may still be made; what else is hopeless stays so."""
        hopeless = is_hopeless(error) and error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART
        self._report(self._listener.troubled, error.name(), error.str(), is_hopeless=hopeless)

    def _report(self, listener: Callable[..., None], *arguments: Any, **more: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(lambda: listener(*arguments, **more))
        except RuntimeError:  # the loop has been closed: no listener waits any more
            self._is_stopping = True


def _leave(consumer: Consumer) -> None:
    """Give up every partition, then close: a rebalance that meets a closing consumer would wait for itself for ever."""
    try:
        consumer.unsubscribe()
        for polls in range(LEAVE_POLLS_MAX):
            consumer.poll(RESTLESS_POLL_S)
            if polls >= LEAVE_POLLS_MIN and not consumer.assignment():
                break
    except KafkaException as error:
        _log.warning("left a group that may still count this consumer: %s", error)
    finally:
        consumer.close()


def _positions(offsets: Offsets) -> list[TopicPartition]:
    return [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]


def _places(places: set[Place] | frozenset[Place]) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic, number in sorted(places)]
