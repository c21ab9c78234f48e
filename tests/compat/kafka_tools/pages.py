"""What is typed at Kafka's command-line tools: one function for each page of commands.

Strategy: a page is run on a Hutong node and on Apache Kafka; what was printed is in NAME.txt beside this file, as Kafka
printed it. Where both rightly print different things the page cuts them (`then`). A word in docs says of each why.
Knows nothing of how commands are run and compared.
"""

import json
import re
from collections.abc import Callable
from typing import Final

from tests.compat.kafka_tools.members import consumer_protocol_member, member, open_transaction
from tests.support.kafka_tools import BROKER, Change, Shell, figures, in_order


def without(*words: str) -> Change:
    """Lines that hold one of the words are left out."""
    return lambda text: "".join(
        line for line in text.splitlines(keepends=True) if not any(word in line for word in words)
    )


def replaced(pattern: str, word: str) -> Change:
    return lambda text: re.sub(pattern, word, text)


_SET_BY_NODE: Final = (replaced(r"(segment\.bytes=134217728|min\.insync\.replicas=1),?", ""), replaced(r",(?=\n)", ""))
"""Kafka's new clusters set the one for all topics, we the other."""


def topics(shell: Shell) -> None:
    """Create, list, describe, alter, delete; and what is refused."""
    orders, missing = shell.name("orders"), shell.name("missing")
    shell("topics", "--create", "--topic", orders, "--partitions", "3", "--config", "retention.ms=60000")
    shell("topics", "--create", "--topic", orders)
    shell("topics", "--create", "--topic", orders, "--if-not-exists")
    shell("topics", "--list", mine=True)
    shell("topics", "--describe", "--topic", orders, then=_SET_BY_NODE)
    shell("topics", "--describe", "--topic", missing)
    shell.whole("topics", "--describe", "--topic", orders, "--under-replicated-partitions")
    shell("topics", "--describe", "--topic", orders, "--unavailable-partitions")
    shell("topics", "--describe", "--topics-with-overrides", mine=True, then=_SET_BY_NODE)
    shell("topics", "--alter", "--topic", orders, "--partitions", "5")
    shell("topics", "--alter", "--topic", orders, "--partitions", "2")
    shell("topics", "--alter", "--topic", missing, "--partitions", "2")
    shell("get-offsets", "--topic", orders)
    shell("topics", "--delete", "--topic", orders)
    shell("topics", "--delete", "--topic", orders)
    shell("topics", "--create", "--topic", "bad name")
    shell.alone("topics", "--create", "--topic", orders, "--replication-factor", "3")
    shell.alone("topics", "--create", "--topic", orders, "--replica-assignment", "1,1")
    shell.alone("topics", "--describe", "--topic", orders, then=_SET_BY_NODE)
    shell("topics", "--create", "--topic", missing, "--config", "nonsense=1")
    shell("topics", "--create", "--topic", missing, "--config", "retention.ms=soon")
    shell("topics", "--create", "--topic", missing, "--config", "cleanup.policy=burn")


def console(shell: Shell) -> None:
    """Producer and consumer at the console; offsets."""
    orders = shell.name("orders")
    shell("topics", "--create", "--topic", orders, "--partitions", "2")
    typed = "a:1\nb:2\nc:3\nd:4\ne:5\n"
    parsed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    shell("console-producer", "--topic", orders, *parsed, given=typed)
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        shell("console-producer", "--topic", orders, "--compression-codec", codec, *parsed, given=typed)
    shown = ("--formatter-property", "print.key=true", "--formatter-property", "print.partition=true")
    everything = ("--topic", orders, "--from-beginning", "--max-messages", "25")
    shell("console-consumer", *everything, *shown, then=[in_order])
    one = ("--topic", orders, "--partition", "0", "--offset", "1", "--max-messages", "2")
    shell("console-consumer", *one, "--formatter-property", "print.offset=true")
    shell("get-offsets", "--topic", orders)
    shell("get-offsets", "--topic-partitions", f"{orders}:0", "--time", "earliest")
    shell("get-offsets", "--topic", orders, "--time", "max-timestamp", then=[figures])
    shell("get-offsets", "--topic", orders, "--time", "0")
    shell("get-offsets", "--topic", shell.name("missing"))
    headed = "h:1\tk:v\n"
    header = ("--reader-property", "parse.headers=true", "--reader-property", "headers.delimiter=\t")
    shell("console-producer", "--topic", orders, *header, "--reader-property", "parse.key=false", given=headed)
    shell("console-producer", "--topic", orders, "--sync", "--request-required-acks", "0", given="last\n")
    nulls, none = shell.name("nulls"), ("--reader-property", "null.marker=NONE")
    shell("topics", "--create", "--topic", nulls)
    shell("console-producer", "--topic", nulls, *parsed, *none, given="k:NONE\nNONE:v\nk:\n")
    shell("console-consumer", "--topic", nulls, "--from-beginning", "--max-messages", "3", *shown)


def classic_groups(shell: Shell) -> None:
    """A classic group that is empty, then one with a member: list, describe, reset, delete."""
    orders, group, missing = shell.name("orders"), shell.name("group"), shell.name("missing")
    shell("topics", "--create", "--topic", orders, "--partitions", "2")
    shell("console-producer", "--topic", orders, given="".join(f"{number}\n" for number in range(20)))
    shell("delete-records", "--offset-json-file", shell.file("all", _records(orders, {0: -1, 1: -1})), then=[figures])
    shell("producer-perf", "--topic", orders, *_load(40), then=[figures])
    # It ends by its patience: after so many messages it might not have got to the partition that is empty.
    taken = ("--topic", orders, "--group", group, "--from-beginning", "--timeout-ms", "3000")
    shell("console-consumer", *taken, then=[lambda _: ""])
    for option in ((), ("--state",), ("--type",), ("--state", "Empty"), ("--state", "Stable"), ("--type", "consumer")):
        shell("consumer-groups", "--list", *option, mine=True)
    shell("groups", "--list", mine=True)
    shell("groups", "--list", "--protocol", "consumer", mine=True)
    _describe(shell, "consumer-groups", group, [figures, in_order])
    for option in ((), ("--state",), ("--members",)):
        shell("consumer-groups", "--describe", "--group", missing, *option)
    reset = ("--reset-offsets", "--group", group, "--topic", orders)
    for target in (
        ("--to-earliest", "--dry-run"),
        ("--shift-by", "-1", "--execute"),
        ("--to-latest", "--execute"),
        ("--to-datetime", "2020-01-01T00:00:00.000", "--execute"),
        ("--by-duration", "PT1H", "--execute"),
        ("--to-current", "--execute", "--export"),
        ("--to-offset", "1000000", "--execute"),
    ):
        shell("consumer-groups", *reset, *target, then=[figures, in_order])
    one = ("--reset-offsets", "--group", group, "--topic", f"{orders}:1")
    shell("consumer-groups", *one, "--to-earliest", "--execute", then=[figures])
    with member(shell.bootstrap, orders, group):
        _describe(shell, "consumer-groups", group, [figures, in_order])
        shell("consumer-groups", *reset, "--to-earliest", "--execute")
        shell("consumer-groups", "--delete", "--group", group)
        shell("consumer-groups", "--delete-offsets", "--group", group, "--topic", orders)
    shell("consumer-groups", "--delete-offsets", "--group", group, "--topic", orders)
    shell("consumer-groups", "--delete-offsets", "--group", group, "--topic", missing)
    shell("consumer-groups", "--delete", "--group", group)
    shell("consumer-groups", "--delete", "--group", group)
    shell("consumer-groups", "--list", mine=True)


def consumer_groups(shell: Shell) -> None:
    """A group of the consumer protocol (KIP-848) with a member, then without."""
    orders, group = shell.name("orders"), shell.name("group")
    shell("topics", "--create", "--topic", orders, "--partitions", "2")
    shell("console-producer", "--topic", orders, given="1\n2\n3\n")
    with consumer_protocol_member(shell.bootstrap, orders, group):
        shell("consumer-groups", "--list", "--state", mine=True)
        shell("consumer-groups", "--list", "--type", mine=True)
        shell("groups", "--list", mine=True)
        _describe(shell, "consumer-groups", group, [figures, in_order])
        shell("consumer-groups", "--delete", "--group", group)
    _describe(shell, "consumer-groups", group, [figures, in_order])
    shell("consumer-groups", "--delete", "--group", group)


def configs(shell: Shell) -> None:
    """Settings of topics, brokers and groups."""
    orders, group, missing = shell.name("orders"), shell.name("group"), shell.name("missing")
    topic = ("--entity-type", "topics", "--entity-name", orders)
    shell("topics", "--create", "--topic", orders)
    shell("configs", "--describe", *topic)
    shell("configs", "--alter", *topic, "--add-config", "retention.ms=1000,cleanup.policy=[compact,delete]")
    shell("configs", "--describe", *topic)
    shell("configs", "--alter", *topic, "--delete-config", "retention.ms")
    shell("configs", "--alter", *topic, "--delete-config", "retention.ms")
    shell("configs", "--alter", *topic, "--add-config", "nonsense=1")
    shell("configs", "--alter", *topic, "--add-config", "segment.ms=soon")
    shell("configs", "--alter", "--entity-type", "topics", "--entity-name", missing, "--add-config", "retention.ms=1")
    others = without("hutong.", "confluent.", "segment.bytes", "min.insync")
    shell("configs", "--describe", *topic, "--all", then=[others, in_order])
    shell("configs", "--describe", "--entity-type", "topics", "--entity-name", missing)
    shell("configs", "--describe", "--entity-type", "topics", mine=True)
    broker = ("--entity-type", "brokers", "--entity-name", BROKER)
    shell("configs", "--describe", *broker, then=[without("min.insync.replicas")])
    shell("configs", "--alter", *broker, "--add-config", "broker.id=3")
    for which in (broker, ("--entity-type", "brokers", "--entity-default")):
        shell("configs", "--alter", *which, "--add-config", "log.index.interval.bytes=8192")
        shell("configs", "--alter", *which, "--delete-config", "log.index.interval.bytes")
    metrics = ("--entity-type", "client-metrics", "--entity-name", shell.name("metrics"))
    shell("configs", "--alter", *metrics, "--add-config", "interval.ms=1000,metrics=[a,b]")
    shell("configs", "--describe", *metrics)
    shell("client-metrics", "--list", mine=True)
    shell("configs", "--alter", *metrics, "--delete-config", "interval.ms,metrics")
    shell("configs", "--describe", *metrics)
    shell("configs", "--describe", "--entity-type", "brokers", "--entity-name", "7")
    groups = ("--entity-type", "groups", "--entity-name", group)
    shell("configs", "--alter", *groups, "--add-config", "consumer.session.timeout.ms=50000")
    shell("configs", "--describe", *groups)
    shell("configs", "--alter", *groups, "--add-config", "consumer.session.timeout.ms=1")
    shell("configs", "--alter", *groups, "--delete-config", "consumer.session.timeout.ms")
    shell("configs", "--describe", *groups)


def quotas(shell: Shell) -> None:
    """Quotas of users, clients and both; credentials."""
    user, client = shell.name("ann"), shell.name("app")
    ann = ("--entity-type", "users", "--entity-name", user)
    app = ("--entity-type", "clients", "--entity-name", client)
    shell("configs", "--alter", *ann, "--add-config", "producer_byte_rate=1024,consumer_byte_rate=2048")
    shell("configs", "--alter", *ann, *app, "--add-config", "request_percentage=50")
    shell("configs", "--alter", *app, "--add-config", "controller_mutation_rate=2.5")
    shell("configs", "--describe", *ann)
    shell("configs", "--describe", *ann, "--entity-type", "clients")
    shell("configs", "--describe", *ann, *app)
    shell("configs", "--describe", *app)
    shell("configs", "--describe", "--entity-type", "users", mine=True)
    shell("configs", "--describe", "--entity-type", "clients", mine=True)
    shell("configs", "--alter", *ann, "--delete-config", "producer_byte_rate")
    shell("configs", "--describe", *ann)
    shell("configs", "--alter", *ann, "--delete-config", "consumer_byte_rate")
    shell("configs", "--alter", *ann, *app, "--delete-config", "request_percentage")
    shell("configs", "--alter", *app, "--delete-config", "controller_mutation_rate")
    shell("configs", "--describe", *ann)
    address = ("--entity-type", "ips", "--entity-name", "10.1.2.3")
    shell("configs", "--alter", *address, "--add-config", "connection_creation_rate=10")
    shell("configs", "--describe", *address)
    shell("configs", "--alter", *address, "--delete-config", "connection_creation_rate")
    shell("configs", "--describe", *address)


def load(shell: Shell) -> None:
    """The tools that measure and those that verify."""
    orders, verified = shell.name("orders"), shell.name("verified")
    shell("topics", "--create", "--topic", orders, "--partitions", "1")
    shell("topics", "--create", "--topic", verified, "--partitions", "1")
    shell("producer-perf", "--topic", orders, *_load(1000), then=[figures])
    shell("consumer-perf", "--topic", orders, "--num-records", "1000", "--timeout", "20000", then=[figures])
    latency = ("--num-records", "20", "--producer-acks", "all", "--record-size", "100")
    shell("e2e-latency", "--topic", orders, *latency, then=[figures])
    shell("get-offsets", "--topic", orders)
    whole = ("--transactional-id", shell.name("load"), "--transaction-duration-ms", "20")
    shell("producer-perf", "--topic", orders, *_load(100), *whole, then=[figures])
    committed = ("--isolation-level", "read_committed", "--from-beginning", "--max-messages", "1120")
    shell("console-consumer", "--topic", orders, *committed, then=[lambda text: text[text.find("! ") :]])
    sent = ("--topic", verified, "--max-messages", "3", "--throughput", "-1")
    shell("verifiable-producer", *sent, then=[_events])
    read = ("--topic", verified, "--max-messages", "3", "--reset-policy", "earliest", "--group-id", shell.name("group"))
    shell("verifiable-consumer", *read, then=[_events])
    shell("get-offsets", "--topic", verified)


def partitions(shell: Shell) -> None:
    """Records deleted, logs described, leaders elected, replicas assigned."""
    orders, missing = shell.name("orders"), shell.name("missing")
    shell("topics", "--create", "--topic", orders, "--partitions", "1")
    shell("producer-perf", "--topic", orders, *_load(100), then=[figures])
    shell("delete-records", "--offset-json-file", shell.file("some", _records(orders, {0: 10})))
    shell("get-offsets", "--topic", orders, "--time", "earliest")
    shell("delete-records", "--offset-json-file", shell.file("beyond", _records(orders, {0: 1000000})))
    where = [replaced(r'"log(Dir|_dirs)":(\[?)"[^"]*"', r'"log\1":\2"LOGS"'), replaced(r'"size":\d+', '"size":N')]
    shell("log-dirs", "--describe", "--topic-list", orders, then=where)
    shell("log-dirs", "--describe", "--topic-list", missing, then=where)
    for kind in ("preferred", "unclean"):
        shell.whole("leader-election", "--election-type", kind, "--topic", orders, "--partition", "0")
    shell("leader-election", "--election-type", "preferred", "--topic", missing, "--partition", "0")
    moved = shell.file("topics", json.dumps({"topics": [{"topic": orders}], "version": 1}))
    here, there = shell.file("here", _replicas(orders, [1])), shell.file("there", _replicas(orders, [2]))
    shell.alone(
        "reassign-partitions", "--topics-to-move-json-file", moved, "--broker-list", "1", "--generate", then=where
    )
    shell.alone("reassign-partitions", "--reassignment-json-file", here, "--execute", then=where)
    shell.alone("reassign-partitions", "--reassignment-json-file", here, "--verify")
    shell.alone("reassign-partitions", "--reassignment-json-file", here, "--cancel")
    shell.alone("reassign-partitions", "--reassignment-json-file", there, "--execute")
    shell("reassign-partitions", "--list")


def cluster(shell: Shell) -> None:
    """The cluster, its features and versions; what is off on a broker without an authorizer."""
    shell("cluster", "cluster-id")
    shell("cluster", "list-endpoints", then=[replaced(r"HOST \d+", "HOST PORT")])
    shell("cluster", "unregister", "--id", "7")
    shell("broker-api-versions", then=[without("Raft", "ShareGroupState")])
    shell("features", "describe", then=[replaced(r"Epoch: \d+", "Epoch: N")])
    why = [replaced("(Could not upgrade nonsense to 1.) .*", r"\1 REASON")]
    shell("features", "upgrade", "--feature", "nonsense=1", then=why)
    status = [figures, replaced("ClusterId: .*", "ClusterId: ID"), replaced('CONTROLLER://[^"]*', "ADDRESS")]
    shell("metadata-quorum", "describe", "--status", then=status)
    shell("streams-groups", "--list")
    shell("acls", "--list")
    shell("acls", "--add", "--allow-principal", "User:ann", "--operation", "Read", "--topic", "orders")
    shell("delegation-tokens", "--describe")
    shell("client-metrics", "--list")


def transactions(shell: Shell) -> None:
    """Transactions listed, described, found hanging and aborted."""
    orders, name = shell.name("orders"), shell.name("transaction")
    given = ("--topic", orders, "--partition", "0")
    shell("topics", "--create", "--topic", orders, "--partitions", "1")
    shell("transactions", "describe", "--transactional-id", shell.name("missing"))
    shell("transactions", "describe-producers", *given)
    with open_transaction(shell.bootstrap, orders, name) as producer:
        shell("transactions", "list", mine=True, then=[_transactions])
        shell("transactions", "list", "--transactional-id-pattern", f"{name}.*", mine=True, then=[_transactions])
        shell("transactions", "describe", "--transactional-id", name, then=[figures])
        shell("transactions", "describe-producers", *given, then=[_producers])
        shell("transactions", "find-hanging", "--broker-id", BROKER, mine=True)
        producer.commit_transaction()
        committed = ("--offset", "earliest", "--isolation-level", "read_committed", "--max-messages", "1")
        shell("console-consumer", *given, *committed)
        shell("transactions", "list", mine=True, then=[_transactions])
        shell("transactions", "describe-producers", *given, then=[_producers])
    shell("transactions", "abort", *given, "--start-offset", "1")
    with open_transaction(shell.bootstrap, orders, shell.name("hanging")):
        shell("transactions", "abort", *given, "--start-offset", "2")
        shell("transactions", "describe-producers", *given, then=[_producers, in_order])
    shell("transactions", "forceTerminateTransaction", "--transactionalId", name)
    shell("get-offsets", "--topic", orders)


def share_groups(shell: Shell) -> None:
    """A share group: read, list, describe, reset, delete."""
    orders, group = shell.name("orders"), shell.name("group")
    shell("topics", "--create", "--topic", orders, "--partitions", "1")
    shell(
        "configs",
        "--alter",
        "--entity-type",
        "groups",
        "--entity-name",
        group,
        "--add-config",
        "share.auto.offset.reset=earliest",
    )
    shell("console-producer", "--topic", orders, given="1\n2\n3\n")
    shell("console-share-consumer", "--topic", orders, "--group", group, "--max-messages", "3")
    shell("share-groups", "--list", mine=True)
    shell("share-groups", "--list", "--state", mine=True)
    shell("groups", "--list", mine=True)
    _describe(shell, "share-groups", group, [figures])
    shell("share-groups", "--describe", "--group", shell.name("missing"))
    reset = ("--reset-offsets", "--group", group, "--topic", orders)
    shell("share-groups", *reset, "--to-earliest", "--dry-run")
    shell("share-groups", *reset, "--to-earliest", "--execute")
    shell("share-groups", "--describe", "--group", group, "--offsets")
    shell("share-groups", "--delete-offsets", "--group", group, "--topic", orders)
    shell("share-groups", "--delete", "--group", group)
    shell("share-groups", "--list", mine=True)


def _load(records: int) -> tuple[str, ...]:
    return ("--num-records", str(records), "--record-size", "100", "--throughput", "-1")


def _records(topic: str, offsets: dict[int, int]) -> str:
    named = [{"topic": topic, "partition": partition, "offset": offset} for partition, offset in offsets.items()]
    return json.dumps({"partitions": named, "version": 1})


def _replicas(topic: str, replicas: list[int]) -> str:
    return json.dumps({"partitions": [{"topic": topic, "partition": 0, "replicas": replicas}], "version": 1})


def _describe(shell: Shell, tool: str, group: str, then: list[Change]) -> None:
    for option in (("--offsets",), ("--state",), ("--members",)):
        shell(tool, "--describe", "--group", group, *option, then=then)
        shell(tool, "--describe", "--group", group, *option, "--verbose", then=then)


def _events(text: str) -> str:
    """Events of the verifying tools, whose order among those of one moment and whose fields' order mean nothing."""
    events = [json.loads(line) for line in text.splitlines()]
    for event in events:
        event.update({name: "N" for name in event if name == "timestamp" or "throughput" in name})
    return in_order("".join(json.dumps(event, sort_keys=True) + "\n" for event in events))


def _transactions(text: str) -> str:
    """Coordinator, producer id, state: the id is anybody's, and who commits does not wait for the markers."""
    return re.sub(r"(?m)^(transaction \d+) \d+", r"\1 ID", re.sub("(Prepare|Complete)Commit", "Commit", text))


def _producers(text: str) -> str:
    """ProducerId first, then its epoch, its last sequence and time, the coordinator's epoch, the first offset."""
    return re.sub(r"(?m)^\d+ (\d+ .*?) \d{13} ", r"ID \1 TIME ", text)


PAGES: Final[tuple[Callable[[Shell], None], ...]] = (
    topics,
    console,
    classic_groups,
    consumer_groups,
    configs,
    quotas,
    load,
    partitions,
    cluster,
    transactions,
    share_groups,
)
