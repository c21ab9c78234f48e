"""The schema registry and Confluent's own classes for Java: serializers, registry client, Kafka Connect's converter.

Their jars are not on Maven Central by themselves; a connector that brings them unchanged is (7.2.1, with kafka-clients
of 3.x). One Java process runs all scenarios at a node without users, or at one with users and ACLs.
"""

import pathlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.compat.report import cells
from tests.support.confluent import read_partition, values
from tests.support.kafka_tools import QUICK_START
from tests.support.maven import jars_alone, jars_with_needs, java_program
from tests.support.waiting import until

from hutong.testing import EmbeddedNode

JARS: Final = (  # 88 MB
    "com.snowflake:snowflake-kafka-connector:2.1.2",
    "org.apache.kafka:connect-api:3.9.2",
)
SOURCE: Final = pathlib.Path(__file__).parent / "java_registry" / "RegistryScenarios.java"
RUN_S_MAX: Final = 120.0
FILLS: Final = cells("Confluent's classes for Java", "7.2.1")
TOPIC: Final = "python"
USER: Final = (
    '{"type":"record","name":"User","namespace":"example","fields":['
    '{"name":"name","type":"string"},{"name":"age","type":["null","int"],"default":null}]}'
)
LATER: Final = USER.replace("]}", ',{"name":"city","type":"string","default":"?"}]}')
CARL: Final[dict[str, Any]] = {"name": "carl", "age": 4, "city": "Ulm"}
ADMIN, PASSWORD = "admin", "a password"
USERS: Final = {
    "schema_registry.authentication": "basic",
    "kafka.protocol": "SASL_PLAINTEXT",
    "sasl.allow_without_tls": "true",
    "security.authorize": "true",
    "security.super_users": f"User:{ADMIN}",
}
CONNECT: Final = ("org.apache.kafka:connect-runtime:4.3.0", "org.apache.kafka:connect-file:4.3.0")
HOIST: Final = "org.apache.kafka.connect.transforms.HoistField$Value"
CONVERTER: Final = "io.confluent.connect.avro.AvroConverter"
HOISTED: Final = {"transforms": "hoist", "transforms.hoist.type": HOIST, "transforms.hoist.field": "line"}
pytestmark = pytest.mark.timeout(500)


@dataclass(slots=True)
class Place:
    """A node with a registry, and how clients of both kinds get in."""

    node: EmbeddedNode
    of_kafka: dict[str, str] = field(default_factory=dict)
    of_registry: dict[str, str] = field(default_factory=dict)
    of_java: dict[str, str] = field(default_factory=dict)

    def registry(self) -> SchemaRegistryClient:
        return SchemaRegistryClient({"url": self.node.schema_registry_url, **self.of_registry})


@pytest.fixture(scope="module", params=[pytest.param("open", marks=pytest.mark.thorough), "users"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    settings = {"schema_registry.listen": "127.0.0.1:0"}
    if request.param == "open":
        with EmbeddedNode(settings=settings) as node:
            yield Place(node)
        return
    with EmbeddedNode(settings={**settings, **USERS}, users={ADMIN: PASSWORD, "ann": "another"}) as node:
        login = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": ADMIN, "sasl.password": PASSWORD}
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        java = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": f'{module} required username="{ADMIN}" password="{PASSWORD}";',
            "basic.auth.credentials.source": "USER_INFO",
            "basic.auth.user.info": f"{ADMIN}:{PASSWORD}",
        }
        kafka = {"security.protocol": "SASL_PLAINTEXT", **login}
        yield Place(node, kafka, {"basic.auth.user.info": f"{ADMIN}:{PASSWORD}"}, java)


@pytest.fixture(scope="module")
def seen(place: Place, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What Java saw, by scenario, after confluent-kafka had written."""
    program = java_program("java-registry", SOURCE, held=_jars(), options=QUICK_START)
    _write_by_python(place)
    file = tmp_path_factory.mktemp("java") / "client.properties"
    file.write_text(_properties(place))
    done = subprocess.run([*program, str(file), TOPIC], capture_output=True, text=True, check=False, timeout=RUN_S_MAX)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    return dict(line.split("\t") for line in done.stdout.splitlines())


def _jars() -> pathlib.Path:
    return jars_alone("java-registry", *JARS)[0].parent


def _properties(place: Place, **more: str) -> str:
    """What Java's clients read from a file, for both Kafka and the registry."""
    address = {"bootstrap.servers": place.node.bootstrap, "schema.registry.url": place.node.schema_registry_url}
    return "".join(f"{key}={value}\n" for key, value in {**address, **place.of_java, **more}.items())


def _write_by_python(place: Place) -> None:
    context = SerializationContext(TOPIC, MessageField.VALUE)
    producer = Producer({"bootstrap.servers": place.node.bootstrap, **place.of_kafka})
    with place.registry() as registry:
        for schema, user in ((USER, {"name": "ann", "age": 3}), (USER, {"name": "bob", "age": None}), (LATER, CARL)):
            producer.produce(TOPIC, AvroSerializer(registry, schema)(user, context))
    assert producer.flush(30) == 0


@FILLS("registry-avro")
def test_java_reads_what_confluent_kafka_wrote(seen: dict[str, str]) -> None:
    later = '{"name": "carl", "age": 4, "city": "Ulm"}'
    assert seen["read-others"] == f'[{{"name": "ann", "age": 3}}, {{"name": "bob", "age": null}}, {later}]'


@FILLS("registry-avro")
def test_confluent_kafka_reads_what_java_wrote(place: Place, seen: dict[str, str]) -> None:
    assert seen["round-trip"] == '[a key={"name": "ann", "age": 3}, a key={"name": "ann", "age": null}]'
    with place.registry() as registry:
        deserialize = AvroDeserializer(registry)
        for topic, expected in ((f"{TOPIC}-java", [3, None]), (f"{TOPIC}-orders", [3])):
            messages = read_partition(place.node.bootstrap, topic, 0, **place.of_kafka)
            context = SerializationContext(topic, MessageField.VALUE)
            found = [deserialize(value, context) for value in values(messages)]
            assert [user.get("by", user)["age"] for user in found] == expected


@FILLS("registry-references", "registry-managed")
def test_java_registers_and_refers(seen: dict[str, str]) -> None:
    subjects = ("bytes-key", "bytes-value", "java-key", "java-value", "named-example.User", "named-key", "value")
    assert seen["subjects"] == f"[{', '.join('-' + each for each in subjects)}]"
    assert seen["references"] == '[a key={"by": {"name": "ann", "age": 3}}] 1 example.Order'
    managed = "same=true, versions=[1], version=1, latest=true, text=true, compatible=true, reasons=true"
    assert seen["managed"] == f"{{{managed}, level=FULL FULL, mode=READONLY READONLY, deleted=[1] [1]}}"
    assert seen["converter"] == "21.5 example.Reading org.apache.kafka.connect.data.Timestamp"


@FILLS("registry-refused", "registry-rights")
def test_java_hears_what_is_refused(place: Place, seen: dict[str, str]) -> None:
    assert seen["incompatible"] == (
        "InvalidConfigurationException: Schema being registered is incompatible with an earlier schema for subject "
        f'"{TOPIC}-strict-value", details: [version 1: the new schema cannot read its data: '
        "READER_FIELD_MISSING_DEFAULT_VALUE at /fields/1: the reader's field height has no default, and the writer has "
        "no such field]; error code: 409"
    )
    assert seen["unregistered"] == (
        f"SerializationException: Error retrieving Avro schema{USER} <- RestClientException 404: "
        f"Subject '{TOPIC}-never-value' not found.; error code: 40401"
    )
    assert seen["missing"] == f"RestClientException 404: Subject '{TOPIC}-missing' not found.; error code: 40401"
    assert seen["unknown-id"] == "RestClientException 404: Schema 1000000 not found; error code: 40403"
    if place.of_registry:
        assert seen["wrong-password"] == "RestClientException 401: user and password, please; error code: 401"
        assert seen["forbidden"].startswith("RestClientException 403: ")
        assert seen["forbidden"].endswith("error code: 40301")


@FILLS("registry-connect")
@pytest.mark.thorough
def test_a_worker_of_kafka_connect_converts_avro(place: Place, tmp_path: pathlib.Path) -> None:
    """Lines of a file go to a topic as Avro, and from there to another file."""
    worker, source, sink = (tmp_path / name for name in ("worker", "source", "sink"))
    given, taken = tmp_path / "given", tmp_path / "taken"
    given.write_text("first line\nsecond line\n")
    source.write_text(_lines(name="source", file=given, topic="lines", **_connector("Source"), **HOISTED))
    sink.write_text(_lines(name="sink", file=taken, topics="lines", **_connector("Sink")))
    worker.write_text(_worker(place, tmp_path))
    jars = ":".join(map(str, jars_with_needs("kafka-connect", *CONNECT)))
    words = ["java", "-Xmx384m", *QUICK_START, "-cp", jars, "org.apache.kafka.connect.cli.ConnectStandalone"]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([*words, str(worker), str(source), str(sink)], stdout=log, stderr=log)
    try:
        expected = "Struct{line=first line}\nStruct{line=second line}\n"
        until(lambda: taken.exists() and taken.read_text() == expected, what="the lines came back", deadline_s=90)
    finally:
        process.kill()
        process.wait()
    with place.registry() as registry:
        messages = read_partition(place.node.bootstrap, "lines", 0, **place.of_kafka)
        deserialize, context = AvroDeserializer(registry), SerializationContext("lines", MessageField.VALUE)
        found = [deserialize(value, context) for value in values(messages)]
        assert [line["line"] for line in found] == ["first line", "second line"]
        assert registry.get_versions("lines-value") == [1]


def _connector(kind: str) -> dict[str, object]:
    return {"connector.class": f"org.apache.kafka.connect.file.FileStream{kind}Connector", "tasks.max": 1}


def _lines(**settings: object) -> str:
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def _worker(place: Place, folder: pathlib.Path) -> str:
    """A worker, whose connectors log in as it does; the converter is a plug-in with jars of its own."""
    of_registry = {"schema.registry.url": place.node.schema_registry_url, **place.of_java}
    (folder / "plugins").mkdir()
    (folder / "plugins" / "avro").symlink_to(_jars())
    return _properties(
        place,
        **{
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": CONVERTER,
            "plugin.path": str(folder / "plugins"),
            "offset.storage.file.filename": str(folder / "offsets"),
            "listeners": "http://127.0.0.1:0",
            "offset.flush.interval.ms": "1000",
            **{f"value.converter.{key}": value for key, value in of_registry.items()},
            **{f"{role}.{key}": value for role in ("producer", "consumer") for key, value in place.of_java.items()},
        },
    )
