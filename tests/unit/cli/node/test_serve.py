"""`hutong serve` as a process: the ready line, signals, and the sentences for what stands in its way."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.bridge import RawClient

from hutong.cli.node.serve import ready_line
from hutong.server.configuration.settings import Address

STOP_DEADLINE_SECONDS = 30

Serve = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts nodes on `tmp_path`/data with further words; kills what a test leaves behind."""
    running: list[subprocess.Popen[str]] = []

    def start(*words: str, data_dir: Path = tmp_path / "data") -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "hutong", "serve", "--data-dir", str(data_dir), *words]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return running[-1]

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


def first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_the_ready_line() -> None:
    kafka = {"kafka": Address("::1", 5)}
    assert ready_line(kafka, 7, as_json=False) == "ready kafka=[::1]:5 pid=7"
    assert json.loads(ready_line(kafka, 7, as_json=True)) == {"ready": True, "kafka": "[::1]:5", "pid": 7}
    more = {**kafka, "metrics": Address("m", 6), "tcp-bridge": None, "sockjs": Address("s", 8)}
    assert ready_line(more, 7, as_json=False) == "ready kafka=[::1]:5 metrics=m:6 sockjs=s:8 pid=7"
    assert json.loads(ready_line(more, 7, as_json=True))["metrics"] == "m:6"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_when_it_is_ready_and_stops_cleanly_on_a_signal(serve: Serve, number: signal.Signals) -> None:
    process = serve("--kafka", "127.0.0.1:0")
    match = re.fullmatch(r"ready kafka=127\.0\.0\.1:(\d+) pid=(\d+)\n", first_line(process))
    assert match
    assert int(match[2]) == process.pid
    socket.create_connection(("127.0.0.1", int(match[1]))).close()
    process.send_signal(number)
    output, log = process.communicate(timeout=STOP_DEADLINE_SECONDS)
    assert (process.returncode, output) == (0, "")
    assert "Traceback" not in log


def test_the_metrics_listener_is_where_the_ready_line_says(serve: Serve) -> None:
    match = re.search(
        r" metrics=127\.0\.0\.1:(\d+) ", first_line(serve("--kafka", "127.0.0.1:0", "--metrics", "127.0.0.1:0"))
    )
    assert match
    with socket.create_connection(("127.0.0.1", int(match[1]))) as connection:
        connection.sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
        assert connection.makefile("rb").read().endswith(b"\r\n\r\nready\n")


def test_the_ready_line_as_json(serve: Serve) -> None:
    process = serve("--kafka", "127.0.0.1:0", "--json")
    document = json.loads(first_line(process))
    assert document["pid"] == process.pid
    assert document["kafka"].startswith("127.0.0.1:")


def test_the_bridge_is_where_the_ready_line_says_and_lets_through_what_is_permitted(serve: Serve) -> None:
    permits = ("--bridge-permit", "in=a|b", "--bridge-permit", "in=c", "--bridge-permit", "out=b")
    ready = first_line(serve("--kafka", "127.0.0.1:0", "--tcp-bridge", "127.0.0.1:0", *permits))
    match = re.fullmatch(r"ready kafka=\S+ tcp-bridge=127\.0\.0\.1:(\d+) pid=\d+\n", ready)
    assert match
    with RawClient(int(match[1])) as client:
        for address, is_permitted in (("a", True), ("b", True), ("c", True), ("d", False)):
            client.send(type="send", address=address)
            client.send(type="ping")
            assert (client.receive()["type"] == "pong") is is_permitted
            if not is_permitted:
                assert client.receive()["type"] == "pong"
        client.send(type="register", address="b")
        client.send(type="publish", address="b", body=1)
        assert client.receive()["body"] == 1


def test_a_bridge_that_lets_nothing_through_is_told_of(serve: Serve) -> None:
    process = serve("--kafka", "127.0.0.1:0", "--tcp-bridge", "127.0.0.1:0")
    first_line(process)
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=STOP_DEADLINE_SECONDS)
    assert "the TCP bridge lets nothing through" in log
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("--bridge-permit", "sideways=a"), 64, "write --bridge-permit in=REGEX"),
        (("--bridge-permit", "in="), 64, "write --bridge-permit in=REGEX"),
        (("--bridge-permit", "in=("), 78, "is no regular expression"),
        (("--bridge-permit", "in=(a+)+"), 78, "repeats without bound"),
        (("--set", "bridge.tls_certificate=/nowhere.pem"), 78, "Cannot use the TLS certificate /nowhere.pem"),
        (("--set", "bridge.authenticator=nonsense"), 78, "write package.module:function"),
        (("--set", "bridge.authenticator=no.such.module:f"), 78, "No module named"),
        (("--set", "bridge.event_hook=json:nothing"), 78, "there is no function nothing in json"),
        (("--tcp-bridge", "192.0.2.1:7000"), 78, "would be open to the network without TLS"),
        (
            ("--tcp-bridge", "192.0.2.1:7000", "--allow-plain", "tcp-bridge"),
            69,
            "choose another address with --tcp-bridge",
        ),
    ],
)
def test_what_is_wrong_with_a_bridge(serve: Serve, words: tuple[str, ...], code: int, sentence: str) -> None:
    ended, errors = ending(serve("--kafka", "127.0.0.1:0", "--tcp-bridge", "127.0.0.1:0", *words))
    assert ended == code, errors
    assert sentence in errors
    assert errors.count("hutong: ") == 1
    assert "Traceback" not in errors


def test_a_permission_without_a_bridge(serve: Serve) -> None:
    ended, errors = ending(serve("--kafka", "127.0.0.1:0", "--bridge-permit", "in=orders"))
    assert ended == 64
    assert "--bridge-permit opens no bridge; add --tcp-bridge HOST:PORT" in errors


def ending(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """Exit code and standard error of a process that must end by itself without a word on standard output."""
    output, errors = process.communicate(timeout=STOP_DEADLINE_SECONDS)
    assert output == ""
    return process.returncode, errors


def test_a_port_in_use(serve: Serve) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, errors = ending(serve("--kafka", address))
    assert code == 69
    assert address in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize("taken_by", ["--kafka", "--tcp-bridge"])
def test_a_start_that_fails_leaves_no_folder_that_was_not_there(serve: Serve, tmp_path: Path, taken_by: str) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        words = ("--kafka", "127.0.0.1:0", taken_by, f"127.0.0.1:{taken.getsockname()[1]}")
        for folder in (tmp_path / "new" / "deep", kept):
            assert ending(serve(*words, data_dir=folder))[0] == 69
    assert list(tmp_path.iterdir()) == [kept]


def test_a_folder_that_a_node_has_served_stays(serve: Serve, tmp_path: Path) -> None:
    node = serve("--kafka", "127.0.0.1:0")
    first_line(node)
    node.send_signal(signal.SIGTERM)
    node.wait()
    assert (tmp_path / "data" / "hutong.json").exists()


def test_a_data_folder_that_cannot_be_made(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, errors = ending(serve("--kafka", "127.0.0.1:0", data_dir=tmp_path / "file" / "data"))
    assert code == 73
    assert errors.startswith(f"hutong: Cannot use the data folder {tmp_path}/file/data")
    assert errors.count("\n") == 1


def test_a_data_folder_in_use_by_another_node(serve: Serve) -> None:
    first_line(serve("--kafka", "127.0.0.1:0"))
    code, errors = ending(serve("--kafka", "127.0.0.1:0"))
    assert code == 75
    assert "in use by another node" in errors
    assert errors.count("\n") == 1


def test_a_wrong_setting_from_the_environment(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "HUTONG_LOG_QOS", "fast")
    code, errors = ending(serve())
    assert code == 78
    assert "log.qos (HUTONG_LOG_QOS) is fast" in errors


def test_what_serving_does_not_import() -> None:
    """The time until the first acknowledged record is a promise, so nothing heavy may creep in."""
    script = "import sys, hutong.cli.node.serve, hutong.server.serving; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"typer", "click", "rich", "confluent_kafka", "psutil", "numpy", "pyarrow", "pyspark", "numba"}
