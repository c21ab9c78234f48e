"""Replicas clean by themselves, whoever leads: positions, offsets and the newest record of each key are the same."""

import asyncio

import pytest
from tests.unit.replication.replica_network import LOG, Network, Node

from hutong.journal.append.log_appends import Appended
from hutong.journal.clean.compaction import CompactionPolicy

KEYS = 7
STEPS = 4_000
EAGER = CompactionPolicy(min_dirty_ratio=0.0)


class CleaningNetwork(Network):
    """A group with a few keys, the nodes of which close segments and clean at any time."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.trim_share = 0.0

    def produce(self, node: Node) -> None:
        self.values_total += 1
        key = b"key-%d" % (self.values_total % KEYS)
        self.appends.append(node.produce(b"%d" % self.values_total, key=key))
        if self.random.random() < 0.7:
            node.run(self.random)

    def clean(self) -> None:
        node = self.random.choice([*self.nodes.values()])
        if not node.is_up or not node.replica._is_open:
            return
        if self.random.random() < 0.5:
            node.journal.writer.roll()
            node.journal.checkpointer.begin_checkpoint()
        node.journal.enforce_compaction({LOG: EAGER})


def newest(node: Node) -> dict[int, int]:
    """The offset of the newest record of each key."""
    return {int(value) % KEYS: offset for offset, value in node.read_all()}


@pytest.mark.parametrize("seed", range(16))
def test_replicas_that_clean_by_themselves_keep_the_newest_record_of_each_key(seed: int) -> None:
    async def play() -> None:
        network = CleaningNetwork(seed)
        for _ in range(STEPS):
            await network.step()
            if network.random.random() < 0.05:
                network.clean()
        await network.heal()
        nodes = [*network.nodes.values()]
        found = [newest(node) for node in nodes]
        assert found[0]
        assert all(each == found[0] for each in found)
        for append in network.appends:
            if isinstance(append.outcome, Appended):
                assert found[0][int(append.values[0]) % KEYS] >= append.outcome.base_offset
        contents = [dict(node.read_all()) for node in nodes]
        for one in contents[1:]:
            assert all(one[offset] == contents[0][offset] for offset in one.keys() & contents[0].keys())
        assert len({node.journal.log(LOG).end_offset for node in nodes}) == 1
        await network.end()

    asyncio.run(play())
