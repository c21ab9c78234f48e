"""Users and ACLs by the console's API, on a node that authorizes."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.confluent import read_partition
from tests.unit.console.scene import ConsoleClient, node_with_console

from hutong.testing import EmbeddedNode

SECURED = {
    "kafka.protocol": "SASL_PLAINTEXT",
    "sasl.allow_without_tls": "true",
    "security.authorize": "true",
    "security.super_users": "User:ann",
}
ACL = {"principal": "User:bob", "operation": "read", "resource": "topic", "name": "orders.", "pattern": "prefixed"}
AUDIT = "__hutong_console_audit"


@pytest.fixture(scope="module")
def secured() -> Iterator[EmbeddedNode]:
    with node_with_console(SECURED, ann="secret-of-ann", bob="secret-of-bob") as node:
        yield node


@pytest.fixture
def ann(secured: EmbeddedNode) -> ConsoleClient:
    return ConsoleClient(secured).begin("ann")


def users(client: ConsoleClient) -> dict[str, list[str]]:
    found = client.value("GET", "/api/security/users")["users"]
    return {user["name"]: [each["name"] for each in user["mechanisms"]] for user in found}


def acls(client: ConsoleClient) -> list[dict[str, Any]]:
    answer = client.value("GET", "/api/security/acls")
    found: list[dict[str, Any]] = answer["acls"]
    return found


def test_a_user_is_made_signs_in_and_is_deleted(secured: EmbeddedNode, ann: ConsoleClient) -> None:
    body = {"name": "carl", "password": "secret-of-carl", "mechanism": "SCRAM-SHA-512"}
    assert ann.ask("POST", "/api/security/users", body).status == 204
    assert users(ann)["carl"] == ["SCRAM-SHA-512"]
    assert ann.ask("DELETE", "/api/security/users/carl/SCRAM-SHA-512").status == 204
    assert "carl" not in users(ann)


def test_no_password_is_in_the_audit(secured: EmbeddedNode, ann: ConsoleClient) -> None:
    ann.ask("POST", "/api/security/users", {"name": "dora", "password": "a-secret-word"})
    login: dict[str, Any] = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": "ann",
        "sasl_password": "secret-of-ann",
    }
    values = [record.value() or b"" for record in read_partition(secured.bootstrap, AUDIT, **login)]
    assert any(b'"user.password"' in value and b'"dora"' in value for value in values)
    assert not any(b"a-secret-word" in value for value in values)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": "x"},
        {"name": "", "password": "p"},
        {"name": "x", "password": ""},
        {"name": "x", "password": "p" * 2_000},
        {"name": "x", "password": "p", "mechanism": "PLAIN"},
        {"name": "x\u0000", "password": "p"},
        {"name": "x", "password": 5},
    ],
    ids=range(8),
)
def test_users_that_cannot_be_are_refused(ann: ConsoleClient, body: dict[str, Any]) -> None:
    answer = ann.ask("POST", "/api/security/users", body)
    assert answer.status == 400, answer.body


def test_a_user_that_is_not_there_cannot_be_deleted(ann: ConsoleClient) -> None:
    assert ann.ask("DELETE", "/api/security/users/nobody/SCRAM-SHA-512").status == 404
    assert ann.ask("DELETE", "/api/security/users/nobody/PLAIN").status == 400


def test_an_acl_is_made_listed_and_deleted(ann: ConsoleClient) -> None:
    assert ann.ask("POST", "/api/security/acls", ACL).status == 201
    whole = {**ACL, "permission": "allow", "host": "*"}
    assert whole in acls(ann)
    assert ann.ask("POST", "/api/security/acls/deletion", whole).status == 204
    assert whole not in acls(ann)
    assert ann.ask("POST", "/api/security/acls/deletion", whole).status == 404


@pytest.mark.parametrize(
    "change",
    [
        {"principal": "bob"},
        {"principal": ""},
        {"operation": "any"},
        {"operation": "fly"},
        {"resource": "user"},
        {"pattern": "match"},
        {"permission": "perhaps"},
        {"name": ""},
        {"name": "a\u0000b"},
        {"host": ""},
        {"more": 1},
    ],
    ids=str,
)
def test_acls_that_mean_nothing_are_refused(ann: ConsoleClient, change: dict[str, Any]) -> None:
    answer = ann.ask("POST", "/api/security/acls", {**ACL, **change})
    assert answer.status == 400, answer.body


def test_a_user_without_rights_sees_and_changes_none(secured: EmbeddedNode) -> None:
    bob = ConsoleClient(secured).begin("bob")
    for method, path, body in (
        ("GET", "/api/security/users", None),
        ("POST", "/api/security/users", {"name": "eve", "password": "p"}),
        ("DELETE", "/api/security/users/ann/SCRAM-SHA-512", None),
        ("GET", "/api/security/acls", None),
        ("POST", "/api/security/acls", ACL),
        ("POST", "/api/security/acls/deletion", ACL),
        ("GET", "/api/security/refusals", None),
        ("GET", "/api/settings/node", None),
        ("GET", "/api/settings/brokers/1", None),
    ):
        answer = bob.ask(method, path, body)
        assert (answer.status, answer.value["error"]["code"]) == (403, 40301), (path, answer.body)


def test_a_refused_client_is_listed_with_what_it_wanted(secured: EmbeddedNode, ann: ConsoleClient) -> None:
    bob = ConsoleClient(secured).begin("bob")
    for _ in range(2):
        assert bob.ask("POST", "/api/topics", {"name": "forbidden"}).status == 403
    found = ann.value("GET", "/api/security/refusals")["refusals"]
    (line,) = [each for each in found if each["name"] == "forbidden"]
    assert (line["principal"], line["operation"], line["resource"]) == ("User:bob", "create", "topic")
    assert line["count"] >= 2
    assert line["first_ms"] <= line["last_ms"]


def test_where_nothing_is_authorized_no_acl_is_made(client: ConsoleClient) -> None:
    assert client.value("GET", "/api/security/acls") == {"acls": [], "truncated": False}
    answer = client.ask("POST", "/api/security/acls", ACL)
    assert (answer.status, answer.value["error"]["message"][:30]) == (400, "This node has no authorizer: e")
