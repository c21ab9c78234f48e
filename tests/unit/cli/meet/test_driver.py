"""A side on real sockets: all is heard with full buffers, and a neighbour who is wrong, gone or deaf is told of."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
import uvloop

from hutong.cli.meet.driver import (
    AHEAD_AT_END,
    AHEAD_MAX,
    ASK_BYTES,
    BLOCK_BYTES,
    KERNEL_BUFFER_BYTES,
    OWED_BYTES_MAX,
    UNSENT_BYTES_MAX,
    Chunks,
    Conversation,
    Stage,
    Told,
    dial,
    limits_of,
    listen,
)
from hutong.cli.meet.lines import encode_line
from hutong.cli.meet.machine import L1, L2, L4, LI, Z0, Z3, Z5, ZHANG, Side
from hutong.foundation.errors import ProtocolError
from hutong.reactor.handler import Peer
from hutong.reactor.limits import ReactorLimits
from hutong.reactor.protocol import SCRATCH_BYTES
from hutong.wire.buffer import Buffer

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
Scenario = Callable[[], Coroutine[Any, Any, None]]
Neighbour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[object]]


def on_both_loops(scenario: Scenario) -> Callable[[str], None]:
    def test(loop: str) -> None:
        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.run(scenario())

    test.__name__ = scenario.__name__
    return pytest.mark.parametrize("loop", LOOPS)(test)


async def both(zhang: Side, li: Side, limits: ReactorLimits) -> list[Told]:
    """Zhang and Li on one loop."""
    bound: asyncio.Future[tuple[str, int]] = asyncio.get_running_loop().create_future()

    async def come() -> Told:
        return await dial(*(await bound), li, limits=limits)

    return list(await asyncio.gather(listen("127.0.0.1", 0, zhang, ready=bound.set_result, limits=limits), come()))


async def with_neighbour(zhang: Side, neighbour: Neighbour, limits: ReactorLimits | None = None) -> Told:
    """Zhang's side of ours, and whatever comes."""
    bound: asyncio.Future[tuple[str, int]] = asyncio.get_running_loop().create_future()

    async def come() -> None:
        reader, writer = await asyncio.open_connection(*(await bound))
        try:
            await neighbour(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    ours = listen("127.0.0.1", 0, zhang, ready=bound.set_result, limits=limits or limits_of())
    told, gone = await asyncio.gather(ours, come(), return_exceptions=True)
    for outcome in (told, gone):
        if isinstance(outcome, BaseException):
            raise outcome
    assert isinstance(told, Told)
    return told


def said(texts: tuple[str, ...], serials: range) -> bytes:
    return b"".join(encode_line(serial, text) for serial in serials for text in texts)


@on_both_loops
async def test_two_neighbours_say_and_hear_every_line() -> None:
    for line_by_line in (False, True):
        zhang, li = (Side(part, 3_000, line_by_line=line_by_line) for part in (ZHANG, LI))
        for told in await both(zhang, li, limits_of()):
            assert told.seconds > 0
        assert zhang.is_done
        assert li.is_done


@on_both_loops
async def test_full_buffers_on_both_sides_stop_nobody_for_ever() -> None:
    zhang, li = Side(ZHANG, 1_000_000), Side(LI, 1_000_000)
    limits = ReactorLimits(unsent_bytes_max=4_096, send_buffer_bytes=32 * 1024, receive_buffer_bytes=32 * 1024)
    by_zhang, by_li = await both(zhang, li, limits)
    assert by_zhang.pauses + by_li.pauses > 0
    assert zhang.is_done
    assert li.is_done


@on_both_loops
async def test_no_meeting_ends_at_once() -> None:
    zhang, li = Side(ZHANG, 0), Side(LI, 0)
    await both(zhang, li, limits_of())
    assert zhang.is_done
    assert li.is_done


@on_both_loops
async def test_a_neighbour_may_hear_everything_before_it_says_anything() -> None:
    meetings = range(100_000)  # more than all buffers hold

    async def neighbour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(27 * len(meetings)) == said((Z0,), meetings)
        writer.write(said((L1,), meetings))
        answers = asyncio.ensure_future(reader.readexactly(76 * len(meetings)))
        writer.write(said((L2, L4), meetings))
        assert await answers == said((Z3, Z5), meetings)

    await with_neighbour(Side(ZHANG, len(meetings)), neighbour)


@on_both_loops
async def test_a_neighbour_may_say_everything_before_it_hears_anything() -> None:
    meetings = range(2_000)

    async def neighbour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said((L2,), meetings) + said((L4,), meetings) + said((L1,), meetings))
        await writer.drain()
        assert len(await reader.readexactly((27 + 76) * len(meetings))) > 0

    await with_neighbour(Side(ZHANG, len(meetings)), neighbour, ReactorLimits(unsent_bytes_max=4_096))


@on_both_loops
async def test_a_wrong_line_ends_the_connection_and_is_named() -> None:
    async def neighbour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said((L2,), range(2)) + said((L2,), range(1)))
        with contextlib.suppress(ConnectionResetError):
            await reader.read()

    with pytest.raises(ProtocolError, match=f"serial 0 of '{L2}' where 2 is due"):
        await with_neighbour(Side(ZHANG, 10), neighbour)


@on_both_loops
async def test_a_neighbour_who_leaves_early_leaves_lines_missing() -> None:
    async def neighbour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said((L2, L4), range(2)) + said((L1,), range(3)))
        await reader.readexactly(27 * 3 + 76 * 2)

    with pytest.raises(ProtocolError, match=f"missing are 1 of '{L2}', 1 of '{L4}'$"):
        await with_neighbour(Side(ZHANG, 3), neighbour)


@on_both_loops
async def test_who_comes_second_is_sent_away() -> None:
    async def neighbour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        second, to_second = await asyncio.open_connection(*writer.get_extra_info("peername")[:2])
        assert await second.read() == b""
        to_second.close()
        writer.write(said((L2, L4, L1), range(1)))
        await reader.readexactly(27 + 76)

    await with_neighbour(Side(ZHANG, 1), neighbour)


@on_both_loops
async def test_where_nobody_listens_there_is_no_conversation() -> None:
    with pytest.raises(OSError):
        await dial("127.0.0.1", 1, Side(LI, 1), limits=limits_of())


class Listener:
    """A conversation whose peer is played by the test; what is pushed is kept."""

    def __init__(self, side: Side, *, owed_bytes_max: int = OWED_BYTES_MAX, leaves_first: bool = True) -> None:
        self.stage = Stage(limits_of())
        self.conversation = Conversation(side, self.stage, leaves_first=leaves_first, owed_bytes_max=owed_bytes_max)
        self.peer = Peer(1, "127.0.0.1", 5000, Chunks(1))
        self.peer.push = self._pushed
        self.peer.release = self._released
        self.pushed = b""
        self.released = 0
        self.conversation.connection_opened(self.peer)

    async def turns(self, count: int = 20) -> bytes:
        """What is said within so many turns of the loop."""
        for _ in range(count):
            await asyncio.sleep(0)
        words, self.pushed = self.pushed, b""
        return words

    def _pushed(self, buffers: list[Buffer]) -> None:
        self.pushed += b"".join(buffers)

    def _released(self) -> None:
        self.released += 1

    def hear(self, words: bytes) -> bool:
        """Whether it was listened to."""
        return self.conversation.request_received(words, self.peer) is None


async def test_nothing_is_said_to_a_neighbour_who_does_not_read_but_it_is_heard() -> None:
    side = Side(ZHANG, 100_000)
    playing = Listener(side)
    assert playing.peer.is_duplex
    await playing.turns(3)
    playing.peer.sending_changed(True)
    asked = side.asked
    assert playing.hear(said((L2,), range(5)))
    assert await playing.turns() == b""
    assert 0 < side.asked == asked < side.meetings
    playing.peer.sending_changed(False)
    words = await playing.turns(1)
    assert words.startswith(said((Z3,), range(5)))
    assert words.endswith(said((Z0,), range(side.asked - 1, side.asked))), "neither waits for the other"
    assert side.asked > asked


async def test_a_neighbour_who_asks_and_does_not_read_is_not_listened_to_for_ever() -> None:
    side = Side(ZHANG, 100_000)
    playing = Listener(side, owed_bytes_max=400_000)
    await playing.turns(1)
    playing.peer.sending_changed(True)
    heard = 0
    while playing.hear(said((L2,), range(heard, heard + 100))):
        heard += 100
    assert 400_000 < heard * 38 <= 400_000 + 3_800
    assert playing.conversation.told.holds == 1
    asked = side.asked
    playing.peer.sending_changed(False)
    words = await playing.turns(1)
    assert words == said((Z3,), range(heard))[: len(words)], "too much is owed to ask more"
    assert side.asked == asked
    assert playing.released == 0
    while not playing.released:
        words += await playing.turns(1)
    assert side.asked > asked
    assert heard * 38 - words.count("嗨".encode()) * 38 <= 200_000
    assert playing.hear(said((L2,), range(heard, heard + 100)))


async def test_who_waits_to_ask_ends_with_the_connection() -> None:
    playing = Listener(Side(ZHANG, 100_000))
    playing.peer.sending_changed(True)
    await playing.turns()
    assert len(playing.peer.owner) == 1, "it is parked"
    playing.peer.owner.end()
    playing.conversation.connection_closed(playing.peer)
    assert await playing.turns() == b""
    with pytest.raises(ProtocolError, match="the neighbour left"):
        await playing.conversation.ended()


def test_what_two_sides_may_have_on_their_way_is_less_than_what_makes_one_deaf() -> None:
    longest_answer = max(
        len(answer.encode(0, 1)) / len(question.encode(0, 1))
        for part in (ZHANG, LI)
        for question, answer in part.answers.items()
        if answer is not None
    )
    block = max(2 * ASK_BYTES, int(SCRATCH_BYTES * longest_answer), BLOCK_BYTES) // 2
    on_the_way = UNSENT_BYTES_MAX + block + 2 * 2 * KERNEL_BUFFER_BYTES
    assert on_the_way * longest_answer < OWED_BYTES_MAX / 4


async def test_who_is_answered_at_length_keeps_step_but_waits_for_nobody() -> None:
    side = Side(LI, 100_000)
    playing = Listener(side)
    while (words := await playing.turns(1)) or not side.asked:
        assert len(words) <= ASK_BYTES
    assert side.asked == side.unanswered == AHEAD_MAX
    playing.hear(said((Z3, Z5), range(100)))
    assert len(await playing.turns(2)) == 100 * 58
    asked = side.asked
    while side.asked == asked:  # the clock is the machine's: after some milliseconds of silence it speaks up
        await playing.turns(1)
    assert side.asked == asked + ASK_BYTES // 58


async def test_towards_the_end_both_keep_closer_together() -> None:
    side = Side(LI, AHEAD_MAX + 1_000)
    playing = Listener(side)
    await playing.turns()
    assert side.unanswered < AHEAD_MAX
    while side.asked < side.meetings:
        answered = side.asked - side.unanswered
        playing.hear(said((Z3, Z5), range(answered, answered + 100)))
        await playing.turns(2)
    assert side.unanswered <= AHEAD_AT_END


async def test_who_leaves_last_has_the_last_word() -> None:
    playing = Listener(Side(ZHANG, 10), leaves_first=False)
    assert await playing.turns() == said((Z0,), range(10))
    playing.hear(said((L2, L4), range(9)))
    assert await playing.turns() == said((Z3, Z5), range(9))
    playing.hear(said((L2, L4), range(9, 10)))
    assert await playing.turns() == b""
    playing.hear(said((L1,), range(9)))
    assert await playing.turns() == b""
    playing.hear(said((L1,), range(9, 10)))
    assert await playing.turns() == said((Z3, Z5), range(9, 10))


async def test_the_last_word_is_said_into_silence_too() -> None:
    side = Side(ZHANG, 1)
    playing = Listener(side, leaves_first=False)
    words = await playing.turns()
    playing.hear(said((L2, L4), range(1)))
    while not words.endswith(said((Z3, Z5), range(1))):
        words += await playing.turns(1)
    assert side.missing == {L1: 1}
