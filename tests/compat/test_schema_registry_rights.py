"""Rights to subjects: confluent-kafka's registry client and serializers, with ACLs that its admin client has made."""

from collections.abc import Callable, Iterator
from importlib.metadata import version

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.compat.report import cells
from tests.support.confluent import DEADLINE_S

from hutong.testing import EmbeddedNode

pytestmark = pytest.mark.compat
USERS = {"admin": "a password", "ann": "another", "bob": "a third"}
SETTINGS = {
    "schema_registry.listen": "127.0.0.1:0",
    "schema_registry.authentication": "basic",
    "kafka.protocol": "SASL_PLAINTEXT",
    "sasl.allow_without_tls": "true",
    "security.authorize": "true",
    "security.super_users": "User:admin",
}
TEXT = '{"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]}'
ORDERS = SerializationContext("orders", MessageField.VALUE)


@pytest.fixture(scope="module")
def node() -> Iterator[EmbeddedNode]:
    with EmbeddedNode(settings=SETTINGS, users=USERS) as node:
        login = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "admin", "sasl.password": USERS["admin"]}
        admin = AdminClient({"bootstrap.servers": node.bootstrap, "security.protocol": "SASL_PLAINTEXT", **login})
        for user, operation in (("ann", AclOperation.WRITE), ("bob", AclOperation.READ)):
            binding = AclBinding(
                ResourceType.TOPIC,
                "orders",
                ResourcePatternType.LITERAL,
                f"User:{user}",
                "*",
                operation,
                AclPermissionType.ALLOW,
            )
            for made in admin.create_acls([binding]).values():
                made.result(DEADLINE_S)
        yield node


def client(node: EmbeddedNode, user: str) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": node.schema_registry_url, "basic.auth.user.info": f"{user}:{USERS[user]}"})


@cells("confluent-kafka's serializers", version("confluent-kafka"))("registry-rights")
def test_who_writes_registers_and_who_reads_finds(node: EmbeddedNode) -> None:
    with client(node, "ann") as ann, client(node, "bob") as bob, client(node, "admin") as admin:
        data = AvroSerializer(ann, TEXT)({"name": "ann"}, ORDERS)
        assert isinstance(data, bytes)
        assert AvroDeserializer(bob)(data, ORDERS) == {"name": "ann"}
        assert bob.get_subjects() == ["orders-value"]
        attempts: list[Callable[[], object]] = [
            lambda: ann.register_schema("payments-value", Schema(TEXT, "AVRO")),
            lambda: ann.delete_subject("orders-value"),
            lambda: ann.set_compatibility(subject_name="orders-value", level="NONE"),
            lambda: ann.set_compatibility(level="NONE"),
            lambda: bob.register_schema("orders-value", Schema('"string"', "AVRO")),
            lambda: bob.get_latest_version("payments-value"),
        ]
        for attempt in attempts:
            with pytest.raises(SchemaRegistryError) as raised:
                attempt()
            assert (raised.value.http_status_code, raised.value.error_code) == (403, 40301)
        admin.register_schema("payments-value", Schema('"long"', "AVRO"))
        assert bob.get_subjects() == ["orders-value"]
        assert admin.get_subjects() == ["orders-value", "payments-value"]
        assert admin.delete_subject("orders-value") == [1]
