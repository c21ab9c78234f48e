"""The REST API: each path with its answer and its errors, as Confluent documents them."""

from typing import Any

import msgspec
import pytest
from tests.support.schema_registry import RegistryClient

from hutong.registry.records import config_record, decode_record, schema_tombstone

USER: Any = {"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]}


def user(*fields: dict[str, Any]) -> dict[str, Any]:
    return {**USER, "fields": [*USER["fields"], *fields]}


AGED = user({"name": "age", "type": "int", "default": 0})
STRICT = user({"name": "age", "type": "int"})


def text(schema: object) -> str:
    return msgspec.json.encode(schema).decode()


async def test_a_schema_is_registered_found_and_read() -> None:
    client = RegistryClient()
    assert await client.register("s", USER) == {"id": 1, "version": 1}
    assert await client.register("s", USER) == {"id": 1, "version": 1}
    assert await client.register("s", AGED) == {"id": 2, "version": 2}
    assert await client.register("t", USER) == {"id": 1, "version": 1}
    assert await client.ask("GET", "/subjects") == ["s", "t"]
    assert await client.ask("GET", "/subjects/s/versions") == [1, 2]
    shown = {"subject": "s", "version": 1, "id": 1, "schema": text(USER)}
    assert await client.ask("GET", "/subjects/s/versions/1") == shown
    assert await client.ask("POST", "/subjects/s", {"schema": text(USER)}) == shown
    latest = await client.ask("GET", "/subjects/s/versions/latest")
    assert latest == await client.ask("GET", "/subjects/s/versions/-1")
    assert await client.ask("GET", "/schemas/ids/2") == {"schema": text(AGED)}
    assert await client.ask("GET", "/schemas/ids/1?fetchMaxId=true") == {"schema": text(USER), "maxId": 2}
    assert await client.ask("GET", "/schemas/ids/1/schema") == USER
    assert await client.ask("GET", "/subjects/s/versions/1/schema") == USER
    assert await client.ask("GET", "/schemas/ids/1/subjects") == ["s", "t"]
    versions = [{"subject": "s", "version": 1}, {"subject": "t", "version": 1}]
    assert await client.ask("GET", "/schemas/ids/1/versions") == versions
    listed = await client.ask("GET", "/schemas?latestOnly=true&subjectPrefix=s")
    assert listed == [latest]


async def test_what_says_something_about_the_registry() -> None:
    client = RegistryClient()
    assert await client.ask("GET", "/") == {}
    assert await client.ask("GET", "/schemas/types") == ["JSON", "PROTOBUF", "AVRO"]
    assert await client.ask("GET", "/contexts") == ["."]
    assert await client.ask("GET", "/config") == {"compatibilityLevel": "BACKWARD"}
    assert await client.ask("GET", "/mode") == {"mode": "READWRITE"}
    assert "scope" in str(await client.ask("GET", "/v1/metadata/id"))
    assert "version" in str(await client.ask("GET", "/v1/metadata/version"))


@pytest.mark.parametrize(
    ("method", "target", "body", "refusal"),
    [
        ("GET", "/subjects/none/versions", None, (404, 40401)),
        ("GET", "/subjects/none/versions/1", None, (404, 40401)),
        ("GET", "/subjects/s/versions/9", None, (404, 40402)),
        ("GET", "/subjects/s/versions/0", None, (422, 42202)),
        ("GET", "/subjects/s/versions/x", None, (422, 42202)),
        ("GET", "/subjects/s/versions/99999999999", None, (422, 42202)),
        ("GET", "/schemas/ids/9", None, (404, 40403)),
        ("GET", "/schemas/ids/x", None, (404, 404)),
        ("POST", "/subjects/s", {"schema": text(STRICT)}, (404, 40403)),
        ("POST", "/subjects/none", {"schema": text(USER)}, (404, 40401)),
        ("POST", "/subjects/s/versions", {"schema": "{"}, (422, 42201)),
        ("POST", "/subjects/s/versions", {"schema": '"nothing"'}, (422, 42201)),
        ("POST", "/subjects/s/versions", {"schema": "[" * 5000}, (422, 42201)),
        ("POST", "/subjects/s/versions", {"schema": text(USER), "schemaType": "XML"}, (422, 42201)),
        ("POST", "/subjects/s/versions", {"schema": text(STRICT)}, (409, 409)),
        ("POST", "/subjects/s/versions", {"schema": text(USER), "id": 7}, (422, 42205)),
        ("POST", "/subjects/s/versions", {"nothing": 1}, (400, 400)),
        ("POST", "/subjects/s/versions", {"schema": 1}, (400, 400)),
        ("POST", "/subjects/a%00b/versions", {"schema": text(USER)}, (422, 42208)),
        ("POST", "/subjects/" + "a" * 2000 + "/versions", {"schema": text(USER)}, (422, 42208)),
        ("POST", "/compatibility/subjects/none/versions/latest", {"schema": text(USER)}, (404, 40401)),
        ("POST", "/compatibility/subjects/s/versions/9", {"schema": text(USER)}, (404, 40402)),
        ("DELETE", "/subjects/none", None, (404, 40401)),
        ("DELETE", "/subjects/s?permanent=true", None, (404, 40405)),
        ("DELETE", "/subjects/s/versions/1?permanent=true", None, (404, 40407)),
        ("DELETE", "/subjects/s/versions/9", None, (404, 40402)),
        ("GET", "/config/s", None, (404, 40408)),
        ("DELETE", "/config/s", None, (404, 40408)),
        ("PUT", "/config", {"compatibility": "SOMETIMES"}, (422, 42203)),
        ("PUT", "/config", {}, (422, 42203)),
        ("GET", "/mode/s", None, (404, 40409)),
        ("DELETE", "/mode/s", None, (404, 40409)),
        ("PUT", "/mode", {"mode": "SOMETIMES"}, (422, 42204)),
        ("PUT", "/mode", {"mode": "IMPORT"}, (422, 42205)),
        ("GET", "/subjects?deleted=perhaps", None, (400, 400)),
        ("GET", "/subjects/s/versions?limit=x", None, (400, 400)),
        ("PATCH", "/subjects", None, (405, 405)),
        ("GET", "/nothing", None, (404, 404)),
    ],
)
async def test_each_refusal_has_its_code(method: str, target: str, body: object, refusal: tuple[int, int]) -> None:
    client = RegistryClient()
    await client.register("s", USER)
    assert await client.ask(method, target, body) == refusal
    assert len(client.log.records) == 1


async def test_a_body_of_another_type_is_refused() -> None:
    client = RegistryClient()
    assert await client.ask("POST", "/subjects/s/versions", {"schema": "x"}, "text/plain") == (415, 415)
    assert client.web.answers.count(b"application/vnd.schemaregistry.v1+json") == 2  # its type, and what is taken


async def test_compatibility_is_shown_with_its_reasons() -> None:
    client = RegistryClient()
    await client.register("s", USER)
    path, body = "/compatibility/subjects/s/versions", {"schema": text(STRICT)}
    assert await client.ask("POST", f"{path}/latest", body) == {"is_compatible": False}
    for target in (f"{path}/1?verbose=true", f"{path}?verbose=true"):
        answer: Any = await client.ask("POST", target, body)
        assert answer["is_compatible"] is False
        (message,) = answer["messages"]
        assert "version 1" in message
        assert "READER_FIELD_MISSING_DEFAULT_VALUE at /fields/1" in message
    assert await client.ask("POST", path, {"schema": text(AGED)}) == {"is_compatible": True}
    assert await client.ask("POST", "/compatibility/subjects/none/versions", body) == {"is_compatible": True}


@pytest.mark.parametrize(
    ("level", "is_allowed"),
    [
        ("NONE", True),
        ("BACKWARD", True),
        ("BACKWARD_TRANSITIVE", False),
        ("FORWARD", False),
        ("FORWARD_TRANSITIVE", False),
        ("FULL", False),
        ("FULL_TRANSITIVE", False),
    ],
)
async def test_levels_say_which_versions_are_compared(level: str, is_allowed: bool) -> None:
    """The third version reads the second one and not the first; neither reads the third one."""
    client = RegistryClient()
    await client.ask("PUT", "/config/s", {"compatibility": "NONE"})
    union = {"name": "age", "type": ["int", "string"]}
    await client.register("s", USER)
    await client.register("s", user({"name": "age", "type": "int"}))
    assert await client.ask("PUT", "/config/s", {"compatibility": level}) == {"compatibility": level}
    made = await client.register("s", user(union, {"name": "x", "type": "int", "default": 1}))
    assert (made == {"id": 3, "version": 3}) is is_allowed
    assert is_allowed or made == (409, 409)


async def test_levels_and_modes_come_from_the_subject_its_context_or_all() -> None:
    client = RegistryClient()
    await client.ask("PUT", "/config", {"compatibility": "FULL"})
    await client.ask("PUT", "/config/:.c:", {"compatibility": "NONE"})
    await client.ask("PUT", "/config/:.c:s", {"compatibility": "FORWARD"})
    for target, level in (
        ("/config", "FULL"),
        ("/config/s?defaultToGlobal=true", "FULL"),
        ("/config/:.c:t?defaultToGlobal=true", "NONE"),
        ("/contexts/c/config/t?defaultToGlobal=true", "NONE"),
        ("/contexts/.c/config/s", "FORWARD"),
    ):
        assert await client.ask("GET", target) == {"compatibilityLevel": level}
    assert await client.ask("DELETE", "/config/:.c:s") == {"compatibilityLevel": "FORWARD"}
    assert await client.ask("DELETE", "/config") == {"compatibilityLevel": "FULL"}
    assert await client.ask("GET", "/config") == {"compatibilityLevel": "BACKWARD"}
    assert await client.ask("PUT", "/mode/s", {"mode": "READONLY"}) == {"mode": "READONLY"}
    assert await client.register("s", USER) == (422, 42205)
    assert await client.ask("DELETE", "/mode/s") == {"mode": "READONLY"}
    assert await client.register("s", USER) == {"id": 1, "version": 1}
    assert await client.ask("PUT", "/mode", {"mode": "READONLY_OVERRIDE"}) == {"mode": "READONLY_OVERRIDE"}
    await client.ask("PUT", "/mode/s", {"mode": "READWRITE"})
    for method, target in (("DELETE", "/subjects/s"), ("DELETE", "/subjects/s/versions/1")):
        assert await client.ask(method, target) == (422, 42205)


async def test_a_subject_is_deleted_softly_and_then_for_good() -> None:
    client = RegistryClient()
    await client.register("s", USER)
    await client.register("s", AGED)
    await client.ask("PUT", "/config/s", {"compatibility": "NONE"})
    assert await client.ask("DELETE", "/subjects/s") == [1, 2]
    assert await client.ask("GET", "/subjects") == []
    assert await client.ask("GET", "/subjects?deleted=true") == ["s"]
    assert await client.ask("GET", "/subjects?deletedOnly=true") == ["s"]
    assert await client.ask("GET", "/subjects/s/versions?deleted=true") == [1, 2]
    assert await client.ask("GET", "/schemas/ids/1") == {"schema": text(USER)}
    assert await client.ask("GET", "/config/s") == (404, 40408)
    assert await client.ask("DELETE", "/subjects/s") == (404, 40404)
    assert await client.register("s", AGED) == {"id": 2, "version": 3}
    assert await client.ask("DELETE", "/subjects/s?permanent=true") == (404, 40405)
    await client.ask("DELETE", "/subjects/s")
    assert await client.ask("DELETE", "/subjects/s?permanent=true") == [1, 2, 3]
    assert await client.ask("GET", "/schemas/ids/1") == (404, 40403)
    assert await client.ask("GET", "/subjects?deleted=true") == []


async def test_a_version_is_deleted_softly_and_then_for_good() -> None:
    client = RegistryClient()
    await client.register("s", USER)
    await client.register("s", AGED)
    assert await client.ask("DELETE", "/subjects/s/versions/latest") == 2
    assert await client.ask("DELETE", "/subjects/s/versions/2") == (404, 40406)
    assert await client.ask("GET", "/subjects/s/versions") == [1]
    assert await client.ask("GET", "/subjects/s/versions/2?deleted=true") != (404, 40402)
    assert await client.ask("DELETE", "/subjects/s/versions/2?permanent=true") == 2
    assert await client.ask("GET", "/subjects/s/versions/2?deleted=true") == (404, 40402)
    assert await client.register("s", STRICT) == (409, 409)


async def test_references_are_resolved_shown_and_keep_what_they_need() -> None:
    client = RegistryClient()
    await client.register("user", {**USER, "namespace": "x"})
    order = {"type": "record", "name": "Order", "namespace": "x", "fields": [{"name": "by", "type": "User"}]}
    assert await client.register("order", order) == (422, 42201)
    reference = {"name": "x.User", "subject": "user", "version": 1}
    assert await client.register("order", order, references=[reference]) == {"id": 2, "version": 1}
    found: Any = await client.ask("GET", "/schemas/ids/2")
    assert found["references"] == [reference]
    assert await client.ask("GET", "/subjects/user/versions/1/referencedby") == [2]
    for target in ("/subjects/user", "/subjects/user/versions/1"):
        assert await client.ask("DELETE", target) == (422, 42206)
    missing = {**reference, "version": 9}
    assert await client.register("order", order, references=[missing]) == (422, 42201)
    assert await client.register("order", order, references=[reference] * 300) == (422, 42201)


async def test_contexts_have_ids_of_their_own() -> None:
    client = RegistryClient()
    assert await client.register("s", USER) == {"id": 1, "version": 1}
    assert await client.register("s", AGED) == {"id": 2, "version": 2}
    assert await client.register(":.c:s", AGED) == {"id": 1, "version": 1}
    assert await client.ask("POST", "/contexts/c/subjects/t/versions", {"schema": text(AGED)}) == {
        "id": 1,
        "version": 1,
    }
    assert await client.register(":.:s", AGED) == {"id": 2, "version": 2}
    assert await client.ask("GET", "/contexts") == [".", ".c"]
    assert await client.ask("GET", "/subjects") == [":.c:s", ":.c:t", "s"]
    assert await client.ask("GET", "/subjects?subjectPrefix=:.c:t") == [":.c:t"]
    assert await client.ask("GET", "/contexts/.c/subjects") == [":.c:s", ":.c:t"]
    assert await client.ask("GET", "/schemas/ids/1?subject=:.c:s") == {"schema": text(AGED)}
    assert await client.ask("GET", "/contexts/c/schemas/ids/1") == {"schema": text(AGED)}
    assert await client.ask("GET", "/schemas/ids/1?subject=s") == {"schema": text(USER)}


async def test_ids_are_imported_where_the_mode_says_so() -> None:
    client = RegistryClient()
    assert await client.ask("PUT", "/mode/s", {"mode": "IMPORT"}) == {"mode": "IMPORT"}
    assert await client.register("s", USER) == (422, 42205)
    assert await client.register("s", USER, id=77, version=5) == {"id": 77, "version": 5}
    assert await client.register("s", STRICT, id=77, version=6) == (422, 42205)
    assert await client.register("s", STRICT, id=78, version=6) == {"id": 78, "version": 6}
    assert await client.register("s", STRICT, id=2**31, version=7) == (422, 42205)
    await client.ask("PUT", "/mode/s?force=true", {"mode": "READWRITE"})
    assert await client.register("t", AGED) == {"id": 79, "version": 1}


async def test_texts_that_mean_the_same_have_one_id() -> None:
    client = RegistryClient()
    spread = '{ "fields" : [ {"type": {"type": "string"}, "name": "name"} ], "name" : "User", "type" : "record" }'
    assert await client.register("s", USER) == await client.register("s", spread)
    named = {"type": "record", "namespace": "a.b", "name": "X", "fields": [{"name": "n", "type": ["null", "a.b.X"]}]}
    full = {"type": "record", "name": "a.b.X", "fields": [{"name": "n", "type": ["null", "X"]}]}
    assert await client.register("t", named) == await client.register("t", full)
    one = {**USER, "zeta": 1, "alpha": 2}
    two = {**USER, "alpha": 2, "zeta": 1}
    assert await client.register("u", one) != await client.register("u", two)
    assert await client.register("v", one, "?normalize=true") == await client.register("v", two, "?normalize=true")


async def test_metadata_and_rules_are_kept_as_they_are() -> None:
    client = RegistryClient()
    metadata = {"properties": {"owner": "me"}}
    await client.register("s", USER)
    assert await client.register("s", USER, metadata=metadata) == {"id": 2, "version": 2}
    found: Any = await client.ask("GET", "/subjects/s/versions/2")
    assert found["metadata"] == metadata


async def test_a_topic_is_taken_over_compacted_or_not() -> None:
    first = RegistryClient()
    await first.register("s", USER)
    await first.register("s", AGED)
    await first.register("t", AGED)
    await first.ask("DELETE", "/subjects/s/versions/1")
    await first.ask("PUT", "/config/t", {"compatibility": "FULL"})
    await first.ask("DELETE", "/subjects/t")
    for records in (first.log.records, first.log.compacted()):
        second = RegistryClient(records)
        for target in ("/subjects?deleted=true", "/schemas?deleted=true", "/config/t", "/subjects/s/versions/2"):
            assert await second.ask("GET", target) == await first.ask("GET", target)
        assert await second.register("t", AGED) == {"id": 2, "version": 2}


async def test_records_of_another_registry_are_read_and_foreign_ones_ignored() -> None:
    theirs = (
        b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}',
        b'{"subject":"s","version":1,"id":41,"md5":"x","schema":"\\"string\\"","deleted":false,"ts":1,"new":[1]}',
    )
    noise = [
        (b'{"keytype":"NOOP","magic":0}', None),
        (b'{"keytype":"CONTEXT","tenant":"x","magic":0}', b"{}"),
        (b"\xff\xfe", b"{}"),
        (b'{"keytype":"SCHEMA","subject":"s","version":2,"magic":1}', b'{"subject":"s"}'),
        (b'{"keytype":"SCHEMA","subject":"s","version":3,"magic":1}', b"[]"),
        (b'{"keytype":"CONFIG","subject":null,"magic":0}', b'{"compatibilityLevel":"SOMETIMES"}'),
        schema_tombstone("none", 1),
    ]
    client = RegistryClient([*noise, theirs, *noise])
    assert await client.ask("GET", "/schemas/ids/41") == {"schema": '"string"'}
    assert await client.register("t", '"int"') == {"id": 42, "version": 1}
    assert await client.ask("GET", "/config") == {"compatibilityLevel": "BACKWARD"}


def test_records_have_confluents_layout() -> None:
    assert config_record(None, "FULL") == (
        b'{"keytype":"CONFIG","subject":null,"magic":0}',
        b'{"subject":null,"compatibilityLevel":"FULL"}',
    )
    assert schema_tombstone("s", 1) == (b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}', None)
    assert decode_record(b'{"keytype":"NOOP","magic":0}', None) is None
