"""`hutong bench meet`: what it prints, and the sentence and exit code of each thing that goes wrong."""

import re
import socket
import threading

import pytest

from hutong.cli import main
from hutong.cli.meet.lines import encode_line
from hutong.cli.meet.machine import L1, L2, L4

FIGURES = re.compile(r"way=(\w+) meetings=(\d+) seconds=\d+\.\d{3} per_second=\d+")
MEMORY = re.compile(
    r"side=(zhang|li) begin_mb=[\d.]+ tenth_mb=[\d.]+ end_mb=[\d.]+ peak_mb=[\d.]+ pauses=\d+ holds=\d+"
)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.mark.parametrize("way", ["runs", "remoting"])
def test_both_sides_meet_in_two_processes(way: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["bench", "meet", "--meetings", "2000", "--way", way]) == 0
    whole, *memory = capsys.readouterr().out.splitlines()
    figures = FIGURES.fullmatch(whole)
    assert figures is not None
    assert figures.groups() == (way, "2000")
    assert [side.group(1) for side in map(MEMORY.fullmatch, memory) if side] == ["zhang", "li"]


def neighbour_saying(words: bytes) -> tuple[socket.socket, threading.Thread]:
    """A listener that says this to the first who comes, and leaves once that has left."""
    listener = socket.create_server(("127.0.0.1", 0))

    def converse() -> None:
        with listener, listener.accept()[0] as connection:
            connection.sendall(words)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 16):
                pass

    thread = threading.Thread(target=converse)
    thread.start()
    return listener, thread


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (encode_line(0, L1), f"hutong: serial 0: unexpected {L1!r}\n"),
        (b"\0\0\0\1", "hutong: a line of 1 bytes; 4 to 1024 are allowed\n"),
        (b"", "hutong: the neighbour left before it had said every line; missing are 2 of "),
    ],
)
def test_a_line_that_is_wrong_or_missing_is_exit_code_1(
    words: bytes, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    listener, thread = neighbour_saying(words)
    address = "{}:{}".format(*listener.getsockname())
    assert main.run(["bench", "meet", "dial", address, "-n", "2"]) == 1
    thread.join()
    printed = capsys.readouterr()
    assert printed.err.startswith(sentence)
    assert printed.out == ""


def test_zhang_listens_alone(capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    ended: list[int] = []
    zhang = threading.Thread(
        target=lambda: ended.append(main.run(["bench", "meet", "listen", f"127.0.0.1:{port}", "-n", "1"]))
    )
    zhang.start()
    connection = None
    while connection is None:  # until it listens; the test's timeout is the bound
        try:
            connection = socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            continue
    with connection:
        connection.sendall(b"".join(encode_line(0, text) for text in (L2, L1, L4)))
        heard = b""
        while len(heard) < 27 + 38 + 38:
            heard += connection.recv(1000)
    zhang.join()
    assert ended == [0]
    printed = capsys.readouterr()
    assert printed.err == f"listening at 127.0.0.1:{port}\n"
    assert FIGURES.match(printed.out)


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["listen"], 64, "neither for both sides"),
        (["dial", "nowhere"], 64, "write HOST:PORT"),
        (["shout", "127.0.0.1:1"], 64, "'shout' is not one of"),
        (["--way", "loud"], 64, "'loud' is not one of"),
        (["-n", "-1"], 64, "greater than or equal to 0"),
        (["dial", "127.0.0.1:1"], 69, "There is no connection: Connection refused."),
        (["dial", "127.0.0.1:1", "--way", "remoting"], 69, "There is no connection: no connection to 127.0.0.1:1"),
    ],
)
def test_what_cannot_be_is_said_in_one_sentence(
    words: list[str], code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["bench", "meet", *words]) == code
    printed = capsys.readouterr().err
    assert sentence in printed
    assert printed.count("\n") == 1
