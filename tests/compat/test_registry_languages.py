"""The schema registry and clients of Go and JavaScript: two each, against what confluent-kafka writes and reads."""

import json
import os
import pathlib
import re
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pytest
from _pytest.mark.structures import ParameterSet
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.compat.report import cells
from tests.support.golang import BUILD_S_MAX, REGISTRY_SOURCE, registry_clients
from tests.support.npm import node_modules

from hutong.testing import EmbeddedNode

RUN_S_MAX: Final = 60.0
PROGRAM: Final = pathlib.Path(__file__).with_name("registry_client.js")
KAFKAJS, CONFLUENT = "@kafkajs/confluent-schema-registry", "@confluentinc/schemaregistry"
VERSIONS: Final = {KAFKAJS: "4.1.0", CONFLUENT: "1.10.1"}
MODULES: Final = {
    "franz-go": "github.com/twmb/franz-go/pkg/sr",
    "confluent-kafka-go": "github.com/confluentinc/confluent-kafka-go/v2",
}
COLUMNS: Final = {"franz-go": "franz-go, sr"}
USER: Final = (
    '{"type":"record","name":"User","namespace":"example","fields":['
    '{"name":"name","type":"string"},{"name":"age","type":["null","int"],"default":null}]}'
)
ANN: Final[dict[str, Any]] = {"name": "ann", "age": 3}
BOB: Final[dict[str, Any]] = {"name": "bob", "age": None}
LOGIN: Final = ("admin", "a password")
SETTINGS: Final = {
    "schema_registry.listen": "127.0.0.1:0",
    "schema_registry.authentication": "basic",
    "kafka.protocol": "SASL_PLAINTEXT",
    "sasl.allow_without_tls": "true",
    "security.authorize": "true",
    "security.super_users": "User:admin",
}
pytestmark = pytest.mark.timeout(BUILD_S_MAX + RUN_S_MAX + 60)


@pytest.fixture(scope="module")
def node() -> Iterator[EmbeddedNode]:
    with EmbeddedNode(settings=SETTINGS, users=dict([LOGIN])) as node:
        yield node


def exchanged(node: EmbeddedNode, topic: str, program: Sequence[str], **more: str) -> dict[str, Any]:
    """What the program saw: it reads what confluent-kafka has written for the topic, and the other way round."""
    config = {"url": node.schema_registry_url, "basic.auth.user.info": ":".join(LOGIN)}
    context = SerializationContext(topic, MessageField.VALUE)
    with SchemaRegistryClient(config) as registry:
        written = AvroSerializer(registry, USER)(BOB, context)
        assert isinstance(written, bytes)
        environment = {**os.environ, "REGISTRY_USER": LOGIN[0], "REGISTRY_PASSWORD": LOGIN[1], **more}
        command = [*program, str(node.schema_registry_url), topic, written.hex()]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=RUN_S_MAX)
        assert done.returncode == 0, done.stderr[-2000:]
        told: dict[str, Any] = json.loads(done.stdout)
        assert AvroDeserializer(registry)(bytes.fromhex(told.pop("written")), context) == ANN
    assert told.pop("read") == BOB
    refused = told.pop("refused")
    assert f'is incompatible with an earlier schema for subject "{topic}-value"' in refused, refused
    return told


def _fills(client: str, version: str) -> pytest.MarkDecorator:
    return cells(client, version)("registry-avro", "registry-refused")


def _go(client: str, module: str) -> ParameterSet:
    found = re.search(rf"\s{re.escape(module)} v(\S+)\n", (REGISTRY_SOURCE / "go.mod").read_text())
    assert found, module
    return pytest.param(client, marks=_fills(COLUMNS.get(client, client), found[1]), id=client)


@pytest.fixture(scope="module")
def go_registry_clients() -> pathlib.Path:
    return registry_clients()


@pytest.mark.thorough
@pytest.mark.parametrize("client", [_go(*each) for each in MODULES.items()])
def test_go(node: EmbeddedNode, go_registry_clients: pathlib.Path, client: str) -> None:
    seen = exchanged(node, client, [str(go_registry_clients), client])
    assert seen == {"versions": [1], "compatible": False}


@pytest.mark.parametrize(
    "client",
    [
        pytest.param(KAFKAJS, marks=_fills(KAFKAJS, VERSIONS[KAFKAJS])),
        pytest.param(CONFLUENT, marks=[_fills(CONFLUENT, VERSIONS[CONFLUENT]), pytest.mark.thorough]),
    ],
)
def test_javascript(node: EmbeddedNode, client: str) -> None:
    modules = node_modules(f"registry-{client.rpartition('/')[2]}", f"{client}@{VERSIONS[client]}")
    topic = client.partition("/")[0].removeprefix("@")
    seen = exchanged(node, topic, ["node", str(PROGRAM), client], NODE_PATH=str(modules))
    assert seen == {"found": True}
