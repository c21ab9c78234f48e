"""PySpark 4.1: streams without bounded batches work, and the options that bound them are refused."""

import dataclasses

import pytest
from pyspark.sql.streaming import datasource

from hutong.pipelines.source import older_spark, readers
from hutong.pipelines.source.options import source_options
from hutong.pipelines.source.readers import StreamReader

OPTIONS = {"kafka.bootstrap.servers": "host-0:9092", "subscribe": "t"}


@pytest.fixture(autouse=True)
def _pyspark_4_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "HAS_LIMITS", False)


@pytest.mark.parametrize("option", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger"])
def test_bounds_of_a_batch_are_refused(option: str) -> None:
    reader = StreamReader(source_options({**OPTIONS, option: "10"}, streaming=True))
    for ask in (reader.initialOffset, reader.latestOffset):
        with pytest.raises(Exception, match=r"need PySpark 4\.2"):  # as Spark shows it
            ask()


def test_a_stream_without_them_is_read() -> None:
    assert StreamReader(source_options(OPTIONS, streaming=True)).getDefaultReadLimit() == datasource.ReadAllAvailable()


@pytest.mark.parametrize("name", ["ReadMaxRows", "ReadMinRows"])
def test_the_stand_ins_have_the_shape_of_what_they_stand_for(name: str) -> None:
    ours, theirs = getattr(older_spark, name), getattr(datasource, name)
    assert [field.name for field in dataclasses.fields(ours)] == [field.name for field in dataclasses.fields(theirs)]
