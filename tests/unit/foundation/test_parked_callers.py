"""Callers that wait for replies of machines, and share their places fairly."""

from hutong.foundation.errors import Expired, LimitExceeded, OwnerGone
from hutong.foundation.machine_host import ParkedCallers
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import Owner

OTHERWISE = -1


def test_one_client_leaves_waits_to_others_and_every_end_frees_its_place() -> None:
    callers, ended, owner = ParkedCallers("test", TimerWheel(0), 100), list[int](), Owner()
    tickets = [callers.park(ended.append, OTHERWISE, owner=owner, holder="flood") for _ in range(75)]
    assert None not in tickets
    assert callers.park(ended.append, OTHERWISE, owner=owner, holder="flood") is None
    assert ended == [OTHERWISE], "there is no room for one more of this client"
    other = callers.park(ended.append, OTHERWISE, holder="other")
    callers.check_invariants()
    assert tickets[0] is not None
    assert other is not None
    callers.answer(tickets[0], 7)
    callers.answer(other, 8)
    callers.check_invariants()
    assert callers.park(ended.append, OTHERWISE, owner=owner, holder="flood") is not None
    owner.end()
    callers.check_invariants()
    assert len(callers) == 0
    assert ended[1:3] == [7, 8]
    assert ended[3:] == [OTHERWISE] * 75
    callers.park(ended.append, OTHERWISE, owner=owner, holder="flood")  # its connection has ended already
    callers.check_invariants()
    assert len(ended) == 79


def test_without_places_every_caller_gets_its_reply_at_once() -> None:
    callers, ended = ParkedCallers("test", TimerWheel(0), 0), list[str]()
    assert callers.park(ended.append, "full", holder="a") is None
    assert ended == ["full"]
    callers.check_invariants()


def test_a_caller_gets_what_it_named_at_its_deadline_after_a_failure_and_at_the_end() -> None:
    wheel = TimerWheel(0)
    callers, ended = ParkedCallers("test", wheel, 10), list[str]()
    late = callers.park(ended.append, "late", deadline_ms=100)
    failed = callers.park(ended.append, "failed")
    callers.park(ended.append, "closed")
    assert late is not None
    assert failed is not None
    wheel.advance(110)
    callers.answer(late, "too late")
    callers.settle(failed, "stored", LimitExceeded("disk", 0))
    callers.settle(failed, "stored", None)
    callers.close(OwnerGone("the node is stopping"))
    assert ended == ["late", "failed", "closed"]
    callers.park(ended.append, "after")
    assert ended[-1] == "after"
    callers.check_invariants()


def test_a_caller_that_asks_for_errors_gets_the_one_that_ended_its_wait() -> None:
    wheel, ended = TimerWheel(0), list[object]()
    callers = ParkedCallers("test", wheel, 2)
    late = callers.park_with_errors(ended.append, deadline_ms=100)
    answered = callers.park_with_errors(ended.append)
    assert late is not None
    assert answered is not None
    assert callers.park_with_errors(ended.append) is None
    callers.answer(answered, "reply")
    wheel.advance(110)
    callers.park_with_errors(ended.append)
    callers.close(OwnerGone("the node is stopping"))
    assert [str(end) for end in ended] == [
        "test is 2 and would be exceeded", "reply", "nothing came in time (test)", "the node is stopping",
    ]  # fmt: skip
    assert [type(end) for end in ended] == [LimitExceeded, str, Expired, OwnerGone]
    callers.check_invariants()
