"""TLS between nodes of ours: who is let in, and whom a node sends to."""

import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
from tests.support.pem_files import PemFiles
from tests.support.waiting import turning_until
from tests.unit.bus.clustered.scenes import Cluster, ClusterNode

from hutong.bus import FailureType, ReplyError
from hutong.bus.clustered import ClusterTls
from hutong.bus.clustered.tls import ClusterCertificates
from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import UsageError

HERE = "127.0.0.1"
RELOAD_MS = 1_000


def tls_of(files: PemFiles, **more: Any) -> ClusterTls:
    return ClusterTls(files.certificate, files.ca, files.key, **more)


@pytest.fixture
def files(tmp_path: Path) -> PemFiles:
    return PemFiles(tmp_path / "own", HERE)


async def reason_of(node: ClusterNode, address: str = "echo") -> str:
    with pytest.raises(ReplyError) as caught:
        await node.bus.request(address, 1)
    assert caught.value.failure_type is FailureType.ERROR
    return caught.value.message


def echo(node: ClusterNode) -> None:
    node.bus.consumer("echo", lambda message: message.body)


@pytest.mark.parametrize("client_auth", ["none", "requested", "required"])
async def test_both_ways_are_encrypted(files: PemFiles, client_auth: str) -> None:
    tls = tls_of(files, client_auth=client_auth)
    async with Cluster() as cluster:
        a, b = await cluster.node("a", tls), await cluster.node("b", tls)
        echo(b)
        await a.until_receivers("echo", 1)
        assert [(await a.bus.request("echo", number)).body for number in range(3)] == [0, 1, 2]
        # A plain connection gets nothing but TLS's own alert, or an end.
        with socket.create_connection((b.info.host, b.info.port)) as plain:
            plain.sendall(bytes(64))
            plain.settimeout(10)
            await turning_until(lambda: b.clustered._acceptor.figures.connections_open <= 1)


@pytest.mark.parametrize(("client_auth", "is_let_in"), [("none", True), ("requested", True), ("required", False)])
async def test_a_node_without_a_certificate(files: PemFiles, client_auth: str, is_let_in: bool) -> None:
    async with Cluster() as cluster:
        node = await cluster.node("a", tls_of(files, client_auth=client_auth))
        context = ssl.create_default_context(cafile=files.ca)
        accepted = node.clustered._acceptor.figures

        def dial() -> bytes:
            place = (node.info.host, node.info.port)
            with (
                socket.create_connection(place, 10) as line,
                context.wrap_socket(line, server_hostname=HERE) as encrypted,
            ):
                return encrypted.recv(1)

        dialled = node.runtime.context(name="dialler").loop.run_in_executor(None, dial)
        if is_let_in:
            await turning_until(lambda: accepted.connections_accepted_total == 1)
            await node.close()
            assert await dialled == b""
        else:
            with pytest.raises(ssl.SSLError, match="certificate required"):
                await dialled
            assert accepted.connections_accepted_total == 0


async def test_a_node_of_another_authority_is_not_sent_to(files: PemFiles, tmp_path: Path) -> None:
    stranger = PemFiles(tmp_path / "stranger", HERE)
    async with Cluster() as cluster:
        a, b = await cluster.node("a", tls_of(files)), await cluster.node("b", tls_of(stranger))
        echo(a)
        echo(b)
        await a.until_receivers("echo", 2)
        await b.until_receivers("echo", 2)
        for node in (a, b):
            found = [await answer_of(node), await answer_of(node)]
            assert sorted(found, key=str) == [1, "certificate verify failed"]


async def answer_of(node: ClusterNode) -> object:
    try:
        return (await node.bus.request("echo", 1)).body
    except ReplyError as error:
        return "certificate verify failed" if "certificate verify failed" in error.message else error.message


async def test_a_certificate_of_another_host_is_refused_where_names_are_checked(
    files: PemFiles, tmp_path: Path
) -> None:
    elsewhere = PemFiles(tmp_path / "elsewhere", "other.example", authority=files.authority)
    async with Cluster() as cluster:
        b = await cluster.node("b", tls_of(elsewhere))
        echo(b)
        for name, checks in (("strict", True), ("lax", False)):
            node = await cluster.node(name, tls_of(files, check_names=checks))
            await node.until_receivers("echo", 1)
            if checks:
                assert "certificate verify failed: IP address mismatch" in await reason_of(node)
            else:
                # The answer needs b's connection to it, whose certificate is for this host.
                assert (await node.bus.request("echo", 1)).body == 1


async def test_plain_nodes_and_those_with_tls_do_not_reach_each_other(files: PemFiles) -> None:
    async with Cluster() as cluster:
        a, b = await cluster.node("a", tls_of(files)), await cluster.node("b")
        a.bus.consumer("at-a", lambda message: message.body)
        b.bus.consumer("at-b", lambda message: message.body)
        await a.until_receivers("at-b", 1)
        await b.until_receivers("at-a", 1)
        assert "cannot" in await reason_of(a, "at-b")
        assert "cannot" in await reason_of(b, "at-a")


class MovedClock(SystemClock):
    ahead_ms = 0

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.ahead_ms


def test_files_that_change_are_loaded_again(files: PemFiles, caplog: pytest.LogCaptureFixture) -> None:
    clock = MovedClock()
    certificates = ClusterCertificates(tls_of(files, reload_interval_ms=RELOAD_MS), clock)
    first = certificates.accepting(), certificates.opening()
    clock.ahead_ms += RELOAD_MS
    assert (certificates.accepting(), certificates.opening()) == first
    key = files.key.read_bytes()
    files.key.write_bytes(key[: len(key) // 2])
    clock.ahead_ms += RELOAD_MS
    assert (certificates.accepting(), certificates.opening()) == first
    assert "goes on with what was loaded before" in caplog.text
    files.renew(HERE, "another.example")
    assert certificates.accepting() is first[0]  # it has looked just now
    clock.ahead_ms += RELOAD_MS
    assert certificates.opening() is not first[1]
    assert certificates.accepting() is not first[0]


def test_what_cannot_be_used_is_refused(files: PemFiles, tmp_path: Path) -> None:
    for tls, words in (
        (ClusterTls(files.certificate, tmp_path / "none.pem", files.key), "none.pem"),
        (ClusterTls(tmp_path / "none.pem", files.ca), "none.pem"),
        (ClusterTls(files.certificate, files.ca), "node.pem"),
        (ClusterTls(files.certificate, files.key, files.key), "ca"),
        (tls_of(files, client_auth="maybe"), "none, requested, required, not 'maybe'"),
    ):
        with pytest.raises(UsageError, match=words):
            ClusterCertificates(tls, SystemClock())
