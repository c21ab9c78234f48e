"""`hutong bus ... --cluster` with a node of ours and a real ZooKeeper: what it prints, and what goes wrong."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.support.one_sentence import assert_one_sentence
from tests.support.pem_files import PemFiles
from tests.support.waiting import turning_until
from tests.support.zookeeper import running_zookeeper

import hutong
from hutong.bus import Message
from hutong.bus.clustered import ClusterTls
from hutong.cli import main
from hutong.cli.bus import cluster_client
from hutong.cluster.coordinator.development_zookeeper import DevelopmentZooKeeper

NOBODY = "zk://127.0.0.1:1"


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevelopmentZooKeeper]:
    yield from running_zookeeper(tmp_path_factory.mktemp("zookeeper"))


def show_headers(message: Message) -> None:
    message.reply(dict(message.headers.items()), headers={"seen": "yes"})


class Hutong:
    """A node with consumers, and the commands that use its cluster."""

    def __init__(self, node: hutong.Node, cluster: str, captured: pytest.CaptureFixture[str]) -> None:
        self.node = node
        self.cluster = cluster
        self.seen: list[object] = []
        self.err = ""
        self._captured = captured

    async def start(self) -> None:
        bus = self.node.bus
        consumers = [
            bus.consumer("echo", lambda message: message.body),
            bus.consumer("headers", show_headers),
            bus.consumer("bytes", lambda message: b"\xff"),
            bus.consumer("fail", lambda message: message.fail(7, "no.")),
            bus.consumer("silent", lambda message: None),
            *[bus.consumer("count", lambda message: self.seen.append(message.body)) for _ in range(2)],
        ]
        for consumer in consumers:
            await consumer.ready()

    async def __call__(self, *words: str, code: int = 0) -> str:
        ended = await asyncio.to_thread(main.run, ["bus", *words, "--cluster", self.cluster])
        printed = self._captured.readouterr()
        self.err = printed.err
        assert ended == code, self.err
        return printed.out


@pytest.fixture
async def running(zookeeper: DevelopmentZooKeeper, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Hutong]:
    cluster = f"zk://{zookeeper.address}"
    async with hutong.Node(cluster=cluster) as node:
        made = Hutong(node, cluster, capsys)
        await made.start()
        yield made


@pytest.mark.fault
async def test_nodes_and_addresses_are_listed(running: Hutong) -> None:
    id_, address = running.node.cluster_node, running.node.cluster_address
    assert json.loads(await running("nodes", "--json")) == {"node": id_, "address": address, "consumers": 7}
    rows = [json.loads(line) for line in (await running("addresses", "--json")).splitlines()]
    assert rows[:2] == [
        {"address": "bytes", "consumers": 1, "nodes": [id_]},
        {"address": "count", "consumers": 2, "nodes": [id_]},
    ]
    assert [row["address"] for row in rows] == ["bytes", "count", "echo", "fail", "headers", "silent"]
    table = (await running("nodes")).split()
    assert table == ["node", "address", "consumers", id_, address, "7"]
    assert (await running("addresses")).split()[:6] == ["address", "consumers", "nodes", "bytes", "1", id_]


@pytest.mark.fault
async def test_messages_reach_the_consumers_of_the_cluster(running: Hutong) -> None:
    assert await running("send", "count", "1") == ""
    await turning_until(lambda: running.seen == [1])
    await running("publish", "count", '{"a": 2}')
    await turning_until(lambda: running.seen == [1, {"a": 2}, {"a": 2}])
    assert json.loads(await running("request", "echo", '{"b": [1, null]}')) == {"b": [1, None]}
    assert await running("request", "echo", "5", "--text") == '"5"\n'
    assert json.loads(await running("request", "bytes")) == {"base64": "/w=="}
    printed = json.loads(await running("request", "headers", "-H", "a=b", "--json"))
    assert (printed["body"], printed["headers"]) == ({"a": "b"}, {"seen": "yes"})
    # The commands have left the cluster, and none of them is listed.
    assert len((await running("nodes", "--json")).splitlines()) == 1


@pytest.mark.fault
@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("send", "nobody", "1"), 66, "The message to nobody failed with NO_HANDLERS (-1)"),
        (("publish", "nobody", "1"), 66, "The message to nobody failed with NO_HANDLERS (-1)"),
        (("request", "nobody"), 66, "The request to nobody failed with NO_HANDLERS (-1)"),
        (("request", "fail"), 69, "The request to fail failed with RECIPIENT_FAILURE (7): no."),
        (("request", "silent", "--timeout", "20"), 69, "failed with TIMEOUT (-1)"),
        (("send", "count", str(2**70)), 69, "The message to count has reached nobody: "),
        (("request", "echo", "--cluster-listen", "nowhere"), 64, "cluster_listen is 'nowhere'; write HOST:PORT"),
        (("request", "echo", "--cluster-listen", "10.0.0.1:0"), 78, "without TLS"),
        (("send", "echo", "--tls"), 64, "TLS needs both --tls-certificate (with its key) and --tls-ca"),
        (("send", "echo", "--header", "nothing"), 64, "write --header NAME=VALUE"),
    ],
)
async def test_what_goes_wrong_is_one_sentence(
    running: Hutong, words: tuple[str, ...], code: int, sentence: str
) -> None:
    assert await running(*words, code=code) == ""
    assert sentence in running.err
    assert running.err.count("\n") == 1


@pytest.mark.fault
async def test_a_node_that_cannot_be_reached_gets_nothing(running: Hutong) -> None:
    """It is advertised where nobody listens."""
    other = hutong.Node(cluster=running.cluster, cluster_advertised="127.0.0.1:1")
    async with other:
        await other.bus.consumer("unreachable", print).ready()
        assert await running("send", "unreachable", "1", code=69) == ""
        assert "The message to unreachable has reached nobody: 1 messages for node" in running.err
        assert "127.0.0.1:1 cannot be connected to" in running.err
        assert running.err.count("\n") == 1


@pytest.mark.fault
def test_a_path_without_a_cluster(zookeeper: DevelopmentZooKeeper, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("nodes", "addresses"):
        words = f"No cluster of a bus is at /else/where in ZooKeeper at {zookeeper.address}"
        assert_one_sentence(f"bus {command} --cluster zk://{zookeeper.address}/else/where", 66, words, capsys)


def test_a_wrong_address_is_answered_with_an_example_of_a_bus(capsys: pytest.CaptureFixture[str]) -> None:
    assert_one_sentence(
        "bus nodes --cluster 127.0.0.1:2181", 78, "write it as zk://zk1:2181,zk2:2181,zk3:2181/io.vertx", capsys
    )


@pytest.mark.fault
async def test_commands_reach_nodes_with_tls(
    zookeeper: DevelopmentZooKeeper, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = PemFiles(tmp_path / "node", "127.0.0.1")
    both = tmp_path / "both.pem"
    both.write_bytes(files.certificate.read_bytes() + files.key.read_bytes())
    cluster = f"zk://{zookeeper.address}/encrypted"
    async with hutong.Node(cluster=cluster, cluster_tls=ClusterTls(both, files.ca)) as node:
        made = Hutong(node, cluster, capsys)
        await made.start()
        tls = ("--tls-certificate", str(both), "--tls-ca", str(files.ca))
        assert await made("request", "echo", "5", *tls) == "5\n"
        assert await made("send", "count", "1", *tls) == ""
        await turning_until(lambda: made.seen == [1])
        assert await made("send", "count", "1", code=69) == ""


@pytest.mark.parametrize("command", ["nodes", "addresses", "send echo 1", "request echo 1"])
def test_where_no_zookeeper_is(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("kazoo")
    monkeypatch.setattr(cluster_client, "CONNECT_TIMEOUT_MS", 100)
    words = "ZooKeeper did not answer within 0.1 s: 127.0.0.1:1 refuses connections."
    assert_one_sentence(f"bus {command} --cluster {NOBODY}", 69, words, capsys)
    assert_one_sentence(f"bus {command} --cluster 127.0.0.1:2181", 78, "does not begin with zk://", capsys)
    assert_one_sentence(f"bus {command} --cluster zk://", 78, "lacks a server", capsys)
