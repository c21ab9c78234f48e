"""confluent-kafka's serializers against the registries of three nodes, one of which dies while it writes."""

import json
import threading
from collections.abc import Iterator

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from hutong.testing import EmbeddedCluster

pytestmark = pytest.mark.compat
NODES = (1, 2, 3)
SCHEMAS = 60
SETTINGS = {
    "schema_registry.listen": "127.0.0.1:0",
    # A machine that runs all tests at once must take no node for slow, or for dead.
    "cluster.lag_ms_max": "20000",
    "cluster.session_timeout_ms": "5000",
}


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(3, settings=SETTINGS) as running:
        running.wait_until_in_sync()
        yield running


class Producer(threading.Thread):
    """Serializes values of one schema after the other. Its client knows all nodes, and asks its own one first."""

    def __init__(self, cluster: EmbeddedCluster, number: int, is_under_way: threading.Event) -> None:
        super().__init__()
        others = [other for other in NODES if other != number]
        self._urls = ",".join(str(cluster.node(each).schema_registry_url) for each in (number, *others))
        self._number = number
        self._is_under_way = is_under_way
        self.written: list[tuple[SerializationContext, bytes, dict[str, int]]] = []

    def run(self) -> None:
        # Once for each address: the client forgets which node is gone, and waits for seconds before each next one.
        with SchemaRegistryClient({"url": self._urls, "max.retries": 0}) as registry:
            for count in range(SCHEMAS):
                fields = [{"name": f"f{self._number}x{count}", "type": "int"}]
                schema = json.dumps({"type": "record", "name": "R", "fields": fields})
                context = SerializationContext(f"t{self._number}x{count}", MessageField.VALUE)
                value = {f"f{self._number}x{count}": count}
                self.written.append((context, AvroSerializer(registry, schema)(value, context), value))
                if count == SCHEMAS // 4:
                    self._is_under_way.set()


def test_serializers_go_on_when_the_node_that_writes_dies(cluster: EmbeddedCluster) -> None:
    with SchemaRegistryClient({"url": cluster.node(1).schema_registry_url}) as registry:
        assert registry.get_subjects() == []
    writer = cluster.leader_of("_schemas")
    is_under_way = threading.Event()
    producers = [Producer(cluster, number, is_under_way) for number in NODES]
    for producer in producers:
        producer.start()
    assert is_under_way.wait(60)
    cluster.kill(writer)
    for producer in producers:
        producer.join(60)
    written = [each for producer in producers for each in producer.written]
    assert len(written) == len(NODES) * SCHEMAS
    assert len({data[1:5] for _, data, _ in written}) == len(written)
    for number in NODES:
        if number == writer:
            continue
        with SchemaRegistryClient({"url": cluster.node(number).schema_registry_url}) as registry:
            deserialize = AvroDeserializer(registry)
            for context, data, value in written:
                assert deserialize(data, context) == value
