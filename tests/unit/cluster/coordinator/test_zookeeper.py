"""ZooKeeper's own troubles, with a real server: stops, kills, other people's data, access rights, TLS."""

import asyncio
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme
from tests.support.cuttable_line import CuttableLine
from tests.support.waiting import until
from tests.support.zookeeper import make_zookeeper, running_zookeeper
from tests.unit.cluster.coordinator.listening import Listening, compare_and_set

from hutong.cluster.coordinator.development_zookeeper import DevelopmentZooKeeper
from hutong.cluster.coordinator.port import Coordinator, NodeRegistration, SessionState
from hutong.cluster.coordinator.zookeeper.address import ZooKeeperServer, parse_zookeeper_address
from hutong.cluster.coordinator.zookeeper.opening import make_zookeeper_coordinator
from hutong.cluster.coordinator.zookeeper.probe import serves
from hutong.cluster.coordinator.zookeeper.settings import ZooKeeperSettings, ZooKeeperTls
from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import CoordinatorUnavailable, UsageError
from hutong.reactor.accept.reserved_port import ReservedPort

pytestmark = pytest.mark.fault
kazoo_client = pytest.importorskip("kazoo.client")
SESSION_MS = 1_000
IMPATIENT = ZooKeeperSettings(session_ms=SESSION_MS, connect_timeout_ms=300)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevelopmentZooKeeper]:
    yield from running_zookeeper(tmp_path_factory.mktemp("zookeeper"))


@pytest.fixture
def broken(tmp_path: Path) -> Iterator[DevelopmentZooKeeper]:
    """A server that the test may break."""
    yield from running_zookeeper(tmp_path / "zookeeper")


@pytest.fixture
def operator(shared: DevelopmentZooKeeper) -> Iterator[object]:
    """A client that does what people do."""
    client = kazoo_client.KazooClient(shared.address)
    client.start()
    yield client
    client.stop()
    client.close()


def coordinator(address: str, settings: ZooKeeperSettings | None = None) -> Coordinator:
    settings = settings or ZooKeeperSettings(session_ms=SESSION_MS)
    return make_zookeeper_coordinator(parse_zookeeper_address(f"zk://{address}"), settings, SystemClock())


@asynccontextmanager
async def started(
    address: str, node: int, settings: ZooKeeperSettings | None = None
) -> AsyncIterator[tuple[Coordinator, Listening]]:
    made, heard = coordinator(address, settings), Listening()
    try:
        await made.start(NodeRegistration(node, node, b"{}"), "id", heard)
        await heard.until_state(SessionState.CONNECTED)
        yield made, heard
    finally:
        await made.close()


async def refused(address: str, settings: ZooKeeperSettings | None = None) -> str:
    """The sentence with which a start ends."""
    made = coordinator(address, settings)
    with pytest.raises(UsageError) as raised:
        await made.start(NodeRegistration(1, 1, b"{}"), "id", Listening())
    await made.close()
    return str(raised.value)


async def test_a_server_that_stands_still_for_longer_than_a_session(broken: DevelopmentZooKeeper) -> None:
    async with started(f"{broken.address}/c", 1) as (first, heard), started(f"{broken.address}/c", 2):
        await heard.until_members(1, 2)
        os.kill(broken.pid, signal.SIGSTOP)
        await heard.until_state(SessionState.SUSPENDED)
        with pytest.raises(CoordinatorUnavailable):
            await compare_and_set(first, 0, b"unheard")
        await asyncio.to_thread(threading.Event().wait, SESSION_MS / 1_000)
        os.kill(broken.pid, signal.SIGCONT)
        await heard.until_state(SessionState.CONNECTED)
        await heard.until_members(1, 2)
        assert (await compare_and_set(first, 0, b"heard")).version == 1


async def test_a_killed_server_comes_back_with_what_it_acknowledged(broken: DevelopmentZooKeeper) -> None:
    async with started(f"{broken.address}/c", 1) as (first, heard), started(f"{broken.address}/c", 2):
        await heard.until_members(1, 2)
        assert (await compare_and_set(first, 0, b"kept")).version == 1
        os.kill(broken.pid, signal.SIGKILL)
        await heard.until_state(SessionState.SUSPENDED)
        await asyncio.to_thread(broken.stop)
        await asyncio.to_thread(broken.start)
        await heard.until_state(SessionState.CONNECTED)
        await heard.until(lambda heard: heard.register.value == b"kept")
        assert (await compare_and_set(first, 1, b"next")).version == 2
        await heard.until_members(1, 2)


async def test_a_server_that_lost_its_disk_gets_the_cluster_again(broken: DevelopmentZooKeeper, tmp_path: Path) -> None:
    async with started(f"{broken.address}/c", 1) as (first, heard), started(f"{broken.address}/c", 2):
        await compare_and_set(first, 0, b"lost")
        await asyncio.to_thread(broken.stop)
        await heard.until_state(SessionState.SUSPENDED)
        (tmp_path / "zookeeper" / "data").rename(tmp_path / "gone")
        await asyncio.to_thread(broken.start)
        await heard.until(lambda heard: SessionState.LOST in heard.states)
        await heard.until_state(SessionState.CONNECTED)
        await heard.until_members(1, 2)
        await heard.until(lambda heard: heard.register.version == 0)
    other = coordinator(f"{broken.address}/c")
    assert await other.start(NodeRegistration(3, 3, b"{}"), "other", Listening()) == "id"
    await other.close()


async def test_a_registration_that_somebody_removed_comes_back(shared: DevelopmentZooKeeper, operator: object) -> None:
    async with started(f"{shared.address}/removed", 1) as (_, heard):
        await heard.until_members(1)
        await asyncio.to_thread(operator.delete, "/removed/nodes/1")  # type: ignore[attr-defined]
        await heard.until_members()
        await heard.until_members(1)


async def test_a_new_session_takes_over_the_registration_of_the_same_life(shared: DevelopmentZooKeeper) -> None:
    line = CuttableLine(shared.port)
    await line.mend()
    async with started(f"{shared.address}/over", 1) as (_, heard):
        async with started(f"127.0.0.1:{line.port}/over", 2):
            await heard.until_members(1, 2)
            await line.cut()
            async with started(f"{shared.address}/over", 2):
                assert set(heard.members) == {1, 2}
        await heard.until_members(1)


async def test_a_line_that_falls_silent_suspends_the_session(shared: DevelopmentZooKeeper) -> None:
    line = CuttableLine(shared.port)
    await line.mend()
    async with started(f"{shared.address}/silent", 1) as (_, heard):
        async with started(f"127.0.0.1:{line.port}/silent", 2) as (cut_off, cut_off_heard):
            await heard.until_members(1, 2)
            line.silence()
            with pytest.raises(CoordinatorUnavailable):
                await compare_and_set(cut_off, 0, b"unheard")
            await cut_off_heard.until_state(SessionState.SUSPENDED)
            await heard.until_members(1)
            await line.mend()
            await cut_off_heard.until_state(SessionState.CONNECTED)
            await heard.until_members(1, 2)
            line.silence()
            await cut_off_heard.until_state(SessionState.SUSPENDED)
        await heard.until_members(1)
    await line.cut()


async def test_strange_nodes_are_passed_over(shared: DevelopmentZooKeeper, operator: object) -> None:
    async with started(f"{shared.address}/strange", 1) as (_, heard):
        await heard.until_members(1)
        for name, content in (("x", b"{}"), ("7", b"\xff"), ("8", b'{"incarnation":8,"description":{}}')):
            await asyncio.to_thread(operator.create, f"/strange/nodes/{name}", content)  # type: ignore[attr-defined]
        await heard.until_members(1, 8)


@pytest.mark.parametrize(("asked_ms", "granted_ms"), [(200, 1_000), (3_000, 3_000), (60_000, 10_000)])
async def test_the_session_is_as_long_as_the_server_grants(
    shared: DevelopmentZooKeeper, asked_ms: int, granted_ms: int
) -> None:
    made = coordinator(f"{shared.address}/long", ZooKeeperSettings(session_ms=asked_ms))
    assert made.session_ms == asked_ms
    await made.start(NodeRegistration(1, 1, b"{}"), "id", Listening())
    assert made.session_ms == granted_ms
    await made.close()


async def test_data_of_others_is_left_alone(shared: DevelopmentZooKeeper, operator: object) -> None:
    create = operator.create  # type: ignore[attr-defined]
    await asyncio.to_thread(create, "/foreign/io.vertx", b"", makepath=True)
    await asyncio.to_thread(create, "/marked/hutong", b"something else", makepath=True)
    await asyncio.to_thread(create, "/newer/hutong", b'{"format":9,"cluster_id":"x"}', makepath=True)
    assert "another program's data (/foreign/io.vertx)" in await refused(f"{shared.address}/foreign")
    assert "another program's data (/marked/hutong)" in await refused(f"{shared.address}/marked")
    assert "written by another version (format 9)" in await refused(f"{shared.address}/newer")


async def test_the_root_is_a_place_like_others(tmp_path: Path) -> None:
    for server in running_zookeeper(tmp_path / "zookeeper"):
        async with started(server.address, 1) as (_, heard):
            await heard.until_members(1)


async def test_only_the_user_sees_what_is_the_users(shared: DevelopmentZooKeeper, operator: object) -> None:
    ours = ZooKeeperSettings(session_ms=SESSION_MS, user="broker:secret")
    async with started(f"{shared.address}/above/secured", 1, ours) as (first, _):
        async with started(f"{shared.address}/above/secured", 2, ours) as (_, heard):
            await heard.until_members(1, 2)
        assert (await compare_and_set(first, 0, b"ours")).version == 1
        with pytest.raises(pytest.importorskip("kazoo.exceptions").NoAuthError):
            await asyncio.to_thread(operator.get, "/above/secured/register")  # type: ignore[attr-defined]
        await asyncio.to_thread(operator.create, "/above/other", b"")  # type: ignore[attr-defined]
        theirs = ZooKeeperSettings(session_ms=SESSION_MS, user="broker:guess")
        assert "may not be used by this user" in await refused(f"{shared.address}/above/secured", theirs)


# kazoo leaves it to the garbage collector to close a socket that did not agree on TLS.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_tls_with_the_right_authority(shared: DevelopmentZooKeeper, tmp_path: Path) -> None:
    authority, other = trustme.CA(), trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    line = CuttableLine(shared.port, context)
    await line.mend()
    for name, each in (("right.pem", authority), ("wrong.pem", other)):
        each.cert_pem.write_to_path(str(tmp_path / name))
    address = f"localhost:{line.port}/tls"
    right = ZooKeeperSettings(SESSION_MS, tls=ZooKeeperTls(tmp_path / "right.pem"))
    async with started(address, 1, right) as (_, heard):
        await heard.until_members(1)
    wrong = ZooKeeperSettings(SESSION_MS, 300, tls=ZooKeeperTls(tmp_path / "wrong.pem"))
    assert "has a certificate that is refused" in await refused(address, wrong)
    assert "it wants TLS, is stopped" in await refused(address, IMPATIENT)
    plain = ZooKeeperSettings(SESSION_MS, 300, tls=ZooKeeperTls(tmp_path / "right.pem"))
    assert "does not agree on TLS" in await refused(f"{shared.address}/tls", plain)
    missing = ZooKeeperSettings(tls=ZooKeeperTls(tmp_path / "missing.pem"))
    assert "missing.pem) cannot be used: No such file" in await refused(address, missing)
    await line.cut()


async def test_servers_that_are_none_are_named() -> None:
    async def answer_as_a_web_server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    for answer, sentence in ((answer_as_a_web_server, "is no ZooKeeper"), (say_nothing, "does not answer")):
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        assert sentence in await refused(f"127.0.0.1:{port}/c", IMPATIENT)
        server.close()
        await server.wait_closed()
        assert "refuses connections" in await refused(f"127.0.0.1:{port}/c", IMPATIENT)
    assert "the name is unknown" in await refused("no-such-host.invalid:2181/c", IMPATIENT)


async def test_one_server_of_several_is_enough(shared: DevelopmentZooKeeper) -> None:
    gone = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = gone.sockets[0].getsockname()[1]
    gone.close()
    await gone.wait_closed()
    async with started(f"127.0.0.1:{port},{shared.address}/several", 1) as (_, heard):
        await heard.until_members(1)


def test_a_development_server_that_cannot_start_says_why(tmp_path: Path, shared: DevelopmentZooKeeper) -> None:
    with pytest.raises(UsageError, match="Another ZooKeeper has the port"):
        DevelopmentZooKeeper(tmp_path / "first", os.environ, shared.port).start()
    second = DevelopmentZooKeeper(tmp_path / "second", os.environ)
    (tmp_path / "second" / "data").mkdir(parents=True)
    (tmp_path / "second" / "data" / "version-2").write_text("no folder")
    with pytest.raises(UsageError, match=r"ZooKeeper did not start at .*zookeeper\.log ends with"):
        second.start()


def test_a_development_server_without_its_jars_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make_zookeeper(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'hutong\[spark\]'"):
        DevelopmentZooKeeper(tmp_path, os.environ)


PARENT = """
import os, pathlib, sys
from hutong.cluster.coordinator.development_zookeeper import DevelopmentZooKeeper
server = DevelopmentZooKeeper(pathlib.Path(sys.argv[1]), os.environ)
server.start()
print(server.port, flush=True)
sys.stdin.read()
"""


def test_a_development_server_dies_with_its_parent(tmp_path: Path) -> None:
    words = [sys.executable, "-c", PARENT, str(tmp_path / "zookeeper")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        server = ZooKeeperServer("127.0.0.1", int(parent.stdout.readline()))
        assert serves(server)
        parent.kill()
    until(lambda: not serves(server), what="the end of the server", between_s=0.1)


def test_a_port_that_is_held_for_it_stays_its_own_between_two_lives(tmp_path: Path) -> None:
    held = ReservedPort()
    server = DevelopmentZooKeeper(tmp_path / "zookeeper", os.environ, held.number)
    try:
        for _ in range(2):
            server.start()
            assert serves(ZooKeeperServer("127.0.0.1", held.number))
            server.stop()
            with socket.socket() as other, pytest.raises(OSError, match="in use"):
                other.bind(("127.0.0.1", held.number))
    finally:
        server.stop()
        held.close()
