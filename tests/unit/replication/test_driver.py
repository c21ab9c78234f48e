"""Replicas with journals, links and timers: nothing acknowledged is lost, and all have the same in the end."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.unit.replication.replica_network import LOG, Network

from hutong.journal.recover import recovery

HISTORIES = 30
STEPS = 3_000


async def problems_of(seed: int) -> list[str]:
    """Play one history."""
    network = Network(seed)
    for _ in range(STEPS):
        await network.step()
    await network.heal()
    found = [*_problems(network)]
    await network.end()
    return found


def _problems(network: Network) -> Iterator[str]:
    contents = [node.read_all() for node in network.nodes.values()]
    if any(content != contents[0] for content in contents):
        yield "the replicas differ"
    values = [value for _, value in contents[0]]
    if len(set(values)) < len(values):
        yield "a record is there twice"
    start_offset = network.nodes[1].journal.log(LOG).start_offset
    seen = {offset: value for offset, value in network.seen.items() if offset >= start_offset}
    if not seen.items() <= dict(contents[0]).items():
        yield "a record that was read is lost"
    if not set(network.acknowledged(start_offset)) <= set(values):
        yield "an acknowledged record is lost"
    for node in network.nodes.values():
        if node.errors:
            yield f"node {node.number} has failed: {node.errors}"


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_nothing_acknowledged_is_lost_whatever_happens(seed: int) -> None:
    assert asyncio.run(problems_of(seed)) == []


def test_a_replica_that_shows_what_may_be_cut_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "UncertainChunks", lambda: None)
    for seed in range(100):
        try:
            if asyncio.run(problems_of(seed)):
                return
        except AssertionError:
            return
    pytest.fail("the histories do not miss it")
