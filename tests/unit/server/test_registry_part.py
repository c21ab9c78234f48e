"""The schema registry as a part of a node: users, restarts, a topic of others, and where it is refused."""

import base64
import json
import urllib.error
import urllib.request

from confluent_kafka import Producer

from hutong.registry.records import schema_record
from hutong.registry.values import SchemaText, SchemaVersion
from hutong.testing import EmbeddedNode

LISTEN = {"schema_registry.listen": "127.0.0.1:0"}


def asked(node: EmbeddedNode, path: str, credentials: str = "", schema: str = "") -> tuple[int, object]:
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    if credentials:
        headers["Authorization"] = "Basic " + base64.b64encode(credentials.encode()).decode()
    data = json.dumps({"schema": schema}).encode() if schema else None
    call = urllib.request.Request(f"{node.schema_registry_url}{path}", data, headers)
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
