import json
from typing import Any

import pytest

from hutong.foundation.errors import ProtocolError, Refused, UsageError
from hutong.pipelines.errors import AccessDenied, Unavailable
from hutong.pipelines.schemas.http import exchange
from hutong.pipelines.schemas.imports import inlined
from hutong.pipelines.schemas.json_types import kind_of_json, parse_json_schema
from hutong.pipelines.schemas.registry import IMPORTS_MAX, RemoteRegistry, is_missing
from hutong.pipelines.schemas.settings import RegistrySettings, registry_of
from hutong.pipelines.source.registered_schemas import in_registry
from hutong.pipelines.source.rows.avro_schema import parse_avro
from hutong.pipelines.source.rows.formats import row_format
from hutong.pipelines.source.rows.kinds import ddl

SETTINGS = RegistrySettings(("http://127.0.0.1:1",))
USER = {"type": "record", "name": "User", "namespace": "example", "fields": [{"name": "name", "type": "string"}]}


class FakeRegistry:
    """Answers by path, and counts what it is asked."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def __call__(self, settings: RegistrySettings, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        self.asked.append(path)
        status, answer = self.answers.get(path.strip("/").replace("/", "_"), (404, {"error_code": 40403}))
        return status, answer if isinstance(answer, bytes) else json.dumps(answer).encode()


def test_a_schema_is_asked_for_once() -> None:
    fake = FakeRegistry(schemas_ids_7=(200, {"schema": '"int"'}))
    registry = RemoteRegistry(SETTINGS, fake)
    assert [registry.avro_text(7), registry.avro_text(7)] == ['"int"'] * 2
    assert fake.asked == ["/schemas/ids/7"]


def test_imports_are_put_in_where_they_are_named_first() -> None:
    order = {"type": "record", "name": "Order", "namespace": "shop", "fields": [
        {"name": "by", "type": "example.User"}, {"name": "also", "type": ["null", "example.User"]}]}  # fmt: skip
    reference = {"name": "example.User", "subject": "users", "version": 1}
    fake = FakeRegistry(
        schemas_ids_1=(200, {"schema": json.dumps(order), "references": [reference]}),
        subjects_users_versions_1=(200, {"schema": json.dumps(USER)}),
    )
    text = RemoteRegistry(SETTINGS, fake).avro_text(1)
    assert json.loads(text)["fields"][0]["type"] == USER
    assert json.loads(text)["fields"][1]["type"] == ["null", "example.User"]
    parse_avro(text)


def test_an_import_without_a_namespace_keeps_none() -> None:
    inside = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "by", "type": "Plain"}]}
    plain = {"type": "enum", "name": "Plain", "symbols": ["A"]}
    assert json.loads(inlined(json.dumps(inside), {"Plain": json.dumps(plain)}))["fields"][0]["type"] == {
        "namespace": "",
        **plain,
    }


def test_a_json_schema_of_the_registry_gives_columns() -> None:
    place = {"$id": "http://h/place.json", "type": "object", "properties": {"city": {"type": "string"}}}
    order = {"type": "object", "properties": {"id": {"type": "integer"}, "at": {"$ref": "place.json"}}}
    reference = {"name": "place.json", "subject": "places", "version": 1}
    fake = FakeRegistry(
        **{
            "subjects_orders-value_versions_latest": (
                200,
                {"id": 3, "schema": json.dumps(order), "schemaType": "JSON", "references": [reference]},
            ),
            "subjects_places_versions_1": (200, {"schema": json.dumps(place), "schemaType": "JSON"}),
        }
    )
    found = RemoteRegistry(SETTINGS, fake).latest("orders-value", "JSON")
    assert ddl(kind_of_json(parse_json_schema(found.text, dict(found.imports)))) == (
        "STRUCT<`id`: BIGINT, `at`: STRUCT<`city`: STRING>>"
    )
    with pytest.raises(Refused, match="of type JSON in the registry, and not Avro"):
        RemoteRegistry(SETTINGS, fake).latest("orders-value")


def test_imports_that_go_round_or_never_end() -> None:
    def ask(settings: RegistrySettings, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        number = len(asked)
        asked.append(path)
        reference = {"name": f"R{number}", "subject": f"s{number}", "version": 1}
        return 200, json.dumps({"schema": '"int"', "references": [reference]}).encode()

    asked: list[str] = []
    with pytest.raises(Refused, match=f"more than {IMPORTS_MAX}"):
        RemoteRegistry(SETTINGS, ask).avro_text(1)


@pytest.mark.parametrize(
    ("answer", "error", "sentence"),
    [
        (
            (404, {"error_code": 40403, "message": "Schema 1 not found"}),
            Refused,
            "refused /schemas/ids/1: Schema 1 not",
        ),
        ((401, {"error_code": 401, "message": "user and password, please"}), AccessDenied, "basic.auth.user.info"),
        ((200, b"<html>"), ProtocolError, "no JSON object"),
        ((200, b"[" * 100_000), ProtocolError, "no JSON object"),
        ((200, [1]), ProtocolError, "no JSON object"),
        ((200, {"schema": 7}), ProtocolError, "has no schema"),
        ((200, {"schema": "{}", "schemaType": "PROTOBUF"}), Refused, "is of type PROTOBUF"),
    ],
)
def test_answers_that_help_nobody(answer: tuple[int, Any], error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        RemoteRegistry(SETTINGS, FakeRegistry(schemas_ids_1=answer)).avro_text(1)


def test_codes_begin_with_the_status() -> None:
    assert is_missing(Refused(40403))
    assert is_missing(Refused(404))
    assert not is_missing(Refused(42201))


def test_nobody_answers() -> None:
    with pytest.raises(Unavailable, match=r"http://127\.0\.0\.1:1: .*; http://localhost:1"):
        exchange(RegistrySettings(("http://127.0.0.1:1", "http://localhost:1")), "GET", "/subjects", None)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"schema.registry.url": "127.0.0.1:8081"}, "must be http://HOST:PORT"),
        ({"schema.registry.url": "http://ann:secret@h:1"}, "must be http://HOST:PORT"),
        ({"schema.registry.url": "http://h:99999"}, "must be http://HOST:PORT"),
        ({"schema.registry.url": ","}, "must be http://HOST:PORT"),
        ({"schema.registry.basic.auth.user.info": "a:b"}, "without schema.registry.url"),
        ({"schema.registry.url": "http://h", "schema.registry.basic.auth.user.info": "ann"}, "of the form NAME"),
        (
            {"schema.registry.url": "http://h", "schema.registry.basic.auth.user.info": "${env:NO_SUCH_THING}"},
            "NO_SUCH_THING, which is not set",
        ),
    ],
)
def test_options_that_are_wrong(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence.replace("$", ".")):
        registry_of(options)


def test_a_password_from_the_environment_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGIN", "ann:a:secret")
    settings = registry_of(
        {"schema.registry.url": "http://a/, https://b/r/", "schema.registry.basic.auth.user.info": "${env:LOGIN}"}
    )
    assert settings is not None
    assert (settings.urls, settings.user, settings.password) == (("http://a", "https://b/r"), "ann", "a:secret")
    assert "secret" not in repr(settings)


def test_spark_s_names_of_modes() -> None:
    assert row_format({"mode": "PERMISSIVE"}).undecodable == "null"
    assert row_format({"mode": "failFast"}).undecodable == "fail"
    with pytest.raises(UsageError, match="mean the same"):
        row_format({"mode": "PERMISSIVE", "onUndecodable": "skip"})


def test_a_subject_needs_one_topic() -> None:
    options = {"schema.registry.url": "http://h", "valueFormat": "avro", "subscribe": "a, b"}
    with pytest.raises(UsageError, match="valueSchema or valueSubject must be given"):
        in_registry(options)
    assert in_registry({**options, "valueSchema": "{}"}) == {}
    assert in_registry({**options, "valueFormat": "string"}) == {}
