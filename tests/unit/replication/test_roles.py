"""The roles of a replica, one situation at a time: too few replicas, broken disks, other lives, slow followers."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from tests.unit.replication.replica_network import GROUP, TIGHT, Network

from hutong.foundation.errors import Refused, StorageError
from hutong.journal.append.log_appends import Appended
from hutong.replication.replica_messages import (
    AskedToJoin,
    ChunksAcknowledged,
    ChunksShipped,
    CommitTold,
    EpochRefused,
    ReplicaMessage,
)
from hutong.wire.kafka.error_codes import ErrorCode


def play(history: Callable[[Network], Awaitable[None]], seed: int = 1) -> None:
    async def run() -> None:
        network = Network(seed)
        network.trim_share = 0.0
        await network.until(lambda: network.nodes[1].is_led)
        await history(network)
        await network.end()

    asyncio.run(run())


def test_with_too_few_in_sync_an_append_is_refused_and_stays() -> None:
    async def history(network: Network) -> None:
        leader = network.nodes[1]
        for number in (2, 3):
            network.nodes[number].stays_down = True
            network.nodes[number].lose_power(network.random)
        append = leader.produce(b"alone")
        await network.until(lambda: not append.is_open)
        assert isinstance(append.outcome, Refused)
        assert append.outcome.code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert leader.is_led
        network.nodes[2].stays_down = network.nodes[3].stays_down = False
        await network.heal()
        assert [value for _, value in network.nodes[3].read_all()] == [b"alone"]

    play(history)


def test_a_leader_that_hears_of_nobody_lets_no_producer_wait_and_goes_on_after_it() -> None:
    async def history(network: Network) -> None:
        leader = network.nodes[1]
        await network.heal()
        append = leader.produce(b"alone")
        leader.journal.writer.seal_chunk()
        assert append.is_open
        leader.replica.refuse_waits()
        assert isinstance(append.outcome, Refused)
        assert append.outcome.code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        await network.heal()
        assert [value for _, value in network.nodes[3].read_all()] == [b"alone"]
        later = leader.produce(b"later")
        await network.until(lambda: not later.is_open)
        assert isinstance(later.outcome, Appended)

    play(history)


def test_a_leader_whose_disk_fails_steps_aside_and_another_one_has_everything() -> None:
    async def history(network: Network) -> None:
        leader, other = network.nodes[1], network.nodes[2]
        first = leader.produce(b"first")
        await network.until(lambda: not first.is_open)
        leader.disk.failing_flushes = 1
        second = leader.produce(b"second")
        await network.until(lambda: bool(leader.errors))
        assert isinstance(leader.errors[0], StorageError)
        assert isinstance(second.outcome, StorageError)
        assert not leader.is_led
        assert leader.replica.failure is leader.errors[0]
        network.elect(2)
        await network.until(lambda: other.is_led)
        third = other.produce(b"third")
        await network.until(lambda: not third.is_open)
        assert isinstance(third.outcome, Appended)
        assert {b"first", b"third"} <= {value for _, value in other.read_all()}
        await leader.replica.close()

    play(history)


def test_a_follower_whose_disk_fails_follows_no_more_and_holds_nobody_up() -> None:
    async def history(network: Network) -> None:
        leader, follower = network.nodes[1], network.nodes[2]
        await network.heal()
        follower.disk.failing_flushes = 1
        append = leader.produce(b"v")
        await network.until(lambda: not append.is_open)
        assert isinstance(append.outcome, Appended)
        assert follower.errors
        assert network.register.in_sync == {1, 3}

    play(history)


def test_another_life_of_the_chosen_leader_does_not_lead() -> None:
    async def history(network: Network) -> None:
        node = network.nodes[1]
        before = network.register
        node.lose_power(network.random)
        node.start()
        await network.until(lambda: hasattr(node.replica, "journal"))
        node.replica.apply(before)
        assert not node.is_led
        network.register = before  # nobody else was chosen
        assert not node.replica.is_leading

    play(history)


def test_a_leader_that_hears_of_a_higher_epoch_steps_aside() -> None:
    async def history(network: Network) -> None:
        leader = network.nodes[1]
        append = leader.produce(b"v")
        leader.replica.told(2, EpochRefused(GROUP, network.register.epoch))
        assert leader.is_led
        leader.replica.told(2, EpochRefused(GROUP, network.register.epoch + 1))
        assert not leader.is_led
        assert isinstance(append.outcome, Refused)
        assert append.outcome.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert not leader.replica.is_leading
        await network.until(lambda: leader.replica._role is not None)
        # The same epoch is over for this node; a higher one is not.
        leader.replica.apply(replace(network.register, version=network.register.version + 1))
        assert not leader.replica.is_leading
        network.elect(1)
        await network.until(lambda: leader.is_led)

    play(history)


def test_a_former_leader_hears_of_the_new_epoch_by_every_replica_that_knows_it() -> None:
    async def history(network: Network) -> None:
        await network.heal()
        assert network.nodes[1].is_led
        sent: list[tuple[int, object]] = []

        def send(node: int, message: object) -> None:
            sent.append((node, message))

        network.elect(2)
        other = network.nodes[3]
        other.send = send  # type: ignore[method-assign]
        other.replica.apply(network.register)
        fenced = (1, EpochRefused(GROUP, network.register.epoch))
        assert sent.count(fenced) == 1
        other.replica.link_opened(1, 1)  # it may not have been linked with it until now
        assert sent.count(fenced) == 2
        other.replica.apply(replace(network.register, version=network.register.version + 1))
        assert sent.count(fenced) == 2

    play(history)


def test_a_lower_epoch_is_answered_with_the_one_that_is_known() -> None:
    async def history(network: Network) -> None:
        sent: list[object] = []
        follower = network.nodes[2]
        await network.heal()

        def send(node: int, message: object) -> None:
            sent.append(message)

        follower.send = send  # type: ignore[method-assign]
        follower.replica.told(3, ChunksShipped(GROUP, network.register.epoch - 1, 0, 0, b""))
        assert sent == [EpochRefused(GROUP, network.register.epoch)]
        follower.replica.told(3, EpochRefused(GROUP, network.register.epoch - 1))
        assert len(sent) == 1

    play(history)


def test_a_node_that_is_no_replica_is_not_let_in() -> None:
    async def history(network: Network) -> None:
        leader, epoch = network.nodes[1], network.register.epoch
        await network.heal()
        leader.replica.told(9, AskedToJoin(GROUP, epoch, 1, 0, -1))
        leader.replica.told(9, ChunksAcknowledged(GROUP, epoch, 10, 10))
        register = network.register
        network.register = replace(register, version=register.version + 1, replicas=(1, 2), in_sync=frozenset({1, 2}))
        await network.until(lambda: all(node.replica.state == network.register for node in network.nodes.values()))
        append = leader.produce(b"v")
        await network.until(lambda: not append.is_open)
        for _ in range(500):
            await network.step(is_calm=True)
        assert network.register.in_sync == {1, 2}
        assert network.nodes[3].journal.position < leader.journal.position

    play(history)


def test_what_is_on_its_way_to_one_follower_is_bounded() -> None:
    async def history(network: Network) -> None:
        leader, sent = network.nodes[1], 0
        await network.heal()
        send = leader.send

        def counted(node: int, message: ReplicaMessage) -> None:
            nonlocal sent
            if node == 2 and isinstance(message, ChunksShipped):
                sent += len(message.content)
                return  # and lost: no acknowledgement will come
            send(node, message)

        leader.send = counted  # type: ignore[method-assign]
        for number in range(100):
            leader.produce(b"%d" % number)
            await network.step(is_calm=True)
            assert sent < TIGHT.shipped_bytes_max + TIGHT.ship_bytes_max
        assert sent >= TIGHT.shipped_bytes_max

    play(history)


def test_followers_hear_of_a_commit_with_the_next_chunks_or_a_moment_later() -> None:
    async def history(network: Network) -> None:
        leader, told = network.nodes[1], 0
        await network.heal()
        send, pass_time = leader.send, network.pass_time

        def counted(node: int, message: ReplicaMessage) -> None:
            nonlocal told
            told += isinstance(message, CommitTold)
            send(node, message)

        leader.send = counted  # type: ignore[method-assign]
        network.pass_time = lambda: None  # type: ignore[method-assign]
        for value in (b"first", b"second"):
            append = leader.produce(value)
            await network.until(lambda append=append: not append.is_open)  # type: ignore[misc]
        assert [value for _, value in network.nodes[2].read_all()] == [b"first"]
        assert told == 0
        network.pass_time = pass_time  # type: ignore[method-assign]
        await network.heal()
        assert [value for _, value in network.nodes[2].read_all()] == [b"first", b"second"]
        assert told == 2

    play(history)


@pytest.mark.parametrize("seed", range(5))
def test_a_group_at_rest_is_closed_cleanly_and_opened_without_a_scan(seed: int) -> None:
    async def history(network: Network) -> None:
        for number in range(10):
            network.nodes[1].produce(b"%d" % number)
        await network.heal()
        for node in network.nodes.values():
            closing = asyncio.get_running_loop().create_task(node.replica.close())
            while not closing.done():
                node.run(network.random)
                await asyncio.sleep(0)
            assert not node.is_led
            node.start()
            while not node.opening.done():
                node.run(network.random)
                await asyncio.sleep(0)
            assert node.journal.recovery.was_clean
            assert len(node.read_all()) == 10

    play(history, seed)
