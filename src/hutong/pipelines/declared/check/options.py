"""Spark's reader and writer options for a declared source or sink. Pure: names to names."""

from hutong.pipelines.declared.declare.definition import BATCH, TOPIC, Pipeline, Sink, Source
from hutong.pipelines.option_values import names_in

FORMAT_OF_TOPICS = "hutong"
KAFKA_PREFIX = "kafka."
GROUP_OPTION = "kafka.group.id"
ISOLATION_OPTION = "kafka.isolation.level"


def is_streaming(pipeline: Pipeline, source: Source) -> bool:
    """Return True if a source is read as a stream."""
    return pipeline.trigger != BATCH and not source.static


def reader_options(pipeline: Pipeline, source: Source) -> dict[str, str]:
    """The options of reading. What the user gave under an option's own name comes last and so decides."""
    if source.kind != TOPIC:
        path = {} if source.path is None else {"path": absolute(pipeline, source.path)}
        return {**path, **source.options}
    # Else a pipeline would read what another one wrote in a transaction that is then given up.
    options = {ISOLATION_OPTION: "read_committed"} | _connection(pipeline, source.bootstrap)
    if source.pattern is not None:
        options["subscribePattern"] = source.pattern
    elif source.topic_names:
        options["subscribe"] = ",".join(source.topic_names)
    if not any(name.lower().startswith("starting") for name in source.options):
        options["startingOffsets"] = source.starting
    if is_streaming(pipeline, source):
        options.setdefault(GROUP_OPTION, pipeline.group_id)
    for name, text in (("keyFormat", source.key_format), ("valueFormat", source.value_format)):
        if text != "binary":
            options[name] = text
    for name, schema in (("keySchema", source.key_schema), ("valueSchema", source.value_schema)):
        if schema is not None:
            options[name] = schema
    return {**options, **source.options}


def writer_options(pipeline: Pipeline, sink: Sink) -> dict[str, str]:
    """The options of writing."""
    if sink.kind != TOPIC:
        path = {} if sink.path is None else {"path": absolute(pipeline, sink.path)}
        return {**path, **sink.options}
    options = _connection(pipeline, sink.bootstrap)
    if sink.topic is not None:
        options["topic"] = sink.topic
    options["delivery"] = sink.delivery.replace(" ", "-")
    if sink.value_format in ("avro", "protobuf"):
        options["valueFormat"] = sink.value_format
    return {**options, **sink.options}


def format_of(kind: str) -> str:
    """The name of a kind among Spark's formats."""
    return FORMAT_OF_TOPICS if kind == TOPIC else kind


def absolute(pipeline: Pipeline, path: str) -> str:
    """Resolve a path relative to the pipeline's file; one with a scheme (`s3a://`, `hdfs://`) stays as it is."""
    return path if "://" in path else str((pipeline.folder / path).absolute())


def topics_of(source: Source) -> list[str]:
    """The topics that a source names, by its own fields or by an option."""
    named = [text for name, text in source.options.items() if name.lower() == "subscribe"]
    return list(source.topic_names) or [topic for text in named for topic in names_in(text)]


def _connection(pipeline: Pipeline, bootstrap: str | None) -> dict[str, str]:
    settings = {KAFKA_PREFIX + name.removeprefix(KAFKA_PREFIX): text for name, text in pipeline.kafka.items()}
    return {"kafka.bootstrap.servers": bootstrap or pipeline.bootstrap} | settings
