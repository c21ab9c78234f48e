"""A cluster that asks each client who it is: its first user, and a token that all nodes take, while one node dies."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from tests.compat.test_delegation_tokens import SETTINGS, Commands, of_user
from tests.support.cluster import Cluster
from tests.support.kafka_tools import Tools
from tests.support.node import IS_HUTONG
from tests.support.waiting import until

pytestmark = [
    pytest.mark.compat,
    pytest.mark.timeout(180),
    pytest.mark.skipif(not IS_HUTONG, reason="starts nodes with their own settings"),
]
NODES: Final = (1, 2, 3)
PASSWORD: Final = b"s3cret\n"


def add_first_user(folder: Path, name: str) -> None:
    """As docs/cluster.md says: into the data folder of the node that starts first."""
    command = [str(Path(sys.executable).with_name("hutong")), "user", "add", name, "--data-dir", str(folder)]
    subprocess.run(command, input=PASSWORD, capture_output=True, check=True, timeout=60)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with closing(Cluster(tmp_path, settings=SETTINGS)) as running:
        add_first_user(running.nodes[1].data, "alice")
        running.zookeeper.start()
        running.start([1])  # before the others: it founds the cluster, which has its users from then on
        running.start([2, 3])
        yield running


def test_a_token_of_one_node_is_good_at_all(cluster: Cluster, tmp_path: Path) -> None:
    with Tools() as tools:
        at = {number: Commands(tools, cluster.nodes[number].address, tmp_path) for number in NODES}
        created = ("--create", "--max-life-time-period", "-1")
        status, told = at[1].run("delegation-tokens", *created, by=of_user("alice"))
        assert status == "0", told
        found = re.search(r"^(\S+)\s+(\S+==)\s+User:alice", told, re.MULTILINE)
        assert found, told
        by_token = f'username="{found[1]}" password="{found[2]}" tokenauth="true"'
        status, told = at[2].run("topics", "--create", "--topic", "orders", "--partitions", "3", by=by_token)
        assert status == "0", told

        cluster.kill([1])
        status, told = at[3].run("topics", "--describe", "--topic", "orders", by=by_token)
        assert status == "0", told
        assert "PartitionCount: 3" in told
        expiry = ("--expire", "--hmac", found[2], "--expiry-time-period", "-1")
        status, told = at[2].run("delegation-tokens", *expiry, by=of_user("alice"))
        assert status == "0", told

        def is_refused() -> bool:
            return "Authentication failed" in at[3].run("topics", "--list", by=by_token)[1]

        # A node that does not lead the metadata applies a change a little later.
        until(is_refused, what="the end of the token at another node")
