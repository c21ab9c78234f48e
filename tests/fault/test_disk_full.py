"""A node whose disk is full for a while: it refuses, is read, starts even so, and goes on once there is space.

The disk is a small tmpfs; where mounting one is not permitted, the test is skipped.
"""

import errno
import os
import pathlib
import subprocess
from collections.abc import Iterator

import pytest
from tests.support.confluent import read_partition
from tests.support.mixed_load import MixedLoad
from tests.support.node import IS_HUTONG, Node
from tests.support.waiting import until

pytestmark = [
    pytest.mark.fault,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not IS_HUTONG, reason="a Kafka broker halts when its disk is full"),
]
DISK_BYTES = 96 << 20
SEGMENT_BYTES = 2 << 20
VALUE_BYTES = 1000
PER_ROUND = 500
BALLAST_STEP_BYTES = 1 << 16


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Iterator[Node]:
    mounted = tmp_path / "data"
    mounted.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=700", "tmpfs", str(mounted)]
    try:
        outcome = subprocess.run(mount, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command here")
    if outcome.returncode:
        pytest.skip(f"mounting a small tmpfs is not permitted here: {outcome.stderr.decode().strip()}")
    try:
        with Node(tmp_path, f"log.segment_bytes={SEGMENT_BYTES}") as running:
            yield running
    finally:
        subprocess.run(["umount", str(mounted)], check=True)


def fill(path: pathlib.Path) -> None:
    """Takes every byte that is left."""
    with path.open("ab", buffering=0) as ballast:
        step = BALLAST_STEP_BYTES
        while step:
            try:
                ballast.write(bytes(step))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                step //= 2


def refusals(node: Node) -> int:
    return node.log_path.read_bytes().count(b"refuses records until there is space")


def wait_until_full(load: MixedLoad, ballast: pathlib.Path, node: Node, before: int) -> None:
    """Fills the disk, again and again since removed segments make space, until the node has refused for it."""

    def refused() -> bool:
        fill(ballast)
        for recorded in load.loads:
            recorded.wait_a_moment()
        return refusals(node) > before

    until(refused, what="a refusal for want of space")


def test_a_full_disk_costs_nothing_that_was_acknowledged_and_the_node_goes_on(node: Node) -> None:
    ballast = node.folder / "data" / "ballast"
    with MixedLoad(node.address, VALUE_BYTES) as load:
        load.wait_for_acknowledged(PER_ROUND)
        wait_until_full(load, ballast, node, before=0)
        assert len(read_partition(node.address, "safe")) > 0, "reads go on"
        ballast.unlink()
        load.wait_for_acknowledged(PER_ROUND)
        wait_until_full(load, ballast, node, before=refusals(node))
        node.kill()
        node.start()  # on a full disk
        assert len(read_partition(node.address, "safe")) > 0
        ballast.unlink()
        load.wait_for_acknowledged(PER_ROUND)
    assert not os.path.exists(ballast)
    assert load.anomalies(node.address) == []
    assert load.wrong_topics(node.address) == set()
