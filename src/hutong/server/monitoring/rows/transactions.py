"""Transactions: how many are known, and how they ended.

Knows nothing of their producers.
"""

from collections.abc import Callable, Iterator
from typing import Final

from hutong.server.monitoring.exposition import braced
from hutong.server.monitoring.metric import COUNTER, GAUGE, Labelled, Read, Surveyed, metric, surveyed
from hutong.server.monitoring.sources import Sources
from hutong.server.monitoring.survey.result import Survey
from hutong.transactions.driver import TransactionCoordinator


def _ended_transactions(sources: Sources) -> Labelled:
    if coordinators := sources.transactions():
        yield ("commit",), sum(each.committed_total for each in coordinators)
        yield ("abort",), sum(each.aborted_total for each in coordinators)


def _from_transactions(read: Callable[[TransactionCoordinator], int]) -> Read:
    def total(sources: Sources) -> Labelled:
        if coordinators := sources.transactions():
            yield (), sum(map(read, coordinators))

    return total


def _states(survey: Survey) -> Iterator[tuple[str, int]]:
    return ((braced(("state",), (state,)), count) for state, count in sorted(survey.transactions.items()))


METRICS: Final = (
    metric("hutong_transactional_ids", GAUGE, "Transactional ids that the node knows.", _from_transactions(len)),
    metric(
        "hutong_transactions_total", COUNTER, "Transactions that have ended, by how.", _ended_transactions, "outcome"
    ),
    metric(
        "hutong_transactions_timed_out_total",
        COUNTER,
        "Transactions that were aborted because they lasted longer than their producer's timeout.",
        _from_transactions(lambda transactions: transactions.timed_out_total),
    ),
)

SURVEYED: Final[tuple[Surveyed, ...]] = (
    surveyed("hutong_transactions", GAUGE, "Transactional ids by the state of their transaction.", _states, "state"),
    surveyed(
        "hutong_transaction_oldest_seconds",
        GAUGE,
        "How long the oldest transaction is open; 0 where none is. Committed readers wait for it.",
        lambda survey: [("", survey.oldest_transaction_ms / 1000)],
    ),
)
