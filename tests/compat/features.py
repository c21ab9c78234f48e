"""What clients may be asked to do, and who is asked: the rows and columns of the two published tables.

Strategy: a test says by a marker which cell it fills (see report.py). A cell means the feature as far as the client
has it; what the client lacks altogether is named here; a cell that neither fills shows as not tried. Knows nothing of
pytest and nothing of how a client is driven.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Feature:
    """One row of the table."""

    group: str
    meaning: str


FEATURES: Final = {
    "produce-acks": Feature("produce", "acknowledgement by none, leader and all"),
    "produce-idempotent": Feature("produce", "idempotent producer"),
    "compression": Feature("produce", "gzip, snappy, lz4, zstd"),
    "headers": Feature("produce", "keys, headers and timestamps"),
    "nulls": Feature("produce", "null keys, null values (tombstones), empty values"),
    "large-records": Feature("produce", "records near the limit of a batch"),
    "produce-errors": Feature("produce", "refusals: record too large, invalid topic"),
    "consume-range": Feature("consume", "assigned partitions, from the beginning and from the end"),
    "seek": Feature("consume", "seek to an offset"),
    "offsets-for-times": Feature("consume", "offsets by time, first and last offsets"),
    "out-of-range": Feature("consume", "an offset that is gone: reset or error"),
    "group-rebalance": Feature("groups", "members join, share and leave"),
    "group-commit": Feature("groups", "commit, metadata of a commit, resume"),
    "group-static": Feature("groups", "static members"),
    "group-cooperative": Feature("groups", "cooperative rebalance"),
    "group-848": Feature("groups", "consumer protocol of KIP-848"),
    "group-share": Feature("groups", "share groups of KIP-932"),
    "group-streams": Feature("groups", "streams groups of KIP-1071"),
    "topics": Feature("admin", "create, list, describe and delete topics"),
    "partitions": Feature("admin", "add partitions"),
    "configs": Feature("admin", "describe and alter configurations"),
    "cluster": Feature("admin", "describe the cluster"),
    "groups-described": Feature("admin", "list and describe groups"),
    "groups-deleted": Feature("admin", "delete groups"),
    "group-offsets": Feature("admin", "list, alter and delete a group's offsets"),
    "delete-records": Feature("admin", "delete records"),
    "list-offsets": Feature("admin", "list offsets as an administrator"),
    "log-dirs": Feature("admin", "describe log directories"),
    "client-quotas": Feature("admin", "alter and describe client quotas"),
    "describe-transactions": Feature("admin", "list and describe transactions and producers"),
    "txn-commit": Feature("transactions", "commit; seen by readers of committed records"),
    "txn-abort": Feature("transactions", "abort; hidden from readers of committed records"),
    "txn-offsets": Feature("transactions", "consume, transform, produce: offsets in the transaction"),
    "txn-fencing": Feature("transactions", "a second producer of the same id fences the first"),
    "tls": Feature("security", "TLS; an expired or unknown server is refused"),
    "mtls": Feature("security", "TLS with a client certificate; an expired, unknown or missing one is refused"),
    "sasl-plain": Feature("security", "SASL PLAIN; a wrong password is refused"),
    "sasl-scram": Feature("security", "SASL SCRAM-SHA-256 and SCRAM-SHA-512; a wrong password is refused"),
    "reauthentication": Feature("security", "authentication again while busy"),
    "acl-errors": Feature("security", "a request that access control lists do not allow is refused as such"),
}
SECURITY: Final = "security"  # the group of features that secured/ fills; the others are tried at a plain node
PLAIN_FEATURES: Final = tuple(name for name, feature in FEATURES.items() if feature.group != SECURITY)

# The second table: what is served besides Kafka's protocol.
SERVICES: Final = {
    "registry-avro": Feature("schema registry", "Avro, written and read by serializers; others read it"),
    "registry-json": Feature("schema registry", "JSON Schema, written and read by serializers"),
    "registry-protobuf": Feature("schema registry", "Protobuf, written and read by serializers"),
    "registry-references": Feature("schema registry", "schemas that refer to others"),
    "registry-refused": Feature("schema registry", "an incompatible schema is refused, with reasons"),
    "registry-managed": Feature("schema registry", "subjects, versions, levels, deletions"),
    "registry-rights": Feature("schema registry", "users; without the right a request is refused"),
    "registry-connect": Feature("schema registry", "a worker of Kafka Connect converts records"),
    "http-produced": Feature("HTTP", "topics are made, records produced and read"),
    "http-groups": Feature("HTTP", "records consumed by a group"),
    "http-rights": Feature("HTTP", "ACLs found, made and deleted"),
    "http-schemas": Feature("HTTP", "records produced with schemas, and read by them"),
    "http-followed": Feature("HTTP", "a topic followed live: server-sent events, WebSocket"),
    "http-followed-schemas": Feature("HTTP", "the same, with values by their schemas"),
    "console-pages": Feature("console", "pages open and are usable"),
}
REGISTRY, HTTP, CONSOLE = "schema registry", "HTTP", "console"
# By column, what there is a client for.
SERVICE_CLIENTS: Final = {
    "confluent-kafka's serializers": (REGISTRY,),
    "Confluent's classes for Java": (REGISTRY,),
    "franz-go, sr": (REGISTRY,),
    "confluent-kafka-go": (REGISTRY,),
    "@kafkajs/confluent-schema-registry": (REGISTRY,),
    "@confluentinc/schemaregistry": (REGISTRY,),
    "curl": (REGISTRY, HTTP),
    "pymapr-kafkarest (REST proxy, v2)": (HTTP,),
    "Chromium": (HTTP, CONSOLE),
    "Firefox": (HTTP, CONSOLE),
}

# Where clients are tried: the keys of their results, and what the page calls the columns of the last two.
ONE_NODE: Final = "cells"
THREE_NODES: Final = "three nodes"
ONE_DOWN: Final = "three nodes, one down"

# The columns. One client in two versions is two clients here.
CLIENTS: Final = (
    "confluent-kafka",
    "aiokafka",
    "kafka-python",
    "kafkajs",
    "franz-go",
    "sarama",
    "Java 4.x",
    "Java 3.x",
    "kcat",
    "Kafka's tools",
    "Spark",
)


def _lacks(client: str, *features: str) -> set[tuple[str, str]]:
    return {(client, feature) for feature in features}


_OTHER_LANGUAGES: Final = ("confluent-kafka", "aiokafka", "kafka-python", "kafkajs", "franz-go", "sarama")
_NO_ADMIN_OF_INTERNALS: Final = ("log-dirs", "client-quotas", "describe-transactions")

# What the client has no call for, as of the version that the suite runs.
NOT_OFFERED: Final = {
    *_lacks("confluent-kafka", *_NO_ADMIN_OF_INTERNALS),
    *_lacks("aiokafka", "group-cooperative", "group-848", "group-share"),
    *_lacks("aiokafka", "groups-deleted", "list-offsets", *_NO_ADMIN_OF_INTERNALS),
    *_lacks("kafka-python", "group-848", "group-share", "client-quotas"),
    *_lacks("kafkajs", "group-static", "group-cooperative", "group-848", "group-share", *_NO_ADMIN_OF_INTERNALS),
    *_lacks("sarama", "group-848", "group-share"),
    *_lacks("kcat", "group-848", "group-share", "txn-abort", "txn-offsets", "txn-fencing", *_NO_ADMIN_OF_INTERNALS),
    *_lacks("kcat", "topics", "partitions", "configs", "groups-described", "groups-deleted", "group-offsets"),
    *_lacks("kcat", "delete-records", "list-offsets"),
    *_lacks("aiokafka", "reauthentication"),
    *_lacks("Java 3.x", "group-share", "group-streams"),
    *((client, "group-streams") for client in (*_OTHER_LANGUAGES, "kcat", "Spark")),
    *_lacks("Kafka's tools", "produce-idempotent", "large-records", "produce-errors", "out-of-range"),
    *_lacks("Kafka's tools", "group-rebalance", "group-static", "group-cooperative", "txn-offsets", "txn-fencing"),
    *_lacks(
        "Spark", "group-rebalance", "group-commit", "group-static", "group-cooperative", "group-848", "group-share"
    ),
    *_lacks("Spark", "topics", "partitions", "configs", "cluster", "groups-described", "groups-deleted"),
    *_lacks("Spark", "group-offsets", "delete-records", "list-offsets", *_NO_ADMIN_OF_INTERNALS),
    *_lacks("Spark", "txn-offsets", "txn-fencing"),
    *((client, "registry-connect") for client in SERVICE_CLIENTS if client != "Confluent's classes for Java"),
    *(
        (client, feature)
        for client, groups in SERVICE_CLIENTS.items()
        for feature, row in SERVICES.items()
        if row.group not in groups
    ),
    *_lacks("curl", "registry-avro", "registry-json", "registry-protobuf"),
    *_lacks("pymapr-kafkarest (REST proxy, v2)", "http-rights", "http-schemas"),
    *_lacks("pymapr-kafkarest (REST proxy, v2)", "http-followed", "http-followed-schemas"),
    *_lacks("Chromium", "http-produced", "http-groups", "http-rights", "http-schemas"),
    *_lacks("Firefox", "http-produced", "http-groups", "http-rights", "http-schemas"),
}


def is_cell(client: str, feature: str) -> bool:
    """Return True if one of the tables has it."""
    return (client in CLIENTS and feature in FEATURES) or (client in SERVICE_CLIENTS and feature in SERVICES)


@dataclass(frozen=True, slots=True)
class Limit:
    """Why a cell fails, and the section of the page that says more."""

    reason: str
    anchor: str


# (client, feature) -> the reason of a failure that is known.
LIMITS: Final[dict[tuple[str, str], Limit]] = {
    ("kcat", "sasl-scram"): Limit(
        "librdkafka before 2.6.1 answers with a nonce that is not the server's, which Kafka refuses too",
        "old-librdkafka-and-scram",
    ),
}
