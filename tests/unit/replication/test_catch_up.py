"""A replica with an empty disk catches up where the leader's stream does not begin at 0 any more, or was cleaned."""

import asyncio

import pytest
from tests.unit.journal.stage import DIRECTORY
from tests.unit.replication.replica_network import LOG, Network, Node

from hutong.journal.clean.compaction import CompactionPolicy
from hutong.replication.driver import GroupReplica

KEYS = 7


class Installs:
    """A count of the journals that were replaced."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.total = 0
        install = GroupReplica._install

        def counted(replica: GroupReplica, sizes: dict[str, int]) -> None:
            self.total += 1
            install(replica, sizes)

        patch.setattr(GroupReplica, "_install", counted)


async def two_without_the_third(seed: int) -> tuple[Network, Node]:
    """The third node loses its power and its disk, and all the others have is behind several segments."""
    network = Network(seed)
    network.trim_share = 0.0
    await network.until(lambda: network.nodes[1].is_led)
    missing = network.nodes[3]
    missing.stays_down = True
    missing.lose_power(network.random)
    await network.until(lambda: 3 not in network.register.in_sync)
    network.lose_disk(missing)
    leader = network.nodes[1]
    for number in range(120):
        leader.produce(b"%d" % number, key=b"key-%d" % (number % KEYS))
        await network.step(is_calm=True)
    await network.until(lambda: leader.journal.progress.committed_position == leader.journal.position)
    leader.journal.writer.roll()
    leader.journal.checkpointer.begin_checkpoint()
    await network.until(lambda: leader.journal.checkpointer.last_position == leader.journal.position)
    return network, missing


async def catch_up(network: Network, missing: Node, *, power_losses: int = 0) -> None:
    missing.stays_down = False
    for _ in range(power_losses):
        missing.start()
        for _ in range(network.random.randint(50, 400)):
            await network.step(is_calm=True)
        missing.lose_power(network.random)
    await network.heal()


@pytest.mark.parametrize("seed", range(12))
def test_what_was_removed_is_not_needed(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    installs = Installs(monkeypatch)

    async def play() -> None:
        network, missing = await two_without_the_third(seed)
        leader = network.nodes[1]
        log = leader.journal.log(LOG)
        log.delete_before(100)
        await network.until(lambda: (leader.journal._parts.segments.oldest or log).base_position > 0)  # type: ignore[union-attr]
        await catch_up(network, missing, power_losses=seed % 4)
        assert missing.journal.log(LOG).start_offset == 100
        assert missing.read_all() == leader.read_all()
        await network.end()

    asyncio.run(play())
    assert installs.total


@pytest.mark.parametrize("seed", range(12))
def test_a_follower_that_has_cleaned_more_than_its_leader_leads(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    installs = Installs(monkeypatch)

    async def play() -> None:
        network, missing = await two_without_the_third(seed)
        leader, follower = network.nodes[1], network.nodes[2]
        journal = follower.journal
        await network.until(lambda: journal.progress.committed_position == journal.position == leader.journal.position)
        journal.writer.roll()
        journal.checkpointer.begin_checkpoint()
        await network.until(lambda: journal.checkpointer.last_position == journal.position)
        journal.enforce_compaction({LOG: CompactionPolicy(min_dirty_ratio=0.0)})
        await network.until(lambda: journal.cleaner.cleanings_total > 0)
        before = leader.read_all()
        assert follower.read_all() == before[-KEYS:]
        network.elect(2)
        await network.until(lambda: follower.is_led)
        assert follower.journal is journal
        follower.produce(b"last")
        await catch_up(network, missing, power_losses=seed % 4)
        last = (before[-1][0] + 1, b"last")
        assert missing.read_all() == follower.read_all() == [*before[-KEYS:], last]
        assert leader.read_all() == [*before, last]
        await network.end()

    asyncio.run(play())
    assert installs.total


@pytest.mark.parametrize("seed", range(12))
def test_what_was_cleaned_is_taken_as_it_is(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    installs = Installs(monkeypatch)

    async def play() -> None:
        network, missing = await two_without_the_third(seed)
        leader = network.nodes[1]
        leader.journal.enforce_compaction({LOG: CompactionPolicy(min_dirty_ratio=0.0)})
        await network.until(lambda: leader.journal.cleaner.cleanings_total > 0)
        leader.produce(b"last")
        await catch_up(network, missing, power_losses=seed % 4)
        assert len(leader.read_all()) < 2 * KEYS
        assert missing.read_all() == leader.read_all()
        assert missing.journal.log(LOG).clean_offset == leader.journal.log(LOG).clean_offset
        assert not [name for name in missing.disk.list(DIRECTORY) if name.endswith((".part", ".incoming"))]
        await network.end()

    asyncio.run(play())
    assert installs.total
