"""Lines become records, and a record that is not acknowledged is an error."""

import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError

from hutong.cli.kafka.produce import LINE_BYTES_MAX, Sending, _lines, _pairs
from hutong.cli.options import assigned
from hutong.foundation.errors import UsageError


class FakeProducer:
    """Reports when polled; `refuse` is the error of each record, `full_times` how often the queue is full."""

    def __init__(self, refuse: KafkaError | None = None, full_times: int = 0, silent: bool = False) -> None:
        self.refuse, self.full_times, self.silent = refuse, full_times, silent
        self.waiting: list[Callable[[KafkaError | None, object], None]] = []
        self.values: list[tuple[bytes | None, bytes]] = []

    def produce(self, topic: str, *, value: bytes, key: bytes | None, on_delivery: Any) -> None:
        if self.full_times:
            self.full_times -= 1
            raise BufferError
        self.values.append((key, value))
        self.waiting.append(on_delivery)

    def poll(self, timeout: float) -> None:
        if self.silent:
            return
        for done in self.waiting:
            done(self.refuse, None)
        self.waiting = []

    def flush(self, timeout: float) -> int:
        self.poll(0)
        return len(self.waiting)


def test_lines_lose_only_their_newline() -> None:
    assert list(_lines(io.BytesIO(b"a\r\n\n b \nlast"), "x")) == [b"a\r", b"", b" b ", b"last"]


def test_a_line_at_the_bound_passes_and_one_above_is_refused() -> None:
    longest = b"x" * (LINE_BYTES_MAX - 1) + b"\n"
    assert len(next(_lines(io.BytesIO(longest), "x"))) == LINE_BYTES_MAX - 1
    with pytest.raises(UsageError, match=r"Line 2 of x is longer than 1000000 bytes"):
        list(_lines(io.BytesIO(b"\n" + b"y" + longest), "x"))


def test_keys_are_what_stands_before_the_first_separator(tmp_path: Path) -> None:
    path = tmp_path / "pairs.gz"
    path.write_bytes(gzip.compress(b"a::b::c\n::d\n"))
    assert list(_pairs([path], b"::")) == [(b"a", b"b::c"), (b"", b"d")]
    assert list(_pairs([path], None)) == [(None, b"a::b::c"), (None, b"::d")]


def test_a_line_without_separator_is_named(tmp_path: Path) -> None:
    path = tmp_path / "pairs"
    path.write_bytes(b"a:b\nc\n")
    with pytest.raises(UsageError, match=r"Line 2 of .*pairs has no key separator ':'"):
        list(_pairs([path], b":"))


@pytest.mark.parametrize("content", [b"plain text", gzip.compress(b"line\n" * 1000, mtime=0)[:-9], b""])
def test_a_broken_gzip_file_is_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.gz"
    path.write_bytes(content)
    if not content:  # an empty file holds no member, so it holds no line either
        assert list(_pairs([path], None)) == []
        return
    with pytest.raises(UsageError, match="is not a whole gzip file"):
        list(_pairs([path], None))


def test_every_record_is_counted_also_when_the_queue_was_full() -> None:
    producer = FakeProducer(full_times=3)
    sending = Sending(producer, "t", {})
    for value in (b"a", b"bc"):
        sending.send(b"k", value)
    sending.finish()
    assert (sending.sent, sending.acknowledged, sending.bytes_sent) == (2, 2, 5)
    assert producer.values == [(b"k", b"a"), (b"k", b"bc")]


def test_the_first_refusal_ends_it() -> None:
    sending = Sending(FakeProducer(refuse=KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)), "t", {})
    with pytest.raises(UsageError, match="0 of 1 records were acknowledged"):
        sending.send(None, b"a")


def test_a_lost_acknowledgement_is_an_error() -> None:
    sending = Sending(FakeProducer(silent=True), "t", {})
    sending.send(None, b"a")
    with pytest.raises(UsageError, match="Only 0 of 1 records"):
        sending.finish()


def test_headers() -> None:
    assert assigned("--header", ["a=b=c", "empty="]) == [("a", "b=c"), ("empty", "")]
