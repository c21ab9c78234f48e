"""Reasons and origins from the headers of every program that is known to write them."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.bus.durable.records import Death, StoredRecord, dead_letter
from hutong.console.dead_letters.conventions.known import CONVENTIONS, cleaned_headers, letter_of, looks_dead
from hutong.console.dead_letters.conventions.letter import TEXT_CHARS_MAX, DeadLetter

OWN = ("trace", b"1")
ROCKETMQ = struct.pack(">Biiqii", 1, 7, 0, 1_700_000_000_000, 16, 9876) + bytes(4)


def record(headers: dict[str, bytes | None], topic: str = "dead") -> StoredRecord:
    return StoredRecord(topic, 0, 5, 1_000, b"key", b"value", [OWN, *headers.items()], 8)


HUTONG = {
    "hutong-dead-error-type": b"ValueError",
    "hutong-dead-error-message": b"a negative price",
    "hutong-dead-attempts": b"4",
    "hutong-dead-group": b"billing",
    "hutong-dead-topic": b"orders",
    "hutong-dead-partition": b"2",
    "hutong-dead-offset": b"17",
    "hutong-dead-timestamp-ms": b"500",
    "hutong-dead-first-failure-ms": b"600",
    "hutong-dead-last-failure-ms": b"700",
}
CONNECT = {
    "__connect.errors.topic": b"orders",
    "__connect.errors.partition": b"2",
    "__connect.errors.offset": b"17",
    "__connect.errors.connector.name": b"to-s3",
    "__connect.errors.task.id": b"0",
    "__connect.errors.stage": b"VALUE_CONVERTER",
    "__connect.errors.exception.class.name": b"org.apache.kafka.connect.errors.DataException",
    "__connect.errors.exception.message": b"no JSON",
    "__connect.errors.exception.stacktrace": b"at ...",
}
STREAMS = {
    "__streams.errors.exception": b"java.lang.ArithmeticException",
    "__streams.errors.message": b"/ by zero",
    "__streams.errors.stacktrace": b"at ...",
    "__streams.errors.topic": b"orders",
    "__streams.errors.partition": b"2",
    "__streams.errors.offset": b"17",
}
SHARE = {
    "__dlq.errors.topic": b"orders",
    "__dlq.errors.partition": b"2",
    "__dlq.errors.offset": b"17",
    "__dlq.errors.group": b"billing",
    "__dlq.errors.delivery.count": b"5",
    "__dlq.errors.message": b"rejected",
}
SPRING = {
    "kafka_dlt-original-topic": b"orders",
    "kafka_dlt-original-partition": struct.pack(">i", 2),
    "kafka_dlt-original-offset": struct.pack(">q", 17),
    "kafka_dlt-original-timestamp": struct.pack(">q", 500),
    "kafka_dlt-original-timestamp-type": b"CREATE_TIME",
    "kafka_dlt-original-consumer-group": b"billing",
    "kafka_dlt-exception-fqcn": b"org.springframework.kafka.listener.ListenerExecutionFailedException",
    "kafka_dlt-exception-cause-fqcn": b"java.lang.IllegalStateException",
    "kafka_dlt-exception-message": b"no stock",
    "kafka_dlt-exception-stacktrace": b"at ...",
    "retry_topic-attempts": struct.pack(">i", 4),
}
PIPELINE = {
    "reason": b"the value is not JSON",
    "source-topic": b"orders",
    "source-partition": b"2",
    "source-offset": b"17",
    "source-timestamp": b"500",
}
CASES = {
    "hutong": (HUTONG, "ValueError", "a negative price", 4, 700, "billing"),
    "kafka connect": (CONNECT, "org.apache.kafka.connect.errors.DataException", "no JSON", None, 1_000, "to-s3"),
    "kafka streams": (STREAMS, "java.lang.ArithmeticException", "/ by zero", None, 1_000, None),
    "kafka share group": (SHARE, None, "rejected", 5, 1_000, "billing"),
    "spring": (SPRING, "java.lang.IllegalStateException", "no stock", 4, 500, "billing"),
    "pipeline": (PIPELINE, None, "the value is not JSON", None, 500, None),
}


@pytest.mark.parametrize("name", CASES)
def test_a_letter_tells_its_reason_and_origin(name: str) -> None:
    headers, error_type, error_text, attempts, time_ms, group = CASES[name]
    dead = record(dict(headers))
    letter = letter_of(dead)
    assert letter == DeadLetter(name, "orders", 2, 17, error_type, error_text, attempts, time_ms, group)
    assert cleaned_headers(letter, dead.headers) == [OWN], "the headers of a dead letter are gone, its own are kept"


def test_what_a_handler_writes_is_read() -> None:
    stored = StoredRecord("orders", 3, 9, 400, b"k", b"v", [OWN], 2)
    dead = dead_letter(stored, "orders.g.dead", Death("g", "KeyError", "x" * 5_000, 2, 450, 460))
    letter = letter_of(StoredRecord("orders.g.dead", 0, 0, 500, dead.key, dead.value, dead.headers, 0))
    assert (letter.topic, letter.partition, letter.offset, letter.attempts) == ("orders", 3, 9, 2)
    assert (letter.reason, letter.time_ms, len(letter.error_text or "")) == ("KeyError", 460, TEXT_CHARS_MAX)


def test_a_message_of_rocketmq_begins_its_attempts_anew() -> None:
    dead = record({"RETRY_TOPIC": b"orders", "ORIGIN_MESSAGE_ID": b"7F", "rocketmq": ROCKETMQ}, "DLQ.billing")
    letter = letter_of(dead)
    assert (letter.convention, letter.topic, letter.group, letter.attempts) == ("rocketmq", "orders", "billing", 16)
    (_, (name, origin)) = cleaned_headers(letter, dead.headers)
    assert (name, origin) == ("rocketmq", ROCKETMQ[:17] + bytes(4) + ROCKETMQ[21:])


@pytest.mark.parametrize("value", [b"", b"short", None, b"of another program, of some length"[:20]])
def test_a_header_of_that_name_by_others_stays(value: bytes | None) -> None:
    dead = record({"RETRY_TOPIC": b"orders", "rocketmq": value}, "DLQ.billing")
    assert cleaned_headers(letter_of(dead), dead.headers) == [OWN, ("rocketmq", value)]


def test_a_record_of_another_topic_is_no_letter_of_rocketmq() -> None:
    assert letter_of(record({"RETRY_TOPIC": b"orders"}, "RETRY.billing")).convention == "unknown"


def test_a_record_without_such_headers_is_unknown() -> None:
    letter = letter_of(record({}))
    assert (letter.convention, letter.topic, letter.reason) == ("unknown", None, "no reason given")
    assert cleaned_headers(letter, record({}).headers) == [OWN]


@pytest.mark.parametrize(
    "topic", [b"", b"..", b"a/b", b"\xff", b"x" * 250, b"__consumer_offsets", b"__hutong_metadata", b"a b", b"a\n"]
)
def test_no_letter_goes_where_no_records_may(topic: bytes) -> None:
    assert letter_of(record({"hutong-dead-topic": topic})).topic is None


@pytest.mark.parametrize("number", [b"", b"-1", b"1_0", b" 1", b"9" * 19, "²".encode(), b"1.5"])
def test_a_number_is_digits_alone(number: bytes) -> None:
    assert letter_of(record({"hutong-dead-topic": b"orders", "hutong-dead-offset": number})).offset is None


def test_numbers_of_spring_may_be_text() -> None:
    letter = letter_of(
        record({**SPRING, "kafka_dlt-original-offset": b"123", "kafka_dlt-original-partition": b"12345"})
    )
    assert (letter.offset, letter.partition) == (123, 12_345)
    assert letter_of(record({**SPRING, "kafka_dlt-original-partition": b"\xff" * 4})).partition is None


@given(st.lists(st.tuples(st.sampled_from([*HUTONG, *CONNECT, *SPRING, *SHARE, *PIPELINE, "rocketmq"]), st.binary())))
def test_hostile_headers_give_a_letter_within_bounds(headers: list[tuple[str, bytes]]) -> None:
    for topic in ("dead", "DLQ.g"):
        dead = StoredRecord(topic, 0, 0, 0, None, None, headers, 0)
        letter = letter_of(dead)
        assert len(letter.reason) <= TEXT_CHARS_MAX
        assert len(cleaned_headers(letter, headers)) <= len(headers)


def test_names_of_conventions_are_their_own() -> None:
    assert len({convention.name for convention in CONVENTIONS}) == len(CONVENTIONS)


@pytest.mark.parametrize(
    "name", ["orders.billing.dead", "events.dead-letters", "DLQ.billing", "orders.DLT", "orders-dlq"]
)
def test_a_name_tells_a_topic_of_dead_letters(name: str) -> None:
    assert looks_dead(name)


@pytest.mark.parametrize("name", ["orders", "deadlines", "undead", "dltx", "the-dead-sea"])
def test_other_names_do_not(name: str) -> None:
    assert not looks_dead(name)
