"""Vert.x's own clients of the TCP event-bus bridge, unchanged: JavaScript, Python and Java; fetched, never copied."""

import json
import os
import pathlib
import select
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import pytest
import trustme
from tests.support.bridge import BridgedBus, RawClient, bridged_bus

from hutong.bus import Message
from hutong.testing import EmbeddedNode, Topic

NPM_PACKAGE = "vertx3-tcp-eventbus-client"
NPM_VERSION = "1.0.0-SNAPSHOT"
JS_CLIENT = pathlib.Path(__file__).with_name("bridge_tcp_client.js")
PEER = os.environ.get("HUTONG_TEST_VERTX_PEER") or str(
    pathlib.Path(__file__).resolve().parents[3] / "shared" / "peers" / "vertx" / "vertx"
)
DEADLINE_S = 90.0
PERMITTED = {
    "bridge.permit_in": ("echo|fail|nobody|headers|silent|news|calculator", r"(js|py)\..*"),
    "bridge.permit_out": ("news", r"(js|py)\..*"),
}


@pytest.fixture(scope="module")
def bus() -> Iterator[BridgedBus]:
    with bridged_bus(PERMITTED) as running:
        yield running


@pytest.fixture(scope="module")
def modules() -> pathlib.Path:
    """A node_modules folder that holds the client."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("node and npm are not installed")
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "hutong-compat"
    folder = cache / f"{NPM_PACKAGE}-{NPM_VERSION}"
    if not (folder / "node_modules" / NPM_PACKAGE).exists():
        folder.mkdir(parents=True, exist_ok=True)
        package = f"{NPM_PACKAGE}@{NPM_VERSION}"
        command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), package]
        fetched = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
        if fetched.returncode:
            pytest.skip(f"npm could not fetch {package}: {fetched.stderr[-300:]}")
    return folder / "node_modules"


def test_javascript(bus: BridgedBus, modules: pathlib.Path) -> None:
    done = subprocess.run(
        ["node", "--no-deprecation", str(JS_CLIENT), "127.0.0.1", str(bus.port)],
        env={**os.environ, "NODE_PATH": str(modules)},
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["echo"] == {"text": "ünï\u2028😀", "list": [1, 2.5, None, True]}
    assert seen["failed"] == {"failureCode": 7, "failureType": "RECIPIENT_FAILURE", "message": "no"}
    assert (seen["nobody"]["failureCode"], seen["nobody"]["failureType"]) == (-1, "NO_HANDLERS")
    assert (seen["denied"]["failureType"], seen["denied"]["message"]) == ("ERROR", "access_denied")
    assert seen["headers"] == {"a": "b", "n": "5"}
    assert seen["late"]["failureType"] == "TIMEOUT"
    assert (seen["answered"], seen["answerHeaders"]) == ({"heard": "question"}, {"by": "js"})
    assert seen["further"] == "thanks"
    assert seen["news"] == [[1, False], [2, True]]
    assert seen["errors"] == ["access_denied"]
    bus.must_be_empty()


class PythonClient:
    """The client of PyPI, whose handlers run in its own thread; `next` waits for what they were given."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        from vertx import EventBus  # type: ignore[import-untyped]  # it has no types

        self.errors: list[Any] = []
        self._arrived = threading.Condition()
        self._messages: list[Any] = []
        options = {"ping_interval": 1, "auto_connect": ""}
        self.bus = EventBus("localhost", port, options=options, err_handler=self._failed, ssl_context=tls)

    def _failed(self, error: Any) -> None:
        with self._arrived:
            self.errors.append(error)
            self._arrived.notify()

    def received(self, message: Any) -> None:
        with self._arrived:
            self._messages.append(message)
            self._arrived.notify()

    def close(self) -> None:
        """Its own `close` leaves the connection open as long as its thread waits for a byte, or broken ones."""
        with suppress(OSError):  # the bridge was first
            self.bus.socket.shutdown(socket.SHUT_RDWR)
        self.bus.close()
        self.bus.socket.close()

    def next(self) -> Any:
        with self._arrived:
            assert self._arrived.wait_for(lambda: self._messages, DEADLINE_S)
            return self._messages.pop(0)

    def next_error(self) -> Any:
        with self._arrived:
            assert self._arrived.wait_for(lambda: self.errors, DEADLINE_S)
            return self.errors.pop(0)


class OneAtATime(ssl.SSLSocket):
    """Lets one thread at a time into OpenSSL, and none wait there.

    The client reads, pings and sends from three threads. On one connection OpenSSL does not allow that: a read that
    another thread's write meets looks like the end of the connection. CPython keeps such threads apart from 3.13 on.
    """

    _turn: "threading.Lock | None" = None  # while it is not connected

    def connect(self, address: Any) -> None:
        super().connect(address)
        self.setblocking(False)
        self._turn = threading.Lock()

    def sendall(self, data: Any, flags: int = 0) -> None:
        assert self._turn is not None
        with self._turn:  # a few bytes: they find room
            super().sendall(data, flags)

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        if self._turn is None:
            return super().recv(buflen, flags)
        readable = select.poll()
        readable.register(self, select.POLLIN)
        while True:
            with self._turn:
                try:
                    return super().recv(buflen, flags)
                except (ssl.SSLWantReadError, BlockingIOError):
                    pass
            readable.poll()


@pytest.fixture
def python_client(bus: BridgedBus) -> Iterator[PythonClient]:
    with closing(PythonClient(bus.port)) as client:
        client.bus.connect()
        yield client


OLD_THREADS = pytest.mark.filterwarnings("ignore:setDaemon:DeprecationWarning")  # the client's own


@OLD_THREADS
def test_python_asks_and_is_answered(python_client: PythonClient) -> None:
    python_client.bus.send("echo", body={"text": "ünï😀"}, headers={"a": "b"}, reply_handler=python_client.received)
    assert python_client.next()["body"] == {"text": "ünï😀"}
    python_client.bus.send("fail", body=1, reply_address="py.r")
    failed = python_client.next_error()
    assert (failed["address"], failed["failureCode"], failed["message"]) == ("py.r", 7, "no")
    python_client.bus.send("secret", body=1)
    assert python_client.next_error() == {"type": "err", "message": "access_denied"}


@OLD_THREADS
def test_python_serves_and_hears(bus: BridgedBus, python_client: PythonClient) -> None:
    python_client.bus.register_handler("py.svc", python_client.received)
    python_client.bus.send("echo", body=1, reply_handler=python_client.received)
    assert python_client.next()["body"] == 1  # so the registration is done
    reply = bus.call(lambda: bus.bus.request("py.svc", {"n": 1}))
    asked = python_client.next()
    python_client.bus.send(asked["replyAddress"], body={"n": 2})

    async def answer() -> Message:
        message: Message = await reply
        return message

    assert bus.thread.run(answer()).body == {"n": 2}
    bus.call(lambda: bus.bus.publish("py.svc", "to all"))
    heard = python_client.next()
    assert (heard["body"], heard["send"]) == ("to all", False)
    python_client.bus.unregister_handler("py.svc")
    bus.until(lambda: bus.bridge.figures.registrations == 0, "the end of the registration")


@OLD_THREADS
def test_python_over_tls_with_a_certificate_of_its_own(tmp_path: pathlib.Path) -> None:
    authority = trustme.CA()
    ca, server, own = tmp_path / "ca.pem", tmp_path / "server.pem", tmp_path / "client.pem"
    authority.cert_pem.write_to_path(ca)
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(server)
    authority.issue_cert("ann@example.org").private_key_and_cert_chain_pem.write_to_path(own)
    settings = PERMITTED | {"bridge.tls_certificate": str(server), "bridge.tls_client_ca": str(ca)}
    context, stranger_context = (ssl.create_default_context(cafile=str(ca)) for _ in range(2))
    context.load_cert_chain(own)
    context.sslsocket_class = OneAtATime
    with bridged_bus(settings) as bus:
        with closing(PythonClient(bus.port, context)) as client:
            client.bus.connect()
            client.bus.send("echo", body="secret", reply_handler=client.received)
            assert client.next()["body"] == "secret"
        # Refused at the handshake, or just after it.
        with (
            pytest.raises((ssl.SSLError, EOFError, ConnectionError)),
            RawClient(bus.port, stranger_context) as stranger,
        ):
            stranger.must_be_alive()


@pytest.fixture(scope="module")
def peer() -> str:
    """The command of Java programs with Vert.x; their first use fetches jars and compiles."""
    if not os.access(PEER, os.X_OK):
        pytest.skip("no Vert.x peer: name its script in HUTONG_TEST_VERTX_PEER")
    if not shutil.which("java") or not shutil.which("mvn"):
        pytest.skip("java and mvn are not installed")
    return PEER


def call_from_java(peer: str, port: int, *arguments: str) -> Any:
    command = [peer, "bridge-client", "127.0.0.1", str(port), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    return json.loads(done.stdout)


def test_java_asks_and_is_answered(bus: BridgedBus, peer: str) -> None:
    answered = call_from_java(peer, bus.port, "headers", "add", '{"a": 1}', "--headers", '{"h": "v"}')
    assert answered == {"ok": True, "body": {"h": "v", "action": "add"}, "headers": {}}
    echoed = call_from_java(peer, bus.port, "echo", "any", '{"a": [1, 2.5, null, "ü"]}')
    assert echoed["body"] == {"a": [1, 2.5, None, "ü"]}


def test_java_is_told_of_failures(bus: BridgedBus, peer: str) -> None:
    failed = call_from_java(peer, bus.port, "fail", "any")
    assert (failed["ok"], failed["failureCode"], failed["failureType"], failed["message"]) == (
        False, 7, "RECIPIENT_FAILURE", "no",
    )  # fmt: skip
    assert call_from_java(peer, bus.port, "secret", "any")["message"] == "access_denied"


@OLD_THREADS
def test_a_publication_at_a_durable_address_is_a_record() -> None:
    settings = {
        "tcp_bridge.listen": "127.0.0.1:0",
        "bridge.permit_in": r"topic:orders",
        "topic.auto_create": "false",
    }
    with EmbeddedNode(topics=[Topic("orders", config={"max.message.bytes": "1000"})], settings=settings) as node:
        assert node.tcp_bridge is not None
        with closing(PythonClient(int(node.tcp_bridge.rpartition(":")[2]))) as client:
            client.bus.connect()
            client.bus.publish("topic:orders", headers={"trace": "7"}, body={"cents": 1200})
            (record,) = node.records("orders", count=1)
            client.bus.publish("topic:orders", body="x" * 2_000)
            assert client.next_error()["message"] == "not_delivered"
    assert json.loads(record.value or b"") == {"cents": 1200}
    assert ("trace", b"7") in record.headers
