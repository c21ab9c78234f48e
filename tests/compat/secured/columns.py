"""The columns of the compatibility table that secured nodes fill, and what all tests of them need."""

import functools
import importlib.metadata
from collections.abc import Callable
from typing import Final

import kafka
import pytest
from tests.compat.report import cells
from tests.compat.secured.clients.programs import JAVA, KAFKAJS
from tests.compat.test_kafka_go import version as go_version
from tests.compat.test_kcat import version as kcat_version
from tests.support.kafka_tools import VERSION as TOOLS_VERSION

GO: Final = ("franz-go", "sarama")
FILLS: Final[dict[str, Callable[..., pytest.MarkDecorator]]] = {
    client: cells(client, version)
    for client, version in {
        "confluent-kafka": importlib.metadata.version("confluent-kafka"),
        "aiokafka": importlib.metadata.version("aiokafka"),
        "kafka-python": kafka.__version__,
        "kafkajs": KAFKAJS,
        "franz-go": functools.partial(go_version, "franz-go"),
        "sarama": functools.partial(go_version, "sarama"),
        "Java 4.x": JAVA,
        "kcat": kcat_version,
        "Kafka's tools": TOOLS_VERSION,
    }.items()
}
# kafka-python leaves sockets to the collector when their connection failed.
MARKS: Final = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:unclosed <s:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:unclosed transport:ResourceWarning"),
    pytest.mark.usefixtures("leaked_sockets"),
]
