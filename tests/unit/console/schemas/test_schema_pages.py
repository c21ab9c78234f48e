"""Schemas through the console: what is listed, checked, registered, deleted; rights, the audit, hostile input."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.console.scene import ConsoleClient, node_with_console

from hutong.testing import EmbeddedNode

REGISTRY = {"schema_registry.listen": "127.0.0.1:0"}
SECURED = {
    **REGISTRY,
    "kafka.protocol": "SASL_PLAINTEXT",
    "sasl.allow_without_tls": "true",
    "security.authorize": "true",
    "security.super_users": "User:ann",
    "schema_registry.authentication": "basic",
}
HOSTILE = "<b>x</b>\u202e"


def user(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}, *fields]})


AGE = {"name": "age", "type": "int"}
OPTIONAL_AGE = {**AGE, "default": 0}


@pytest.fixture(scope="module")
def node() -> Iterator[EmbeddedNode]:
    with node_with_console(REGISTRY) as node:
        yield node


def registered(client: ConsoleClient, subject: str, *schemas: str) -> list[int]:
    path = f"/api/schemas/{subject}/versions"
    return [client.value("POST", path, {"schema": schema})["version"] for schema in schemas]


def audited(client: ConsoleClient) -> str:
    return str(client.value("GET", "/api/topics/__hutong_console_audit/messages")["records"])


def test_subjects_with_their_latest_versions(client: ConsoleClient) -> None:
    assert registered(client, "users-value", user(), user(OPTIONAL_AGE)) == [1, 2]
    registered(client, ":.eu:users-value", user())
    client.value("PUT", "/api/schemas/users-value/level", {"level": "FULL"})
    told = client.value("GET", "/api/schemas")
    assert (told["has_registry"], told["truncated"]) == (True, False)
    found = {row["subject"]: row for row in told["subjects"]}
    first = found["users-value"]
    assert (first["version"], first["type"], first["level"]) == (2, "AVRO", "FULL")
    assert found[":.eu:users-value"]["level"] == "BACKWARD"


def test_a_subject_with_its_schema_indented(client: ConsoleClient) -> None:
    registered(client, "one", user(), user(OPTIONAL_AGE))
    told = client.value("GET", "/api/schemas/one")
    assert (told["versions"], told["own_level"], told["latest"]["version"]) == ([1, 2], None, 2)
    assert '\n      "name": "age",' in told["latest"]["schema"]
    assert '"age"' not in client.value("GET", "/api/schemas/one/versions/1")["schema"]


def test_the_difference_of_two_versions(client: ConsoleClient) -> None:
    registered(client, "two", user(), user(OPTIONAL_AGE))
    told = client.value("GET", "/api/schemas/two/difference?from=1&to=2")
    assert {line["text"].strip() for line in told["lines"] if line["kind"] == "added"} >= {'"name": "age",'}
    assert client.value("GET", "/api/schemas/two/difference?from=2")["changed"] == 0
    assert client.ask("GET", "/api/schemas/two/difference?from=9&to=2").status == 404
    assert client.ask("GET", "/api/schemas/two/difference").status == 422


def test_a_schema_is_checked_before_it_is_registered(client: ConsoleClient) -> None:
    registered(client, "three", user())
    path = "/api/schemas/three/versions"
    good = client.value("POST", f"{path}/preview", {"schema": user(OPTIONAL_AGE)})
    assert good == {"is_compatible": True, "messages": []}
    bad = client.value("POST", f"{path}/preview", {"schema": user(AGE)})
    assert bad["is_compatible"] is False
    assert "age" in str(bad["messages"])
    assert client.value("GET", "/api/schemas/three")["versions"] == [1], "a check registers nothing"
    refused = client.ask("POST", path, {"schema": user(AGE)})
    assert (refused.status, "age" in refused.value["error"]["message"]) == (409, True)
    assert client.value("POST", "/api/schemas/nothing-yet/versions/preview", {"schema": user()})["is_compatible"]


def test_other_kinds_of_schemas(client: ConsoleClient) -> None:
    proto = 'syntax = "proto3";\nmessage User {\n  string name = 1;\n}\n'
    made = client.value("POST", "/api/schemas/proto/versions", {"schema": proto, "type": "PROTOBUF"})
    assert made["type"] == "PROTOBUF"
    assert "string name = 1;" in client.value("GET", "/api/schemas/proto")["latest"]["schema"]
    body = {"schema": '{"type": "object"}', "type": "JSON"}
    assert client.value("POST", "/api/schemas/json/versions", body)["version"] == 1
    reference = {"name": "User", "subject": "proto", "version": 1}
    assert client.ask("POST", "/api/schemas/a/versions", {"schema": user(), "references": [reference]}).status < 500


def test_levels_are_set_and_taken_away(client: ConsoleClient) -> None:
    registered(client, "four", user())
    for level in ("NONE", None, None):
        assert client.ask("PUT", "/api/schemas/four/level", {"level": level}).status == 204
        assert client.value("GET", "/api/schemas/four")["own_level"] == level
    assert client.ask("PUT", "/api/schemas/four/level", {"level": "SOMEWHAT"}).status == 422


def test_what_is_deleted_softly_is_gone_from_the_pages(client: ConsoleClient) -> None:
    registered(client, "five", user(), user(OPTIONAL_AGE))
    assert client.value("DELETE", "/api/schemas/five/versions/1") == {"versions": [1]}
    assert client.value("GET", "/api/schemas/five")["versions"] == [2]
    assert client.ask("DELETE", "/api/schemas/five/versions/latest").status == 400
    assert client.value("DELETE", "/api/schemas/five") == {"versions": [2]}
    assert client.ask("GET", "/api/schemas/five").status == 404
    assert client.ask("DELETE", "/api/schemas/five").status == 404
    told = audited(client)
    assert all(change in told for change in ("schema.register", "schema.delete"))


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/versions", {"schema": "{broken"}, 422),
        ("/versions", {"schema": ""}, 422),
        ("/versions", {"schema": "[" * 100_000}, 422),
        ("/versions", {"schema": user(), "type": "XML"}, 422),
        ("/versions", {"schema": 5}, 400),
        ("/versions", {"schema": user(), "id": 7}, 400),
        ("/versions/preview", {"schema": "{broken"}, 422),
        ("/versions/preview", {}, 400),
        ("/versions/preview", {"schema": user(), "references": [{}] * 300}, 400),
        (
            "/versions/preview",
            {"schema": user(), "references": [{"name": "a", "subject": "b", "version": -1}] * 300},
            422,
        ),
    ],
)
def test_schemas_that_are_none(client: ConsoleClient, path: str, body: Any, status: int) -> None:
    assert client.ask("POST", f"/api/schemas/hostile{path}", body).status == status


@pytest.mark.parametrize("subject", ["%00", "x" * 2_000, "a%0D%0Ab", "%3Cb%3E", "..%2F..%2Fetc", "%F0%9F%92%A5", ":.:"])
def test_subjects_that_are_none(client: ConsoleClient, subject: str) -> None:
    for answer in (
        client.ask("GET", f"/api/schemas/{subject}"),
        client.ask("GET", f"/api/schemas/{subject}/versions/1"),
        client.ask("GET", f"/api/schemas/{subject}/versions/{subject}"),
        client.ask("DELETE", f"/api/schemas/{subject}/versions/{subject}"),
    ):
        assert answer.status in (400, 404, 422), answer.body


def test_rights_are_those_of_the_registry() -> None:
    with node_with_console(SECURED, ann="secret-of-ann", bob="secret-of-bob") as node:
        ann, bob = (ConsoleClient(node).begin(user) for user in ("ann", "bob"))
        registered(ann, "users-value", user())
        assert [row["subject"] for row in ann.value("GET", "/api/schemas")["subjects"]] == ["users-value"]
        assert bob.value("GET", "/api/schemas")["subjects"] == []
        path = "/api/schemas/users-value"
        for answer in (
            bob.ask("GET", path),
            bob.ask("GET", f"{path}/versions/1"),
            bob.ask("GET", f"{path}/difference?from=1&to=1"),
            bob.ask("POST", f"{path}/versions", {"schema": user()}),
            bob.ask("POST", f"{path}/versions/preview", {"schema": user()}),
            bob.ask("PUT", f"{path}/level", {"level": "NONE"}),
            bob.ask("DELETE", path),
        ):
            assert answer.status == 403, answer.body
        for operation in ("describe", "write"):
            acl = {"principal": "User:bob", "operation": operation, "resource": "topic", "name": "users"}
            assert ann.ask("POST", "/api/security/acls", acl).status == 201
        assert registered(bob, "users-value", user(OPTIONAL_AGE)) == [2]
        assert bob.ask("DELETE", path).status == 403


def test_a_node_without_a_registry_says_so() -> None:
    with node_with_console() as node:
        client = ConsoleClient(node).begin()
        assert client.value("GET", "/api/schemas")["has_registry"] is False
        answer = client.ask("GET", "/api/schemas/users-value")
        assert (answer.status, "--schema-registry" in answer.value["error"]["message"]) == (404, True)
