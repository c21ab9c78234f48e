"""The thread of one consumer: it polls the client library, so that nothing a handler does keeps it from its group.

Strategy: the client library lets one thread at a time use a consumer, so this thread makes all its calls: poll, commit,
pause, rebalance. Between two polls it reads the requests of the loop; polls are short while one of them is urgent.
Records go to the loop in batches, and few of them may be on their way. A full partition is paused, but only after a
short wait: a pause discards what was fetched ahead. When the client library gives up, a new client takes its place
after a while.

Knows nothing of messages in hand, and decides no offset: its two kinds do (`fetcher.py`, `handlers/consume/taker.py`).
"""

import asyncio
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from hutong.bus.durable.failures import cause_of, is_hopeless

POLL_S: Final = 0.1
RESTLESS_POLL_S: Final = 0.005  # while something waits for the end of a poll
RESTLESS_POLLS: Final = 200
BATCHES_UNDER_WAY_MAX: Final = 4
PATIENCE_S: Final = 0.05  # with a full partition, before it is paused
LEAVE_POLLS_MIN: Final = 4  # an assignment that was on its way comes before its revocation
LEAVE_POLLS_MAX: Final = 2_000
RESTART_S_MIN: Final = 0.5
RESTART_S_MAX: Final = 30.0

Place = tuple[str, int]
"""Topic and partition."""
RecordT = TypeVar("RecordT")


class ThreadListener(Protocol):
    """The callbacks of every kind, on the loop."""

    def committed(self, error: str | None) -> None: ...
    def troubled(self, code: str, text: str, *, is_hopeless: bool) -> None: ...
    def ended(self, error: BaseException | None) -> None:
        """The thread is over."""
        ...


class ConsumerThread(ABC, Generic[RecordT]):
    """One member of a group. Methods without an underscore belong to the loop, the others to the thread.

    `busy_s_max` bounds the wait for a busy loop; with None there is no bound.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: ThreadListener,
        settings: Mapping[str, Any],
        topics: Sequence[str],
        *,
        records_at_once_max: int,
        busy_s_max: float | None = None,
        log: logging.Logger,
    ) -> None:
        self._topics = list(topics)
        self._news = threading.Condition()  # of what the loop asks for
        self._restless_polls = 0
        self._restart_s = RESTART_S_MIN
        self._is_stopping = False
        self._log = log
        self._loop = loop
        self._settings = settings
        self._records_at_once_max = records_at_once_max
        self._busy_s_max = busy_s_max
        self._thread_listener = listener
        self._wanted_paused: frozenset[Place] = frozenset()
        self._paused: frozenset[Place] = frozenset()
        self._batches_under_way = 0
        self._thread = threading.Thread(target=self._run, name=f"consume-{topics[0]}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Leave the group in order, then call `ended`."""
        with self._news:
            self._is_stopping = True
            self._news.notify()

    def pause_place(self, place: Place) -> None:
        """Fetch nothing more of a partition for now."""
        self._want(self._wanted_paused | {place})

    def resume_place(self, place: Place) -> None:
        """Fetch it again."""
        self._want(self._wanted_paused - {place})

    def forget_places(self, places: Collection[Place]) -> None:
        """Let them begin unpaused, should they come again."""
        self._want(self._wanted_paused - frozenset(places))

    # -- what its kinds do

    @abstractmethod
    def _begin_commit(self, consumer: Consumer) -> None:
        """Commit what the loop has asked for, if anything. It reports to `committed`, or `_on_commit` does."""

    @abstractmethod
    def _sorted(self, messages: Sequence[Message]) -> Mapping[Any, Sequence[RecordT]]:
        """Records by their places, as `_arrived` takes them."""

    @abstractmethod
    def _arrived(self, records: Mapping[Any, Sequence[RecordT]]) -> None:
        """Take records. On the loop."""

    @abstractmethod
    def _on_assign(self, consumer: Consumer, places: list[TopicPartition]) -> None: ...

    @abstractmethod
    def _on_revoke(self, consumer: Consumer, places: list[TopicPartition]) -> None: ...

    @abstractmethod
    def _on_lost(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        """Others have them already."""

    @abstractmethod
    def _all_lost(self) -> None:
        """Tell the listener that this member has no partition any more."""

    def _close(self) -> None:
        """End what belongs to the thread, after the last consumer."""

    # -- what they share

    def _want(self, paused: frozenset[Place]) -> None:
        with self._news:
            self._wanted_paused = paused
            self._news.notify()

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            while not self._is_stopping:
                try:
                    self._consume_until_stopped()
                # A client is of no use after a fatal error, such as fencing by a member with the same
                # group.instance.id.
                except KafkaException as error:
                    self._report_trouble(cause_of(error))
                    with self._news:
                        self._news.wait_for(lambda: self._is_stopping, self._restart_s)
                    # Doubled: each new client rebalances the whole group, and a cause that lasts would do so twice a
                    # second.
                    self._restart_s = min(2 * self._restart_s, RESTART_S_MAX)
            self._close()
        except BaseException as error:  # noqa: BLE001  # a supervisor: the listener gets it, whatever it is
            failure = error
        self._report(self._thread_listener.ended, failure)

    def _consume_until_stopped(self) -> None:
        consumer = Consumer({**self._settings, "error_cb": self._erred, "on_commit": self._on_commit})
        self._paused = frozenset()
        try:
            consumer.subscribe(
                self._topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
            )
            while not self._is_stopping:
                self._poll_once(consumer)
        finally:
            self._leave(consumer)
            # In this order: the machine drops its partitions before the waiters of a commit hear of the failure.
            self._all_lost()
            self._report(self._thread_listener.committed, "the consumer was closed")

    def _poll_once(self, consumer: Consumer) -> None:
        self._settle_pauses(consumer)
        self._begin_commit(consumer)
        first = consumer.poll(RESTLESS_POLL_S if self._paused or self._restless_polls else POLL_S)
        self._restless_polls = max(0, self._restless_polls - 1)
        # `consume` alone would wait for a full batch or its time-out; after `poll`, it takes what is there without a
        # wait.
        if first is not None:
            self._hand_over([first, *consumer.consume(self._records_at_once_max - 1, 0)])

    def _settle_pauses(self, consumer: Consumer) -> None:
        with self._news:
            # A loop that is busy stops the fetching here: else its queue would grow without a bound.
            self._news.wait_for(
                lambda: self._is_stopping or self._batches_under_way < BATCHES_UNDER_WAY_MAX, self._busy_s_max
            )
            # `pause` of the client library discards what it has fetched ahead, so a partition that is soon free is not
            # paused.
            if not self._wanted_paused <= self._paused:
                self._news.wait_for(lambda: self._is_stopping or self._wanted_paused <= self._paused, PATIENCE_S)
            wanted = self._wanted_paused
        if wanted != self._paused:
            # The wish may be older than a rebalance: only partitions of this member can be paused.
            owned = {(place.topic, place.partition) for place in consumer.assignment()}
            consumer.pause(_partitions(owned & wanted - self._paused))
            consumer.resume(_partitions(owned & self._paused - wanted))
            self._paused = wanted & owned

    def _hand_over(self, messages: Sequence[Message]) -> None:
        good: list[Message] = []
        for message in messages:
            error = message.error()
            if error is None:
                good.append(message)
            else:
                self._erred(error)
        if good:
            records = self._sorted(good)
            with self._news:
                self._batches_under_way += 1
            self._report(self._take_over, records)

    def _take_over(self, records: Mapping[Any, Sequence[RecordT]]) -> None:
        """On the loop."""
        self._arrived(records)
        with self._news:
            self._batches_under_way -= 1
            self._news.notify()

    def _on_commit(self, error: KafkaError | None, places: list[TopicPartition]) -> None:
        # OffsetCommit has an error for each partition, and the request itself may succeed in spite of it.
        failed = error or next((place.error for place in places if place.error is not None), None)
        self._report(self._thread_listener.committed, None if failed is None else failed.str())

    def _commit_now(self, consumer: Consumer, offsets: list[TopicPartition]) -> None:
        """Wait for it. Raises KafkaException."""
        for done in consumer.commit(offsets=offsets, asynchronous=False) or () if offsets else ():
            if done.error is not None:
                raise KafkaException(done.error)

    def _leave(self, consumer: Consumer) -> None:
        """Give up every partition, then close.

        A rebalance that meets a closing consumer makes the client library wait for itself for ever, and with it
        everything in this process: its callback asks, holding the interpreter, for what a closed group no longer
        answers.
        """
        try:
            consumer.unsubscribe()
            for polls in range(LEAVE_POLLS_MAX):
                consumer.poll(RESTLESS_POLL_S)
                if polls >= LEAVE_POLLS_MIN and not consumer.assignment():
                    break
        except KafkaException as error:
            self._log.warning("left a group that may still count this consumer: %s", error)
        finally:
            consumer.close()

    def _erred(self, error: KafkaError) -> None:
        # Raised through `poll`, which calls this, up to the restart in `_run`.
        if error.fatal():
            raise KafkaException(error)
        self._report_trouble(error)

    def _report_trouble(self, error: KafkaError) -> None:
        """A topic that is not there may still be made; what else is hopeless stays so."""
        hopeless = is_hopeless(error) and error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART
        self._report(self._thread_listener.troubled, error.name(), error.str(), is_hopeless=hopeless)

    def _report(self, listener: Callable[..., None], *arguments: Any, **more: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(lambda: listener(*arguments, **more))
        except RuntimeError:  # the loop has been closed: no listener waits any more
            self._is_stopping = True


def _partitions(places: Collection[Place]) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic, number in sorted(places)]
