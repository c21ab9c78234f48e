"""The examples in the docs run and print what they say."""

import socket
import subprocess
import sys
from pathlib import Path

import trustme

from hutong.wire.rocketmq.command import decode, encode_binary, encode_ext

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "remoting.py"
SERVER, CLIENT = EXAMPLE.with_name("remoting_pipeline.py"), EXAMPLE.with_name("remoting_pipeline_client.py")


def test_the_example() -> None:
    run = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=True, timeout=60)
    assert run.stderr == ""
    assert run.stdout.splitlines() == [
        "heard: a remark",
        "b'6'",
        "b'you are in the lane'",
        "b'backward'",
        "request type 9999 not supported",
        "b'9'",
    ]


def test_plain_and_tls_on_one_port_behind_a_password(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.cert_chain_pems[0].write_to_path(str(tmp_path / "server.pem"))
    certificate.private_key_pem.write_to_path(str(tmp_path / "server-key.pem"))
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    files = [str(tmp_path / "server.pem"), str(tmp_path / "server-key.pem")]
    words = [sys.executable, str(SERVER), "127.0.0.1:0", *files]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        try:
            address = server.stdout.readline().strip()
            for more in ([], [str(tmp_path / "authority.pem")]):
                done = subprocess.run(
                    [sys.executable, str(CLIENT), address, *more],
                    capture_output=True,
                    text=True,
                    check=True,
                    timeout=60,
                )
                assert done.stdout.splitlines() == ["b'first'", "b'second'"]
            # Nobody gets on without the password, in however many commands, nor with bytes that are no protocol.
            right, wrong = encode_ext({"password": "open sesame"}), encode_ext({"password": "guess"})
            assert codes_of(address, encode_binary(10, 1, 0, wrong) + encode_binary(10, 2, 0, right)) == [16]
            assert codes_of(address, encode_binary(10, 1, 0, right) + encode_binary(10, 2, 0)) == [0, 0]
            assert codes_of(address, b"GET / HTTP/1.1\r\n\r\n") == []
            assert codes_of(address, b"\x16\x03\x01\xff\xff" + bytes(100)) is None
            server.terminate()
            assert server.wait() == 0
            events = server.stdout.read().split("\n")
            assert events.count("command 10") == 6
            assert events.count("TlsOpened") == 1
            assert events.count("ConnectionOpened") == events.count("ConnectionEnded") == 6
            assert server.stderr.read() == ""
        finally:
            server.kill()


def codes_of(address: str, data: bytes) -> list[int] | None:
    """The codes of all answers until the server closes, or this side once it has two; None for other bytes."""
    host, port = address.split(":")
    codes: list[int] = []
    with socket.create_connection((host, int(port))) as client, client.makefile("rb") as answers:
        client.sendall(data)
        while len(codes) < 2 and (head := answers.read(4)):
            if int.from_bytes(head, "big") > 1_000:
                return None
            codes.append(decode(answers.read(int.from_bytes(head, "big"))).code)
    return codes
