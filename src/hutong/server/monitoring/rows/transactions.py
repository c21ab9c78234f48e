"""Transactions: how many are known, and how they ended.

Knows nothing of their producers.
"""

from collections.abc import Callable
from typing import Final

from hutong.server.monitoring.metric import COUNTER, GAUGE, Labelled, Read, metric
from hutong.server.monitoring.sources import Sources
from hutong.transactions.driver import TransactionCoordinator


def _ended_transactions(sources: Sources) -> Labelled:
    if sources.transactions is not None:
        yield ("commit",), sources.transactions.committed_total
        yield ("abort",), sources.transactions.aborted_total


def _from_transactions(read: Callable[[TransactionCoordinator], int]) -> Read:
    return lambda sources: [((), read(sources.transactions))] if sources.transactions is not None else []


METRICS: Final = (
    metric("hutong_transactional_ids", GAUGE, "Transactional ids that the node knows.", _from_transactions(len)),
    metric(
        "hutong_transactions_total",
        COUNTER,
        "Transactions that have ended, by how.",
        _ended_transactions,
        "outcome",
    ),
    metric(
        "hutong_transactions_timed_out_total",
        COUNTER,
        "Transactions that were aborted because they lasted longer than their producer had said.",
        _from_transactions(lambda transactions: transactions.timed_out_total),
    ),
)
