"""Appends of records that come one by one: RocketMQ's messages, and delayed records on their way.

An acknowledged message is on the disk of every in-sync replica (QoS ALL), as RocketMQ's SYNC_FLUSH with SYNC_MASTER. A
topic with `hutong.qos=receive` acknowledges from memory, as ASYNC_FLUSH. A message with the property WAIT=false, for
which RocketMQ does not wait for the flush, is not waited for either.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from hutong.broker.kafka.k00_produce import ACKS_ALL, qos_for
from hutong.broker.topics.partition import Partition
from hutong.foundation.errors import Expired, HutongError, LimitExceeded
from hutong.foundation.waiting.pending import Continuation
from hutong.foundation.waiting.table import NEVER
from hutong.journal.append.log_appends import Appended
from hutong.journal.append.qos import Qos
from hutong.wire.kafka.batch.records import Record, build_batch, parse_batch_header

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hutong.broker.broker import Broker
    from hutong.foundation.waiting.table import Owner

FLUSH_WAIT_MS: Final = 5_000  # as `syncFlushTimeout`: then the answer says that the message is stored and not yet safe


class Companion(NamedTuple):
    """A record of another log in the same partition group, which is kept or lost together with those of an append."""

    partition: Partition
    record: Record


class StoredRecords:
    """The outcome of an append. `is_flushed` is False where the disk took longer than FLUSH_WAIT_MS."""

    __slots__ = ("base_offset", "is_flushed")

    def __init__(self, base_offset: int, *, is_flushed: bool) -> None:
        self.base_offset = base_offset
        self.is_flushed = is_flushed


def append_records(
    broker: Broker,
    partition: Partition,
    records: Sequence[Record],
    owner: Owner,
    then: Continuation[StoredRecords],
    *,
    waits: bool = True,
    is_durable: bool = False,
    companion: Companion | None = None,
) -> None:
    """Append the records as one batch. See `append_batch`."""
    batch = build_batch(records)
    append_batch(broker, partition, batch, owner, then, waits=waits, is_durable=is_durable, companion=companion)


def append_batch(
    broker: Broker,
    partition: Partition,
    batch: bytes,
    owner: Owner,
    then: Continuation[StoredRecords],
    *,
    waits: bool = True,
    is_durable: bool = False,
    companion: Companion | None = None,
) -> None:
    """Append a batch of the node's own making; `then` is called once, also at once.

    It gets the first offset, or the error: Refused, LimitExceeded, StorageError. While too much is unflushed the append
    waits, and ends with its `owner`. One that `is_durable` waits for the disk on every topic. With a `companion` both
    are on the disk when it is called, however long that takes.
    """
    # The node's own: a client's message is handed over to the leader first.
    if not broker.cluster.is_alone and not partition.standing.is_led_here:
        from hutong.broker.produce.remote_appends import append_remotely  # late: a node alone never needs it

        append_remotely(broker.cluster, partition, batch, partial(_stored_remotely, then))
        return
    # Held rather than refused: clients would send a refused message to another broker, and there is none.
    if partition.group in broker.congestion.groups:

        def caught_up(error: HutongError | None) -> None:
            if error is None:
                append_batch(
                    broker, partition, batch, owner, then, waits=waits, is_durable=is_durable, companion=companion
                )
            # The client has gone meanwhile, and hears nothing of it; or the node stops.
            else:
                then(error)

        try:
            broker.congestion.when_clear(partition.group, owner, caught_up)
        except LimitExceeded as error:
            then(error)
        return
    try:
        qos = qos_of(partition, is_durable=is_durable or companion is not None) if waits else Qos.ONE_WAY
        partition.check_served()
    except HutongError as error:
        then(error)
        return
    _append_here(partition, batch, qos, companion, then)


def _append_here(
    partition: Partition,
    batch: bytes,
    qos: Qos,
    companion: Companion | None,
    then: Continuation[StoredRecords],
) -> None:
    appended = _append(partition, batch, qos, companion)
    # Returned by the log, not raised: see `LogAppends.append`.
    if isinstance(appended, HutongError):
        then(appended)
        return
    base_offset = appended.base_offset
    if appended.is_safe:
        then(StoredRecords(base_offset, is_flushed=True))
        return

    def safe(error: HutongError | None) -> None:
        # RocketMQ's FLUSH_DISK_TIMEOUT, which its clients take for stored.
        if isinstance(error, Expired):
            then(StoredRecords(base_offset, is_flushed=False))
        else:
            then(StoredRecords(base_offset, is_flushed=True) if error is None else error)

    partition.log.when_safe(qos, safe, FLUSH_WAIT_MS if companion is None else NEVER)


def _append(partition: Partition, batch: bytes, qos: Qos, companion: Companion | None) -> Appended | HutongError:
    if companion is None:
        return partition.log.append([(memoryview(batch), parse_batch_header(batch))], qos)
    other = build_batch([companion.record])
    partition.log.begin_together(len(batch) + len(other))
    appended = partition.log.append([(memoryview(batch), parse_batch_header(batch))], qos)
    if isinstance(appended, HutongError):
        return appended
    outcome = companion.partition.log.append([(memoryview(other), parse_batch_header(other))], qos)
    # One journal has both, and it has just taken the first.
    assert not isinstance(outcome, HutongError), outcome
    return appended


def _stored_remotely(then: Continuation[StoredRecords], outcome: int | HutongError) -> None:
    then(outcome if isinstance(outcome, HutongError) else StoredRecords(outcome, is_flushed=True))


def stored_there(
    partition: Partition,
    then: Continuation[tuple[Partition, StoredRecords]],
    outcome: StoredRecords | HutongError,
) -> None:
    """Pass an outcome on together with the partition: as a `partial`, the continuation of an append."""
    then(outcome if isinstance(outcome, HutongError) else (partition, outcome))


def qos_of(partition: Partition, *, is_durable: bool = False) -> Qos:
    """The QoS that a message waits for. Raises Refused if there are too few replicas."""
    return Qos.RECEIVE if partition.config.receive_qos and not is_durable else qos_for(partition, ACKS_ALL)
