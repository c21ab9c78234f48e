"""Where two trees differ, and which differences are meant: each with its reason, which docs/compatibility.md prints."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tests.compat.differential.side import CLOSED, SILENT, Tree

MISSING: Final = "(not there)"


@dataclass(frozen=True)
class Difference:
    """One place where the responses differ; `path` is like `topics[].partitions[].error_code`."""

    path: str
    kafka: Any
    hutong: Any


@dataclass(frozen=True)
class Meant:
    """A difference that is meant: which APIs, where in the response (a regular expression), and why."""

    apis: str  # a regular expression over the API's name
    path: str
    why: str
    kafka: str = ".*"  # regular expressions over the two values, as text
    hutong: str = ".*"

    def covers(self, api: str, difference: Difference) -> bool:
        return all(
            re.fullmatch(pattern, text, re.DOTALL)
            for pattern, text in (
                (self.apis, api),
                (self.path, difference.path),
                (self.kafka, str(difference.kafka)),
                (self.hutong, str(difference.hutong)),
            )
        )


def differences(kafka: Tree, hutong: Tree, path: str = "") -> Iterator[Difference]:
    """Every place where the two trees differ, outermost first."""
    if isinstance(kafka, dict) and isinstance(hutong, dict):
        for key in {**kafka, **hutong}:
            yield from differences(kafka.get(key, MISSING), hutong.get(key, MISSING), f"{path}.{key}".lstrip("."))
    elif isinstance(kafka, list) and isinstance(hutong, list):
        yield from _of_lists(kafka, hutong, f"{path}[]")
    elif kafka != hutong:
        yield Difference(path, kafka, hutong)


def _of_lists(kafka: list[Any], hutong: list[Any], path: str) -> Iterator[Difference]:
    """Elements are paired by what names them, or else by their order."""
    ours, theirs = _by_name(hutong), _by_name(kafka)
    for name in {**theirs, **ours}:
        yield from differences(theirs.get(name, MISSING), ours.get(name, MISSING), path)


_NAMES: Final = (
    *("name", "topic", "topic_name", "config_name", "group_id", "key", "member_id", "index", "partition_index"),
    *("partition", "resource_type", "resource_name", "api_key", "topic_id", "producer_id", "mechanism", "entity_type"),
    *("entity", "user", "transactional_id"),
)


def _by_name(items: list[Any]) -> dict[Any, Any]:
    named: dict[Any, Any] = {}
    for position, item in enumerate(items):
        name: Any = position
        if isinstance(item, dict):
            found = tuple(str(item[key]) for key in _NAMES if key in item)
            name = found or position
        elif isinstance(item, str | int):
            name = str(item)
        repeated = 0
        while (name, repeated) in named:
            repeated += 1
        named[name, repeated] = item
    return named


_TOPICS: Final = "(Metadata|DescribeTopicPartitions)"
MEANT: Final[list[Meant]] = [
    Meant(
        ".*",
        r"(.*\.)?(batch_index_error_message|error_message|documentation)",
        "The words of a message are our own; its code is the same.",
    ),
    Meant(".*", r"(.*\.)?(host|port|cluster_id)", "Each server's own address and name."),
    Meant("DescribeLogDirs", r".*log_dir", "Each server's own folder."),
    Meant(
        _TOPICS,
        r"topics\[\]",
        "Internal topics have names of each server's own.",
        kafka=r".*'__(transaction_state|consumer_offsets|share_group_state)'.*|\(not there\)",
    ),
    Meant(
        _TOPICS,
        r"topics\[\]\.partitions\[\]",
        "Internal topics have one partition here, 50 in Kafka.",
        hutong=r"\(not there\)",
    ),
    Meant(
        "Metadata",
        r"topics\[\]\.(error_code|partitions\[\])",
        "A topic that is created on the way is answered when it is there, not with an error first.",
        kafka=r"3|5|\(not there\)",
    ),
    Meant(
        "(CreateAcls|DeleteAcls|DescribeAcls)",
        "",
        "Values that no enumeration has are refused with SECURITY_DISABLED like the rest; Kafka closes the connection.",
        kafka=CLOSED,
    ),
    Meant("DescribeLogDirs", r"results\[\]\.topics\[\](\.partitions\[\])?", "Internal topics, as in Metadata."),
    Meant("DescribeLogDirs", r".*partition_size", "A journal has other bytes for a partition than a segment file."),
    Meant(
        "ElectLeaders",
        r"replica_election_results\[\]",
        "Internal topics, as in Metadata.",
        kafka=r".*'__.*|\(not there\)",
    ),
    Meant(
        "Produce",
        r".*\.log_append_time_ms",
        "A repeated batch is answered with its offset; Kafka returns the producer's timestamp as well.",
        hutong="-1",
    ),
    Meant("DescribeLogDirs", r".*usable_bytes", "The free space of the disk changes between two requests."),
    Meant(
        "DescribeProducers",
        r".*last_timestamp",
        "When the node took the producer's last batch, not the time that the batch tells.",
    ),
    Meant(
        "Produce",
        r"responses\[\]\.partition_responses\[\]\..*",
        "A transactional batch in a request without a transactional id is refused alone, not the rest with it.",
        kafka="53|-1",
    ),
    Meant("ApiVersions", r"finalized_features_epoch", "Kafka counts its metadata records there."),
    Meant(
        "(OffsetCommit|DeleteGroups|OffsetDelete|DescribeGroups|ListGroups)",
        r".*(error_code|group_state|\[\])",
        "A request that is refused leaves no group behind; Kafka keeps an empty one.",
        kafka=r"25|0|Empty|.*'(protocol_type': '', .*Empty|error_code': 0).*",
        hutong=r"22|69|Dead|\(not there\)",
    ),
    Meant(
        "ApiVersions",
        r"api_keys\[\]",
        "The share coordinator's own requests (83-87) are for brokers among themselves.",
        kafka=r"\{'api_key': 8[3-7],.*",
    ),
    Meant("AddPartitionsToTxn", "", "Kafka never answers a request that names no transaction.", kafka=SILENT),
    Meant(
        "(CreateTopics|CreatePartitions|IncrementalAlterConfigs|AlterConfigs|AlterUserScramCredentials|Produce|SyncGroup|"
        "AlterReplicaLogDirs|JoinGroup|AddPartitionsToTxn)",
        r"(.*\.)?(partition_)?error_code",
        "Of several faults in one request another may be reported first.",
        kafka="(?!0).*",
        hutong="(?!0).*",
    ),
    Meant(
        "DescribeConfigs",
        r"results\[\]\..*",
        "A resource of no known type is refused alone; Kafka refuses all that is asked with it.",
        kafka=r"42|\(not there\)",
    ),
    Meant(
        "(CreateTopics|DescribeConfigs)",
        r".*configs\[\](\.(value|config_source|synonyms.*))?",
        "A segment is smaller here, and topics have settings of our own.",
        kafka=r"1073741824|3|5|\(not there\)",
        hutong=r"134217728|4|5|.*(hutong|segment).*",
    ),
    Meant("Fetch", r".*", "Kafka fails on an offset (UNKNOWN_SERVER_ERROR) that a node searches.", kafka="-1"),
    Meant(
        "Fetch",
        r"responses\[\]",
        "Kafka tells nothing of topics where it fails as a whole on their ids (UNKNOWN_SERVER_ERROR).",
        kafka=r"\(not there\)",
        hutong=".*'error_code': (100|7[456]).*",
    ),
    Meant(
        "AddPartitionsToTxn",
        r"results_by_transaction\[\]\.topic_results\[\]",
        "A request (of brokers alone) that names a transaction twice is answered for each; Kafka repeats the last.",
        kafka=r".*'partition_error_code': [^0].*|\(not there\)",
        hutong=r".*'partition_error_code': [^0].*|\(not there\)",
    ),
    Meant(
        "JoinGroup",
        "protocol_name",
        "A protocol without a name is reported as such, not as none.",
        kafka="None",
        hutong="",
    ),
    Meant(
        "(IncrementalAlterConfigs|AlterConfigs)",
        r"responses\[\]\.error_code",
        "Settings of all nodes together are taken where they are settings of topics; Kafka takes any.",
        kafka="0",
        hutong="42",
    ),
    Meant(
        "ListConfigResources",
        r"config_resources\[\]",
        "Internal topics, as in Metadata.",
        kafka=r".*'__.*|\(not there\)",
        hutong=r".*'__.*|\(not there\)",
    ),
    Meant(
        "OffsetDelete",
        r"topics\[\]\.partitions\[\]\.error_code",
        "A member whose subscription cannot be read counts as subscribed to everything.",
        kafka="0",
        hutong="86",
    ),
    Meant(
        "DescribeConfigs",
        r"results\[\]\.configs\[\](\.synonyms\[\])?",
        "Kafka keeps a setting of its own for all nodes together.",
        kafka=".*min.insync.replicas.*",
    ),
    Meant(
        "ListOffsets",
        r"topics\[\]\.partitions\[\]\.timestamp",
        "For the greatest timestamp of a log whose records are all behind the stable offset Kafka tells none.",
        kafka="-1",
    ),
    Meant(".*", r"(.*\.)?throttle_time_ms", "No request is throttled here, whatever Kafka measured."),
]
