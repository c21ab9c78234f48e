"""The connection engine, without a loop: when requests begin, when reading stops, when the connection ends."""

import struct
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.errors import HutongError, OwnerGone, ProtocolError
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import WaitTable
from hutong.reactor.connections.channel import HELD, PendingResponse, Response
from hutong.reactor.connections.connection import JOIN_BELOW_BYTES, Connection
from hutong.reactor.connections.handler import Peer
from hutong.reactor.figures import CloseReason, ReactorFigures
from hutong.reactor.frames.framing import DIRECT_FROM_BYTES, LengthPrefixedFraming
from hutong.reactor.limits import ReactorLimits
from hutong.wire.buffer import Buffer

LIMITS = ReactorLimits(
    frame_bytes_max=1 << 20,
    requests_in_flight_max=4,
    unsent_bytes_max=100,
    idle_ms_max=1_000,
    frame_ms_max=300,
    frame_rate_min_bytes_per_s=1_000,
)


def framed(*payloads: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads)


class Harness:
    """An engine whose handler answers as each frame's first byte says: echo, later, nothing, broken."""

    def __init__(self, limits: ReactorLimits = LIMITS, request_us: int = 0) -> None:
        self.now_ms = 0
        self.now_us = 0
        self.request_us = request_us  # what each takes
        self.woken = 0
        self.seen: list[bytes] = []
        self.pending: dict[bytes, PendingResponse] = {}
        self.closed_peers: list[Peer] = []
        self.is_holding = False
        self.figures = ReactorFigures()
        framing = LengthPrefixedFraming(limits.frame_bytes_max)
        self.peer = Peer(1, "127.0.0.1", 5000, framing)
        self.engine = Connection(self.peer, framing, self, limits, self.figures, 0, self._wake, lambda: self.now_us)

    def connection_opened(self, peer: Peer) -> None:
        raise AssertionError("the driver's business")

    def connection_closed(self, peer: Peer) -> None:
        self.closed_peers.append(peer)

    def request_received(self, frame: Buffer, peer: Peer) -> Response:
        request = bytes(frame)
        self.seen.append(request)
        self.now_us += self.request_us
        if self.is_holding and request.startswith(b"h"):
            return HELD
        answers: dict[bytes, Callable[[], Response]] = {
            b"l": lambda: self.pending.setdefault(request, PendingResponse()),
            b"n": lambda: None,
            b"b": self._break,
        }
        return answers.get(request[:1], lambda: [request])()

    def receive(self, *payloads: bytes) -> bytes:
        self.engine.receive_data(framed(*payloads), self.now_ms)
        return self.sent()

    def sent(self) -> bytes:
        return b"".join(self.engine.data_to_send(self.now_ms))

    def wants_to_read(self) -> bool:
        return self.engine.wants_to_read(self.now_ms)

    def _wake(self) -> None:
        self.woken += 1

    def _break(self) -> Response:
        raise ProtocolError("not a request")


def test_requests_are_answered_in_order() -> None:
    harness = Harness()
    assert harness.receive(b"1", b"n2", b"l3", b"4") == b"1"
    harness.pending[b"l3"].complete([b"3"])
    assert harness.woken == 1
    assert harness.sent() == b"34"
    assert harness.figures.requests_total == 4
    assert harness.figures.bytes_sent_total == 3


def test_requests_beyond_the_bound_wait_and_reading_stops_with_them() -> None:
    harness = Harness()
    harness.receive(*(b"l%d" % number for number in range(6)))
    assert len(harness.seen) == 4
    assert not harness.wants_to_read()
    assert not harness.engine.has_work
    harness.pending[b"l0"].complete([b"0"])
    assert harness.sent() == b"0"
    assert harness.engine.has_work
    harness.engine.resume_work(0)
    assert len(harness.seen) == 5
    assert not harness.wants_to_read()
    for number in range(1, 5):
        harness.pending[b"l%d" % number].complete([b"%d" % number])
    assert harness.sent() == b"1234"
    harness.engine.resume_work(0)
    assert len(harness.seen) == 6
    assert harness.wants_to_read()
    assert harness.figures.reading_pauses_total == 1


def test_so_many_requests_are_begun_in_a_turn_and_the_rest_after_others_had_theirs() -> None:
    harness = Harness(ReactorLimits(requests_per_pass_max=2))
    assert harness.receive(b"1", b"2", b"3", b"4", b"5") == b"12"
    assert harness.engine.has_work
    assert not harness.wants_to_read()
    harness.engine.resume_work(0)
    assert harness.sent() == b"34"
    harness.engine.resume_work(0)
    assert harness.sent() == b"5"
    assert not harness.engine.has_work
    assert harness.wants_to_read()


def test_large_answers_end_a_turn_early() -> None:
    harness = Harness(ReactorLimits(answer_bytes_per_pass_max=5))
    assert harness.receive(b"123", b"456", b"789") == b"123456"
    assert harness.engine.has_work
    harness.engine.resume_work(0)
    assert harness.sent() == b"789"


def test_what_is_read_on_although_something_waits_keeps_its_place() -> None:
    harness = Harness(ReactorLimits(requests_per_pass_max=1))
    assert harness.receive(b"1", b"2") == b"1"
    assert harness.receive(b"3", b"4") == b""
    assert harness.engine.memory_bytes == 3
    for answer in (b"2", b"3", b"4", b""):
        harness.engine.resume_work(0)
        assert harness.sent() == answer
    assert (harness.engine.memory_bytes, harness.figures.queue.bytes, harness.figures.queue.requests) == (0, 0, 0)


def test_who_is_held_for_memory_begins_nothing_until_it_is_let_go() -> None:
    harness = Harness()
    harness.receive(b"l1")
    harness.engine.hold()
    assert not harness.wants_to_read()
    assert harness.receive(b"2", b"3") == b""
    assert harness.engine.memory_bytes == 2, "what waits counts"
    harness.peer.release()
    assert not harness.engine.has_work, "the handler's release is not the memory's"
    harness.engine.resume()
    harness.engine.resume_work(0)
    harness.pending[b"l1"].complete([b"1"])
    assert harness.sent() == b"123"
    assert harness.wants_to_read()
    assert harness.engine.memory_bytes == 0


def test_who_is_held_for_memory_and_holds_input_alone_goes_on() -> None:
    """Else half a frame would keep its memory for ever: neither its end is read, nor does its deadline come."""
    harness = Harness()
    begun = framed(b"x" * 2 * DIRECT_FROM_BYTES)
    harness.engine.receive_data(begun[:-1], 0)
    harness.engine.hold()
    assert harness.wants_to_read()
    assert harness.engine.get_timer() is not None
    harness.engine.receive_data(begun[-1:], 0)
    assert harness.sent() == begun[4:]
    harness.peer.unsent_bytes = lambda: 1
    assert not harness.wants_to_read(), "an answer that is not read is not input"


def test_a_frame_that_stops_is_over_whatever_it_has_earned() -> None:
    harness = Harness()
    harness.engine.receive_data(framed(bytes(DIRECT_FROM_BYTES + 10))[:-5], 0)  # has earned sixteen seconds
    harness.engine.handle_timer(LIMITS.frame_ms_max - 1)
    assert not harness.engine.is_closed
    harness.now_ms = LIMITS.frame_ms_max - 1
    harness.engine.receive_data(b"x", harness.now_ms)
    harness.engine.handle_timer(LIMITS.frame_ms_max)
    assert not harness.engine.is_closed
    assert harness.engine.get_timer() == 2 * LIMITS.frame_ms_max - 1
    harness.engine.handle_timer(2 * LIMITS.frame_ms_max - 1)
    assert harness.engine.close_reason is CloseReason.SLOW_SENDER


def test_a_turn_ends_with_its_time() -> None:
    harness = Harness(ReactorLimits(pass_us_max=100), request_us=60)
    assert harness.receive(b"1", b"2", b"3", b"4", b"5") == b"12"
    assert harness.engine.has_work
    harness.engine.resume_work(0)
    assert harness.sent() == b"34"
    harness.engine.resume_work(0)
    assert harness.sent() == b"5"
    assert not harness.engine.has_work


def test_reading_resumes_at_half_the_bound() -> None:
    harness = Harness()
    harness.receive(*(b"l%d" % number for number in range(4)))
    assert not harness.wants_to_read()
    harness.pending[b"l0"].complete(None)
    harness.sent()
    assert not harness.wants_to_read()
    harness.pending[b"l1"].complete(None)
    harness.sent()
    assert harness.wants_to_read()


def test_requests_answered_at_once_count_until_the_answers_are_taken() -> None:
    harness = Harness()
    harness.engine.receive_data(framed(*(b"%d" % number for number in range(6))), 0)
    assert len(harness.seen) == 4
    assert harness.sent() == b"0123"
    harness.engine.resume_work(0)
    assert harness.sent() == b"45"


def test_unsent_bytes_stop_requests_and_reading() -> None:
    harness = Harness()
    harness.engine.receive_data(framed(b"x" * 100, b"y"), 0)
    assert len(harness.seen) == 1
    assert not harness.wants_to_read()
    assert harness.sent() == b"x" * 100
    harness.engine.resume_work(0)
    assert harness.wants_to_read()
    assert harness.sent() == b"y"


def test_bytes_held_behind_a_pending_answer_count_as_unsent() -> None:
    harness = Harness()
    harness.receive(b"later", b"x" * 100)
    assert not harness.wants_to_read()
    harness.pending[b"later"].complete([b""])
    harness.sent()
    assert harness.wants_to_read()


def test_a_peer_that_does_not_read_is_not_read_from() -> None:
    harness = Harness()
    harness.engine.pause_sending()
    assert harness.receive(b"1") == b""
    assert harness.seen == []
    assert not harness.wants_to_read()
    harness.engine.resume_sending(5)
    assert harness.engine.has_work
    harness.engine.resume_work(0)
    assert harness.sent() == b"1"
    assert harness.wants_to_read()


def test_a_duplex_peer_is_listened_to_although_it_does_not_read() -> None:
    harness = Harness()
    harness.peer.is_duplex = True
    harness.engine.pause_sending()
    assert harness.receive(b"1") == b"1"
    assert harness.wants_to_read()
    harness.is_holding = True
    assert harness.receive(b"h2") == b""
    assert not harness.wants_to_read(), "how much is answered meanwhile is the handler's to bound"
    harness.is_holding = False
    harness.peer.release()
    harness.engine.resume_work(0)
    assert harness.sent() == b"h2"
    assert harness.wants_to_read()


def test_a_held_request_is_given_again_once_the_peer_is_released() -> None:
    harness = Harness()
    harness.is_holding = True
    harness.engine.receive_data(framed(b"e1", b"h2", b"e3"), 0)
    assert harness.seen == [b"e1", b"h2"]
    assert not harness.engine.wants_to_read(0)
    assert not harness.engine.has_work
    harness.is_holding = False
    harness.peer.release()
    assert harness.woken
    harness.engine.resume_work(0)
    assert harness.seen == [b"e1", b"h2", b"h2", b"e3"]
    harness.engine.data_to_send(0)
    assert harness.engine.wants_to_read(0)


def test_a_peer_that_goes_while_it_is_held_leaves_nothing() -> None:
    harness = Harness()
    harness.is_holding = True
    harness.engine.receive_data(framed(b"h1"), 0)
    harness.engine.connection_lost()
    harness.peer.release()
    harness.engine.resume_work(0)
    assert harness.seen == [b"h1"]


def test_what_nobody_asked_for_leaves_in_the_next_turn_and_passes_pending_answers() -> None:
    harness = Harness()
    assert harness.receive(b"l1") == b""
    harness.peer.push([b"news", b"!"])
    assert harness.woken == 1
    assert harness.sent() == b"news!"
    harness.pending[b"l1"].complete([b"1"])
    assert harness.sent() == b"1"
    assert harness.figures.bytes_sent_total == 6


def test_unsent_pushes_stop_requests_until_they_are_taken() -> None:
    harness = Harness()
    harness.peer.push([bytes(LIMITS.unsent_bytes_max)])
    harness.engine.receive_data(framed(b"1"), 0)
    assert harness.seen == []
    assert not harness.wants_to_read()
    assert len(harness.sent()) == LIMITS.unsent_bytes_max
    harness.engine.resume_work(0)
    assert harness.seen == [b"1"]


def test_a_handler_may_end_a_connection_and_nothing_is_pushed_after_that() -> None:
    harness = Harness()
    harness.peer.push([b"bye"])
    harness.peer.close()
    harness.peer.push([b"too late"])
    assert harness.sent() == b"bye"
    assert harness.engine.is_closed
    assert harness.engine.close_reason is CloseReason.HANDLER
    harness.engine.connection_lost()
    harness.peer.push([b"gone"])
    harness.peer.close()
    assert harness.sent() == b""


def test_a_handler_hears_when_its_peer_does_not_read() -> None:
    harness = Harness()
    told: list[bool] = []
    harness.peer.sending_changed = told.append
    harness.engine.pause_sending()
    harness.engine.resume_sending(0)
    assert told == [True, False]
    harness.engine.connection_lost()
    harness.engine.pause_sending()
    assert told == [True, False]


def test_small_buffers_leave_joined_and_large_ones_untouched() -> None:
    harness = Harness(ReactorLimits())
    harness.engine.receive_data(framed(b"1", b"2"), 0)
    assert harness.engine.data_to_send(0) == [b"12"]
    large = b"x" * 3 * JOIN_BELOW_BYTES
    harness.engine.receive_data(framed(b"1", large), 0)
    assert harness.engine.data_to_send(0) == [b"1", large]


@pytest.mark.parametrize("length", [-1, LIMITS.frame_bytes_max + 1])
def test_a_wrong_length_ends_the_connection_after_the_frames_before_it(length: int) -> None:
    harness = Harness()
    harness.engine.receive_data(framed(b"good") + struct.pack(">i", length), 0)
    assert harness.engine.is_closed
    assert harness.engine.close_reason is CloseReason.PROTOCOL_ERROR
    assert harness.sent() == b"good"
    assert harness.figures.closed_total[CloseReason.PROTOCOL_ERROR] == 1


def test_frames_before_a_wrong_length_are_served_even_from_the_backlog() -> None:
    harness = Harness()
    harness.engine.receive_data(framed(*(b"%d" % number for number in range(6))) + struct.pack(">i", -1), 0)
    assert not harness.engine.is_closed
    assert not harness.wants_to_read()
    assert harness.sent() == b"0123"
    harness.engine.resume_work(0)
    assert harness.engine.is_closed
    assert harness.sent() == b"45"


def test_a_request_that_breaks_the_protocol_ends_the_connection() -> None:
    harness = Harness()
    harness.engine.receive_data(framed(b"1", b"broken", b"2"), 0)
    assert harness.seen == [b"1", b"broken"]
    assert harness.engine.close_reason is CloseReason.PROTOCOL_ERROR
    assert harness.sent() == b"1"


def test_a_smaller_limit_holds_until_the_handler_raises_it() -> None:
    harness = Harness()
    harness.peer.frame_limit = 4
    assert harness.receive(b"four") == b"four"
    harness.peer.frame_limit = 5
    assert harness.receive(b"fiver") == b"fiver"
    harness.peer.frame_limit = 4
    harness.receive(b"fiver")
    assert harness.engine.is_closed
    assert harness.peer.frame_limit == 4


def test_a_pending_answer_may_close_the_connection() -> None:
    harness = Harness()
    harness.receive(b"later")
    harness.pending[b"later"].close_connection()
    assert harness.engine.close_reason is CloseReason.HANDLER
    assert harness.woken == 1


def test_the_end_fails_everything_parked_and_late_answers_are_harmless() -> None:
    harness = Harness()
    table: WaitTable[str] = WaitTable("waits", TimerWheel(0), 10)
    endings: list[str | HutongError] = []

    def answer(value: str | HutongError) -> None:
        endings.append(value)
        harness.pending[b"later"].complete([b"nobody reads this"])

    harness.receive(b"later")
    table.park("key", answer, owner=harness.peer.owner, deadline_ms=10)
    harness.engine.connection_lost()
    assert [type(ending) for ending in endings] == [OwnerGone]
    assert harness.engine.close_reason is CloseReason.PEER
    assert harness.closed_peers == [harness.peer]
    assert harness.woken == 0
    assert harness.sent() == b""


def test_the_first_reason_stays() -> None:
    harness = Harness()
    harness.engine.close(CloseReason.IDLE)
    harness.engine.connection_lost()
    assert harness.engine.close_reason is CloseReason.IDLE
    assert sum(harness.figures.closed_total.values()) == 1


def test_silence_is_idle_but_waiting_for_us_is_not() -> None:
    harness = Harness()
    harness.receive(b"later")
    harness.engine.handle_timer(5_000)
    assert not harness.engine.is_closed
    harness.now_ms = 5_500
    harness.pending[b"later"].complete([b"answer"])
    assert harness.sent() == b"answer"
    assert harness.engine.get_timer() == 6_500
    harness.engine.handle_timer(6_499)
    assert not harness.engine.is_closed
    harness.engine.handle_timer(6_500)
    assert harness.engine.close_reason is CloseReason.IDLE
    assert harness.engine.get_timer() is None


def test_a_peer_that_never_reads_its_answers_is_idle() -> None:
    harness = Harness()
    harness.receive(b"later")
    harness.engine.pause_sending()
    harness.engine.handle_timer(1_000)
    assert harness.engine.close_reason is CloseReason.IDLE


def test_a_frame_must_be_finished_in_time() -> None:
    harness = Harness()
    harness.engine.receive_data(framed(b"frame")[:-1], 100)
    harness.engine.receive_data(b"", 200)
    held_earns_ms = 8
    assert harness.engine.get_timer() == 100 + 300 + held_earns_ms
    harness.engine.handle_timer(407)
    assert not harness.engine.is_closed
    harness.engine.handle_timer(408)
    assert harness.engine.close_reason is CloseReason.SLOW_SENDER


def test_each_frame_has_its_own_time() -> None:
    harness = Harness()
    frame = framed(b"frame")
    harness.engine.receive_data(frame[:4], 0)
    harness.engine.receive_data(frame[4:] + frame[:4], 299)
    harness.engine.handle_timer(400)
    assert not harness.engine.is_closed
    harness.engine.receive_data(frame[4:], 500)
    assert harness.engine.get_timer() == 1_500


def test_bytes_earn_a_large_frame_more_time() -> None:
    harness = Harness()
    harness.engine.receive_data(framed(bytes(DIRECT_FROM_BYTES))[: 4 + 5_000], 0)
    assert harness.engine.bytes_held == 5_000
    for now_ms in (250, 500, 750):
        harness.engine.receive_data(b"x", now_ms)
    assert harness.engine.get_timer() == min(750 + 1_000, 750 + 300, 300 + 5_003)
    harness.engine.handle_timer(1_049)
    assert not harness.engine.is_closed


def test_our_own_pause_does_not_run_on_the_peers_time() -> None:
    harness = Harness()
    requests = framed(*(b"l%d" % number for number in range(4)))
    harness.engine.receive_data(requests + framed(b"x")[:-1], 0)
    assert not harness.wants_to_read()
    harness.engine.handle_timer(900)
    assert not harness.engine.is_closed
    for pending in harness.pending.values():
        pending.complete(None)
    harness.now_ms = 900
    harness.sent()
    assert harness.wants_to_read()
    assert harness.engine.get_timer() == 900 + 300


def test_large_frames_are_read_into_memory_of_their_own() -> None:
    harness = Harness(ReactorLimits())
    payload = bytes(3 * DIRECT_FROM_BYTES)
    data = framed(payload)
    assert harness.engine.receive_buffer() is None
    harness.engine.receive_data(data[:1000], 0)
    assert harness.figures.receiving_bytes == 996
    position = 1000
    while (wanted := harness.engine.receive_buffer()) is not None:
        count = min(7_000, len(wanted))
        wanted[:count] = data[position : position + count]
        del wanted
        harness.engine.buffer_received(count, 0)
        position += count
    assert position == len(data)
    assert harness.seen == [payload]
    assert harness.figures.receiving_bytes == 0
    assert harness.figures.bytes_received_total == len(data)


def test_memory_of_an_unfinished_frame_is_given_back_at_the_end() -> None:
    harness = Harness()
    harness.engine.receive_data(framed(b"frame")[:-1], 0)
    assert harness.figures.receiving_bytes == 8
    harness.engine.close(CloseReason.MEMORY)
    assert harness.figures.receiving_bytes == 0


def test_draining_answers_what_is_in_flight_and_begins_nothing() -> None:
    harness = Harness()
    harness.receive(b"later")
    harness.engine.drain()
    assert not harness.wants_to_read()
    assert harness.receive(b"too late") == b""
    assert not harness.engine.is_closed
    harness.pending[b"later"].complete([b"answer"])
    assert harness.sent() == b"answer"
    assert harness.engine.close_reason is CloseReason.DRAINED
    assert harness.seen == [b"later"]


def test_draining_an_idle_connection_closes_it() -> None:
    harness = Harness()
    harness.engine.drain()
    assert harness.engine.close_reason is CloseReason.DRAINED


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="idle_ms_max must be at least 1"):
        ReactorLimits(idle_ms_max=0)


requests = st.lists(st.sampled_from([b"echo", b"later", b"nothing", b"x" * 60]), max_size=25)


@given(requests, st.lists(st.integers(1, 200), min_size=1, max_size=50), st.randoms(use_true_random=False))
def test_every_request_is_answered_in_order_however_the_driver_and_handler_run(
    kinds: list[bytes], cuts: list[int], random: Random
) -> None:
    harness = Harness()
    sent = [kind[:1] + b"%d." % number + kind[1:] for number, kind in enumerate(kinds)]
    data, received, answered = framed(*sent), b"", set[bytes]()
    while True:
        before = len(harness.seen), len(data), len(answered)
        if data and harness.wants_to_read():
            size = cuts[len(data) % len(cuts)]
            harness.engine.receive_data(data[:size], 0)
            data = data[size:]
        waiting = [request for request in harness.pending if request not in answered]
        if waiting and (random.random() < 0.5 or not data or not harness.wants_to_read()):
            request = random.choice(waiting)
            answered.add(request)
            harness.pending[request].complete([request])
        received += harness.sent()
        harness.engine.resume_work(0)
        received += harness.sent()
        if (len(harness.seen), len(data), len(answered)) == before and not waiting:
            break
    assert harness.seen == sent
    assert received == b"".join(request for request in sent if request[:1] != b"n")
    assert harness.wants_to_read()


class Train:
    """A short way for requests that begin with x: echoes them, or answers later those that begin with xl."""

    def __init__(self) -> None:
        self.pending: list[tuple[PendingResponse, bytes]] = []
        self.asked: list[int] = []

    def take_requests(self, data: Buffer, requests_max: int) -> tuple[int, int, list[Buffer] | PendingResponse] | None:
        self.asked.append(requests_max)
        taken, at, echo = 0, 0, b""
        while taken < requests_max and bytes(data[at + 4 : at + 5]) == b"x":
            size = int.from_bytes(data[at : at + 4], "big")
            if at + 4 + size > len(data):
                break
            echo += bytes(data[at + 4 : at + 4 + size])
            taken, at = taken + 1, at + 4 + size
        if not taken:
            return None
        if not echo.startswith(b"xl"):
            return taken, at, [echo]
        pending = PendingResponse()
        self.pending.append((pending, echo))
        return taken, at, pending

    def answer(self) -> None:
        for pending, echo in self.pending:
            pending.complete([echo])
        self.pending.clear()


def harness_with_train() -> tuple[Harness, Train]:
    harness, train = Harness(), Train()
    harness.peer.express = train
    return harness, train


def test_a_train_that_is_all_there_is_comes_back_at_once() -> None:
    harness, _ = harness_with_train()
    assert harness.engine.receive_data(framed(b"xa", b"xb"), 0) == [b"xaxb"]
    assert harness.sent() == b""
    assert (harness.seen, harness.figures.requests_total, harness.figures.bytes_sent_total) == ([], 2, 4)


def test_a_train_that_waits_leaves_nothing_to_do_until_it_is_answered() -> None:
    harness, train = harness_with_train()
    assert harness.engine.receive_data(framed(b"xl"), 0) == []
    assert harness.wants_to_read()
    train.answer()
    assert harness.sent() == b"xl"


def test_a_train_that_waits_leaves_the_driver_to_ask_where_it_must_stop_reading() -> None:
    harness, train = harness_with_train()
    requests = [b"xl"] * LIMITS.requests_in_flight_max
    assert harness.engine.receive_data(framed(*requests), 0) is None
    assert not harness.wants_to_read()
    train.answer()
    assert harness.sent() == b"".join(requests)
    assert harness.wants_to_read()


def test_a_train_keeps_its_place_among_other_requests() -> None:
    harness, train = harness_with_train()
    assert harness.receive(b"later", b"xa", b"xb") == b""
    assert harness.receive(b"xc") == b""
    harness.pending[b"later"].complete([b"1"])
    assert harness.sent() == b"1xaxbxc"
    assert harness.receive(b"xl", b"xd", b"o") == b""
    train.answer()
    assert harness.sent() == b"xlxdo"
    assert harness.engine.data_to_send(0) == []


def test_a_train_counts_as_many_requests_as_it_has() -> None:
    harness, train = harness_with_train()
    harness.receive(b"xl", b"x2", b"x3", b"x4", b"x5")
    assert train.asked == [LIMITS.requests_in_flight_max]
    assert (harness.wants_to_read(), harness.seen) == (False, [])
    train.answer()
    assert harness.sent() == b"xlx2x3x4"
    harness.engine.resume_work(0)
    assert harness.sent() == b"x5"
    assert harness.wants_to_read()


def test_a_frame_in_two_reads_does_not_keep_those_behind_it_from_the_short_way() -> None:
    harness, train = harness_with_train()
    data = framed(b"oblong", b"xa", b"xb")
    assert harness.engine.receive_data(data[:6], 0) is None
    assert train.asked == [LIMITS.requests_in_flight_max]
    harness.engine.receive_data(data[6:], 0)
    assert len(train.asked) == 2
    assert harness.seen == [b"oblong"]
    assert harness.sent() == b"oblongxaxb"


@given(st.lists(st.sampled_from([b"xa", b"xb", b"o", b"n", b"oblong" * 20])), st.lists(st.integers(1, 30)))
def test_with_and_without_a_short_way_the_answers_are_the_same(requests: list[bytes], cuts: list[int]) -> None:
    data = framed(*requests)

    def answers(harness: Harness) -> bytes:
        sent, at = b"", 0
        for size in [*cuts, len(data)]:
            for buffer in harness.engine.receive_data(data[at : at + size], 0) or ():
                sent += buffer
            sent += harness.sent()
            while harness.engine.has_work:
                harness.engine.resume_work(0)
                sent += harness.sent()
            at += size
        return sent

    plain = Harness()
    short, _ = harness_with_train()
    assert answers(plain) == answers(short) == b"".join(request for request in requests if request != b"n")
    assert short.figures.requests_total == plain.figures.requests_total == len(requests)
