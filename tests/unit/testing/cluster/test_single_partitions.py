"""Single partitions that are moved: they get a group of their own, with offsets, records and producers as they were."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.support.waiting import until
from tests.unit.testing.cluster.partition_moves import RETRY_SOON, TIMEOUT_S, MoveScene, Sender

from hutong.cli import main
from hutong.cli.cluster import partition_moves
from hutong.testing import EmbeddedCluster
from hutong.wire.kafka.error_codes import ErrorCode


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(settings={"cluster.slots": "1", "cluster.coordinators": "1"}) as running:
        running.wait_until_in_sync()
        yield running


@pytest.fixture
def scene(cluster: EmbeddedCluster) -> MoveScene:
    cluster.wait_until_in_sync()
    return MoveScene(cluster)


def test_one_partition_moves_and_the_others_stay(scene: MoveScene) -> None:
    before, wanted = scene.replicas(0), scene.others(1)
    producer = scene.producer()
    scene.send(producer, 100)
    scene.move(1, wanted)
    assert [scene.replicas(index) for index in range(3)] == [before, wanted, before]
    scene.send(producer, 100)
    assert producer.flush(TIMEOUT_S) == 0
    scene.check_records()


def test_it_moves_again_with_its_own_group(scene: MoveScene) -> None:
    before = scene.replicas(1)
    scene.move(1, scene.others(1))
    groups = scene.groups()
    scene.move(1, before)
    assert scene.groups() == groups


def test_partitions_with_the_same_wish_go_together(scene: MoveScene) -> None:
    wanted = scene.others(0)
    assert scene.ask(0, 2, replicas=wanted) == {ErrorCode.NONE}
    scene.await_moves()
    first, second, third = scene.groups()
    assert first == third != second
    # One of the two leaves the other.
    scene.move(2, scene.replicas(1))
    assert len(set(scene.groups())) == 3
    scene.send(producer := scene.producer(), 30)
    assert producer.flush(TIMEOUT_S) == 0
    scene.check_records()


def test_a_consumer_reads_on(scene: MoveScene) -> None:
    """It would stop at an offset that is out of range, or behind the end of the epoch that it knows."""
    properties = {"bootstrap.servers": scene.cluster.bootstrap, "group.id": scene.topic, "auto.offset.reset": "error"}
    consumer = Consumer({**properties, **RETRY_SOON})
    consumer.assign([TopicPartition(scene.topic, 1, 0)])
    producer = scene.producer()
    texts: list[str] = []
    for _ in range(3):
        scene.send(producer, 60)
        while len(texts) < len(scene.sent[1]) - 10:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None
            assert message.error() is None, message.error()
            texts.append((message.value() or b"").decode())
        scene.move(1, scene.others(1))
    assert producer.flush(TIMEOUT_S) == 0
    while len(texts) < len(scene.sent[1]):
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        texts.append((message.value() or b"").decode())
    consumer.close()
    assert texts == scene.sent[1]


@pytest.mark.parametrize("commits", [True, False])
def test_a_transaction_goes_on(scene: MoveScene, commits: bool) -> None:
    producer = scene.producer(**{"transactional.id": scene.topic})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    scene.send(producer, 30)
    assert producer.flush(TIMEOUT_S) == 0
    scene.move(1, scene.others(1))
    scene.send(producer, 30)
    # What is refused while librdkafka aborts is never sent again, and waited for all the same.
    assert producer.flush(TIMEOUT_S) == 0
    (producer.commit_transaction if commits else producer.abort_transaction)(TIMEOUT_S)
    properties = {"bootstrap.servers": scene.cluster.bootstrap, "group.id": scene.topic, "enable.partition.eof": True}
    consumer = Consumer({**properties, **RETRY_SOON})
    consumer.assign([TopicPartition(scene.topic, index, 0) for index in range(3)])
    texts: dict[int, list[str]] = {0: [], 1: [], 2: []}
    ended: set[int] = set()
    while len(ended) < 3:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        partition = message.partition()
        assert partition is not None
        if message.error() is None:
            texts[partition].append((message.value() or b"").decode())
        else:
            ended.add(partition)
    consumer.close()
    assert texts == (scene.sent if commits else {0: [], 1: [], 2: []})


def test_what_is_at_rest_is_not_cancelled(scene: MoveScene) -> None:
    assert scene.ask(1, replicas=None) == {ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}
    scene.move(1, scene.others(1))
    assert scene.ask(1, replicas=None) == {ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}


def test_a_group_goes_with_its_last_partition(scene: MoveScene) -> None:
    scene.move(1, scene.others(1))
    name = scene.groups()[1]
    absent = scene.cluster.node(3)
    folder = absent._folder / "groups" / name
    until(lambda: absent._disk.list(folder), what="its files", between_s=0.02)
    scene.cluster.kill(3)
    scene.cluster.delete_topic(scene.topic)
    sources = [node.life.sources for node in scene.cluster.nodes if node.life is not None]
    assert len(sources) == 2
    until(lambda: not any(name in each.journals or name in each.replicas for each in sources), between_s=0.02)
    assert absent._disk.list(folder)
    scene.cluster.start(3)
    until(lambda: not absent._disk.list(folder), what="the removal of its files", between_s=0.02)


def test_an_operator_moves_one(
    scene: MoveScene, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(partition_moves, "LOOK_SECONDS", 0.02)
    wanted, place = scene.others(1), ["-b", scene.cluster.bootstrap]
    command = ["cluster", "move", f"{scene.topic}/1"]
    assert main.run([*command, "--to", ",".join(map(str, wanted)), *place]) == 0
    assert f"{scene.topic}/1" in capsys.readouterr().out
    assert scene.replicas(1) == wanted
    assert main.run([*command, "--cancel", *place]) == 69
    assert "is not on its way" in capsys.readouterr().err
    assert main.run(["cluster", "move", f"{scene.topic}/9", "--to", "1,2,3", *place]) == 66
    assert "There is no such partition" in capsys.readouterr().err


def test_producers_go_on_meanwhile(scene: MoveScene) -> None:
    sender = Sender(scene)
    for partition in range(2):
        scene.move(partition, scene.others(partition))
    sender.stop()
    scene.check_records()


def test_it_survives_that_all_nodes_end(scene: MoveScene) -> None:
    scene.send(producer := scene.producer(), 30)
    assert producer.flush(TIMEOUT_S) == 0
    scene.move(1, scene.others(1))
    groups = scene.groups()
    for number in (1, 2, 3):
        scene.cluster.kill(number)
    scene.cluster.start()
    assert scene.groups() == groups
    scene.check_records()


@pytest.mark.parametrize("victim", ["leader", "controller", "follower"])
def test_a_node_ends_in_the_middle(scene: MoveScene, victim: str) -> None:
    sender = Sender(scene)
    leader, controller = scene.cluster.leader_of(scene.topic, 1), scene.cluster.controller()
    follower = next(number for number in (1, 2, 3) if number not in (leader, controller))
    number = {"leader": leader, "controller": controller, "follower": follower}[victim]
    wanted = scene.others(1)
    assert scene.ask(1, replicas=wanted) == {ErrorCode.NONE}
    scene.cluster.kill(number)
    scene.cluster.start(number)
    scene.await_moves()
    assert scene.replicas(1) == wanted
    sender.stop()
    scene.check_records()
