"""The request channel: answers leave in the order of their requests, each once, and the books balance."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.reactor.connections.channel import PendingResponse, RequestChannel


class Notices:
    """A channel and what it told its connection."""

    def __init__(self) -> None:
        self.changed = 0
        self.closed = 0
        self.channel = RequestChannel(self._on_change, self._on_close)

    def _on_change(self) -> None:
        self.changed += 1

    def _on_close(self) -> None:
        self.closed += 1


def test_answers_at_once_go_straight_out() -> None:
    notices = Notices()
    channel = notices.channel
    channel.add_response([b"a", b"bc"])
    channel.add_response(None)
    channel.add_response([b"d"])
    assert (channel.in_flight, channel.unsent_bytes, channel.pending_count) == (2, 4, 0)
    assert channel.take_ready() == [b"a", b"bc", b"d"]
    assert channel.is_empty
    assert notices.changed == 0


def test_an_answer_waits_for_those_before_it() -> None:
    notices = Notices()
    channel, first, third = notices.channel, PendingResponse(), PendingResponse()
    channel.add_response(first)
    channel.add_response([b"2"])
    channel.add_response(third)
    third.complete([b"3"])
    assert channel.take_ready() == []
    assert channel.waiting_count == 2
    assert (channel.in_flight, channel.unsent_bytes, channel.held_bytes) == (3, 2, 2)
    first.complete([b"1"])
    assert notices.changed == 1
    assert channel.take_ready() == [b"1", b"2", b"3"]
    assert (channel.in_flight, channel.unsent_bytes, channel.held_bytes) == (0, 0, 0)


def test_an_answer_may_be_complete_before_it_is_returned() -> None:
    notices = Notices()
    early, nothing, closing = PendingResponse(), PendingResponse(), PendingResponse()
    early.complete([b"early"])
    nothing.complete(None)
    closing.close_connection()
    notices.channel.add_response(early)
    notices.channel.add_response(nothing)
    assert notices.channel.take_ready() == [b"early"]
    notices.channel.add_response(closing)
    assert notices.closed == 1


def test_nothing_to_send_keeps_nobody_waiting() -> None:
    notices = Notices()
    channel, silent = notices.channel, PendingResponse()
    channel.add_response(silent)
    channel.add_response([b"next"])
    silent.complete(None)
    assert channel.take_ready() == [b"next"]
    assert channel.is_empty


def test_a_pending_answer_may_ask_for_the_end() -> None:
    notices = Notices()
    pending = PendingResponse()
    notices.channel.add_response(pending)
    pending.close_connection()
    assert notices.closed == 1


def test_answering_twice_is_our_fault() -> None:
    pending = PendingResponse()
    pending.complete(None)
    with pytest.raises(RuntimeError, match="completed twice"):
        pending.complete(None)
    with pytest.raises(RuntimeError, match="completed twice"):
        pending.close_connection()


def test_answering_after_the_end_does_nothing() -> None:
    notices = Notices()
    channel, first, second = notices.channel, PendingResponse(), PendingResponse()
    channel.add_response([b"ready"])
    channel.add_response(first)
    channel.add_response(second)
    second.complete([b"held"])
    channel.end()
    first.complete([b"late"])
    first.complete([b"later still"])
    second.complete([b"late"])
    assert channel.take_ready() == [b"ready"]
    assert (notices.changed, notices.closed, channel.in_flight, channel.unsent_bytes) == (0, 0, 0, 0)


steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["now", "later", "nothing"]), st.just(0)),
        st.tuples(st.just("complete"), st.integers(0, 100)),
    ),
    max_size=80,
)


@given(steps)
def test_answers_leave_in_order_whatever_order_they_come_in(script: list[tuple[str, int]]) -> None:
    notices = Notices()
    channel = notices.channel
    answers: list[bytes | None] = []  # by request; None while pending
    pending: list[tuple[int, PendingResponse]] = []
    taken: list[bytes] = []
    for kind, value in script:
        number = len(answers)
        if kind == "complete" and pending:
            number, one = pending.pop(value % len(pending))
            answers[number] = b"%d;" % number
            one.complete([b"%d;" % number])
        elif kind == "now":
            answers.append(b"%d;" % number)
            channel.add_response([b"%d;" % number])
        elif kind == "nothing":
            answers.append(b"")
            channel.add_response(None)
        elif kind == "later":
            answers.append(None)
            pending.append((number, PendingResponse()))
            channel.add_response(pending[-1][1])
        taken += map(bytes, channel.take_ready())
        first_open = min((number for number, _ in pending), default=len(answers))
        assert b"".join(taken) == b"".join(filter(None, answers[:first_open]))
        assert channel.unsent_bytes == channel.held_bytes == sum(map(len, filter(None, answers[first_open:])))
        assert channel.in_flight == channel.pending_count


def test_who_asked_is_told_when_an_answer_goes_to_the_kernel() -> None:
    notices = Notices()
    channel, first, second, early = notices.channel, PendingResponse(), PendingResponse(), PendingResponse()
    told: list[str] = []
    first.taken, second.taken, early.taken = (lambda name=name: told.append(name) for name in ("1", "2", "early"))
    early.complete([b"0"])
    channel.add_response(early)
    channel.add_response(first)
    channel.add_response(second)
    second.complete([b"2"])
    assert channel.take_ready() == [b"0"]
    assert told == ["early"]
    first.complete([b"1"])
    assert told == ["early"]
    assert channel.take_ready() == [b"1", b"2"]
    assert told == ["early", "1", "2"]
    channel.take_ready()
    assert told == ["early", "1", "2"]
