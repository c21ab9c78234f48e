"""ACLs of the v3 API: what is found, made and deleted, and what is refused."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.rest.scene import RestClient, node_with_http

from hutong.rest.acls import ACLS_OF_REQUEST_MAX
from hutong.testing import EmbeddedNode

SECURED = {
    "kafka.protocol": "SASL_PLAINTEXT",
    "sasl.allow_without_tls": "true",
    "security.authorize": "true",
    "security.super_users": "User:ann",
}
ACL = {
    "resource_type": "TOPIC",
    "resource_name": "orders",
    "pattern_type": "LITERAL",
    "principal": "User:bob",
    "host": "*",
    "operation": "READ",
    "permission": "ALLOW",
}
CLUSTER = {**ACL, "resource_type": "CLUSTER", "resource_name": "kafka-cluster", "operation": "ALTER"}
ALL = "resource_type=ANY&pattern_type=ANY&operation=ANY&permission=ANY"


@pytest.fixture(scope="module")
def node() -> Iterator[EmbeddedNode]:
    with node_with_http(SECURED, ann="secret-of-ann", bob="secret-of-bob") as node:
        yield node


@pytest.fixture
def ann(node: EmbeddedNode) -> Iterator[RestClient]:
    client = RestClient(node.http or "", "ann", "secret-of-ann").begin()
    yield client
    client.of("DELETE", f"/acls?{ALL}")


def words(found: Any) -> list[dict[str, str]]:
    return [{name: each[name] for name in ACL} for each in found["data"]]


def test_rights_are_made_found_and_deleted(ann: RestClient) -> None:
    made = ann.of("POST", "/acls", ACL)
    assert (made.status, made.body) == (201, b"")
    batch = {"data": [{**ACL, "operation": "write", "pattern_type": "PREFIXED"}, CLUSTER, CLUSTER]}
    assert ann.of("POST", "/acls:batch", batch).status == 201
    found = ann.of("GET", "/acls").value
    assert (found["kind"], found["metadata"]["self"]) == ("KafkaAclList", ann.path("/acls"))
    assert words(found) == [CLUSTER, ACL, {**ACL, "operation": "WRITE", "pattern_type": "PREFIXED"}]
    assert ann.call("GET", made.headers["location"]).value["data"] == [found["data"][1]]
    assert words(ann.of("GET", "/acls?pattern_type=MATCH&resource_type=topic&resource_name=orders.eu").value) == [
        {**ACL, "operation": "WRITE", "pattern_type": "PREFIXED"}
    ]
    query = "resource_type=TOPIC&pattern_type=ANY&operation=READ&permission=ANY"
    assert words(ann.of("DELETE", f"/acls?{query}").value) == [ACL]
    assert len(ann.of("GET", "/acls").value["data"]) == 2
    assert ann.of("POST", "/acls:batch", {"data": []}).status == 201


@pytest.mark.parametrize(
    ("method", "path", "body", "sentence"),
    [
        ("GET", "/acls?operation=FLY", None, "'FLY' is no operation; there are ANY, ALL, READ"),
        ("GET", "/acls?resource_type=BROKER", None, "'BROKER' is no resource_type"),
        ("GET", "/acls?permission=UNKNOWN", None, "'UNKNOWN' is no permission"),
        ("DELETE", "/acls", None, "a deletion needs resource_type, pattern_type, operation, permission"),
        ("DELETE", "/acls?resource_type=ANY&operation=ANY&permission=ANY", None, "a deletion needs pattern_type"),
        ("POST", "/acls", {**ACL, "operation": "ANY"}, "names one thing, and not ANY"),
        ("POST", "/acls", {**ACL, "pattern_type": "match"}, "names one thing, and not match"),
        ("POST", "/acls", {**ACL, "permission": "MAYBE"}, "'MAYBE' is no permission"),
        ("POST", "/acls", {"resource_type": "TOPIC"}, "resource_name"),
        ("POST", "/acls:batch", {"data": [ACL, {**ACL, "operation": "FLY"}]}, "'FLY' is no operation"),
        ("POST", "/acls", {**ACL, "principal": "bob"}, ""),
        ("POST", "/acls", {**ACL, "resource_name": ""}, ""),
    ],
)
def test_what_is_wrong(ann: RestClient, method: str, path: str, body: Any, sentence: str) -> None:
    answer = ann.of(method, path, body)
    assert answer.status == 400, answer.body
    assert sentence in answer.value["message"]
    assert ann.of("GET", "/acls").value["data"] == []


def test_bounds_and_rights(node: EmbeddedNode, ann: RestClient) -> None:
    many = {"data": [{**ACL, "resource_name": f"t{number}"} for number in range(ACLS_OF_REQUEST_MAX + 1)]}
    assert ann.of("POST", "/acls:batch", many).status == 413
    bob = RestClient(node.http or "", "bob", "secret-of-bob")
    bob.cluster = ann.cluster
    for method, path, body in (("GET", "/acls", None), ("POST", "/acls", ACL), ("DELETE", f"/acls?{ALL}", None)):
        answer = bob.of(method, path, body)
        assert (answer.status, answer.value["error_code"]) == (403, 40301), (method, answer.body)


def test_a_node_without_authorization_has_none() -> None:
    with node_with_http() as node:
        client = RestClient(node.http or "").begin()
        assert client.of("GET", "/acls").value["data"] == []
        answer = client.of("POST", "/acls", ACL)
        assert (answer.status, answer.value["error_code"]) == (400, 40002)
