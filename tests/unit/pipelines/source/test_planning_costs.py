"""How many requests planning takes: it must not grow with the partitions."""

from typing import Any

import pytest
from tests.unit.pipelines.fakes import FakeBrokers

from hutong.pipelines.source import readers
from hutong.pipelines.source.options import source_options
from hutong.pipelines.source.readers import BatchReader, RangePartition, StreamReader
from hutong.wire.kafka.apis.k02_list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

PARTITIONS = 1000
LEADERS = 3
OPTIONS = {"kafka.bootstrap.servers": "host-0:9092", "subscribe": "wide", "startingOffsets": "earliest"}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[ListOffsetsRequest]:
    """The questions for offsets that brokers of a wide topic get: each partition holds one record."""
    brokers = FakeBrokers({("wide", partition): partition % LEADERS for partition in range(PARTITIONS)})
    requests: list[ListOffsetsRequest] = []

    def answer(request: Any) -> ListOffsetsResponse:
        requests.append(request)
        topics = [
            ListOffsetsTopicResponse(
                topic.name,
                [
                    ListOffsetsPartitionResponse(one.partition_index, 0, -1, one.timestamp + 2)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return ListOffsetsResponse(topics=topics)

    brokers.answers = dict.fromkeys(range(LEADERS), answer)
    cluster = brokers.cluster()
    monkeypatch.setattr(readers, "shared_cluster", lambda _settings: cluster)
    return requests


def test_a_batch_asks_each_leader_once_for_all_starts_and_once_for_all_ends(asked: list[ListOffsetsRequest]) -> None:
    tasks = BatchReader(source_options(OPTIONS, streaming=False)).partitions()
    assert [task.range.size for task in tasks if isinstance(task, RangePartition)] == [1] * PARTITIONS
    assert len(asked) == 2 * LEADERS


def test_a_batch_of_a_stream_asks_each_leader_once(asked: list[ListOffsetsRequest]) -> None:
    reader = StreamReader(source_options(OPTIONS, streaming=True))
    start = reader.initialOffset()
    assert len(asked) == LEADERS
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert len(asked) == 2 * LEADERS
    assert len(reader.partitions(start, end)) == PARTITIONS
    assert len(asked) == 2 * LEADERS
