"""The journal against power loss, at every moment hypothesis can think of: the histories of `journal_history`.

`TEST_CRASH_EXAMPLES` runs more of them than the default. A history that fails is printed step by step, with every
choice that was made in it, and can be run again by the line that hypothesis prints with it.
"""

import os

import hypothesis
from hypothesis import HealthCheck, Phase
from tests.fault.journal_history import JournalHistory
from tests.fault.transaction_history import TransactionHistory

EXAMPLES = int(os.environ.get("TEST_CRASH_EXAMPLES", "100"))

SETTINGS = hypothesis.settings(
    max_examples=EXAMPLES,
    stateful_step_count=60,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
)

TestJournalHistory = JournalHistory.TestCase
TestJournalHistory.settings = SETTINGS
TestTransactionHistory = TransactionHistory.TestCase
TestTransactionHistory.settings = hypothesis.settings(SETTINGS, max_examples=EXAMPLES // 3)
