"""Waits that many clients share."""

import pytest

from hutong.foundation.errors import HutongError, LimitExceeded
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.fair import FairWaits
from hutong.foundation.waiting.table import Owner, WaitTable


def test_one_client_leaves_waits_to_others_and_every_end_frees_its_place() -> None:
    table: WaitTable[int] = WaitTable("test", TimerWheel(0), 100)
    waits, ended, owner = FairWaits(table, 100), list[int | HutongError](), Owner()
    for number in range(75):
        waits.park(number, ended.append, owner=owner, holder="flood")
    with pytest.raises(LimitExceeded):
        waits.park(75, ended.append, owner=owner, holder="flood")
    waits.park("own", ended.append, owner=None, holder="other")
    waits.check_invariants()
    table.resume(0, 7)
    table.resume("own", 8)
    waits.check_invariants()
    waits.park(75, ended.append, owner=owner, holder="flood")
    owner.end()
    waits.check_invariants()
    assert len(table) == 0
    assert ended[:2] == [7, 8]
    assert len(ended) == 77
    waits.park("after", ended.append, owner=owner, holder="flood")  # its connection has ended already
    waits.check_invariants()


def test_a_lot_that_is_full_for_others_takes_nothing() -> None:
    table: WaitTable[int] = WaitTable("test", TimerWheel(0), 0)
    waits = FairWaits(table, 100)
    with pytest.raises(LimitExceeded):
        waits.park(1, print, owner=None, holder="a")
    waits.check_invariants()
