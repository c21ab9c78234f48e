import pytest

from hutong.foundation.errors import UsageError
from hutong.pipelines.client.cluster import EARLIEST, LATEST, BrokerAddress, TopicPartition
from hutong.pipelines.sink.options import WriteVersion, sink_options
from hutong.pipelines.source.admission import TriggerLimits
from hutong.pipelines.source.offset_rules import OffsetRule
from hutong.pipelines.source.options import (
    COLUMNS,
    SourceOptions,
    Subscription,
    columns_of,
    schema_of,
    source_options,
)
from hutong.wire.kafka.batch.compression import Compression

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
REQUIRED = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}


def batch(**options: str) -> SourceOptions:
    return source_options(REQUIRED | options, streaming=False)


def stream(**options: str) -> SourceOptions:
    return source_options(REQUIRED | options, streaming=True)


def test_defaults_of_a_batch_query() -> None:
    options = batch()
    assert options.cluster.bootstrap == (BrokerAddress("h", 1),)
    assert options.subscription == Subscription(names=("t",))
    assert (options.starting, options.ending) == (OffsetRule(EARLIEST), OffsetRule(LATEST))
    assert options.columns == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    assert options.fetch.fail_on_data_loss
    assert not options.cluster.read_committed
    assert options.limits == TriggerLimits(None, None, 15 * 60_000)
    assert (options.look_again_count, options.look_again_ms) == (3, 1_000)
    assert (options.partitions_min, options.records_per_partition_max) == (None, None)


def test_limits_of_a_stream() -> None:
    given = {"maxOffsetsPerTrigger": "9", "minOffsetsPerTrigger": "3", "maxTriggerDelay": "2m"}
    retries = {"fetchOffset.numRetries": "0", "fetchOffset.retryIntervalMs": "5"}
    options = stream(**given, **retries)
    assert options.limits == TriggerLimits(9, 3, 120_000)
    assert (options.look_again_count, options.look_again_ms) == (0, 5)


def test_filters_are_pushed_where_that_is_asked_for() -> None:
    assert not batch().push_filters
    assert batch(pushFilters="true").push_filters
    with pytest.raises(UsageError, match="option pushFilters is for batch queries"):
        stream(pushFilters="true")


@pytest.mark.parametrize("option", ["endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"])
def test_a_stream_has_no_end(option: str) -> None:
    with pytest.raises(UsageError, match=f"option {option} is for batch queries"):
        stream(**{option: "latest"})


def test_a_stream_starts_at_the_end_unless_told() -> None:
    assert stream().starting == OffsetRule(LATEST)
    assert stream(startingOffsets="earliest").starting == OffsetRule(EARLIEST)


@pytest.mark.parametrize(
    ("given", "subscription"),
    [
        ({"subscribe": " a, b ,a"}, Subscription(names=("a", "b"))),
        ({"subscribePattern": "a.*"}, Subscription(pattern="a.*")),
        ({"assign": '{"a": [0, 1]}'}, Subscription(assigned=(A0, A1))),
    ],
)
def test_there_are_three_ways_to_subscribe(given: dict[str, str], subscription: Subscription) -> None:
    options = source_options({"kafka.bootstrap.servers": "h:1"} | given, streaming=False)
    assert options.subscription == subscription


def test_timestamps_come_before_offsets_and_one_for_all_before_those_by_partition() -> None:
    by_partition = '{"a": {"0": 5}}'
    everything = {"startingTimestamp": "7", "startingOffsetsByTimestamp": by_partition, "startingOffsets": "earliest"}
    assert batch(**everything).starting == OffsetRule(EARLIEST, timestamp_ms=7)
    del everything["startingTimestamp"]
    assert batch(**everything).starting == OffsetRule(EARLIEST, timestamps_ms={A0: 5})
    del everything["startingOffsetsByTimestamp"]
    assert batch(**everything).starting == OffsetRule(EARLIEST)


def test_a_start_after_the_last_record_is_an_error_unless_the_strategy_says_otherwise() -> None:
    assert batch(startingTimestamp="7").starting.must_match
    lenient = batch(startingTimestamp="7", endingTimestamp="9", startingOffsetsByTimestampStrategy="latest")
    assert not lenient.starting.must_match
    assert not batch(endingTimestamp="9").ending.must_match


def test_offsets_may_be_given_by_partition() -> None:
    options = batch(startingOffsets='{"a":{"0":23,"1":-2}}', endingOffsets='{"a":{"0":50,"1":-1}}')
    assert options.starting.offsets == {A0: 23, A1: EARLIEST}
    assert options.ending.offsets == {A0: 50, A1: LATEST}


def test_the_headers_column_is_there_when_asked_for() -> None:
    assert columns_of({"includeHeaders": "true"}) == tuple(COLUMNS)
    assert schema_of({"columns": "offset, headers"}) == (
        "offset BIGINT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
    )


def test_settings_of_the_java_client_are_taken_where_they_have_a_counterpart() -> None:
    options = batch(
        **{
            "kafka.max.partition.fetch.bytes": "1000",
            "kafka.fetch.max.wait.ms": "9",
            "kafka.isolation.level": "read_committed",
            "kafka.request.timeout.ms": "1234",
            "kafka.max.poll.records": "7",
        }
    )
    assert (options.fetch.fetch_bytes, options.fetch.wait_ms_max) == (1000, 9)
    assert (options.cluster.read_committed, options.cluster.request_timeout_ms) == (True, 1234)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kafka.bootstrap.servers": "x"}, "kafka.bootstrap.servers is not valid: 'x' is not an address"),
        ({"assign": '{"a": [0]}'}, "exactly one of the options subscribe, subscribePattern, assign .*, not 2"),
        ({"subscribe": " , "}, "subscribe names no topic"),
        ({"startingOffsets": "latest"}, "cannot be latest in a batch query"),
        ({"startingOffsets": '{"a":{"0":-1}}'}, "cannot be latest in a batch query"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({"endingOffsets": '{"a":{"0":-2}}'}, "endingOffsets cannot be earliest"),
        ({"startingOffsets": "newest"}, "startingOffsets is not valid"),
        ({"startingOffsets": '{"a": 1}'}, "startingOffsets is not valid: 1 stands where dict is expected"),
        ({"startingOffsets": '{"a": {"0": true}}'}, "True stands where int is expected"),
        ({"startingTimestamp": "soon"}, "startingTimestamp is 'soon': it must be a whole number from 0"),
        ({"startingTimestamp": "1", "startingOffsetsByTimestampStrategy": "x"}, "take error or latest"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger is '0': it must be a whole number from 1"),
        ({"minPartitions": "many"}, "minPartitions is 'many'"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss is 'maybe': take true or false"),
        ({"columns": "offset,length"}, "option columns names length"),
        ({"columns": ""}, "option columns names nothing"),
        ({"kafka.isolation.level": "none"}, "take read_uncommitted or read_committed"),
        ({"kafka.security.protocol": "SASL_SSL"}, "kafka.sasl.mechanism is GSSAPI"),
        ({"kafka.auto.offset.reset": "earliest"}, "use startingOffsets"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "minOffsetsPerTrigger is 5, more than"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay is not valid: 'soon' is no time"),
        ({"startingOffsets": '{"a": {"0": -3}}'}, "-3 is no offset"),
        ({"startingOffset": "earliest"}, "option startingOffset is unknown: did you mean startingOffsets"),
        ({"valueformat ": "json"}, "did you mean valueFormat"),
        ({"kafka.bootstrap.server": "h:1"}, "did you mean kafka.bootstrap.servers"),
        ({"kafka.partition.assignment.strategy": "x"}, "strategy is not supported"),
    ],
)
def test_options_that_do_not_fit_are_refused_in_one_sentence(given: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        batch(**given)


def test_options_of_others_and_of_the_java_client_are_let_through() -> None:
    given = {"kafka.fetch.min.bytes": "1", "path": "x", "topic": "t", "groupIdPrefix": "g", "STARTINGOFFSETS": "latest"}
    assert batch(**given) == batch()


def test_required_options_are_asked_for() -> None:
    with pytest.raises(UsageError, match=r"kafka\.bootstrap\.servers must be given"):
        source_options({"subscribe": "t"}, streaming=False)
    with pytest.raises(UsageError, match="must be given, not 0"):
        source_options({"kafka.bootstrap.servers": "h:1"}, streaming=False)


@pytest.mark.parametrize(
    "given", [{"subscribePattern": "("}, {"assign": "{"}, {"assign": "{}"}, {"assign": '{"a":["0"]}'}]
)
def test_subscriptions_that_cannot_be_read_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="is not valid"):
        source_options({"kafka.bootstrap.servers": "h:1"} | given, streaming=False)


def test_options_of_the_sink() -> None:
    options = sink_options({"kafka.bootstrap.servers": "h:1", "topic": "t", "kafka.compression.type": "zstd"})
    assert (options.topic, options.compression, options.batch_bytes) == ("t", Compression.ZSTD, 512 * 1024)
    assert sink_options({"kafka.bootstrap.servers": "h:1"}).topic is None
    with pytest.raises(UsageError, match="take none, gzip, snappy, lz4 or zstd"):
        sink_options({"kafka.bootstrap.servers": "h:1", "kafka.compression.type": "brotli"})


VERSIONED = {"kafka.bootstrap.servers": "h:1", "txnAppId": "nightly-2.x_y", "txnVersion": "0"}


def test_a_version_of_an_application() -> None:
    assert sink_options(VERSIONED).write_version == WriteVersion("nightly-2.x_y", 0)
    assert sink_options(VERSIONED | {"txnVersion": str(2**63 - 1)}).write_version == WriteVersion(
        "nightly-2.x_y", 2**63 - 1
    )
    assert sink_options({"kafka.bootstrap.servers": "h:1"}).write_version is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"txnAppId": ""}, "option txnAppId is '': take letters, digits"),
        ({"txnAppId": "a b"}, "option txnAppId is 'a b'"),
        ({"txnAppId": "../a"}, r"option txnAppId is '\.\./a'"),
        ({"txnAppId": "a:b"}, "option txnAppId is 'a:b'"),
        ({"txnAppId": "a\n"}, r"option txnAppId is 'a\\n'"),
        ({"txnAppId": "x" * 101}, "at most 100 of them"),
        ({"txnVersion": "-1"}, "option txnVersion is '-1': it must be a whole number from 0"),
        ({"txnVersion": "1.5"}, "option txnVersion is '1.5'"),
        ({"txnVersion": str(2**63)}, "must be at most 9223372036854775807"),
        ({"delivery": "at-least-once"}, "option txnAppId needs transactions"),
    ],
)
def test_versions_that_cannot_be_recorded_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        sink_options(VERSIONED | options)


def test_half_a_version_and_versions_of_streams_are_refused() -> None:
    for left, other in (("txnAppId", "txnVersion"), ("txnVersion", "txnAppId")):
        with pytest.raises(UsageError, match=f"option {left} is given alone: set txnAppId and txnVersion together"):
            sink_options({name: text for name, text in VERSIONED.items() if name != other})
    with pytest.raises(UsageError, match="option txnAppId is for batch writes and foreachBatch"):
        sink_options(VERSIONED, streaming=True)
