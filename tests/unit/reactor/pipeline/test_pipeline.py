"""Pipelines without a socket: the order of handlers, faults, changes while they handle, frames cut anywhere, time."""

from collections.abc import Callable
from itertools import count, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.errors import LimitExceeded, ProtocolError
from hutong.reactor import (
    ConnectionEnded,
    ConnectionOpened,
    ConnectionPipeline,
    FrameCutter,
    IdleEvent,
    IdleHandler,
    JsonCodec,
    LengthFrames,
    LineFrames,
    PipelineHandler,
    PipelineLink,
    SniffHandler,
    is_tls,
)
from hutong.reactor.connections.handler import Peer
from hutong.reactor.frames.lines import LineFraming
from hutong.reactor.pipeline.machine import HANDLERS_MAX, OUTPUT_BYTES_MAX


class Sink(PipelineHandler):
    """The last handler: keeps what it gets, and does `work` with each value."""

    def __init__(self, work: Callable[[Any, PipelineLink], None] = lambda value, link: None) -> None:
        self.values: list[Any] = []
        self.events: list[object] = []
        self.faults: list[str] = []
        self.takes_faults = False
        self.work = work

    def inbound(self, value: Any, link: PipelineLink) -> None:
        self.values.append(value)
        self.work(value, link)

    def event(self, event: object, link: PipelineLink) -> None:
        self.events.append(event)

    def failed(self, error: ProtocolError, link: PipelineLink) -> None:
        self.faults.append(str(error))
        if not self.takes_faults:
            link.pass_failure(error)


class Mark(PipelineHandler):
    """Adds its letter both ways."""

    def __init__(self, letter: bytes) -> None:
        self.letter = letter

    def inbound(self, value: bytes, link: PipelineLink) -> None:
        link.pass_inbound(value + self.letter)

    def outbound(self, value: bytes, link: PipelineLink) -> None:
        link.pass_outbound(value + self.letter)


class Later(PipelineHandler):
    async def inbound(self, value: Any, link: PipelineLink) -> None:  # type: ignore[override]
        """Nobody awaits it."""


def made(*handlers: PipelineHandler) -> ConnectionPipeline:
    pipeline = ConnectionPipeline(handlers)
    pipeline.check_invariants()
    return pipeline


def marked(letters: str) -> ConnectionPipeline:
    pipeline = made()
    for letter in letters:
        pipeline.add(Mark(letter.encode()), letter)
    return pipeline


def test_inbound_passes_from_the_first_and_outbound_from_the_last() -> None:
    pipeline, sink = marked("abc"), Sink(lambda value, link: link.pass_outbound(value + b"!"))
    pipeline.add(sink)
    pipeline.receive_data(b"", 0)
    assert sink.values == [b"abc"]
    assert pipeline.data_to_send() == [b"abc!cba"]
    assert pipeline.data_to_send() == []


def test_events_reach_all_in_order() -> None:
    sink = Sink()
    pipeline = made(Mark(b"a"), sink)
    pipeline.open(1)
    pipeline.end(2)
    pipeline.send(b"too late")
    assert sink.events == [ConnectionOpened(), ConnectionEnded()]
    assert pipeline.data_to_send() == []


def test_handlers_are_added_and_removed_by_name() -> None:
    pipeline = marked("ac")
    pipeline.add(Mark(b"b"), "b", after="a")
    pipeline.add(Mark(b"0"), "0", before="a")
    assert pipeline.names == ["0", "a", "b", "c"]
    pipeline.replace("b", Mark(b"?"), "b")
    pipeline.replace("b", Mark(b"B"), "B")
    with pytest.raises(ValueError, match="has a handler 'a' already"):
        pipeline.replace("B", Mark(b"B"), "a")
    pipeline.remove("0")
    pipeline.check_invariants()
    assert pipeline.names == ["a", "B", "c"]
    with pytest.raises(ValueError, match="has a handler 'a' already"):
        pipeline.add(Mark(b"a"), "a")
    with pytest.raises(KeyError, match="has no handler 'b'; it has a, B, c"):
        pipeline.remove("b")
    for number in range(HANDLERS_MAX - 3):
        pipeline.add(Mark(b""), str(number))
    with pytest.raises(LimitExceeded):
        pipeline.add(Mark(b""), "one more")


@given(st.lists(st.tuples(st.sampled_from(["add", "before", "after", "remove"]), st.integers(0, 9), st.integers(0, 9))))
def test_any_changes_keep_the_order_of_a_list(steps: list[tuple[str, int, int]]) -> None:
    pipeline, names = made(), list[str]()
    for kind, number, at in steps:
        name = str(number)
        place = names[at % len(names)] if names else None
        if kind == "remove" and place is not None:
            names.remove(place)
            pipeline.remove(place)
        elif name in names or kind == "remove":
            continue
        elif kind == "add" or place is None:
            names.append(name)
            pipeline.add(Mark(name.encode()), name)
        else:
            names.insert(names.index(place) + (kind == "after"), name)
            pipeline.add(Mark(name.encode()), name, **{kind: place})
        pipeline.check_invariants()
        assert pipeline.names == names
    pipeline.send(b"")
    assert pipeline.data_to_send() == ["".join(reversed(names)).encode()]


def test_a_handler_removed_while_it_handles_still_passes_on() -> None:
    class Once(PipelineHandler):
        def inbound(self, value: bytes, link: PipelineLink) -> None:
            link.pipeline.remove("b")  # its neighbour first, then itself
            link.remove()
            link.pass_outbound(b"sent")
            link.pass_inbound(value)

    sink = Sink()
    pipeline = marked("ab")
    pipeline.add(Once(), after="a")
    pipeline.add(sink)
    pipeline.receive_data(b"1", 0)
    pipeline.receive_data(b"2", 0)
    pipeline.check_invariants()
    assert sink.values == [b"1a", b"2a"]
    assert pipeline.data_to_send() == [b"senta"]


# Frames.


def read(cutter: FrameCutter, pieces: list[bytes]) -> tuple[list[Any], bool, int]:
    sink = Sink()
    pipeline = made(cutter, sink)
    for piece in pieces:
        pipeline.receive_data(memoryview(piece), 0)
    return sink.values, pipeline.failure is not None, pipeline.bytes_held


@given(
    st.sampled_from([LineFrames, LengthFrames]),
    st.binary(max_size=80).map(lambda data: data.replace(b"a", b"\n").replace(b"b", b"\0\0\0\2")),
    st.lists(st.integers(0, 80)),
)
def test_the_cuts_make_no_difference(kind: Callable[[int], FrameCutter], data: bytes, cuts: list[int]) -> None:
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[start:stop] for start, stop in pairwise(bounds)]
    assert read(kind(20), pieces) == read(kind(20), [data])


@given(st.sampled_from([LineFrames, LengthFrames]), st.lists(st.binary(max_size=20)))
def test_what_one_side_sends_the_other_reads(kind: type[FrameCutter], frames: list[bytes]) -> None:
    frames = [frame.replace(b"\n", b"").replace(b"\r", b"") for frame in frames]
    sender = made(kind())
    for frame in frames:
        sender.send(frame)
    assert read(kind(), [b"".join(sender.data_to_send())]) == (frames, False, 0)


@pytest.mark.parametrize("value", [b"two\nlines", bytearray(b"ended\n"), memoryview(b"\n")])
def test_a_value_with_a_newline_is_not_sent_as_two_lines(value: bytes) -> None:
    pipeline = made(LineFrames())
    with pytest.raises(ValueError, match="a line has no newline within it"):
        pipeline.send(value)
    assert not pipeline.has_output


@pytest.mark.parametrize(
    ("cutter", "data", "text"),
    [
        (LineFrames(3), b"abc\nabcd", "a line of more than 3 bytes"),
        (LengthFrames(3), b"\0\0\0\3abc\0\0\0\4", "a frame of 4 bytes; 3 are allowed"),
    ],
)
def test_an_oversized_frame_ends_the_connection_after_the_frames_before_it(
    cutter: FrameCutter, data: bytes, text: str
) -> None:
    sink = Sink()
    pipeline = made(cutter, sink)
    pipeline.receive_data(data, 0)
    assert (sink.values, sink.faults) == ([b"abc"], [text])
    assert (str(pipeline.failure), pipeline.is_closing, pipeline.bytes_held) == (text, True, 0)


def test_nothing_is_read_behind_a_broken_frame_even_if_the_fault_is_taken() -> None:
    sink = Sink()
    sink.takes_faults = True
    pipeline = made(LineFrames(3), sink)
    pipeline.receive_data(b"abcd\nok\n", 0)
    pipeline.receive_data(b"ok\n", 0)
    assert (sink.values, len(sink.faults), pipeline.is_closing) == ([], 1, False)


def test_a_framing_removed_between_two_frames_passes_the_rest_on() -> None:
    """The upgrade of a protocol within one read: a line, then frames with a length."""

    def upgrade(value: bytes, link: PipelineLink) -> None:
        if value == b"upgrade":
            link.pipeline.replace("LineFrames", LengthFrames())

    sink = Sink(upgrade)
    pipeline = made(LineFrames(), sink)
    pipeline.receive_data(b"hello\nupgrade\n\0\0\0\2a\n\0\0", 0)
    pipeline.receive_data(b"\0\1b", 0)
    assert sink.values == [b"hello", b"upgrade", b"a\n", b"b"]
    assert pipeline.names == ["LengthFrames", "Sink"]


def test_a_removed_framing_passes_a_begun_frame_on() -> None:
    sink = Sink()
    pipeline = made(LineFrames(), sink)
    pipeline.receive_data(b"half", 0)
    assert pipeline.bytes_held == 4
    pipeline.remove("LineFrames")
    assert sink.values == [b"half"]


def test_output_above_its_bound_stalls_the_cutting_until_it_is_taken() -> None:
    long = bytes(OUTPUT_BYTES_MAX // 2)
    sink = Sink(lambda value, link: link.pass_outbound(long))
    pipeline = made(LineFrames(), sink)
    pipeline.receive_data(b"1\n2\n3\n4\n5\nsix", 0)
    sent = []
    while pipeline.is_stalled:
        sent.append(len(pipeline.data_to_send()))
        pipeline.resume(0)
    sent.append(len(pipeline.data_to_send()))
    assert sink.values == [b"1", b"2", b"3", b"4", b"5"]
    assert sent == [2, 2, 1]
    assert pipeline.bytes_held == 3


# Faults.


def test_a_fault_of_the_peer_goes_to_the_handlers_behind_and_one_may_take_it() -> None:
    sink = Sink()
    sink.takes_faults = True
    pipeline = made(LineFrames(), JsonCodec(dict[str, int]), sink)
    pipeline.receive_data(b'{"a":1}\nnonsense\n{"a":"b"}\n{"c":2}\n', 0)
    assert sink.values == [{"a": 1}, {"c": 2}]
    assert [fault[:13] for fault in sink.faults] == ["no valid JSON"] * 2
    assert not pipeline.is_closing


@pytest.mark.parametrize("data", [b'"\xe1"', b"[" * 100_000, b"1e", b""])
def test_bytes_that_are_no_json_are_the_peers_fault(data: bytes) -> None:
    pipeline = made(LineFrames(), JsonCodec(), Sink())
    pipeline.receive_data(data + b"\n", 0)
    assert str(pipeline.failure).startswith("no valid JSON")


def test_a_fault_that_nobody_takes_closes_and_what_follows_is_not_handled() -> None:
    sink = Sink()
    pipeline = made(LineFrames(), JsonCodec(), sink)
    pipeline.receive_data(b"1\nnonsense\n2\n", 0)
    pipeline.receive_data(b"3\n", 0)
    assert sink.values == [1]
    assert pipeline.is_closing


def test_a_handler_whose_failed_raises_does_not_go_round() -> None:
    class Worse(PipelineHandler):
        def failed(self, error: ProtocolError, link: PipelineLink) -> None:
            raise ProtocolError("worse")

    pipeline = made(LineFrames(1), Worse())
    pipeline.receive_data(b"long", 0)
    assert str(pipeline.failure) == "worse"


def test_a_fault_of_ours_leaves_the_pipeline() -> None:
    def fault(value: Any, link: PipelineLink) -> None:
        raise ZeroDivisionError

    pipeline = made(LineFrames(), Sink(fault))
    with pytest.raises(ZeroDivisionError):
        pipeline.receive_data(b"1\n2\n", 0)


def test_a_missing_decoder_or_encoder_is_named() -> None:
    with pytest.raises(TypeError, match="no handler of the pipeline takes a bytes"):
        made(Mark(b"a")).receive_data(b"1", 0)
    with pytest.raises(TypeError, match="passes a dict to be sent: an encoder to bytes is missing"):
        made().send({})


@pytest.mark.parametrize("framing", [LineFrames, LengthFrames])
@pytest.mark.parametrize("value", ["text", 5, [1, 2], {"a": 1}, None])
def test_a_framing_takes_and_sends_bytes_alone(framing: type[FrameCutter], value: Any) -> None:
    with pytest.raises(TypeError, match=f"{framing.__name__} sends bytes, not a"):
        made(framing()).send(value)

    class Decodes(PipelineHandler):
        def inbound(self, data: bytes, link: PipelineLink) -> None:
            link.pass_inbound(value)

    with pytest.raises(TypeError, match=f"{framing.__name__} cuts bytes, not a"):
        made(Decodes(), framing(), Sink()).receive_data(b"x", 0)


def test_a_sniff_needs_a_function() -> None:
    wrong: Any = [LineFrames()]
    with pytest.raises(TypeError, match="a function of the first bytes"):
        SniffHandler(wrong)


def test_nothing_is_sent_after_a_close() -> None:
    def leave(value: Any, link: PipelineLink) -> None:
        link.pass_outbound(b"bye")
        link.pipeline.close()
        link.pass_outbound(b"more")

    sink = Sink(leave)
    pipeline = made(LineFrames(), sink)
    pipeline.receive_data(b"1\n2\n", 0)
    assert (sink.values, pipeline.data_to_send(), pipeline.is_closing) == ([b"1"], [b"bye\n"], True)


def test_a_wake_is_asked_for_outside_of_the_drivers_calls_alone() -> None:
    wakes: list[str] = []
    other = made(LineFrames())
    pipeline = made(LineFrames(), Sink(lambda value, link: other.send(value)))
    pipeline.wake, other.wake = lambda: wakes.append("own"), lambda: wakes.append("other")
    pipeline.receive_data(b"1\n", 0)
    assert (wakes, other.data_to_send()) == (["other"], [b"1\n"])


# The tail, holds and the last word.


class Tail:
    """Takes values, and holds the pipeline at each `full`."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.resumed = 0
        self.pipeline: ConnectionPipeline | None = None

    def take_value(self, value: Any) -> None:
        if value == b"wrong":
            raise ProtocolError("not for me")
        self.values.append(value)
        if value == b"full" and self.pipeline is not None:
            self.pipeline.hold()

    def resume(self) -> None:
        self.resumed += 1


def tailed(*handlers: PipelineHandler) -> tuple[ConnectionPipeline, Tail]:
    tail = Tail()
    pipeline = tail.pipeline = ConnectionPipeline(handlers, 0, tail)
    return pipeline, tail


def test_what_the_last_handler_passes_on_goes_to_the_tail_also_behind_a_new_one() -> None:
    pipeline, tail = tailed(LineFrames())
    pipeline.receive_data(b"one\n", 0)
    pipeline.add(Mark(b"!"))
    pipeline.receive_data(b"two\nwrong\n", 0)
    assert tail.values == [b"one", b"two!", b"wrong!"]
    pipeline.remove("Mark")
    pipeline.receive_data(b"wrong\nmore\n", 0)
    assert (tail.values[3:], str(pipeline.failure), pipeline.is_closing) == ([], "not for me", True)


def test_a_held_pipeline_cuts_no_frames_until_it_is_released_and_resumed() -> None:
    pipeline, tail = tailed(LineFrames())
    wakes: list[bool] = []
    pipeline.wake = lambda: wakes.append(pipeline.is_held)
    pipeline.receive_data(b"one\nfull\ntwo\nfull\nthr", 0)
    assert (tail.values, pipeline.is_stalled, pipeline.is_held) == ([b"one", b"full"], True, True)
    # Output that was taken resumes nothing: the program holds it.
    pipeline.resume(0)
    assert (tail.values, pipeline.is_stalled) == ([b"one", b"full"], True)
    pipeline.receive_data(b"ee\n", 0)
    pipeline.release()
    pipeline.release()
    assert wakes == [False]
    pipeline.resume(0)
    assert (tail.values, pipeline.is_held) == ([b"one", b"full", b"two", b"full"], True)
    pipeline.release()
    pipeline.resume(0)
    assert (tail.values[4:], pipeline.is_stalled, pipeline.bytes_held) == ([b"three"], False, 0)
    assert pipeline.bytes_received_total == 24


def test_a_pipeline_that_two_hold_continues_at_the_last_release() -> None:
    pipeline, tail = tailed(LineFrames())
    wakes: list[bool] = []
    pipeline.wake = lambda: wakes.append(pipeline.is_held)
    pipeline.hold("one")
    pipeline.hold("two")
    pipeline.receive_data(b"line\n", 0)
    pipeline.release("one")
    pipeline.release()
    pipeline.resume(0)
    assert (tail.values, tail.resumed, wakes, pipeline.is_held) == ([], 0, [], True)
    pipeline.release("two")
    pipeline.resume(0)
    assert (tail.values, tail.resumed, wakes) == ([b"line"], 1, [False])


def test_a_deadline_that_is_set_outside_of_a_call_wakes_the_driver() -> None:
    pipeline = made()
    link = pipeline.add(Sink())
    wakes: list[int | None] = []
    pipeline.wake = lambda: wakes.append(pipeline.next_deadline_ms)
    link.deadline_ms = 7
    assert wakes == [7]


@given(st.lists(st.sampled_from([b"a", b"full", b"bb"])), st.lists(st.integers(0, 60)), st.randoms())
def test_holds_change_neither_the_values_nor_their_order(lines: list[bytes], cuts: list[int], chance: Any) -> None:
    data = b"".join(line + b"\n" for line in lines)
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pipeline, tail = tailed(LineFrames())
    for start, stop in pairwise(bounds):
        pipeline.receive_data(data[start:stop], 0)
        if chance.random() < 0.5:
            pipeline.release()
            pipeline.resume(0)
    while pipeline.is_stalled:
        pipeline.release()
        pipeline.resume(0)
    assert tail.values == lines


@pytest.mark.parametrize("data", [b"close\n", b"nonsense\n"])
def test_handlers_have_a_last_word_once_the_last_first(data: bytes) -> None:
    class Polite(Mark):
        def closing(self, link: PipelineLink) -> None:
            link.pass_outbound(self.letter)
            link.pipeline.close()  # a second call says nothing twice

    def work(value: Any, link: PipelineLink) -> None:
        if value != b"close":
            raise ProtocolError("nonsense")
        link.pipeline.close()

    pipeline = made(LineFrames(), Sink(work))
    pipeline.add(Polite(b"a"), "a")
    pipeline.add(Polite(b"b"), "b")
    pipeline.receive_data(data, 0)
    assert pipeline.data_to_send() == [b"ba\n", b"a\n"]
    assert pipeline.is_closing


def test_the_end_of_the_peer_has_no_last_word() -> None:
    class Polite(PipelineHandler):
        def closing(self, link: PipelineLink) -> None:
            raise AssertionError("nobody hears it")

    pipeline = made(Polite())
    pipeline.end(0)
    assert pipeline.is_closing


def test_the_peer_of_a_pipeline_is_known_from_its_opening_on() -> None:
    pipeline = made(Sink())
    with pytest.raises(RuntimeError, match="opened without a connection"):
        _ = pipeline.peer
    peer = Peer(7, "127.0.0.1", 9, LineFraming(10))
    pipeline.open(0, peer)
    assert (pipeline.peer.id, pipeline.peer.address, pipeline.peer.certificate) == (7, "127.0.0.1", None)


def test_handlers_that_are_none_are_named() -> None:
    wrong: list[Any] = [LineFrames, b"x"]
    with pytest.raises(TypeError, match="give an object of it, LineFrames\\(\\)"):
        ConnectionPipeline(wrong)
    with pytest.raises(TypeError, match="b'x' is no PipelineHandler: derive its class"):
        ConnectionPipeline(wrong[1:])
    with pytest.raises(TypeError, match="a list of handlers, not None"):
        ConnectionPipeline(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Later\.inbound is a coroutine function: hold the pipeline"):
        made(LineFrames(), Later())
    one: Any = LineFrames()
    with pytest.raises(TypeError, match="a pipeline is a list of handlers"):
        ConnectionPipeline(one)


# Time and first bytes.


def test_an_idle_event_comes_when_nothing_was_heard_and_again() -> None:
    sink = Sink()
    pipeline = made(IdleHandler(2), LineFrames(), sink)
    pipeline.open(1_000)
    assert pipeline.next_deadline_ms == 3_000
    pipeline.receive_data(b"half a li", 2_500)
    pipeline.handle_timer(3_000)
    assert sink.events == [ConnectionOpened()]
    assert pipeline.next_deadline_ms == 4_500
    pipeline.handle_timer(4_499)
    pipeline.handle_timer(4_500)
    assert sink.events[1:] == [IdleEvent(2)]
    assert pipeline.next_deadline_ms == 6_500
    pipeline.end(6_000)
    assert pipeline.next_deadline_ms is None


def test_a_timer_may_remove_the_next_handler_whose_timer_is_due() -> None:
    class Removes(IdleHandler):
        def timer(self, link: PipelineLink) -> None:
            link.pipeline.remove("IdleHandler")

    sink = Sink()
    pipeline = made(Removes(1), IdleHandler(1), sink)
    pipeline.open(0)
    pipeline.handle_timer(1_000)
    assert sink.events == [ConnectionOpened()]


def choose(first: bytes) -> list[PipelineHandler] | None:
    if is_tls(first):
        raise ProtocolError("this port takes no TLS")
    if len(first) < 4:
        return None
    return [LineFrames(), JsonCodec()] if first == b"JSON"[: len(first)] or first[:4] == b"JSON" else [LengthFrames()]


@given(st.lists(st.integers(0, 10)))
def test_the_first_bytes_choose_the_handlers(cuts: list[int]) -> None:
    data = b"\0\0\0\6abcdef"
    bounds = [0, *sorted(cuts), len(data)]
    sink = Sink()
    pipeline = made(SniffHandler(choose), sink)
    for start, stop in pairwise(bounds):
        pipeline.receive_data(data[start:stop], 0)
    assert sink.values == [b"abcdef"]
    assert pipeline.names == ["LengthFrames", "Sink"]


def test_several_chosen_handlers_keep_their_order() -> None:
    sink = Sink()
    sink.takes_faults = True
    pipeline = made(SniffHandler(choose), sink)
    pipeline.receive_data(b"JSON\n1\n", 0)
    assert pipeline.names == ["LineFrames", "JsonCodec", "Sink"]
    assert sink.values == [1]


def test_tls_on_a_plain_port_and_bytes_of_no_protocol() -> None:
    pipeline = made(SniffHandler(choose), Sink())
    pipeline.receive_data(b"\x16\x03\x01", 0)
    assert str(pipeline.failure) == "this port takes no TLS"
    pipeline = made(SniffHandler(lambda first: None, bytes_max=3), Sink())
    pipeline.receive_data(b"ab", 0)
    assert pipeline.failure is None
    pipeline.receive_data(b"c", 0)
    assert str(pipeline.failure) == "no known protocol in the first 3 bytes"


def test_half_of_what_makes_a_protocol_known_counts_as_a_begun_frame() -> None:
    pipeline = made(SniffHandler(choose), Sink())
    pipeline.receive_data(b"JS", 0)
    assert pipeline.bytes_held == 2
    # Another handler removes it: the bytes are for the next one.
    sink = Sink()
    pipeline.replace("Sink", sink)
    pipeline.remove("SniffHandler")
    assert (sink.values, pipeline.bytes_held) == ([b"JS"], 0)


def test_a_sniff_that_failed_keeps_nothing_even_if_the_fault_is_taken() -> None:
    sink = Sink()
    sink.takes_faults = True
    pipeline = made(SniffHandler(choose), sink)
    for _ in range(3):
        pipeline.receive_data(b"\x16\x03\x01", 0)
    assert (sink.values, len(sink.faults), pipeline.bytes_held) == ([], 1, 0)


def test_a_sniff_that_answers_with_something_else_is_named() -> None:
    wrong: Any = is_tls
    with pytest.raises(TypeError, match="returned True: return a list of handlers, or None"):
        made(SniffHandler(wrong), Sink()).receive_data(b"\x16", 0)


CHANGES = ["add", "replace", "remove", "none"]


@given(
    st.lists(st.binary(max_size=6).map(lambda line: line.replace(b"\n", b"").replace(b"\r", b"")), max_size=12),
    st.lists(st.tuples(st.integers(0, 90), st.sampled_from(CHANGES)), max_size=8),
)
def test_handlers_come_and_go_while_frames_are_half_received(
    lines: list[bytes], changes: list[tuple[int, str]]
) -> None:
    """A framing that is replaced hands its half frame on; handlers behind it never see half of one."""
    data = b"".join(line + b"\n" for line in lines)
    sink = Sink()
    pipeline, numbers = made(LineFrames(), sink), count()
    at = 0
    for cut, change in sorted(changes):
        pipeline.receive_data(data[at : min(cut, len(data))], 0)
        at = max(at, min(cut, len(data)))
        if change == "replace":
            pipeline.replace(pipeline.names[0], LineFrames(), str(next(numbers)))
        elif change == "add" and "Mark" not in pipeline.names:
            pipeline.add(Mark(b""), before="Sink")
        elif change == "remove" and "Mark" in pipeline.names:
            pipeline.remove("Mark")
        pipeline.check_invariants()
    pipeline.receive_data(data[at:], 0)
    assert sink.values == lines
    assert pipeline.bytes_held == 0


def test_events_of_programs_pass_and_stop_as_any() -> None:
    class Stops(Mark):
        def event(self, event: object, link: PipelineLink) -> None:
            if event != "private":
                link.pass_event(event)

    first, last = Sink(), Sink()
    pipeline = made()
    for name, handler in (("first", Stops(b"")), ("sink", last)):
        pipeline.add(handler, name)
    pipeline.fire_event("private")
    pipeline.fire_event("public")
    # A handler that is added later sees what passes from now on: no ConnectionOpened.
    pipeline.open(0)
    pipeline.replace("sink", first)
    pipeline.fire_event("later")
    assert (last.events, first.events) == (["public", ConnectionOpened()], ["later"])


@pytest.mark.parametrize("wrong", [lambda: IdleHandler(0), lambda: LineFrames(0)])
def test_bounds_of_nothing_are_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="must be"):
        wrong()
