"""Bytes of a running node's files are flipped beneath it: no reader ever gets a record that was not written."""

import os
import pathlib
import time
from collections.abc import Iterator

import pytest
from bench.kafka_bytes import FetchLayout, fetch_request, produce_request, record_batch
from bench.raw_client import RawConnection, create_topic
from confluent_kafka import Consumer, KafkaError, TopicPartition
from tests.support.confluent import DEADLINE_S, consumer, read
from tests.support.node import IS_HUTONG, Node
from tests.support.waiting import until

from hutong.journal.format import chunk
from hutong.wire.kafka.batch.records import iterate_batches, iterate_records

pytestmark = [
    pytest.mark.fault,
    pytest.mark.skipif(not IS_HUTONG, reason="knows the layout of Hutong's files"),
    pytest.mark.timeout(300),
]
CORRUPT_MESSAGE = 2
BATCHES, RECORDS = 9, 3
DAMAGED = 4  # the number of the batch whose bytes are flipped
TOPIC, OTHER = "damaged", "sound"


def written() -> list[bytes]:
    return [b"batch-%d-record-%d" % (batch, record) for batch in range(BATCHES) for record in range(RECORDS)]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node that was restarted, so that nothing is in its memory."""
    with Node(tmp_path_factory.mktemp("node")) as running:
        values = written()
        for topic in (TOPIC, OTHER):
            create_topic(running.address, topic, records=0)
            with RawConnection(running.address) as connection:
                for first in range(0, len(values), RECORDS):
                    connection.call(produce_request(topic, record_batch(values[first : first + RECORDS])))
        running.restart()
        yield running


@pytest.fixture(scope="module")
def stored(node: Node) -> tuple[pathlib.Path, int, int]:
    """The file that holds the batch, and where its chunk begins and ends."""
    for path in sorted(node.folder.rglob("*.journal")):
        content = path.read_bytes()
        at = content.find(b"batch-%d-" % DAMAGED)
        if at >= 0:
            start = content.rindex(chunk.MAGIC, 0, at)
            return path, start, chunk.parse_header(content, start, start).end
    raise AssertionError("the batch is in no file")


class Flipped:
    """A file with other bits at one place, while entered."""

    def __init__(self, path: pathlib.Path, position: int, bits: int) -> None:
        self._path, self._position, self._bits = path, position, bits

    def __enter__(self) -> None:
        self._flip()

    def __exit__(self, *_: object) -> None:
        self._flip()

    def _flip(self) -> None:
        descriptor = os.open(self._path, os.O_RDWR)
        try:
            (byte,) = os.pread(descriptor, 1, self._position)
            os.pwrite(descriptor, bytes([byte ^ self._bits]), self._position)
        finally:
            os.close(descriptor)


def fetch(connection: RawConnection, topic: str, offset: int) -> tuple[int, list[tuple[int, bytes | None]]]:
    """Error code and records, as a client has them that checks nothing."""
    layout = FetchLayout.of(topic)
    reply = connection.call(fetch_request(topic, offset, wait_ms=0))
    batches = iterate_batches(memoryview(layout.records(reply)))
    return layout.error_code(reply), [
        (record.offset, record.value) for _, batch in batches for record in iterate_records(batch)
    ]


@pytest.mark.parametrize("bits", [0x01, 0x80, 0xFF])
def test_whatever_byte_is_flipped_no_reader_gets_a_wrong_record(
    node: Node, stored: tuple[pathlib.Path, int, int], bits: int
) -> None:
    path, start, end = stored
    values = written()
    refused = 0
    with RawConnection(node.address) as connection:
        for position in range(start, end):
            with Flipped(path, position, bits):
                for offset in (0, DAMAGED * RECORDS, DAMAGED * RECORDS + 1, (DAMAGED + 1) * RECORDS):
                    error, records = fetch(connection, TOPIC, offset)
                    assert error in (0, CORRUPT_MESSAGE)
                    assert [value for _, value in records] == [values[number] for number, _ in records]
                    assert bool(records) != bool(error), "either records, or the reason why not"
                    refused += error == CORRUPT_MESSAGE
                assert fetch(connection, OTHER, 0) == (0, list(enumerate(values)))
        assert fetch(connection, TOPIC, 0) == (0, list(enumerate(values)))
    assert refused >= end - start


def test_a_consumer_is_told_where_it_stands_and_can_go_on_behind(
    node: Node, stored: tuple[pathlib.Path, int, int]
) -> None:
    path, _, end = stored
    values = written()
    reader = consumer(node.address, "reader", enable_auto_commit=False, check_crcs=False)
    try:
        with Flipped(path, end - 2, 0x10):  # in a value of the last record: only the CRC can tell
            reader.assign([TopicPartition(TOPIC, 0, 0)])
            before = read(reader, DAMAGED * RECORDS)
            assert [message.value() for message in before] == values[: DAMAGED * RECORDS]
            assert error_of(reader) == CORRUPT_MESSAGE
            until(lambda: is_told(node, reader), what="the sentence in the log, of which there is one each second")
            reader.assign([TopicPartition(TOPIC, 0, (DAMAGED + 1) * RECORDS)])
            behind = read(reader, (BATCHES - DAMAGED - 1) * RECORDS)
            assert [message.value() for message in behind] == values[(DAMAGED + 1) * RECORDS :]
    finally:
        reader.close()
    assert all(f"{path}: " in line for line in told(node)), "the log names the file"
    assert len(told(node)) < 100, "not a line for each of a thousand refusals"


def told(node: Node) -> list[str]:
    return [line for line in node.log_path.read_text().splitlines() if f"topic {TOPIC} partition 0" in line]


def is_told(node: Node, reader: Consumer) -> bool:
    reader.poll(0.1)  # it asks again by itself
    return any("fails its CRC" in line for line in told(node))


def error_of(reader: Consumer) -> int:
    """The code of the first error that the application is given."""
    give_up = time.monotonic() + DEADLINE_S
    while time.monotonic() < give_up:
        message = reader.poll(0.1)
        error = message.error() if message is not None else None
        if error is not None:
            assert isinstance(error, KafkaError)
            return int(error.code())
    raise AssertionError("no error came")
