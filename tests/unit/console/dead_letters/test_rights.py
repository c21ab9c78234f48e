"""Rights at dead letters: who may read a topic looks at its letters; a redrive needs more."""

from contextlib import closing
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from tests.unit.console.scene import USER_PASSWORD, ConsoleClient, node_with_console

SETTINGS = {
    "kafka.protocol": "SASL_PLAINTEXT",
    "sasl.allow_without_tls": "true",
    "security.authorize": "true",
    "security.super_users": "User:ann",
}
WISH = {"targets": [{"origin": "orders", "target": "orders"}]}
PATH = "/api/dead-letters/orders.dead"


def properties(bootstrap: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "ann",
        "sasl.password": USER_PASSWORD.format("ann"),
    }


def allow(admin: AdminClient, kind: ResourceType, name: str, operation: AclOperation) -> None:
    literal, allowed = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    binding = AclBinding(kind, name, literal, "User:bob", "*", operation, allowed)
    for made in admin.create_acls([binding]).values():
        made.result(30)


def redriven(client: ConsoleClient) -> dict[str, Any]:
    begun = client.value("POST", f"{PATH}/redrives", WISH)
    with closing(client.stream(f"/api/redrives/{begun['number']}/progress")) as stream:
        return next(dict(told) for _, told in stream if told["is_over"])


def test_each_right_lets_a_user_do_a_little_more() -> None:
    with node_with_console(SETTINGS, **{name: USER_PASSWORD.format(name) for name in ("ann", "bob")}) as node:
        ann, bob = ConsoleClient(node).begin("ann"), ConsoleClient(node).begin("bob")
        for topic in ("orders", "orders.dead"):
            ann.value("POST", "/api/topics", {"name": topic, "partitions": 1})
        producer = Producer(properties(node.bootstrap))
        producer.produce("orders.dead", b"one", headers=[("hutong-dead-topic", b"orders")])
        producer.flush()
        assert bob.ask("GET", PATH).status in (403, 404)
        assert bob.value("GET", "/api/dead-letters")["topics"] == []

        admin = AdminClient(properties(node.bootstrap))
        allow(admin, ResourceType.TOPIC, "orders.dead", AclOperation.READ)
        # No right to any group is needed to read.
        assert len(bob.value("GET", "/api/topics/orders.dead/messages")["records"]) == 1
        told = bob.value("GET", PATH)
        assert (len(told["letters"]), told["left"]) == (1, 1)
        assert "may not see the group hutong-redrive-orders.dead" in told["problem"]
        assert bob.ask("POST", f"{PATH}/redrives", {"targets": [{"origin": "", "target": "orders"}]}).status in (
            403,
            404,
        )

        allow(admin, ResourceType.GROUP, "hutong-redrive-orders.dead", AclOperation.READ)
        allow(admin, ResourceType.TRANSACTIONAL_ID, "hutong-redrive-orders.dead", AclOperation.WRITE)
        allow(admin, ResourceType.TOPIC, "orders", AclOperation.DESCRIBE)
        assert bob.value("GET", PATH)["problem"] is None
        refused = bob.ask("POST", f"{PATH}/redrives", WISH)
        assert (refused.status, refused.value["error"]["message"]) == (403, "You may not write to the topic orders.")

        allow(admin, ResourceType.TOPIC, "orders", AclOperation.WRITE)
        # For its records in the audit, which has no account of its own here.
        allow(admin, ResourceType.TOPIC, "__hutong_console_audit", AclOperation.WRITE)
        assert redriven(bob)["sent"] == 1
        assert ann.ask("GET", "/api/redrives/1").status == 404, "a redrive is seen by its user alone"
