"""TLS between a node of Vert.x and one of ours: `EventBusOptions.setSsl(true)` with PEM files, in both directions."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.pem_files import PemFiles
from tests.support.vertx_node import MOSTLY_5, VertxNode
from tests.support.waiting import turning_until
from tests.support.zookeeper import running_zookeeper

import hutong
from hutong.bus import FailureType, ReplyError
from hutong.bus.clustered import ClusterTls
from hutong.cluster.coordinator.development_zookeeper import DevelopmentZooKeeper

HERE = "127.0.0.1"
CLIENT_AUTHS = {"none": "NONE", "required": "REQUIRED"}
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevelopmentZooKeeper]:
    yield from running_zookeeper(tmp_path_factory.mktemp("zookeeper"))


@asynccontextmanager
async def encrypted_pair(
    zookeeper: str, version: str, of_theirs: PemFiles, of_ours: PemFiles, client_auth: str = "required"
) -> AsyncIterator[tuple[VertxNode, hutong.Node]]:
    settings = {"key": str(of_theirs.key), "certificate": str(of_theirs.certificate), "trust": str(of_theirs.ca)}
    theirs = VertxNode(zookeeper, version, settings={**settings, "clientAuth": CLIENT_AUTHS[client_auth]})
    try:
        await asyncio.to_thread(theirs.wait_until_ready)
        tls = ClusterTls(of_ours.certificate, of_ours.ca, of_ours.key, client_auth=client_auth)
        async with hutong.Node(cluster=f"zk://{zookeeper}", cluster_tls=tls) as ours:
            ours.bus.consumer("our-echo", lambda message: message.body)
            await theirs.until_consumers("our-echo", 1)
            await turning_until(lambda: "echo" in ours.bus._consumers)
            yield theirs, ours
    finally:
        await asyncio.to_thread(theirs.close)


@pytest.mark.parametrize("client_auth", CLIENT_AUTHS)
@pytest.mark.parametrize("version", MOSTLY_5)
async def test_both_ways_are_encrypted(
    zookeeper: DevelopmentZooKeeper, tmp_path: Path, version: str, client_auth: str
) -> None:
    of_theirs = PemFiles(tmp_path / "theirs", HERE)
    of_ours = PemFiles(tmp_path / "ours", HERE, authority=of_theirs.authority)
    async with encrypted_pair(zookeeper.address, version, of_theirs, of_ours, client_auth) as (theirs, ours):
        assert (await ours.bus.request("echo", {"a": [1, None]})).body == {"a": [1, None]}
        assert (await theirs.ask("request", "our-echo", {"b": 2}))["body"] == {"b": 2}


@pytest.mark.parametrize("version", MOSTLY_5)
async def test_strangers_are_refused(zookeeper: DevelopmentZooKeeper, tmp_path: Path, version: str) -> None:
    of_theirs, of_ours = PemFiles(tmp_path / "theirs", HERE), PemFiles(tmp_path / "ours", HERE)
    async with encrypted_pair(zookeeper.address, version, of_theirs, of_ours) as (theirs, ours):
        with pytest.raises(ReplyError, match="certificate verify failed") as caught:
            await ours.bus.request("echo", 1)
        assert caught.value.failure_type is FailureType.ERROR
        assert not (await theirs.ask("send", "our-echo", 1))["ok"]
