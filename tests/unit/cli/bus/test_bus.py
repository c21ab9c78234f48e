"""`hutong bus` against a bridge: what it prints, and the sentence and exit code of each thing that goes wrong."""

import io
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from tests.support.bridge import BridgedBus, bridged_bus

from hutong.cli import main

PERMITTED = {"bridge.permit_in": ("echo|fail|headers|silent|count|nobody|news",), "bridge.permit_out": ("news",)}


@pytest.fixture(scope="module")
def bus() -> Iterator[BridgedBus]:
    with bridged_bus(PERMITTED) as running:
        yield running


class Hutong:
    """Runs `hutong bus ...` against the bridge."""

    def __init__(self, bridge: str, captured: pytest.CaptureFixture[str]) -> None:
        self.bridge = bridge
        self.captured = captured
        self.err = ""

    def __call__(self, *words: str, code: int = 0) -> str:
        ended = main.run(["bus", *words, "--bridge", self.bridge])
        printed = self.captured.readouterr()
        self.err = printed.err
        assert ended == code, self.err
        return printed.out


@pytest.fixture
def hutong(bus: BridgedBus, capsys: pytest.CaptureFixture[str]) -> Hutong:
    return Hutong(f"127.0.0.1:{bus.port}", capsys)


@pytest.mark.parametrize(
    ("text", "body"),
    [("5", 5), ('{"a": [1, null]}', {"a": [1, None]}), ("hello", "hello"), ("not {json", "not {json"), ("ä😀", "ä😀")],
)
def test_a_request_prints_the_reply(hutong: Hutong, text: str, body: object) -> None:
    assert json.loads(hutong("request", "echo", text)) == body


def test_a_body_may_be_text_or_nothing_or_standard_input(hutong: Hutong, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hutong("request", "echo", "5", "--text") == '"5"\n'
    assert hutong("request", "echo") == "null\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"from": "stdin"}\n'))
    assert hutong("request", "echo", "-") == '{"from": "stdin"}\n'


def test_headers_are_sent_and_whole_messages_shown(hutong: Hutong) -> None:
    printed = json.loads(hutong("request", "headers", "-H", "a=b", "-H", "c=d=e", "--json"))
    assert printed["body"] == {"a": "b", "c": "d=e"}
    assert printed["headers"] == {}


def test_sends_and_publications_arrive(bus: BridgedBus, hutong: Hutong) -> None:
    hutong("send", "count", "1")
    hutong("publish", "count", '"two"')
    bus.until(lambda: bus.counted == [1, "two"], "both messages")


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("request", "fail"), 69, "failed with RECIPIENT_FAILURE (7): no."),
        (("request", "nobody"), 66, "failed with NO_HANDLERS (-1)"),
        (("request", "silent", "--timeout", "20"), 69, "failed with TIMEOUT (-1)"),
        (("request", "secret"), 77, "does not permit secret (access_denied)"),
        (("send", "secret"), 77, "does not permit secret (access_denied)"),
        (("listen", "echo"), 77, "does not permit echo (access_denied)"),
        (("send", "echo", "--header", "nothing"), 64, "write --header NAME=VALUE"),
        (("send", "x" * 300), 76, "refused this: max_address_length_reached"),
        (("send", "echo", "--tls-ca", "/nowhere"), 66, "Cannot use /nowhere for TLS"),
        (("send", "echo", "--tls"), 69, "No bridge answers"),
    ],
)
def test_what_goes_wrong_is_one_sentence(hutong: Hutong, words: tuple[str, ...], code: int, sentence: str) -> None:
    assert hutong(*words, code=code) == ""
    assert sentence in hutong.err
    assert hutong.err.count("\n") == 1


def test_where_no_bridge_is(hutong: Hutong) -> None:
    hutong.bridge = "127.0.0.1:1"
    hutong("send", "echo", code=69)
    assert "hutong serve --tcp-bridge 127.0.0.1:1" in hutong.err
    hutong.bridge = "nonsense"
    hutong("send", "echo", code=64)
    assert "HOST:PORT" in hutong.err


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\4nope", b"\0\0\0\2[]"])
def test_what_is_no_bridge(hutong: Hutong, answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            connection.recv(1000)
            connection.sendall(answer)
            connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        hutong.bridge = f"127.0.0.1:{server.getsockname()[1]}"
        hutong("send", "echo", code=69)
        thread.join()
    assert "no TCP event-bus bridge" in hutong.err


def test_listening_prints_what_comes_and_answers(bus: BridgedBus, hutong: Hutong) -> None:
    command = [sys.executable, "-m", "hutong", "bus", "listen", "news", "-n", "3", "--reply", '{"got": true}']
    environment = {**os.environ, "HUTONG_BRIDGE": hutong.bridge}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stderr.readline() == "listening at news\n"
        hutong("publish", "news", '{"n": 1}')
        assert process.stdout.readline() == '{"n": 1}\n'
        hutong("send", "news", "two")
        assert process.stdout.readline() == '"two"\n'
        assert hutong("request", "news", "3") == '{"got": true}\n'
        assert process.stdout.readline() == "3\n"
        assert process.wait(20) == 0


def test_over_tls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    authority = trustme.CA()
    ca, server, own = tmp_path / "ca.pem", tmp_path / "server.pem", tmp_path / "own.pem"
    authority.cert_pem.write_to_path(ca)
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(server)
    authority.issue_cert("ann@example.org").private_key_and_cert_chain_pem.write_to_path(own)
    tls = {"bridge.tls_certificate": str(server), "bridge.tls_client_ca": str(ca)}
    with bridged_bus(PERMITTED | tls) as bus:
        hutong = Hutong(f"127.0.0.1:{bus.port}", capsys)
        assert hutong("request", "echo", "1", "--tls-ca", str(ca), "--tls-certificate", str(own)) == "1\n"
        hutong("request", "echo", "1", "--tls", code=69)
        assert "certificate" in hutong.err.lower()
        hutong("request", "echo", "1", "--tls-ca", str(ca), code=69)
        hutong("request", "echo", "1", code=69)
