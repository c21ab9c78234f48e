"""Users of the gateway: their logins at the broker, their rights, and bounds of both."""

import base64
import http.client
from collections.abc import Iterator

import pytest
from tests.unit.rest.scene import RestClient, node_with_http

from hutong.testing import EmbeddedNode

SECURED = {
    "kafka.protocol": "SASL_PLAINTEXT",
    "sasl.allow_without_tls": "true",
    "security.authorize": "true",
    "security.super_users": "User:ann",
}


@pytest.fixture(scope="module")
def node() -> Iterator[EmbeddedNode]:
    with node_with_http(SECURED, ann="secret-of-ann", bob="secret-of-bob") as node:
        yield node


def test_only_users_are_let_in(node: EmbeddedNode) -> None:
    address = node.http or ""
    for user, password in (("", ""), ("ann", "wrong"), ("eve", "secret-of-ann"), ("ann", "")):
        answer = RestClient(address, user, password).call("GET", "/v3/clusters")
        assert (answer.status, answer.value["error_code"]) == (401, 401)
        assert answer.headers["www-authenticate"].startswith("Basic")
    assert RestClient(address).call("GET", "/nothing").status == 401, "strangers learn nothing about paths"
    assert RestClient(address).call("GET", "/openapi.json").status == 200
    assert RestClient(address, "ann", "secret-of-ann").call("GET", "/v3/clusters").status == 200


def test_each_user_has_the_rights_that_it_has_by_kafka(node: EmbeddedNode) -> None:
    address = node.http or ""
    ann, bob = RestClient(address, "ann", "secret-of-ann").begin(), RestClient(address, "bob", "secret-of-bob")
    bob.cluster = ann.cluster
    assert ann.of("POST", "/topics", {"topic_name": "hers", "partitions_count": 1}).status == 201
    record = {"value": {"type": "STRING", "data": "x"}}
    assert ann.produce("hers", record)[0]["offset"] == 0
    for method, path, body in (
        ("POST", "/topics/hers/records", record),
        ("GET", "/topics/hers/partitions/0/records", None),
        ("GET", "/topics/hers/records", None),
        ("DELETE", "/topics/hers", None),
    ):
        answer = bob.of(method, path, body)
        assert (answer.status, answer.value["error_code"]) == (403, 40301), (path, answer.body)
    assert bob.of("GET", "/topics").value["data"] == []


def test_an_instance_is_its_makers_alone(node: EmbeddedNode) -> None:
    ann, bob = (RestClient(node.http or "", name, f"secret-of-{name}") for name in ("ann", "bob"))
    made = ann.call("POST", "/consumers/g", {"name": "hers"}, "application/vnd.kafka.v2+json")
    assert made.status == 200
    path = "/consumers/g/instances/hers"
    assert bob.call("DELETE", path).status == 404
    assert ann.call("DELETE", path).status == 204


NO_UTF_8 = base64.b64encode(b"\xff:\xff").decode()


@pytest.mark.parametrize("field", ["Bearer abc", "Basic", "Basic %%%", f"Basic {NO_UTF_8}"])
def test_other_credentials_are_refused(node: EmbeddedNode, field: str) -> None:
    connection = http.client.HTTPConnection(node.http or "")
    connection.request("GET", "/v3/clusters", headers={"Authorization": field})
    assert connection.getresponse().status in (400, 401)
    connection.close()
