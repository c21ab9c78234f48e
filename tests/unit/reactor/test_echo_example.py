"""The examples in the docs run as they say, and have no more lines than was promised."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
LINES_MAX = {"echo.py": 15, "echo_client.py": 15, "remoting_server.py": 10, "remoting_client.py": 10}


@contextmanager
def echo_server() -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    words = [sys.executable, str(EXAMPLES / "echo.py"), "127.0.0.1:0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().split()[-1], server
        finally:
            server.kill()


def test_the_echo_server_echoes_lines_and_stops_on_sigterm() -> None:
    with echo_server() as (address, server):
        host, port = address.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as client, client.makefile("rb") as answers:
            client.sendall(b"hel")
            client.sendall(b"lo\nsecond line\n")
            assert [answers.readline(), answers.readline()] == [b"hello\n", b"second line\n"]
            with socket.create_connection((host, int(port))) as rude:
                rude.sendall(b"x" * (1024 * 1024 + 1))
                assert rude.recv(1) == b""
            server.terminate()
            assert answers.readline() == b""
        assert server.wait() == 0


def test_the_client_asks_it() -> None:
    with echo_server() as (address, _):
        words = [sys.executable, str(EXAMPLES / "echo_client.py"), address]
        assert subprocess.check_output(words, text=True, timeout=60) == "b'hello'\n"


@pytest.mark.parametrize("name", LINES_MAX)
def test_an_example_has_the_promised_lines(name: str) -> None:
    lines = [line for line in (EXAMPLES / name).read_text().splitlines() if line.strip()]
    assert len(lines) <= LINES_MAX[name]
