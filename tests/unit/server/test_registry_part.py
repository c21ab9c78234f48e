"""The schema registry as a part of a node: users, restarts, a topic of others, and where it is refused."""

import asyncio
import base64
import json
import urllib.error
import urllib.request
from pathlib import Path

from confluent_kafka import Producer
from tests.support.monitored import ANY_PORT, monitored_node, scrape

from hutong.registry.records import schema_record
from hutong.registry.values import SchemaText, SchemaVersion
from hutong.server.configuration.sections.schema_registry import SchemaRegistrySettings
from hutong.testing import EmbeddedNode

LISTEN = {"schema_registry.listen": "127.0.0.1:0"}


def asked(node: EmbeddedNode, path: str, credentials: str = "", schema: str = "") -> tuple[int, object]:
    return asked_at(f"{node.schema_registry_url}{path}", credentials, schema)


def asked_at(url: str, credentials: str = "", schema: str = "") -> tuple[int, object]:
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    if credentials:
        headers["Authorization"] = "Basic " + base64.b64encode(credentials.encode()).decode()
    data = json.dumps({"schema": schema}).encode() if schema else None
    call = urllib.request.Request(url, data, headers)
    try:
        with urllib.request.urlopen(call, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)["error_code"]


def test_users_are_those_of_the_node() -> None:
    settings = {**LISTEN, "schema_registry.authentication": "basic"}
    with EmbeddedNode(settings=settings, users={"ann": "secret"}) as node:
        assert asked(node, "/subjects") == (401, 401)
        assert asked(node, "/subjects", "ann:wrong") == (401, 401)
        assert asked(node, "/nothing") == (401, 401)
        for _ in range(2):
            assert asked(node, "/subjects", "ann:secret") == (200, [])


def test_schemas_outlive_the_node_killed_or_stopped() -> None:
    with EmbeddedNode(settings=LISTEN) as node:
        assert asked(node, "/subjects/s/versions", schema='"int"') == (200, {"id": 1, "version": 1})
        node.kill()
        node.start()
        assert asked(node, "/subjects/t/versions", schema='"long"') == (200, {"id": 2, "version": 1})
        node.stop()
        node.start()
        assert asked(node, "/subjects") == (200, ["s", "t"])


def test_aborted_transactions_of_others_do_not_count() -> None:
    with EmbeddedNode(settings=LISTEN) as node:
        assert asked(node, "/subjects") == (200, [])
        producer = Producer({"bootstrap.servers": node.bootstrap, "transactional.id": "mirror"})
        producer.init_transactions(30)
        for number, ends in enumerate((producer.abort_transaction, producer.commit_transaction) * 2):
            text = SchemaText("AVRO", '"int"')
            key, value = schema_record(SchemaVersion(f"s{number}", 1, 40 + number, text))
            producer.begin_transaction()
            producer.produce("_schemas", value, key=key)
            ends(30)
        assert asked(node, "/subjects") == (200, ["s1", "s3"])
        assert asked(node, "/schemas/ids/42") == (404, 40403)
        assert asked(node, "/subjects/s/versions", schema='"long"') == (200, {"id": 44, "version": 1})


def test_what_others_write_to_the_topic_counts() -> None:
    key = b'{"keytype":"SCHEMA","subject":"s","version":4,"magic":1}'
    value = b'{"subject":"s","version":4,"id":40,"schema":"\\"int\\"","deleted":false}'
    with EmbeddedNode(settings=LISTEN) as node:
        assert asked(node, "/subjects") == (200, [])
        node.produce("_schemas", value, key=key)
        assert asked(node, "/schemas/ids/40") == (200, {"schema": '"int"'})
        assert asked(node, "/subjects/s/versions", schema='"long"') == (200, {"id": 41, "version": 5})


async def test_metrics_count_requests_and_schemas(tmp_path: Path) -> None:
    async with monitored_node(tmp_path, schema_registry=SchemaRegistrySettings(listen=ANY_PORT)) as info:
        url = f"http://{info.schema_registry}"
        for path, schema in (
            ("/subjects/s/versions", '"int"'),
            ("/subjects/t/versions", '"int"'),
            ("/subjects/s/versions", '"int"'),
            ("/contexts/.other/subjects/s/versions", '"long"'),
            ("/subjects/s/versions", "no schema"),
            ("/schemas/ids/7", ""),
        ):
            await asyncio.to_thread(asked_at, url + path, schema=schema)
        families = await scrape(info)
    requests = families["hutong_schema_registry_requests_total"]
    register = {"method": "POST", "path": "/subjects/{subject}/versions"}
    assert requests.value(**register, outcome="ok") == 4
    assert requests.value(**register, outcome="42201") == 1
    assert requests.value(method="GET", path="/schemas/ids/{id:int}", outcome="40403") == 1
    counts = [families[f"hutong_schema_registry_{name}"].value() for name in ("subjects", "versions", "schemas")]
    assert counts == [3, 3, 2]
    texts = families["hutong_schema_registry_texts_total"]
    assert (texts.value(result="parsed") >= 2, texts.value(result="known") >= 2) == (True, True)
