"""The session without a loop: each test drives it by hand and reads what it wants done."""

import itertools
import random

import pytest

from hutong.bus.sockjs.limits import SockJSLimits
from hutong.bus.sockjs.machine import SockJsSession
from hutong.bus.sockjs.messages import (
    CloseRequested,
    Congested,
    EndReceiver,
    Event,
    Flush,
    ForgetSession,
    GiveMessages,
    Instruction,
    MessageQueued,
    MessagesReceived,
    ReceiverAttached,
    ReceiverBlocked,
    ReceiverLost,
    SendFrame,
    SessionEnded,
    SessionOpened,
    SessionTick,
)

LIMITS = SockJSLimits(response_bytes_max=100, buffered_bytes_max=50, ping_timeout_ms=60_000)
STREAMING = 100


def session(*, is_single: bool = False, is_raw: bool = False) -> SockJsSession:
    return SockJsSession(LIMITS, is_single=is_single, is_raw=is_raw)


def opened(room_bytes: int | None = STREAMING, **kind: bool) -> SockJsSession:
    made = session(**kind)
    made.handle(ReceiverAttached(1, room_bytes), 0)
    return made


def test_a_stream_opens_the_session_and_stays() -> None:
    assert session().handle(ReceiverAttached(1, STREAMING), 0) == [SendFrame(1, "o"), SessionOpened()]


def test_the_first_poll_is_answered_with_o_alone() -> None:
    assert session().handle(ReceiverAttached(1, 0), 0) == [SendFrame(1, "o"), EndReceiver(1), SessionOpened()]


def test_messages_of_one_turn_leave_in_one_frame() -> None:
    made = opened()
    assert made.handle(MessageQueued(b"a"), 1) == []
    assert made.handle(MessageQueued(b"b"), 1) == []
    assert made.wants_flush
    assert made.handle(Flush(), 1) == [SendFrame(1, 'a["a","b"]')]
    assert not made.wants_flush


def test_messages_wait_for_the_next_poll_which_they_end() -> None:
    made = opened(0)
    made.handle(MessageQueued(b"a"), 1)
    assert made.handle(Flush(), 1) == []
    assert made.handle(ReceiverAttached(2, 0), 2) == [SendFrame(2, 'a["a"]'), EndReceiver(2)]


def test_a_stream_ends_once_its_room_is_used_and_the_session_waits_for_the_next() -> None:
    made = opened()
    for _ in range(2):
        made.handle(MessageQueued(b"x" * 46), 1)
        done = made.handle(Flush(), 1)
    assert done == [SendFrame(1, 'a["' + "x" * 46 + '"]'), EndReceiver(1)]
    assert made.is_open
    assert made.handle(ReceiverAttached(2, STREAMING), 2) == []


def test_a_second_receiver_is_sent_away_and_the_first_stays() -> None:
    made = opened()
    assert made.handle(ReceiverAttached(2, 0), 1) == [
        SendFrame(2, 'c[2010,"Another connection still open"]'),
        EndReceiver(2, 2010, "Another connection still open"),
    ]
    made.handle(MessageQueued(b"a"), 1)
    assert made.handle(Flush(), 1) == [SendFrame(1, 'a["a"]')]


def test_a_receiver_that_breaks_off_interrupts_the_session_for_good() -> None:
    made = opened()
    assert made.handle(ReceiverLost(1), 1) == [SessionEnded()]
    interrupted = 'c[1002,"Connection interrupted"]'
    assert made.handle(ReceiverAttached(2, 0), 2) == [
        SendFrame(2, interrupted),
        EndReceiver(2, 1002, "Connection interrupted"),
    ]
    assert made.handle(ReceiverAttached(3, 0), 3)[0] == SendFrame(3, interrupted)
    assert made.handle(SessionTick(), 5_003) == [ForgetSession()]


def test_a_closed_session_says_so_until_it_is_forgotten() -> None:
    made = opened()
    away = 'c[3000,"Go away!"]'
    assert made.handle(CloseRequested(3000, "Go away!"), 1) == [
        SendFrame(1, away),
        EndReceiver(1, 3000, "Go away!"),
        SessionEnded(),
    ]
    assert made.handle(ReceiverAttached(2, STREAMING), 2) == [SendFrame(2, away), EndReceiver(2, 3000, "Go away!")]
    assert made.handle(MessageQueued(b"a"), 3) == []
    assert made.handle(MessagesReceived(["a"]), 3) == []
    assert made.handle(SessionTick(), 5_001) == []
    assert made.handle(SessionTick(), 5_002) == [ForgetSession()]


def test_what_was_said_before_the_close_still_arrives_by_polling() -> None:
    made = opened(0)
    made.handle(MessageQueued(b"a"), 1)
    assert made.handle(CloseRequested(3000, "Go away!"), 1) == [SessionEnded()]
    assert made.handle(ReceiverAttached(2, 0), 2) == [SendFrame(2, 'a["a"]'), EndReceiver(2)]
    assert made.handle(ReceiverAttached(3, 0), 3) == [
        SendFrame(3, 'c[3000,"Go away!"]'),
        EndReceiver(3, 3000, "Go away!"),
    ]


def test_a_session_without_a_receiver_is_lost_after_the_delay() -> None:
    made = opened(0)
    assert made.get_timer() == 5_000
    assert made.handle(SessionTick(), 4_999) == []
    assert made.handle(SessionTick(), 5_000) == [SessionEnded(), ForgetSession()]


def test_heartbeats_come_while_nothing_else_does() -> None:
    made = opened()
    assert made.get_timer() == 25_000
    made.handle(MessageQueued(b"a"), 10_000)
    made.handle(Flush(), 10_000)
    assert made.handle(SessionTick(), 25_000) == []
    assert made.handle(SessionTick(), 35_000) == [SendFrame(1, "h")]
    assert made.get_timer() == 60_000


def test_a_heartbeat_ends_a_poll() -> None:
    made = opened(0)
    made.handle(ReceiverAttached(2, 0), 1)
    assert made.handle(SessionTick(), 25_001) == [SendFrame(2, "h"), EndReceiver(2)]


def test_a_client_that_says_nothing_for_too_long_is_closed() -> None:
    made = opened(None)
    assert made.handle(MessagesReceived(["ping"]), 30_000) == [GiveMessages(["ping"])]
    made.handle(SessionTick(), 60_000)
    assert made.is_open
    assert made.handle(SessionTick(), 90_000) == [
        SendFrame(1, 'c[3000,"Go away!"]'),
        EndReceiver(1, 3000, "Go away!"),
        SessionEnded(),
    ]


def test_a_websocket_session_ends_with_its_connection() -> None:
    assert opened(None, is_single=True).handle(ReceiverLost(1), 1) == [SessionEnded(), ForgetSession()]


def test_a_raw_session_has_messages_and_no_frames() -> None:
    made = session(is_single=True, is_raw=True)
    assert made.handle(ReceiverAttached(1, None), 0) == [SessionOpened()]
    made.handle(MessageQueued(b"a"), 1)
    made.handle(MessageQueued(b"b"), 1)
    assert made.handle(Flush(), 1) == [SendFrame(1, "a"), SendFrame(1, "b")]
    assert made.handle(SessionTick(), 25_001) == []
    assert made.handle(CloseRequested(3000, "Go away!"), 1) == [
        EndReceiver(1, 3000, "Go away!"),
        SessionEnded(),
        ForgetSession(),
    ]


def test_too_much_unsent_is_told_and_so_is_its_end() -> None:
    made = opened(0)
    assert made.handle(MessageQueued(b"x" * 51), 1) == [Congested(True)]
    assert made.handle(MessageQueued(b"y"), 1) == []
    done = made.handle(ReceiverAttached(2, STREAMING), 2)
    assert done[-1] == Congested(False)
    assert made.unsent_bytes == 0


def test_a_client_that_does_not_read_is_given_nothing() -> None:
    made = opened(None)
    assert made.handle(ReceiverBlocked(1, True), 1) == [Congested(True)]
    made.handle(MessageQueued(b"a"), 1)
    assert not made.wants_flush
    assert made.handle(SessionTick(), 25_000) == []
    assert made.handle(ReceiverBlocked(1, False), 26_000) == [SendFrame(1, 'a["a"]'), Congested(False)]


def test_a_client_that_never_reads_its_close_frame_is_cut_off() -> None:
    made = opened(None, is_single=True)
    made.handle(ReceiverBlocked(1, True), 1)
    made.handle(MessageQueued(b"a"), 1)
    assert SessionEnded() in made.handle(CloseRequested(3000, "Go away!"), 2)
    assert made.handle(SessionTick(), 5_002) == [EndReceiver(1, 3000, "Go away!"), ForgetSession()]


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_it_is_opened_and_ended_once_and_forgotten_last(seed: int) -> None:
    """Any order of events: every receiver is ended at most once, and the application's story is a whole one."""
    chance = random.Random(seed)
    made = session(is_single=chance.random() < 0.3)
    numbers = itertools.count(1)
    waiting: set[int] = set()
    story: list[Instruction] = []
    now_ms = 0
    for _ in range(200):
        now_ms += chance.choice((0, 1, 1_000, 6_000, 30_000))
        event: Event = chance.choice(
            [
                ReceiverAttached(next(numbers), chance.choice((0, STREAMING, None))),
                ReceiverLost(chance.choice([0, *waiting])),
                ReceiverBlocked(chance.choice([0, *waiting]), chance.random() < 0.5),
                MessageQueued(b"x" * chance.randrange(80)),
                Flush(),
                MessagesReceived(["a"]),
                CloseRequested(3000, "Go away!") if chance.random() < 0.1 else SessionTick(),
                SessionTick(),
            ]
        )
        if isinstance(event, ReceiverAttached):
            waiting.add(event.receiver)
        elif isinstance(event, ReceiverLost):
            waiting.discard(event.receiver)
        done = made.handle(event, now_ms)
        for instruction in done:
            if isinstance(instruction, SendFrame | EndReceiver):
                assert instruction.receiver in waiting, seed
            if isinstance(instruction, EndReceiver):
                waiting.remove(instruction.receiver)
        story += [
            instruction for instruction in done if isinstance(instruction, SessionOpened | SessionEnded | ForgetSession)
        ]
        made.check_invariants()
        if ForgetSession() in done:
            break
    assert story in (
        [],
        [SessionOpened()],
        [SessionOpened(), SessionEnded()],
        [SessionOpened(), SessionEnded(), ForgetSession()],
    ), seed
