"""The example in the docs runs as it says, and ends as it says."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "echo.py"


def test_the_echo_server_echoes_lines_and_stops_on_sigterm() -> None:
    with subprocess.Popen([sys.executable, str(EXAMPLE)], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            address = server.stdout.readline().split()[-1]
            host, port = address.rsplit(":", 1)
            with socket.create_connection((host, int(port))) as client, client.makefile("rb") as answers:
                client.sendall(b"hel")
                client.sendall(b"lo\nsecond line\n")
                assert [answers.readline(), answers.readline()] == [b"hello\n", b"second line\n"]
                assert server.stdout.readline().startswith("peer 1 at 127.0.0.1:")
                with socket.create_connection((host, int(port))) as rude:
                    rude.sendall(b"x" * 1001)
                    assert rude.recv(1) == b""
                server.send_signal(signal.SIGTERM)
                assert answers.readline() == b""
            assert server.wait() == 0
        finally:
            server.kill()
