"""Transactions: how many are in which state, and for how long the oldest is open.

Knows nothing of their producers.
"""

from collections.abc import Iterator

from hutong.server.monitoring.survey.result import StepBudget, Survey
from hutong.transactions.driver import TransactionCoordinator
from hutong.transactions.states import TransactionState

_OPEN = (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


def survey_transactions(transactions: TransactionCoordinator, now_ms: int, survey: Survey) -> Iterator[None]:
    """Fill in the transactions of `survey`, a step at a time."""
    pace = StepBudget()
    for transactional_id in transactions.ids():
        transaction = transactions.get(transactional_id)
        if transaction is None:
            continue
        record = transaction.record
        survey.transactions[record.state.label] += 1
        if record.state in _OPEN:
            survey.oldest_transaction_ms = max(survey.oldest_transaction_ms, now_ms - record.started_at_ms)
        if pace.is_over():
            yield
