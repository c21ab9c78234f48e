"""The duplex exercise: one side without a socket, both over loopback, wrong lines, and peers that go away."""

import asyncio
import re
import socket
import subprocess
import sys
import threading

import pytest
from examples.duplex import meet
from examples.duplex.meet import L1, L2, L4, LI, Z0, Z3, Z5, ZHANG, MeetingFailed, Part, Side
from hypothesis import given
from hypothesis import strategies as st

FIGURES = re.compile(r"meetings (\d+) lines (\d+) seconds \d+\.\d{3}")


def line(serial: int, text: bytes) -> bytes:
    return meet.HEAD.pack(4 + len(text), serial) + text


def test_a_side_asks_everything_once_and_in_order() -> None:
    side = Side(LI, 3)
    assert side.ask(2) == line(0, L2) + line(0, L4) + line(1, L2) + line(1, L4)
    assert not side.has_asked_all
    assert side.ask(2) == line(2, L2) + line(2, L4)
    assert side.has_asked_all
    assert side.ask(2) == b""


@pytest.mark.parametrize(
    ("part", "questions", "answers"),
    [
        (ZHANG, line(0, L2) + line(0, L4), line(0, Z3) + line(0, Z5)),
        (LI, line(0, Z0) + line(1, Z0), line(0, L1) + line(1, L1)),
    ],
)
def test_a_side_answers_each_question_with_its_serial(part: Part, questions: bytes, answers: bytes) -> None:
    assert Side(part, 2).receive_data(questions) == answers


@given(st.integers(min_value=1, max_value=5), st.lists(st.integers(min_value=1, max_value=40)))
def test_cuts_between_bytes_make_no_difference(meetings: int, cuts: list[int]) -> None:
    peer = Side(LI, meetings)
    words = peer.ask(meetings) + peer.receive_data(Side(ZHANG, meetings).ask(meetings))
    whole, cut = Side(ZHANG, meetings), Side(ZHANG, meetings)
    expected, answers, rest = whole.receive_data(words), b"", words
    for count in [*cuts, *[1] * len(words)]:
        answers += cut.receive_data(rest[:count])
        rest = rest[count:]
    assert answers == expected
    assert whole.has_heard_all
    assert cut.has_heard_all


WRONG = [
    pytest.param(line(0, b"hello"), "unexpected line: serial 0, 'hello'", id="unknown text"),
    pytest.param(line(0, Z3), "unexpected line: serial 0", id="a line of the other side"),
    pytest.param(line(1, L1), "unexpected line: serial 1", id="a line is missing"),
    pytest.param(line(0, L1) * 2, "unexpected line: serial 0", id="a line comes twice"),
    pytest.param(line(0, L1) + line(1, L1) + line(2, L1), "more than 2 meetings", id="too many"),
    pytest.param(meet.HEAD.pack(0, 0), "unexpected line: serial 0, ''", id="length without a serial"),
    pytest.param(meet.HEAD.pack(1 << 31, 0), "a line of 2147483648 bytes", id="too long"),
    pytest.param(line(0, b"\xff"), "unexpected line", id="no UTF-8"),
]


@pytest.mark.parametrize(("words", "sentence"), WRONG)
def test_a_wrong_line_is_a_failure(words: bytes, sentence: str) -> None:
    with pytest.raises(MeetingFailed, match=sentence):
        Side(ZHANG, 2).receive_data(words)


def listening() -> tuple[socket.socket, str, int]:
    listener = socket.create_server(("127.0.0.1", 0))
    return listener, *listener.getsockname()


@pytest.mark.parametrize("meetings", [0, 1, 3000])
async def test_both_sides_meet_on_one_connection(meetings: int) -> None:
    listener, host, port = listening()
    await asyncio.gather(meet.listen(listener, meetings), meet.dial(host, port, meetings))


async def test_full_buffers_stop_neither_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meet, "UNSENT_BYTES_MAX", 1)  # asking pauses after every write that the kernel does not take
    listener, host, port = listening()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 * 1024)
    await asyncio.gather(meet.listen(listener, 5000), meet.dial(host, port, 5000))


async def test_answers_are_kept_while_the_peer_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the bound nothing is read; both go on once the peer reads again."""
    monkeypatch.setattr(meet, "UNSENT_BYTES_MAX", 16 * 1024)
    monkeypatch.setattr(meet, "OWED_BYTES_MAX", 64 * 1024)
    meetings = 20_000
    listener, host, port = listening()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 * 1024)
    meeting = asyncio.ensure_future(meet.listen(listener, meetings))
    reader, writer = await asyncio.open_connection(host, port, limit=1024)
    peer = Side(LI, meetings)
    while questions := peer.ask(1024):
        writer.write(questions)
        await asyncio.sleep(0)
    while not peer.has_heard_all:
        writer.write(peer.receive_data(await reader.read(1 << 16)))
    writer.close()
    await meeting


def peer_thread(listener: socket.socket, words: bytes) -> threading.Thread:
    """A peer that sends these words to the first who connects, and then hears everything until the connection ends."""

    def converse() -> None:
        with listener, listener.accept()[0] as connection:
            connection.sendall(words)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 16):
                pass

    thread = threading.Thread(target=converse)
    thread.start()
    return thread


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (line(0, L1), f"meet: unexpected line: serial 0, {L1.decode()!r}\n"),
        (b"", f"meet: the peer left before it had said every line; missing are 2 of {Z0.decode()!r}, "),
        (
            line(0, Z3) + line(1, Z3) + line(0, Z5) + line(1, Z5) + line(0, Z0),
            f"missing are 1 of {Z0.decode()!r}\n",
        ),
    ],
)
def test_a_wrong_or_missing_line_ends_the_program_with_1(
    words: bytes, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    listener, host, port = listening()
    thread = peer_thread(listener, words)
    try:
        assert meet.main(["dial", f"{host}:{port}", "-n", "2"]) == 1
    finally:
        thread.join()
    assert sentence in capsys.readouterr().err


def test_a_peer_that_resets_the_connection_ends_the_program_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    listener, host, port = listening()

    def reset() -> None:
        with listener, listener.accept()[0] as connection:
            connection.recv(1)  # the other side has connected
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    thread = threading.Thread(target=reset)
    thread.start()
    try:
        assert meet.main(["dial", f"{host}:{port}", "-n", "2"]) == 1
    finally:
        thread.join()
    assert "the peer left before it had said every line" in capsys.readouterr().err


def test_a_side_that_hears_everything_at_once_ends_its_connection_once() -> None:
    async def meet_a_hasty_peer() -> float:
        ours, peers = socket.socketpair()
        words = Side(LI, 2)
        peers.sendall(words.ask(2) + words.receive_data(Side(ZHANG, 2).ask(2)))
        peers.shutdown(socket.SHUT_WR)
        with peers:
            _, meeting = await asyncio.get_running_loop().connect_accepted_socket(
                lambda: meet.Meeting(Side(ZHANG, 2)), ours
            )
            return await meeting.hold()

    assert asyncio.run(meet_a_hasty_peer()) > 0


def test_nobody_listens(capsys: pytest.CaptureFixture[str]) -> None:
    listener, host, port = listening()
    listener.close()
    assert meet.main(["dial", f"{host}:{port}"]) == 69
    assert "there is no connection" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["listen"], ["dial", "nowhere"], ["-n", "-1"]])
def test_words_that_make_no_sense(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert meet.main(words) == 64
    assert "usage" in capsys.readouterr().err


def test_two_processes_meet(capsys: pytest.CaptureFixture[str]) -> None:
    assert meet.main(["--meetings", "500"]) == 0
    figures = FIGURES.fullmatch(capsys.readouterr().out.splitlines()[-1])
    assert figures is not None
    assert figures.groups() == ("500", "3000")


def test_one_side_alone_in_each_process() -> None:
    command = [sys.executable, meet.__file__, "--meetings", "500"]
    with subprocess.Popen([*command, "listen", "127.0.0.1:0"], stdout=-1, stderr=-1, text=True) as zhang:
        assert zhang.stderr is not None
        address = zhang.stderr.readline().split()[-1]
        li = subprocess.run([*command, "dial", address], capture_output=True, text=True, check=True)
        printed = zhang.communicate()[0]
    assert zhang.returncode == 0
    for figures in (printed, li.stdout):
        assert FIGURES.fullmatch(figures.splitlines()[-1])
