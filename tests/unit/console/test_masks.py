"""Masks hide the same in every answer, and from searches."""

from collections.abc import Iterator
from itertools import takewhile
from typing import Any

import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.console.scene import ConsoleClient, node_with_console

from hutong.console.masks import EXPRESSION_CHARS_MAX, MASKS_MAX, Masks
from hutong.console.records.seen import SeenRecord
from hutong.foundation.errors import UsageError
from hutong.testing import EmbeddedNode

CARD = "4111111111111111"
HIDDEN = "*" * len(CARD)


def seen(value: bytes | None, topic: str = "payments", key: bytes | None = None) -> SeenRecord:
    return SeenRecord(topic, 0, 0, 0, key, value, [("card", CARD.encode()), ("none", None)], 10)


def test_lengths_stay_and_other_topics_too() -> None:
    masks = Masks(["pay*=[0-9]{13,19}"])
    record = masks.masked(seen(b'{"card": "%b", "n": 12}' % CARD.encode(), key=b"k" + CARD.encode()))
    assert (record.key, record.value) == (b"k" + HIDDEN.encode(), b'{"card": "%b", "n": 12}' % HIDDEN.encode())
    assert record.headers == [("card", HIDDEN.encode()), ("none", None)]
    assert record.is_masked
    other = seen(CARD.encode(), topic="orders")
    assert masks.masked(other) is other


def test_a_record_in_which_nothing_is_found_is_not_masked() -> None:
    assert not Masks(["*=xyz"]).masked(seen(None)).is_masked


@pytest.mark.parametrize(
    "rule", ["", "payments", "=x", "payments=", "payments=(", "p=" + "x" * (EXPRESSION_CHARS_MAX + 1)]
)
def test_wrong_rules(rule: str) -> None:
    with pytest.raises(UsageError, match=r"console\.masks"):
        Masks([rule])


def test_rules_have_a_bound() -> None:
    with pytest.raises(UsageError, match="more than"):
        Masks(["a=b"] * (MASKS_MAX + 1))


@given(st.binary(max_size=200))
def test_any_bytes_keep_their_length(data: bytes) -> None:
    record = Masks(["*=[a-z0-9]+", "*=."]).masked(seen(data))
    assert record.value is not None
    assert len(record.value) == len(data)


@pytest.fixture(scope="module")
def masked() -> Iterator[EmbeddedNode]:
    with node_with_console({"console.masks": "*=[0-9]{13,19}"}) as node:
        producer = Producer({"bootstrap.servers": node.bootstrap})
        letter: list[tuple[str, str | bytes | None]] = [
            ("kafka_dlt-original-topic", b"payments"),
            ("kafka_dlt-exception-message", f"card {CARD} refused".encode()),
        ]
        producer.produce("payments", f'{{"card": "{CARD}"}}', "one")
        producer.produce("payments-dlt", CARD, "one", headers=letter)
        assert producer.flush(60) == 0
        yield node


def test_no_answer_shows_what_is_hidden(masked: EmbeddedNode) -> None:
    client = ConsoleClient(masked).begin()
    for path in (
        "/api/topics/payments/messages",
        "/api/topics/payments/messages?value_form=hex",
        "/api/topics/payments/messages/0/0",
        "/api/dead-letters/payments-dlt",
        "/api/dead-letters/payments-dlt/reasons",
    ):
        answer = client.ask("GET", path)
        assert answer.status == 200
        assert CARD.encode() not in answer.body, path
        assert CARD.encode().hex(" ").encode() not in answer.body, path
    shown = client.value("GET", "/api/topics/payments/messages/0/0")
    assert shown["is_masked"] is True
    assert HIDDEN in str(shown["value"])
    found = str(list(client.stream("/api/trail?key=one")))
    assert HIDDEN in found
    assert CARD not in found


def test_a_search_does_not_find_it(masked: EmbeddedNode) -> None:
    client = ConsoleClient(masked).begin()

    def matches(text: str) -> list[Any]:
        events = client.stream(f"/api/topics/payments/messages/search?q={text}")
        return [data for name, data in takewhile(lambda each: each[0] != "ended", events) if name == "matches"]

    assert matches(CARD) == []
    assert matches("card") != []


def test_a_masked_record_is_sent_again_whole_and_not_edited(masked: EmbeddedNode) -> None:
    client = ConsoleClient(masked).begin()
    answer = client.ask("GET", "/api/topics/payments/messages/0/0?raw=true")
    assert (answer.status, answer.value["error"]["code"]) == (403, 40304)
    stored = client.value("POST", "/api/topics/payments/messages/0/0/resend", {})
    assert stored["offset"] == 1
    sizes = [each["size_bytes"] for each in client.value("GET", "/api/topics/payments/messages")["records"]]
    assert sizes[0] == sizes[1]


def test_a_wrong_rule_keeps_the_node_from_starting() -> None:
    with pytest.raises(UsageError, match="no regular expression"), node_with_console({"console.masks": "*=("}):
        pass
