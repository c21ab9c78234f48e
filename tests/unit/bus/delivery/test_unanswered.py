"""Requests without an answer: counted and warned of, without flooding the log."""

import logging

import pytest

from hutong.bus import EventBus, ReplyError
from hutong.bus.delivery.unanswered import WARN_INTERVAL_MS, WARNED_ADDRESSES_MAX, UnansweredRequests
from hutong.bus.envelope.message import REPLY_PREFIX
from hutong.foundation.clock import ManualClock


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.WARNING, "hutong.bus")
    return caplog


def test_an_address_is_warned_of_once_a_minute(warnings: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    unanswered = UnansweredRequests(clock)
    for _ in range(3):
        unanswered.note("orders.place")
    unanswered.note("other")
    assert ["orders.place" in text for text in warnings.messages] == [True, False]
    clock.advance(WARN_INTERVAL_MS)
    unanswered.note("orders.place")
    assert len(warnings.messages) == 3
    assert unanswered.total == 5


def test_many_addresses_do_not_flood_the_log(warnings: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    unanswered = UnansweredRequests(clock)
    for number in range(WARNED_ADDRESSES_MAX + 10):
        unanswered.note(f"address {number}")
    assert len(warnings.messages) == WARNED_ADDRESSES_MAX
    clock.advance(WARN_INTERVAL_MS)
    unanswered.note("one more")
    assert len(warnings.messages) == WARNED_ADDRESSES_MAX + 1
    assert unanswered.total == WARNED_ADDRESSES_MAX + 11


def test_reply_addresses_are_warned_of_together(warnings: pytest.LogCaptureFixture) -> None:
    unanswered = UnansweredRequests(ManualClock())
    unanswered.note(f"{REPLY_PREFIX}1")
    unanswered.note(f"{REPLY_PREFIX}2")
    assert len(warnings.messages) == 1


async def test_a_handler_that_never_answers_is_reported(bus: EventBus, warnings: pytest.LogCaptureFixture) -> None:
    bus.consumer("forgetful", lambda message: None)
    bus.consumer("good", lambda message: message.body)
    with pytest.raises(ReplyError, match="in time"):
        await bus.request("forgetful", timeout=0.005)
    await bus.request("good", 1, timeout=5)
    with pytest.raises(ReplyError, match="no handlers"):
        await bus.request("nobody")
    assert bus.unanswered_total == 1
    assert len(warnings.messages) == 1
    assert "'forgetful' was not answered in time" in warnings.messages[0]
