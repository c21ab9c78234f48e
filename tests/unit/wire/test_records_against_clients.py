"""Record batches of two clients: we read what they build, they read what we build, whatever the compression."""

from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from hutong.wire.kafka.batch.compression import Compression
from hutong.wire.kafka.batch.records import Record, build_batch, iterate_records, validate_batch_set

SENT = [
    Record(0, 1_700_000_000_000, b"key", b"value", []),
    Record(1, 1_700_000_000_500, None, b"v" * 300, [("trace", b"\x00\x01"), ("empty", b""), ("null", None)]),
    Record(2, 1_699_999_999_000, b"", None, []),
    Record(3, 1_700_000_000_001, "键".encode(), b"", [("胡同", b"lane")]),
]
CODECS = {
    "aiokafka": list(Compression),
    "kafka-python": [Compression.NONE, Compression.GZIP],  # the others need packages that we do not install
}
CASES = [(client, codec) for client, codecs in CODECS.items() for codec in codecs]
BUILDERS = {"aiokafka": AiokafkaBuilder, "kafka-python": KafkaPythonBuilder}
READERS = {"aiokafka": AiokafkaBatch, "kafka-python": KafkaPythonBatch}


def built_by(client: str, codec: Compression) -> bytes:
    builder: Any = BUILDERS[client](
        magic=2,
        compression_type=codec,
        is_transactional=False,
        producer_id=77,
        producer_epoch=3,
        base_sequence=5,
        batch_size=100_000,
    )
    for record in SENT:
        headers = list(record.headers)
        if client == "aiokafka":
            appended = builder.append(record.offset, record.timestamp_ms, record.key, record.value, headers)
        else:
            appended = builder.append(
                record.offset, timestamp=record.timestamp_ms, key=record.key, value=record.value, headers=headers
            )
        assert appended is not None
    return bytes(builder.build())


@pytest.mark.parametrize(("client", "codec"), CASES)
def test_we_read_what_a_client_builds(client: str, codec: Compression) -> None:
    batch = built_by(client, codec)
    header = validate_batch_set(memoryview(batch))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 5)
    assert (header.record_count, header.compression) == (len(SENT), codec)
    assert header.max_timestamp_ms == max(record.timestamp_ms for record in SENT)
    assert list(iterate_records(batch)) == SENT


@pytest.mark.parametrize(("client", "codec"), CASES)
def test_a_client_reads_what_we_build(client: str, codec: Compression) -> None:
    batch = build_batch(
        SENT, compression=codec, base_offset=1000, producer_id=77, producer_epoch=3, base_sequence=5, leader_epoch=2
    )
    reader: Any = READERS[client](memoryview(batch) if client == "kafka-python" else batch)
    assert reader.validate_crc()
    assert (reader.producer_id, reader.producer_epoch, reader.base_sequence) == (77, 3, 5)
    assert (reader.magic, reader.compression_type) == (2, codec)
    read = [Record(one.offset - 1000, one.timestamp, one.key, one.value, list(one.headers)) for one in reader]
    assert read == SENT
