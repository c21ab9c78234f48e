"""Dead letters in the console: topics, letters with their reasons, dry runs, redrives that are watched and steered."""

from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.unit.console.scene import ConsoleClient

from hutong.testing import EmbeddedNode

LETTERS = 30


@pytest.fixture(scope="module", autouse=True)
def letters(node: EmbeddedNode) -> None:
    for topic in ("orders", "repaired"):
        node.create_topic(topic, partitions=2)
    node.create_topic("plain")


def fill(node: EmbeddedNode, topic: str, count: int = LETTERS) -> str:
    node.create_topic(topic)
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for number in range(count):
        headers: list[tuple[str, str | bytes | None]] = [
            ("hutong-dead-topic", b"orders"),
            ("hutong-dead-partition", b"1"),
            ("hutong-dead-offset", b"%d" % number),
            ("hutong-dead-error-type", b"KeyError" if number % 3 else b"ValueError"),
            ("hutong-dead-error-message", b"<b>no</b>"),
            ("hutong-dead-attempts", b"4"),
        ]
        producer.produce(topic, f"{topic} {number}".encode(), b"k%d" % number, headers=headers)
    producer.flush()
    return topic


def redriven(client: ConsoleClient, begun: dict[str, Any]) -> dict[str, Any]:
    """The redrive at its end, by its stream."""
    with closing(client.stream(f"/api/redrives/{begun['number']}/progress")) as stream:
        for name, told in stream:
            assert name == "redrive"
            if told["is_over"]:
                return dict(told)
    raise AssertionError("the stream ended before the redrive")


def to_origin(**more: Any) -> dict[str, Any]:
    return {"targets": [{"origin": "orders", "target": "orders"}], **more}


def values(node: EmbeddedNode, topic: str) -> list[str]:
    return sorted((record.value or b"").decode() for record in node.records("orders") if topic in record.text)


def test_topics_of_dead_letters_are_listed(node: EmbeddedNode, client: ConsoleClient) -> None:
    fill(node, "listed.dead")
    told = client.value("GET", "/api/dead-letters")
    (found,) = [topic for topic in told["topics"] if topic["name"] == "listed.dead"]
    assert found == {"name": "listed.dead", "partitions": 1, "count": 30, "done": 0, "left": 30, "problem": None}
    assert "plain" in told["names"]
    assert "plain" not in [topic["name"] for topic in told["topics"]]
    reasons = client.value("GET", "/api/dead-letters/listed.dead/reasons")
    assert reasons["reasons"] == [{"reason": "KeyError", "count": 20}, {"reason": "ValueError", "count": 10}]
    assert (reasons["sampled"], reasons["conventions"]) == (30, ["hutong"])


def test_letters_say_why_and_where_from(node: EmbeddedNode, client: ConsoleClient) -> None:
    fill(node, "shown.dead")
    told = client.value("GET", "/api/dead-letters/shown.dead?limit=10")
    assert (len(told["letters"]), told["count"], told["left"]) == (10, 30, 30)
    newest = told["letters"][0]
    assert (newest["offset"], newest["value"]["text"]) == (29, "shown.dead 29")
    letter = newest["letter"]
    assert letter["origin"] == {"topic": "orders", "partition": 1, "offset": 29}
    assert (letter["reason"], letter["error_text"], letter["attempts"]) == ("KeyError", "<b>no</b>", 4)
    older = client.value("GET", f"/api/dead-letters/shown.dead?limit=10&before={told['older']}")
    assert older["letters"][0]["offset"] == 19
    assert client.ask("GET", "/api/dead-letters/no-such").status == 404
    assert "no-such" not in node.topics()


def test_a_dry_run_counts_by_origin(node: EmbeddedNode, client: ConsoleClient) -> None:
    topic = fill(node, "dry.dead")
    told = redriven(client, client.value("POST", f"/api/dead-letters/{topic}/redrives/dry-run", {}))
    assert (told["state"], told["by_origin"]) == ("done", [{"name": "orders", "count": 30}])
    named = redriven(client, client.value("POST", f"/api/dead-letters/{topic}/redrives/dry-run", to_origin()))
    assert (named["sent"], named["by_target"]) == (30, [{"name": "orders", "count": 30}])
    assert values(node, topic) == []


def test_one_letter_then_those_of_a_reason_then_all(node: EmbeddedNode, client: ConsoleClient) -> None:
    topic = fill(node, "steps.dead")
    path = f"/api/dead-letters/{topic}/redrives"
    one = redriven(client, client.value("POST", path, to_origin(chosen=[{"partition": 0, "offset": 4}])))
    assert (one["sent"], one["left"]) == (1, 0)
    told = client.value("GET", f"/api/dead-letters/{topic}")
    assert [letter["offset"] for letter in told["letters"] if letter["letter"]["is_done"]] == [4]
    by_reason = redriven(client, client.value("POST", path, to_origin(reasons=["ValueError"])))
    assert (by_reason["sent"], by_reason["left"]) == (10, 19)
    everything = redriven(client, client.value("POST", path, to_origin()))
    assert (everything["sent"], everything["done_before"], everything["remaining"]) == (19, 10, 0)
    assert values(node, topic) == sorted(f"{topic} {number}" for number in range(LETTERS))
    assert client.value("GET", f"/api/dead-letters/{topic}")["left"] == 0
    found = client.value("GET", path)["redrives"]
    assert [redrive["sent"] for redrive in found] == [19, 10, 1]


def test_each_redrive_is_in_the_audit(node: EmbeddedNode, client: ConsoleClient) -> None:
    topic = fill(node, "audited.dead")
    redriven(client, client.value("POST", f"/api/dead-letters/{topic}/redrives", to_origin()))
    found = [record.json() for record in node.records("__hutong_console_audit")]
    mine = [each for each in found if each["target"] == topic]
    assert mine[0]["change"] == "dead_letters.redrive"
    assert mine[0]["after"]["targets"] == [{"origin": "orders", "target": "orders"}]
    # The end is written after the pages have seen it.
    assert [each["after"]["by_target"] for each in mine[1:]] in ([], [[{"name": "orders", "count": 30}]])


def test_a_slow_redrive_is_paused_and_cancelled(node: EmbeddedNode, client: ConsoleClient) -> None:
    topic = fill(node, "slow.dead")
    path = f"/api/dead-letters/{topic}/redrives"
    begun = client.value("POST", path, to_origin(rate_per_s=1))
    assert client.ask("POST", path, to_origin()).value["error"]["code"] == 40903
    one = f"/api/redrives/{begun['number']}"
    assert client.value("POST", f"{one}/pause")["state"] == "paused"
    assert client.value("POST", f"{one}/resume")["state"] != "paused"
    client.value("POST", f"{one}/cancel")
    assert redriven(client, begun)["state"] == "cancelled"
    rest = redriven(client, client.value("POST", path, to_origin()))
    assert rest["state"] == "done"
    assert values(node, topic) == sorted(f"{topic} {number}" for number in range(LETTERS))


def test_letters_may_go_to_another_topic(node: EmbeddedNode, client: ConsoleClient) -> None:
    topic = fill(node, "other.dead", 3)
    body = {"targets": [{"origin": "orders", "target": "repaired"}]}
    assert redriven(client, client.value("POST", f"/api/dead-letters/{topic}/redrives", body))["sent"] == 3
    assert len(node.records("repaired")) == 3


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"targets": [{"origin": "orders", "target": "no-such"}]}, 404),
        ({"targets": [{"origin": "orders", "target": "wrong.dead"}]}, 400),
        ({"targets": [{"origin": "orders", "target": "__consumer_offsets"}]}, 400),
        ({"targets": [{"origin": "a/b", "target": "orders"}]}, 400),
        ({"targets": [{"origin": "a", "target": "orders"}] * 101}, 400),
        (to_origin(rate_per_s=0), 400),
        (to_origin(chosen=[]), 400),
        (to_origin(chosen=[{"partition": -1, "offset": 0}]), 400),
        (to_origin(chosen=[{"partition": 0, "offset": number} for number in range(1_001)]), 400),
        ([], 400),
    ],
)
def test_a_wrong_redrive_is_refused(node: EmbeddedNode, client: ConsoleClient, body: object, status: int) -> None:
    assert client.ask("POST", "/api/dead-letters/wrong.dead/redrives", body).status == status
    assert "no-such" not in node.topics()


def test_a_redrive_of_nobody_is_not_found(client: ConsoleClient) -> None:
    assert client.ask("GET", "/api/redrives/999").status == 404
    assert client.ask("POST", "/api/redrives/999/cancel").status == 404
