"""The thread of one consumer: it polls the client library, so that nothing a handler does keeps it from its group.

Strategy: the client library lets one thread at a time use a consumer, so this thread makes all its calls: poll, commit,
pause, rebalance. Between two polls it reads the requests of the loop; polls are short while one of them is urgent.
Records go to the loop in batches, and few of them may be on their way. In a rebalance the thread waits for the loop to
answer with the offsets to commit. A full partition is paused, but only after a short wait: a pause discards what was
fetched ahead. When the client library gives up, a new client takes its place after a while.

Offsets are pinned: where a partition is taken over for the first time, and wherever its last owner left in order, its
start is committed with a note (see caution.py) before the first message is handed out.

Knows nothing of messages in hand: the machine decides, on the loop, what may be committed.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final, Protocol

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Message, TopicPartition

from hutong.bus.durable.consume.caution import CautionNote, read_note
from hutong.bus.durable.consume.commits import Positions
from hutong.bus.durable.failures import cause_of, is_hopeless
from hutong.bus.durable.records import StoredRecord

POLL_S: Final = 0.1
RESTLESS_POLL_S: Final = 0.005  # while partitions are paused, which want to be resumed soon, or commits waited for
RESTLESS_POLLS: Final = 200  # about a second of short polls after an urgent commit: others will follow
BATCH_MAX: Final = 500
BATCHES_UNDER_WAY_MAX: Final = 4
PATIENCE_S: Final = 0.05  # with a full partition, before it is paused
ANSWER_S_MAX: Final = 10.0  # for the loop to answer in a rebalance; after it, messages are handled again by another
REQUEST_S_MAX: Final = 30.0
LEAVE_POLLS_MIN: Final = 4  # an assignment that was on its way comes before its revocation
LEAVE_POLLS_MAX: Final = 2000  # ten seconds and what the callbacks take
RESTART_S_MIN: Final = 0.5
RESTART_S_MAX: Final = 30.0

Start = tuple[int, int, CautionNote | None]
"""Partition, first offset, and the note of an owner that crashed."""

_log = logging.getLogger("hutong.bus.durable")


class FetchListener(Protocol):
    """The callbacks of a fetcher, on the loop."""

    def assigned(self, starts: Sequence[Start]) -> None: ...
    def revoked(self, partitions: Sequence[int], answer: "Future[dict[int, int]]") -> None:
        """`answer` gets the offsets to leave with."""
        ...

    def lost(self, partitions: Sequence[int] | None) -> None:
        """Others have them already. None: all."""
        ...

    def arrived(self, records: Mapping[int, Sequence[StoredRecord]]) -> None: ...
    def committed(self, error: str | None) -> None: ...
    def troubled(self, code: str, text: str, *, is_hopeless: bool) -> None: ...
    def ended(self, error: BaseException | None) -> None:
        """The thread is over."""
        ...


class Fetcher:
    """One member of a group that reads one topic. Its public methods belong to the loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: FetchListener,
        settings: Mapping[str, Any],
        topic: str,
        *,
        from_latest: bool,
    ) -> None:
        self._loop = loop
        self._listener = listener
        self._settings = settings
        self._topic = topic
        self._from_latest = from_latest
        self._restart_s = RESTART_S_MIN
        self._commit: Positions | None = None  # asked for, not begun
        self._restless_polls = 0
        self._wanted_paused: frozenset[int] = frozenset()
        self._paused: frozenset[int] = frozenset()
        self._batches_under_way = 0
        self._is_stopping = False
        self._news = threading.Condition()  # of all the above
        self._thread = threading.Thread(target=self._run, name=f"durable-fetch-{topic}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Leave the group in order, then call `ended`."""
        with self._news:
            self._is_stopping = True
            self._news.notify()

    def pause(self, partition: int) -> None:
        self._want(self._wanted_paused | {partition})

    def resume(self, partition: int) -> None:
        self._want(self._wanted_paused - {partition})

    def forget(self, partitions: Sequence[int]) -> None:
        self._want(self._wanted_paused - frozenset(partitions))

    def commit(self, positions: Positions, is_urgent: bool) -> None:
        """Commit, then call `committed`; one at a time."""
        with self._news:
            self._commit = positions
            # No notify: the thread is in `poll` and not in a wait. Short polls make the next commits of a caution
            # quick.
            if is_urgent:
                self._restless_polls = RESTLESS_POLLS

    def _want(self, paused: frozenset[int]) -> None:
        with self._news:
            self._wanted_paused = paused
            self._news.notify()

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            while not self._is_stopping:
                try:
                    self._fetch_until_stopped()
                # A client is of no use after a fatal error, such as fencing by a member with the same
                # group.instance.id.
                except KafkaException as error:
                    self._report_trouble(cause_of(error))
                    with self._news:
                        self._news.wait_for(lambda: self._is_stopping, self._restart_s)
                    # Doubled: each new client rebalances the whole group, and a cause that lasts would do so twice a
                    # second.
                    self._restart_s = min(2 * self._restart_s, RESTART_S_MAX)
        except BaseException as error:  # noqa: BLE001  # a supervisor: the listener gets it, whatever it is
            failure = error
        self._report(self._listener.ended, failure)

    def _fetch_until_stopped(self) -> None:
        consumer = Consumer({**self._settings, "error_cb": self._erred, "on_commit": self._on_commit})
        self._paused = frozenset()
        try:
            consumer.subscribe(
                [self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
            )
            while not self._is_stopping:
                self._poll_once(consumer)
        finally:
            _leave(consumer)
            # In this order: the machine drops its partitions before the waiters of a commit hear of the failure.
            self._report(self._listener.lost, None)
            self._report(self._listener.committed, "the consumer was closed")

    def _poll_once(self, consumer: Consumer) -> None:
        self._settle_pauses(consumer)
        positions, self._commit = self._commit, None
        if positions is not None:
            self._begin_commit(consumer, positions)
        first = consumer.poll(RESTLESS_POLL_S if self._paused or self._restless_polls else POLL_S)
        self._restless_polls = max(0, self._restless_polls - 1)
        # `consume` alone would wait for a full batch or its time-out; after `poll`, it takes what is there without a
        # wait.
        if first is not None:
            self._hand_over([first, *consumer.consume(BATCH_MAX - 1, 0)])

    def _begin_commit(self, consumer: Consumer, positions: Positions) -> None:
        try:
            # Asynchronous: a synchronous commit would hold up fetching for a round trip, five times a second.
            consumer.commit(offsets=_places(self._topic, positions), asynchronous=True)
        except KafkaException as error:
            self._report(self._listener.committed, cause_of(error).str())

    def _on_commit(self, error: KafkaError | None, places: list[TopicPartition]) -> None:
        # OffsetCommit has an error for each partition, and the request itself may succeed in spite of it.
        failed = error or next((place.error for place in places if place.error is not None), None)
        self._report(self._listener.committed, None if failed is None else failed.str())

    def _settle_pauses(self, consumer: Consumer) -> None:
        with self._news:
            # A loop that is busy stops the fetching here: else its queue would grow without a bound.
            self._news.wait_for(lambda: self._is_stopping or self._batches_under_way < BATCHES_UNDER_WAY_MAX)
            # `pause` of the client library discards what it has fetched ahead, so a partition that is soon free is not
            # paused.
            if not self._wanted_paused <= self._paused:
                self._news.wait_for(lambda: self._is_stopping or self._wanted_paused <= self._paused, PATIENCE_S)
            wanted = self._wanted_paused
        if wanted != self._paused:
            # The wish may be older than a rebalance: only partitions of this member can be paused.
            owned = {place.partition for place in consumer.assignment()}
            consumer.pause(self._places(owned & wanted - self._paused))
            consumer.resume(self._places(owned & self._paused - wanted))
            self._paused = wanted & owned

    def _hand_over(self, messages: Sequence[Message]) -> None:
        records: dict[int, list[StoredRecord]] = {}
        for message in messages:
            error = message.error()
            if error is not None:
                self._erred(error)
            else:
                record = record_of_message(message)
                records.setdefault(record.partition, []).append(record)
        if records:
            with self._news:
                self._batches_under_way += 1
            self._report(self._take_over, records)

    def _take_over(self, records: Mapping[int, Sequence[StoredRecord]]) -> None:
        """On the loop."""
        self._listener.arrived(records)
        with self._news:
            self._batches_under_way -= 1
            self._news.notify()

    def _on_assign(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        starts = []
        for place in consumer.committed(places, REQUEST_S_MAX):
            # Raised, so that a new client asks again: to begin at a guessed offset would skip or repeat messages.
            if place.error is not None:
                raise KafkaException(place.error)
            starts.append(self._start_of(consumer, place))
        orderly = {partition: (offset, str(CautionNote())) for partition, offset, note in starts if note is None}
        # From now on a crash leaves this note behind. Where one of a crash is there already, it stays until it is
        # examined.
        if orderly:
            _commit(consumer, self._topic, orderly)
        consumer.incremental_assign([TopicPartition(self._topic, partition, offset) for partition, offset, _ in starts])
        consumer.resume(places)  # one that was paused when it was taken away would stay so
        self._report(self._listener.assigned, starts)
        self._restart_s = RESTART_S_MIN

    def _start_of(self, consumer: Consumer, place: TopicPartition) -> Start:
        # The group has committed here before; `from_latest` is for partitions without an offset alone.
        if place.offset != OFFSET_INVALID:
            return place.partition, place.offset, read_note(place.metadata)
        low, high = consumer.get_watermark_offsets(place, REQUEST_S_MAX)
        return place.partition, high if self._from_latest else low, None

    def _on_revoke(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        answer: Future[dict[int, int]] = Future()
        self._report(self._listener.revoked, [place.partition for place in places], answer)
        try:
            # The loop may be blocked by a handler: then the partitions go without a commit, and messages come again.
            positions = answer.result(ANSWER_S_MAX)
            _commit(consumer, self._topic, {partition: (offset, "") for partition, offset in positions.items()})
        except (TimeoutError, KafkaException) as error:
            _log.warning("%s: left without a commit, some messages come again: %s", self._topic, error)
        consumer.incremental_unassign(places)

    def _on_lost(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        self._report(self._listener.lost, [place.partition for place in places])
        consumer.incremental_unassign(places)

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

    def _places(self, partitions: set[int] | frozenset[int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, partition) for partition in sorted(partitions)]


def _leave(consumer: Consumer) -> None:
    """Give up every partition, then close.

    A rebalance that meets a closing consumer makes the client library wait for itself for ever, and with it everything
    in this process: its callback asks, holding the interpreter, for what a closed group no longer answers.
    """
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


def _commit(consumer: Consumer, topic: str, positions: Positions) -> None:
    """Wait for it. Raises KafkaException."""
    for done in consumer.commit(offsets=_places(topic, positions), asynchronous=False) or () if positions else ():
        if done.error is not None:
            raise KafkaException(done.error)


def _places(topic: str, positions: Positions) -> list[TopicPartition]:
    return [TopicPartition(topic, number, offset, metadata=text) for number, (offset, text) in positions.items()]


def record_of_message(message: Any) -> StoredRecord:
    """The record in a message of the client library."""
    key, value, headers = message.key(), message.value(), message.headers() or ()
    size_bytes = len(key or b"") + len(value or b"") + sum(len(name) + len(text or b"") for name, text in headers)
    return StoredRecord(
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        key,
        value,
        headers,
        size_bytes,
    )
