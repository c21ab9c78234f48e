"""Rights to subjects: each request with the right that it needs, and what a client without it is shown."""

import pytest
from tests.support.schema_registry import RegistryClient

from hutong.registry.rights import resource_of
from hutong.security.acls import CLUSTER_NAME, Operation, ResourceType

Right = tuple[Operation, ResourceType, str]
TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER
DESCRIBE, WRITE, ALTER = Operation.DESCRIBE, Operation.WRITE, Operation.ALTER
FORBIDDEN = (403, 40301)
SCHEMA = {"schema": '"int"'}


class Acls:
    """Rights that the test gives."""

    is_on = True

    def __init__(self, *allowed: Right) -> None:
        self.allowed = set(allowed)

    def allows_client(
        self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str, *, quietly: bool = False
    ) -> bool:
        assert principal == "User:ANONYMOUS"
        return (operation, kind, name) in self.allowed


async def registry_of(acls: Acls) -> RegistryClient:
    """Two subjects of two topics, with one schema of their own each and one in common."""
    client = RegistryClient(authorizer=acls)
    acls.is_on = False
    for subject in ("t-value", "u-value"):
        await client.register(subject, '"int"')
        await client.register(subject, {"type": "fixed", "name": subject[0], "size": 1}, "?normalize=true")
        await client.ask("PUT", f"/config/{subject}", {"compatibility": "NONE"})
        await client.register(subject, {"type": "fixed", "name": subject[0], "size": 1})
    acls.is_on = True
    return client


@pytest.mark.parametrize(
    ("scope", "resource"),
    [
        ("t-value", (TOPIC, "t")),
        ("t-key", (TOPIC, "t")),
        (":.c:t-value", (TOPIC, "t")),
        ("com.example.User", (TOPIC, "com.example.User")),
        ("t-com.example.User", (TOPIC, "t-com.example.User")),
        ("-value", (TOPIC, "-value")),
        (":.c:", (CLUSTER, CLUSTER_NAME)),
        (None, (CLUSTER, CLUSTER_NAME)),
    ],
)
def test_a_subject_stands_for_a_topic(scope: str | None, resource: tuple[ResourceType, str]) -> None:
    assert resource_of(scope) == resource


@pytest.mark.parametrize(
    ("method", "path", "body", "right"),
    [
        ("GET", "/subjects/t-value/versions", None, (DESCRIBE, TOPIC, "t")),
        ("GET", "/subjects/t-value/versions/1", None, (DESCRIBE, TOPIC, "t")),
        ("GET", "/subjects/t-value/versions/1/schema", None, (DESCRIBE, TOPIC, "t")),
        ("GET", "/subjects/t-value/versions/1/referencedby", None, (DESCRIBE, TOPIC, "t")),
        ("POST", "/subjects/t-value", SCHEMA, (DESCRIBE, TOPIC, "t")),
        ("POST", "/compatibility/subjects/t-value/versions", SCHEMA, (DESCRIBE, TOPIC, "t")),
        ("POST", "/compatibility/subjects/t-value/versions/1", SCHEMA, (DESCRIBE, TOPIC, "t")),
        ("GET", "/config/t-value", None, (DESCRIBE, TOPIC, "t")),
        ("GET", "/mode/t-value?defaultToGlobal=true", None, (DESCRIBE, TOPIC, "t")),
        ("POST", "/subjects/t-value/versions", SCHEMA, (WRITE, TOPIC, "t")),
        ("POST", "/contexts/c/subjects/t-value/versions", SCHEMA, (WRITE, TOPIC, "t")),
        ("DELETE", "/subjects/t-value", None, (ALTER, TOPIC, "t")),
        ("DELETE", "/subjects/t-value/versions/1", None, (ALTER, TOPIC, "t")),
        ("PUT", "/config/t-value", {"compatibility": "FULL"}, (ALTER, TOPIC, "t")),
        ("DELETE", "/config/t-value", None, (ALTER, TOPIC, "t")),
        ("PUT", "/mode/t-value", {"mode": "READONLY"}, (ALTER, TOPIC, "t")),
        ("GET", "/config", None, (DESCRIBE, CLUSTER, CLUSTER_NAME)),
        ("GET", "/mode", None, (DESCRIBE, CLUSTER, CLUSTER_NAME)),
        ("GET", "/contexts", None, (DESCRIBE, CLUSTER, CLUSTER_NAME)),
        ("PUT", "/config", {"compatibility": "FULL"}, (ALTER, CLUSTER, CLUSTER_NAME)),
        ("DELETE", "/config", None, (ALTER, CLUSTER, CLUSTER_NAME)),
        ("PUT", "/mode", {"mode": "READONLY"}, (ALTER, CLUSTER, CLUSTER_NAME)),
        ("DELETE", "/mode", None, (ALTER, CLUSTER, CLUSTER_NAME)),
        ("PUT", "/contexts/c/config", {"compatibility": "FULL"}, (ALTER, CLUSTER, CLUSTER_NAME)),
        ("PUT", "/config/:.c:", {"compatibility": "FULL"}, (ALTER, CLUSTER, CLUSTER_NAME)),
    ],
)
async def test_each_request_needs_its_right(method: str, path: str, body: object, right: Right) -> None:
    every = {(each, kind, name) for each in (DESCRIBE, WRITE, ALTER) for kind, name in ((TOPIC, "t"), (TOPIC, "u"))}
    every |= {(each, CLUSTER, CLUSTER_NAME) for each in (DESCRIBE, ALTER)}
    acls = Acls(*every - {right})
    client = await registry_of(acls)
    before = len(client.log.records)
    assert await client.ask(method, path, body) == FORBIDDEN
    assert len(client.log.records) == before
    acls.allowed = {right}
    assert not isinstance(await client.ask(method, path, body), tuple)


async def test_lists_have_what_the_client_may_see() -> None:
    client = await registry_of(Acls((DESCRIBE, TOPIC, "t")))
    assert await client.ask("GET", "/subjects") == ["t-value"]
    listed = await client.ask("GET", "/schemas")
    assert isinstance(listed, list)
    assert {each["subject"] for each in listed} == {"t-value"}
    assert await client.ask("GET", "/schemas/ids/1/subjects") == ["t-value"]
    assert await client.ask("GET", "/schemas/ids/1/versions") == [{"subject": "t-value", "version": 1}]


async def test_an_id_is_shown_to_those_who_see_a_subject_with_it() -> None:
    client = await registry_of(Acls((DESCRIBE, TOPIC, "t")))
    assert await client.ask("GET", "/schemas/ids/1") == SCHEMA
    assert await client.ask("GET", "/schemas/ids/1/schema") == "int"
    assert await client.ask("GET", "/schemas/ids/2") != FORBIDDEN
    assert await client.ask("GET", "/schemas/ids/3") == FORBIDDEN
    assert await client.ask("GET", "/schemas/ids/3/schema") == FORBIDDEN
    assert await client.ask("GET", "/schemas/ids/9") == (404, 40403)


async def test_what_a_schema_imports_must_be_seen() -> None:
    acls = Acls((WRITE, TOPIC, "t"), (DESCRIBE, TOPIC, "t"))
    client = await registry_of(acls)
    references = [{"name": "u", "subject": "u-value", "version": 2}]
    body = {"schema": '{"type": "array", "items": "u"}', "references": references}
    for path in ("/subjects/t-value/versions", "/subjects/t-value", "/compatibility/subjects/t-value/versions"):
        assert await client.ask("POST", path, body) == FORBIDDEN
    acls.allowed.add((DESCRIBE, TOPIC, "u"))
    assert not isinstance(await client.ask("POST", "/subjects/t-value/versions", body), tuple)


async def test_what_says_nothing_of_schemas_needs_no_right() -> None:
    client = await registry_of(Acls())
    for path in ("/", "/schemas/types", "/v1/metadata/id", "/v1/metadata/version"):
        assert not isinstance(await client.ask("GET", path), tuple)
    assert await client.ask("GET", "/subjects") == []
