"""The v3 API of a node: topics, records, groups; and what is refused."""

import base64

import pytest
from confluent_kafka import Consumer, Producer
from tests.support.exposition import parse
from tests.support.waiting import until
from tests.unit.rest.scene import RestClient

from hutong.rest.limits import READ_RECORDS_MAX, RECORDS_OF_REQUEST_MAX
from hutong.server.monitoring.metrics import exposition
from hutong.server.monitoring.survey.result import SurveyLimits
from hutong.testing import EmbeddedNode


def text(data: str) -> dict[str, str]:
    return {"type": "STRING", "data": data}


def test_a_topic_is_made_shown_altered_and_deleted(client: RestClient) -> None:
    made = client.of(
        "POST",
        "/topics",
        {
            "topic_name": "life",
            "partitions_count": 2,
            "replication_factor": 1,
            "configs": [{"name": "retention.ms", "value": "60000"}],
        },
    )
    assert made.status == 201
    assert made.headers["location"] == client.path("/topics/life")
    shown = client.of("GET", "/topics/life").value
    assert (shown["kind"], shown["partitions_count"], shown["replication_factor"]) == ("KafkaTopic", 2, 1)
    assert "life" in [topic["topic_name"] for topic in client.of("GET", "/topics").value["data"]]
    assert client.of("GET", "/topics/life/configs/retention.ms").value["value"] == "60000"
    assert client.of("PUT", "/topics/life/configs/retention.ms", {"value": "70000"}).status == 204
    changes = {
        "data": [{"name": "retention.ms", "operation": "DELETE"}, {"name": "max.message.bytes", "value": "2000"}]
    }
    assert client.of("POST", "/topics/life/configs:alter", changes).status == 204
    configs = {each["name"]: each for each in client.of("GET", "/topics/life/configs").value["data"]}
    assert configs["retention.ms"]["is_default"]
    assert configs["max.message.bytes"]["value"] == "2000"
    assert client.of("DELETE", "/topics/life/configs/max.message.bytes").status == 204
    assert client.of("PATCH", "/topics/life", {"partitions_count": 3}).value["partitions_count"] == 3
    partitions = client.of("GET", "/topics/life/partitions").value["data"]
    assert [each["partition_id"] for each in partitions] == [0, 1, 2]
    assert client.of("GET", "/topics/life/partitions/2").value["leader_id"] == 1
    assert client.of("GET", "/topics/life/partitions/3").status == 404
    assert client.of("DELETE", "/topics/life").status == 204
    gone = client.of("GET", "/topics/life")
    assert (gone.status, gone.value["error_code"]) == (404, 40403)


def test_what_is_only_validated_is_not_made(client: RestClient) -> None:
    body = {"topic_name": "only-tried", "partitions_count": 1, "validate_only": True}
    assert client.of("POST", "/topics", body).status == 201
    assert client.of("GET", "/topics/only-tried").status == 404


def test_records_of_all_types_are_stored_and_read(node: EmbeddedNode, client: RestClient) -> None:
    node.create_topic("records", partitions=1)
    answers = client.produce(
        "records",
        {"key": text("k"), "value": {"type": "JSON", "data": {"n": [1, None, "ü"]}}},
        {"value": {"data": base64.b64encode(b"\xff\x00").decode()}, "headers": [{"name": "h", "value": "eA=="}]},
        {"partition_id": 0, "value": text("late"), "timestamp": "2026-01-02T03:04:05.678Z"},
        {"key": text("gone"), "value": None},
    )
    assert [answer["offset"] for answer in answers] == [0, 1, 2, 3]
    assert answers[0]["value"] == {"type": "JSON", "size": len('{"n":[1,null,"ü"]}'.encode())}
    assert answers[2]["timestamp"] == "2026-01-02T03:04:05.678000Z"
    found = client.of("GET", "/topics/records/partitions/0/records").value
    values = [record["value"] for record in found["data"]]
    assert values == [text('{"n":[1,null,"ü"]}'), {"type": "BINARY", "data": "/wA="}, text("late"), None]
    assert found["data"][1]["headers"] == [{"name": "h", "value": "eA=="}]
    assert found["metadata"]["next"].endswith("offset=4&format=auto")
    as_json = client.of("GET", "/topics/records/partitions/0/records?format=json&max_records=1").value
    assert as_json["data"][0]["key"] == text("k")
    assert as_json["data"][0]["value"] == {"type": "JSON", "data": {"n": [1, None, "ü"]}}
    assert as_json["metadata"]["next"].endswith("offset=1&format=json")
    assert client.of("GET", "/topics/records/partitions/0/records?offset=4&wait_ms=0").value["data"] == []


def test_a_wrong_record_does_not_keep_the_others_back(node: EmbeddedNode, client: RestClient) -> None:
    node.create_topic("mixed", partitions=1)
    answers = client.produce("mixed", {"value": text("a")}, {"value": {"data": "%"}}, {"value": text("b")})
    assert [answer["error_code"] for answer in answers] == [200, 400, 200]
    alone = client.of("POST", "/topics/mixed/records", {"value": {"data": "%"}})
    assert (alone.status, alone.value["error_code"]) == (400, 400)


def test_a_batch_says_of_each_id_what_became_of_it(node: EmbeddedNode, client: RestClient) -> None:
    node.create_topic("batch", partitions=1)
    entries = [{"id": "1", "value": text("a")}, {"id": "2", "value": {"type": "AVRO", "data": 1}}]
    answer = client.of("POST", "/topics/batch/records:batch", {"entries": entries})
    assert answer.status == 207
    assert [(each["id"], each["offset"]) for each in answer.value["successes"]] == [("1", 0)]
    assert [(each["id"], each["error_code"]) for each in answer.value["failures"]] == [("2", 42206)]
    twice = {"entries": [{"id": "1"}, {"id": "1"}]}
    assert client.of("POST", "/topics/batch/records:batch", twice).status == 422


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/topics/none/partitions/0/records", None, 404, 40403),
        ("GET", "/topics/known/partitions/9/records", None, 404, 40403),
        ("GET", "/topics/known/partitions/0/records?offset=-1", None, 400, 400),
        ("GET", "/topics/known/partitions/0/records?offset=7", None, 400, 40002),
        ("GET", f"/topics/known/partitions/0/records?max_records={READ_RECORDS_MAX + 1}", None, 400, 400),
        ("GET", "/topics/known/partitions/0/records?format=xml", None, 400, 400),
        ("GET", "/topics/known/records?from=somewhere", None, 400, 400),
        ("GET", "/topics/none/records", None, 404, 40403),
        ("GET", "/consumer-groups/none", None, 404, 40403),
        ("GET", "/brokers/77", None, 404, 40403),
        ("POST", "/topics", {"topic_name": "known"}, 400, 40002),
        ("POST", "/topics", {"topic_name": "a/b"}, 400, 40002),
        ("POST", "/topics", {"partitions_count": 1}, 400, 400),
        ("POST", "/topics", b"{", 400, 400),
        ("PUT", "/topics/known/configs/retention.ms", {"value": "soon"}, 400, 40002),
        ("PUT", "/topics/known/configs/no.such.thing", {"value": "1"}, 400, 40002),
        ("POST", "/topics/known/configs:alter", {"data": [{"name": "retention.ms", "operation": "ADD"}]}, 400, 40002),
        ("POST", "/topics/known/records", b"", 400, 400),
        ("POST", "/topics/known/records", b"[1]", 400, 400),
        ("POST", "/topics/known/records", b"[" * 100_000, 400, 400),
        ("POST", "/topics/known/records", {"value": {"type": "STRING", "data": 1}}, 400, 400),
        ("POST", "/topics/known/records", {"value": {"type": "XML", "data": "x"}}, 400, 400),
        ("POST", "/topics/known/records", {"partition_id": -1}, 400, 400),
        ("POST", "/topics/known/records", {"partition_id": 5, "value": {"type": "STRING", "data": "x"}}, 404, 40403),
        ("POST", "/topics/known/records", {"timestamp": "1969-01-01T00:00:00Z"}, 400, 400),
        ("POST", "/topics/known/records", {"timestamp": "2026-01-01T00:00:00"}, 400, 400),
        ("POST", "/topics/known/records", b"{}" * (RECORDS_OF_REQUEST_MAX + 1), 413, 41301),
        ("GET", "/nothing", None, 404, 404),
        ("PUT", "/topics/known", {}, 405, 405),
    ],
)
def test_wrong_requests_are_refused(
    node: EmbeddedNode, client: RestClient, method: str, path: str, body: object, status: int, code: int
) -> None:
    if "known" not in node.topics():
        node.create_topic("known", partitions=1)
    answer = client.of(method, path, body)
    assert (answer.status, answer.value["error_code"]) == (status, code), answer.body
    assert answer.value["message"]


def test_another_cluster_is_not_here(client: RestClient) -> None:
    answer = client.call("GET", "/v3/clusters/other/topics")
    assert (answer.status, answer.value["error_code"]) == (404, 40401)


def test_a_group_is_shown_with_its_members_and_lag(node: EmbeddedNode, client: RestClient) -> None:
    node.create_topic("lagging", partitions=1)
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for number in range(10):
        producer.produce("lagging", b"%d" % number)
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe(["lagging"])
        until(lambda: consumer.poll(0.2) is not None, what="a record")
        consumer.commit(asynchronous=False)
        assert [each["consumer_group_id"] for each in client.of("GET", "/consumer-groups").value["data"]] == ["g"]
        assert client.of("GET", "/consumer-groups/g").value["state"] == "STABLE"
        (member,) = client.of("GET", "/consumer-groups/g/consumers").value["data"]
        path = f"/consumer-groups/g/consumers/{member['consumer_id']}/assignments"
        assert [each["partition_id"] for each in client.of("GET", path).value["data"]] == [0]
        (lag,) = client.of("GET", "/consumer-groups/g/lags").value["data"]
        assert lag["lag"] == 10 - lag["current_offset"] > 0
        summary = client.of("GET", "/consumer-groups/g/lag-summary").value
        assert summary["max_lag"] == summary["total_lag"] == lag["lag"]
    finally:
        consumer.close()


def test_answers_are_counted_and_strangers_refused(node: EmbeddedNode, client: RestClient) -> None:
    assert client.call("GET", "/topics", Host="rebound.example").status == 403
    assert client.call("GET", "/topics", Origin="http://stranger.example").status == 403
    life = node._life
    assert life is not None
    page = parse(b"".join(exposition(life.sources, SurveyLimits())).decode())
    assert page["hutong_web_answers_total"].value(server="http", status="200") > 0
    assert page["hutong_web_answers_total"].value(server="http", status="403") >= 2
    assert page["hutong_web_streams"].value(server="http") >= 0
    assert page["hutong_web_connections"].value(server="http") >= 0


def test_the_description_has_every_route(client: RestClient) -> None:
    described = client.call("GET", "/openapi.json").value
    assert described["openapi"] == "3.1.0"
    assert "post" in described["paths"]["/v3/clusters/{cluster}/topics/{topic}/records"]
    ids = [each["operationId"] for path in described["paths"].values() for each in path.values()]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("method", "path", "body", "words"),
    [
        ("POST", "/topics/any/records", {"valu": text("x")}, "unknown field `valu`"),
        ("POST", "/topics/any/records", {"total": 12}, "unknown field `total`"),
        ("POST", "/topics/any/records", {"value": {"type": "STRING", "date": "x"}}, "unknown field `date`"),
        ("POST", "/topics/any/records:batch", {"entries": [{"id": "1", "vale": text("x")}]}, "unknown field `vale`"),
        ("POST", "/topics", {"topic_name": "t", "partition_count": 3}, "unknown field `partition_count`"),
        ("POST", "/topics/any/configs:alter", {"data": [], "validate-only": True}, "unknown field `validate-only`"),
        ("GET", "/topics/any/partitions/0/records?ofset=3", None, "a query has offset, max_records, wait_ms, format"),
        ("GET", "/topics/any/records?form=earliest", None, "a query has from, format, after"),
    ],
)
def test_a_misspelt_name_is_refused(client: RestClient, method: str, path: str, body: object, words: str) -> None:
    answer = client.of(method, path, body)
    assert (answer.status, answer.value["error_code"]) == (400, 400)
    assert words in answer.value["message"]


def test_v2_refuses_a_misspelt_name(client: RestClient) -> None:
    body = {"records": [{"vlaue": "eA=="}]}
    answer = client.call("POST", "/topics/any", body, "application/vnd.kafka.binary.v2+json")
    assert (answer.status, answer.value["error_code"]) == (400, 400)
    assert "unknown field `vlaue`" in answer.value["message"]


def test_the_first_page_links_to_what_there_is(client: RestClient) -> None:
    assert {each["related"] for each in client.call("GET", "/").value.values()} == {"/v3/clusters", "/openapi.json"}
