"""The producer of one task: in a transaction that stays open for the driver, or one whose records count at once.

Relies on one fact of Spark alone: a worker runs one task at a time.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple

from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import HutongError, Refused, UsageError
from hutong.pipelines.client.clusters import shared_cluster, shared_producer, shared_transactions
from hutong.pipelines.client.identities import Identity
from hutong.pipelines.client.transactions import OpenTransaction, TransactionClient
from hutong.pipelines.sink.commit.record import transactional_id
from hutong.pipelines.sink.options import SinkDelivery, SinkOptions
from hutong.pipelines.sink.producing import BatchProducer
from hutong.pipelines.sink.worker_ids import WorkerIds
from hutong.wire.kafka.error_codes import ErrorCode

NAME_BYTES = 5
ABORT_MS_MAX = 2_000
"""The time that a failed task spends on aborting its transaction; later its successors or the timeout do."""
ADVICE: Mapping[int, str] = {
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "the broker allows shorter transactions only: set the sink's option "
    "kafka.transaction.timeout.ms to what its transaction.max.timeout.ms allows",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "the user may not write transactions: allow it WRITE on "
    "transactional ids and READ on groups that begin with hutong-, or set the sink's option delivery to at-least-once",
}

_ids: dict[int, WorkerIds] = {}  # by process, since a worker may be forked from one that has some


class Opened(NamedTuple):
    """`owner` names the transaction; None where there is none."""

    producer: BatchProducer
    owner: Identity | None


@contextmanager
def open_producer(options: SinkOptions, query_id: str, batch_id: int) -> Iterator[Opened]:
    """For one task. When it fails its transaction is aborted, as far as brokers can be reached."""
    transactions = shared_transactions(options.cluster)
    if not is_exactly_once(options, transactions):
        with shared_producer(options.cluster, options.timeout_ms) as producer:
            yield Opened(producer, None)
        return
    suffix = worker_ids().take_id(query_id, batch_id)
    transaction = _begin(transactions, transactional_id(query_id, suffix), options.transaction_timeout_ms)
    cluster = shared_cluster(options.cluster)
    try:
        yield Opened(BatchProducer(cluster, SystemClock(), options.timeout_ms, transaction), transaction.identity)
    except BaseException:
        with suppress(HutongError):
            transactions.end([transaction.identity], is_commit=False, retry_ms=ABORT_MS_MAX)
        raise


def is_exactly_once(options: SinkOptions, transactions: TransactionClient) -> bool:
    """Decide on exactly-once: as requested, or as the cluster allows.

    Raises UsageError if it is requested and impossible.
    """
    if options.delivery is SinkDelivery.AT_LEAST_ONCE:
        return False
    if transactions.are_supported():
        return True
    if options.delivery is SinkDelivery.EXACTLY_ONCE:
        raise UsageError(
            "the brokers have no transactions that can be looked at (Kafka 3.0 or later): set the sink's option "
            "delivery to at-least-once"
        )
    return False


def worker_ids() -> WorkerIds:
    """Those of this process."""
    process = os.getpid()
    if process not in _ids:
        _ids.clear()
        _ids[process] = WorkerIds(os.urandom(NAME_BYTES).hex())
    return _ids[process]


def _begin(transactions: TransactionClient, name: str, timeout_ms: int) -> OpenTransaction:
    try:
        return OpenTransaction(transactions, name, timeout_ms)
    except Refused as error:
        if error.code in ADVICE:
            raise UsageError(f"{error}: {ADVICE[error.code]}") from error
        raise
