"""What Spark calls, without Spark: a reader in this process and a cluster that answers from a script."""

import subprocess
import sys
from typing import Any

import pytest
from tests.unit.pipelines.batches import record_set
from tests.unit.pipelines.fakes import FakeBrokers

from hutong.foundation.errors import ProtocolError
from hutong.pipelines.client.cluster import TopicPartition
from hutong.pipelines.errors import BadRecord
from hutong.pipelines.source.options import source_options
from hutong.pipelines.source.splitting import OffsetRange
from hutong.wire.kafka.apis.k01_fetch import FetchableTopicResponse, FetchResponse, PartitionData
from hutong.wire.kafka.batch.records import Record

pytest.importorskip("pyspark")
from hutong.pipelines.source import readers

RECORDS = [Record(value=b'{"n": %d}' % number) for number in range(3)]


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error tells Spark's workers to hide tracebacks: not beyond the test."""
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    monkeypatch.setenv("PYSPARK_HUTONG_ERRORS", "quiet")


def read(content: bytes, monkeypatch: pytest.MonkeyPatch, **more: str) -> list[dict[str, Any]]:
    brokers = FakeBrokers({("t", 0): 0})
    data = PartitionData(0, 0, 3, 3, 0, records=memoryview(content))
    brokers.answers[0] = lambda _request: FetchResponse(responses=[FetchableTopicResponse("t", partitions=[data])])
    monkeypatch.setattr(readers, "shared_cluster", lambda _settings: brokers.cluster())
    options = source_options({"kafka.bootstrap.servers": "h:1", "subscribe": "t", **more}, streaming=False)
    task = readers.RangePartition(OffsetRange(TopicPartition("t", 0), 0, 3))
    return [row for batch in readers.read_range(task, options) for row in batch.to_pylist()]


def test_rows_have_the_columns_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = {"valueFormat": "json", "valueSchema": "n INT", "columns": "value,partition"}
    assert read(record_set([RECORDS]), monkeypatch, **typed) == [
        {"value": {"n": number}, "partition": 0} for number in range(3)
    ]
    assert read(record_set([RECORDS]), monkeypatch, columns="offset") == [{"offset": number} for number in range(3)]


def test_a_corrupt_batch_is_told_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    content = bytearray(record_set([RECORDS]))
    content[-1] ^= 1
    with pytest.raises(ProtocolError, match=r"^t-0 cannot be read: the batch at offset 0 is corrupt: its CRC"):
        read(bytes(content), monkeypatch)


def test_an_undecodable_record_is_told_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    content = record_set([[RECORDS[0], Record(value=b'{"n": "one"}'), RECORDS[2]]])
    with pytest.raises(BadRecord, match=r"^the value at offset 1 of t-0 is not JSON of its schema: field n: Expected"):
        read(content, monkeypatch, valueFormat="json", valueSchema="n INT")


@pytest.mark.parametrize("inside", ["TaskContext._getOrCreate()", "None"])
def test_in_a_task_the_collector_leaves_out_what_is_loaded(inside: str) -> None:
    """In a process of its own: what is kept out of collections stays out."""
    program = (
        "import gc\n"
        "import pytest\n"
        "from pyspark import TaskContext\n"
        "from tests.unit.pipelines.source import test_readers\n"
        "from tests.unit.pipelines.batches import record_set\n"
        f"{inside}\n"
        "with pytest.MonkeyPatch.context() as patch:\n"
        "    assert test_readers.read(record_set([test_readers.RECORDS]), patch, columns='offset')\n"
        "collected = sum(1 for kind in gc.get_objects() if str(type(kind).__module__).startswith('numba'))\n"
        "print(gc.get_freeze_count() > 0, collected < 1000)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    is_task = inside != "None"
    assert done.stdout == f"{is_task} {is_task}\n", "the compiler's objects come with the first batch"
