"""`spark.read.format("hutong")`: Spark finds this module by its name, without registration.

The top-level name must begin with `pyspark_` and hold a class `DefaultSource` for that (Spark 4.0 and later). What is
done lives in `hutong.pipelines`; every Spark worker imports this file, so it imports little.
"""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """Topics of any Kafka cluster, with the options and columns of Spark's own Kafka source."""

    @classmethod
    def name(cls) -> str:
        return "hutong"

    def schema(self) -> str:
        from hutong.pipelines.engine.failure_reports import failures_reported
        from hutong.pipelines.source.options import schema_of
        from hutong.pipelines.source.registered_schemas import in_registry

        with failures_reported():
            # Spark keeps this object for the readers: they get the same schemas.
            self.options.update(in_registry(self.options))
            return schema_of(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        from hutong.pipelines.engine.failure_reports import failures_reported
        from hutong.pipelines.option_values import boolean
        from hutong.pipelines.source.options import source_options
        from hutong.pipelines.source.readers import BatchReader, FilteringReader
        from hutong.pipelines.source.refreshing import RefreshingReader
        from hutong.pipelines.source.registered_schemas import in_registry

        with failures_reported():
            self.options.update(in_registry(self.options))  # where the program names the columns
            options = source_options(self.options, streaming=False)
            if boolean(self.options, "refresh", False):
                return RefreshingReader(options)
            return FilteringReader(options) if options.push_filters else BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from hutong.pipelines.engine.failure_reports import failures_reported
        from hutong.pipelines.source.options import source_options
        from hutong.pipelines.source.readers import StreamReader
        from hutong.pipelines.source.registered_schemas import in_registry

        with failures_reported():
            self.options.update(in_registry(self.options))
            return StreamReader(source_options(self.options, streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from hutong.pipelines.engine.failure_reports import failures_reported
        from hutong.pipelines.sink.options import sink_options_of
        from hutong.pipelines.sink.versions import VersionWriter
        from hutong.pipelines.sink.writers import BatchWriter

        with failures_reported():
            options = sink_options_of(self.options, schema)
            kind = BatchWriter if options.write_version is None else VersionWriter
            return kind(options, schema.fieldNames())

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        from hutong.pipelines.engine.failure_reports import failures_reported
        from hutong.pipelines.sink.options import sink_options_of
        from hutong.pipelines.sink.writers import StreamWriter

        with failures_reported():
            return StreamWriter(sink_options_of(self.options, schema, streaming=True), schema.fieldNames())
