"""Procedures for operators, as docs/cluster.md has them: the commands of the page are what is run.

A service manager's commands act on the test's own processes, and the page's folders are a node's folders here. All else
goes to a shell as it stands.
"""

import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest
from tests.fault.test_cluster_kill import judge
from tests.support.cluster import Cluster, missing_below, replica_differences
from tests.support.cluster_load import PARTITIONS, TOPIC, ClusterLoad, final_read
from tests.support.load import RecordedLoad

PAGE: Final = pathlib.Path(__file__).parents[2] / "docs" / "cluster.md"
DATA, COPY = "/var/lib/hutong", "/backup/hutong"
COMMAND_S_MAX: Final = 120.0
RECORDS: Final = 1_000
pytestmark = [pytest.mark.fault, pytest.mark.timeout(300)]


def commands(heading: str) -> list[str]:
    """The commands of the block below a bold heading of the page."""
    [block] = re.findall(rf"^\*\*{heading}\.\*\*.*?^```console\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return [line.removeprefix("$ ") for line in block.splitlines()]


def carry_out(cluster: Cluster, number: int, command: str) -> None:
    """Run a command of the page on one node."""
    node = cluster.nodes[number]
    service = re.fullmatch(r"systemctl (start|stop|restart) hutong", command)
    if service is not None:
        if service[1] != "start":
            assert node.stop() == 0
        if service[1] != "stop":
            node.start()
        return
    line = command.replace(COPY, str(node.folder / "copy")).replace(DATA, str(node.data))
    path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HUTONG_BOOTSTRAP": node.address}
    subprocess.run(["/bin/sh", "-ec", line], check=True, env=environment, timeout=COMMAND_S_MAX)


def on_all_nodes(cluster: Cluster, steps: Sequence[str]) -> None:
    """Carry out each step on all nodes side by side, before the next one."""
    for step in steps:
        with ThreadPoolExecutor(len(cluster.nodes)) as pool:
            for done in [pool.submit(carry_out, cluster, number, step) for number in cluster.nodes]:
                done.result()


def test_a_rolling_upgrade_loses_nothing(cluster: Cluster) -> None:
    steps = commands("Rolling upgrade")
    assert [step.split()[0] for step in steps] == ["systemctl", "until"]
    with ClusterLoad(cluster.bootstrap) as load:
        load.wait_for_progress()
        for number in cluster.nodes:
            for step in steps:
                carry_out(cluster, number, step)
            load.wait_for_progress()
    judge(cluster, load)
    assert load.history.committed, "the group never came to commit"


def test_a_cluster_is_restored_from_the_copies_of_its_nodes(cluster: Cluster) -> None:
    with RecordedLoad(cluster.bootstrap, TOPIC, PARTITIONS) as load:
        load.wait_for_acknowledged(RECORDS)
    kept = _read(cluster)
    on_all_nodes(cluster, commands("Backup"))
    cluster.wait_whole(TOPIC)
    with RecordedLoad(cluster.bootstrap, TOPIC, PARTITIONS, label="too late") as load:
        load.wait_for_acknowledged(RECORDS)
    on_all_nodes(cluster, commands("Restore"))
    cluster.wait_whole(TOPIC)
    assert _read(cluster) == kept
    with RecordedLoad(cluster.bootstrap, TOPIC, PARTITIONS, label="afterwards") as load:
        load.wait_for_acknowledged(RECORDS)
    cluster.wait_whole(TOPIC)
    ends = cluster.ends(TOPIC, PARTITIONS)
    cluster.stop()
    folders = [node.data for node in cluster.nodes.values()]
    assert replica_differences(folders) == []
    assert missing_below(folders, TOPIC, ends) == []


def _read(cluster: Cluster) -> list[list[tuple[int, bytes]]]:
    """Offsets and values of each partition."""
    return [final_read(cluster.bootstrap, TOPIC, number) for number in range(PARTITIONS)]
