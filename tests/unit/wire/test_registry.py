import re
import typing

import pytest

from hutong.wire.kafka.registry import APIS, UnknownApi, api
from hutong.wire.kafka.schema import (
    RECORDS,
    Array,
    FixedWidth,
    Opaque,
    Row,
    Struct,
    Text,
    WireType,
    message_info,
    rows_of,
)

KAFKA_4_3 = {  # key: name, first and last version, first flexible version
    0: ("Produce", 3, 13, 9),
    1: ("Fetch", 4, 18, 12),
    2: ("ListOffsets", 1, 11, 6),
    3: ("Metadata", 0, 13, 9),
    8: ("OffsetCommit", 2, 10, 8),
    9: ("OffsetFetch", 1, 10, 6),
    10: ("FindCoordinator", 0, 6, 3),
    11: ("JoinGroup", 0, 9, 6),
    12: ("Heartbeat", 0, 4, 4),
    13: ("LeaveGroup", 0, 5, 4),
    14: ("SyncGroup", 0, 5, 4),
    15: ("DescribeGroups", 0, 6, 5),
    16: ("ListGroups", 0, 5, 3),
    17: ("SaslHandshake", 0, 1, None),
    18: ("ApiVersions", 0, 4, 3),
    19: ("CreateTopics", 2, 7, 5),
    20: ("DeleteTopics", 1, 6, 4),
    21: ("DeleteRecords", 0, 2, 2),
    22: ("InitProducerId", 0, 5, 2),
    23: ("OffsetForLeaderEpoch", 2, 4, 4),
    24: ("AddPartitionsToTxn", 0, 5, 3),
    25: ("AddOffsetsToTxn", 0, 4, 3),
    26: ("EndTxn", 0, 5, 3),
    27: ("WriteTxnMarkers", 1, 2, 1),
    28: ("TxnOffsetCommit", 0, 5, 3),
    29: ("DescribeAcls", 1, 3, 2),
    30: ("CreateAcls", 1, 3, 2),
    31: ("DeleteAcls", 1, 3, 2),
    32: ("DescribeConfigs", 1, 4, 4),
    33: ("AlterConfigs", 0, 2, 2),
    34: ("AlterReplicaLogDirs", 1, 2, 2),
    35: ("DescribeLogDirs", 1, 5, 2),
    36: ("SaslAuthenticate", 0, 2, 2),
    37: ("CreatePartitions", 0, 3, 2),
    38: ("CreateDelegationToken", 1, 3, 2),
    39: ("RenewDelegationToken", 1, 2, 2),
    40: ("ExpireDelegationToken", 1, 2, 2),
    41: ("DescribeDelegationToken", 1, 3, 2),
    42: ("DeleteGroups", 0, 2, 2),
    43: ("ElectLeaders", 0, 2, 2),
    44: ("IncrementalAlterConfigs", 0, 1, 1),
    45: ("AlterPartitionReassignments", 0, 1, 0),
    46: ("ListPartitionReassignments", 0, 0, 0),
    47: ("OffsetDelete", 0, 0, None),
    48: ("DescribeClientQuotas", 0, 1, 1),
    49: ("AlterClientQuotas", 0, 1, 1),
    50: ("DescribeUserScramCredentials", 0, 0, 0),
    51: ("AlterUserScramCredentials", 0, 0, 0),
    55: ("DescribeQuorum", 0, 2, 0),
    57: ("UpdateFeatures", 0, 2, 0),
    60: ("DescribeCluster", 0, 2, 0),
    64: ("UnregisterBroker", 0, 0, 0),
    61: ("DescribeProducers", 0, 0, 0),
    65: ("DescribeTransactions", 0, 0, 0),
    66: ("ListTransactions", 0, 2, 0),
    68: ("ConsumerGroupHeartbeat", 0, 1, 0),
    69: ("ConsumerGroupDescribe", 0, 1, 0),
    71: ("GetTelemetrySubscriptions", 0, 0, 0),
    72: ("PushTelemetry", 0, 0, 0),
    74: ("ListConfigResources", 0, 1, 0),
    75: ("DescribeTopicPartitions", 0, 0, 0),
    76: ("ShareGroupHeartbeat", 1, 1, 0),
    77: ("ShareGroupDescribe", 1, 1, 0),
    78: ("ShareFetch", 1, 2, 0),
    79: ("ShareAcknowledge", 1, 2, 0),
    80: ("AddRaftVoter", 0, 1, 0),
    81: ("RemoveRaftVoter", 0, 0, 0),
    88: ("StreamsGroupHeartbeat", 0, 0, 0),
    89: ("StreamsGroupDescribe", 0, 0, 0),
    90: ("DescribeShareGroupOffsets", 0, 1, 0),
    91: ("AlterShareGroupOffsets", 0, 0, 0),
    92: ("DeleteShareGroupOffsets", 0, 0, 0),
}
OWN = {10_000: "ClusterCommand", 10_001: "ReplicaDigests"}  # of operators' commands, not Kafka's
PYTHON_TYPES = dict.fromkeys("bhHiq", "int") | {"d": "float", "?": "bool", "16s": "bytes"}


def test_the_apis_and_versions_of_kafka_4_3() -> None:
    found = {
        key: (entry.name, entry.versions[0], entry.versions[-1], entry.flexible_from) for key, entry in APIS.items()
    }
    assert {key: found.pop(key) for key in OWN} == {key: (name, 0, 0, 0) for key, name in OWN.items()}
    assert found == KAFKA_4_3


def test_all_versions_are_advertised_as_they_are_but_for_produce_and_our_own() -> None:
    assert APIS[0].advertised_versions == range(14)
    assert not any(APIS[key].advertised_versions for key in OWN)
    others = [entry.name for entry in APIS.values() if entry.advertised_versions != entry.versions]
    assert others == ["Produce", *OWN.values()]


def test_an_unknown_key_is_refused_with_the_key() -> None:
    with pytest.raises(UnknownApi) as refused:
        api(4242)
    assert refused.value.api_key == 4242


@pytest.mark.parametrize("entry", APIS.values(), ids=lambda entry: entry.name)
def test_requests_and_responses_belong_together(entry: typing.Any) -> None:
    assert message_info(entry.request).api_key == message_info(entry.response).api_key == entry.key
    assert entry.request.__name__ == entry.name + "Request"
    assert entry.response.__name__ == entry.name + "Response"
    for info in (message_info(entry.request), message_info(entry.response)):
        assert info.versions == entry.versions
        assert (info.flexible.first if info.flexible else None) == entry.flexible_from


@pytest.mark.parametrize("entry", APIS.values(), ids=lambda entry: entry.name)
def test_annotations_say_what_the_rows_say(entry: typing.Any) -> None:
    """A type checker trusts the annotations, the engine the rows."""
    for table in _tables(entry.request) | _tables(entry.response):
        for name, row in rows_of(table):
            if row.wire_type != RECORDS:  # those of responses may be many buffers
                assert _spelt(table.__annotations__[name]) == _annotation(row), f"{table.__name__}.{name}"


def _tables(table: type[typing.Any]) -> set[type[typing.Any]]:
    found = {table}
    for _, row in rows_of(table):
        element = row.wire_type.element if isinstance(row.wire_type, Array) else row.wire_type
        if isinstance(element, Struct):
            found |= _tables(element.table)
    return found


def _spelt(annotation: typing.Any) -> str:
    text = annotation.__name__ if isinstance(annotation, type) and not typing.get_args(annotation) else str(annotation)
    return re.sub(r"\w+\.", "", text)


def _annotation(row: Row) -> str:
    text = _type_name(row.wire_type)
    return f"{text} | None" if row.nullable else text


def _type_name(wire_type: WireType) -> str:
    match wire_type:
        case FixedWidth(code, _):
            return PYTHON_TYPES[code]
        case Text():
            return "str"
        case Opaque():
            return "bytes"
        case Array(element):
            return f"list[{_type_name(element)}]"
        case Struct(table):
            return table.__name__
    raise AssertionError(wire_type)
