"""The parts of a node that live by the metadata, on nodes that lead in turn."""

from typing import Any

from tests.unit.broker.state.replicated_logs import NOT_CONTROLLER, Replicas

from hutong.broker.coordinators.producer_ids import ProducerIds
from hutong.broker.state.durable_table import DurableTable
from hutong.broker.topics.catalogue import LOG_ID_BLOCK, Topics
from hutong.broker.topics.group_standing import standings_alone
from hutong.broker.topics.partition import Topic
from hutong.foundation.errors import HutongError
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import WaitTable
from hutong.server.broker.node_metadata import NodeMetadata


class Logs:
    """A journal of logs that nobody writes to."""

    offline = None

    def __init__(self) -> None:
        self.ids: list[int] = []

    def log(self, log_id: int) -> Any:
        self.ids.append(log_id)
        return self

    def configure(self, **_settings: object) -> None: ...

    def delete_log(self, _log_id: int) -> None: ...


class Parts:
    """Everything of one node."""

    def __init__(self, replicas: Replicas, number: int) -> None:
        self.node = replicas.nodes[number]
        logs: Any = Logs()
        wheel = TimerWheel(0)
        creations: WaitTable[Topic] = WaitTable("topic_creations", wheel, 100)
        self.topics = Topics(
            {"days": logs}, {}, lambda count: bytes([number]) * count, creations, standings_alone(["days"], number)
        )
        self.producer_ids = ProducerIds(WaitTable("producer_ids", wheel, 100))
        self.table = DurableTable("table/", 100)
        self.metadata = NodeMetadata(self.node.topic)
        for part in (self.topics, self.producer_ids, self.table):
            self.metadata.appliers.add(b"", part.replay)
            part.start(self.node.topic)
        self.metadata.on_lead.append(self.topics.lead)
        self.node.lead, self.node.has_other_users = self.metadata.when_leading, True


def test_a_topic_that_was_not_stored_in_time_is_as_the_log_says() -> None:
    nodes = Replicas()
    parts = [Parts(nodes, number) for number in range(3)]
    told: list[Topic | HutongError] = []
    parts[0].topics.create("kept", 3, {}, told.append)
    parts[0].topics.create("cut", 3, {}, told.append)
    # The reservation of log ids, and the first topic.
    nodes.replicate(nodes.nodes[1], 2)
    nodes.fail_over(nodes.nodes[1])
    assert told == [NOT_CONTROLLER, NOT_CONTROLLER]
    nodes.settle()
    for each in parts:
        assert [topic.name for topic in each.topics.all()] == ["kept"]
    # Nothing is under way any more, and ids go on behind all that were reserved.
    parts[0].topics.check_creation("cut", 1, {})
    parts[1].topics.create("next", 1, {}, told.append)
    nodes.settle()
    first = parts[1].topics.get("next")
    assert first is not None
    assert first.log_ids == [3 + 1 + LOG_ID_BLOCK]
    nodes.fail_over(nodes.nodes[0])
    parts[0].topics.create("last", 1, {}, told.append)
    nodes.settle()
    last = parts[2].topics.get("last")
    assert last is not None
    assert last.log_ids > first.log_ids


def test_what_an_entry_was_to_become_is_forgotten_with_the_lead() -> None:
    nodes = Replicas()
    parts = [Parts(nodes, number) for number in range(3)]
    told: list[HutongError | None] = []
    parts[0].table.put("entry", 1, told.append)
    assert parts[0].table.latest("entry") == 1
    nodes.fail_over(nodes.nodes[1])
    assert told == [NOT_CONTROLLER]
    assert parts[0].table.latest("entry") is None
    parts[1].table.put("entry", 2, told.append)
    nodes.settle()
    assert [each.table.latest("entry") for each in parts] == [2, 2, 2]
