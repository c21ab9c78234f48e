"""`hutong topic`: list, create, describe, alter, delete.

Strategy: a rate is the difference of two looks at the end offsets, so that it can be had of every broker and costs it
nothing in between. A setting that the broker does not know is compared with those of Hutong.

Knows nothing of connections: `client` and `sizes` do.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from hutong.cli.nearest import did_you_mean
from hutong.cli.options import DEFAULT_BOOTSTRAP, AsDocument, AsJson, Bootstrap, TopicName, Yes, assigned, topic_name
from hutong.cli.output import print_json, print_rows, remark
from hutong.foundation.errors import ExitCode, UsageError

app = typer.Typer(help="Topics: list, create, describe, alter, delete.", no_args_is_help=True)

Configs = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="NAME=VALUE", help="Setting of the topic, such as retention.ms=60000."),
]


@app.command("list")
def list_topics(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    internal: Annotated[bool, typer.Option("--internal", help="Include internal topics.")] = False,
    rates_s: Annotated[
        float | None,
        typer.Option("--rates", metavar="SECONDS", min=0.001, max=3600, help="Count new records for so long."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List topics with their partitions, and the records and bytes they hold; with --rates also records a second.

    Bytes are those of one copy of the topic.
    """
    from hutong.cli.kafka import client
    from hutong.cli.kafka.sizes import topic_bytes

    admin = client.admin(bootstrap)
    topics = client.topics(admin)
    if internal:
        topics = client.with_internal(admin, topics)
    names = sorted(name for name in topics if internal or not name.startswith("__"))
    partitions = [(name, partition) for name in names for partition in topics[name].partitions]
    spans = _spans(admin, partitions)
    sizes = topic_bytes(bootstrap) if names else {}
    if isinstance(sizes, str):
        remark(f"No sizes: {sizes}")
        sizes = {}
    records = _sums({at: end - start for at, (start, end) in spans.items()})
    columns = ["topic", "partitions", "records", "bytes"]
    rows: list[dict[str, Any]] = [
        {"topic": name, "partitions": len(topics[name].partitions), "records": records[name], "bytes": sizes.get(name)}
        for name in names
    ]
    if rates_s is not None:
        columns.append("records_per_second")
        rates = _rates(admin, {at: end for at, (_, end) in spans.items()}, rates_s)
        rows = [{**row, "records_per_second": rates[row["topic"]]} for row in rows]
    print_rows(rows, columns, as_json=as_json)


@app.command()
def create(
    topic: TopicName,
    partitions: Annotated[int, typer.Option("--partitions", "-p", min=1, help="Number of partitions.")] = 1,
    configs: Configs = None,
    if_absent: Annotated[bool, typer.Option("--if-absent", help="Succeed when the topic exists already.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Create a topic."""
    from confluent_kafka.admin import NewTopic

    from hutong.cli.kafka import client

    wanted = NewTopic(topic, partitions, 1, config=dict(assigned("--config", configs)))
    admin = client.admin(bootstrap)
    try:
        with _advice_on(name for name, _ in assigned("--config", configs)):
            client.result(admin.create_topics([wanted])[topic], f"topic {topic}")
    except UsageError as error:
        if not (if_absent and error.exit_code == ExitCode.CANTCREAT):
            raise
        remark(f"The topic {topic} exists already.")


@app.command()
def describe(topic: TopicName, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsDocument = False) -> None:
    """Show a topic's partitions, offsets and settings."""
    from hutong.cli.kafka import client

    admin = client.admin(bootstrap)
    partitions = _partition_rows(admin, topic)
    configs = _config_rows(admin, topic)
    if as_json:
        print_json({"topic": topic, "partitions": partitions, "configs": configs})
        return
    print_rows(partitions, tuple(partitions[0]), as_json=False, title=f"Topic {topic}")
    print_rows(configs, ("config", "value", "source"), as_json=False, title="\nSettings")


@app.command()
def alter(
    topic: TopicName,
    configs: Configs = None,
    unset: Annotated[list[str] | None, typer.Option("--unset", metavar="NAME", help="Back to the default.")] = None,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", min=1, help="Raise the number to this.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Change a topic's settings or raise its number of partitions."""
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, ResourceType

    from hutong.cli.kafka import client

    changes = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in assigned("--config", configs)
    ]
    changes += [ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE) for name in unset or []]
    if not changes and partitions is None:
        raise UsageError("Nothing to change; give --config, --unset or --partitions.")
    admin = client.admin(bootstrap)
    client.partitions_of(admin, topic)
    if changes:
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)
        with _advice_on(change.name for change in changes):
            client.result(admin.incremental_alter_configs([resource])[resource], f"topic {topic}")
    if partitions is not None:
        client.result(admin.create_partitions([NewPartitions(topic, partitions)])[topic], f"topic {topic}")


@app.command()
def delete(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...", parser=topic_name, show_default=False)],
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Delete topics and all their records."""
    from hutong.cli.kafka import client

    confirm(f"Delete {', '.join(topics)} and all records?", yes=yes)
    admin = client.admin(bootstrap)  # kept by name: its destruction ends the calls that are under way
    known = client.topics(admin)
    # Before any is deleted: one misspelt name must not leave half of the work done.
    for topic in topics:
        if topic not in known:
            raise client.missing_topic(topic, known)
    for topic, future in admin.delete_topics(topics).items():
        client.result(future, f"topic {topic}")


def confirm(question: str, *, yes: bool) -> None:
    """Ask, unless `yes`. Raises UsageError where nobody can be asked, and typer.Abort for a no."""
    import sys

    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("This cannot be undone; repeat the command with --yes.")
    typer.confirm(question, abort=True, err=True)


@contextmanager
def _advice_on(names: Iterable[str]) -> Iterator[None]:
    """Add the nearest setting to the refusal of one that the broker does not know."""
    given = list(names)
    try:
        yield
    except UsageError as error:
        from hutong.broker.topics.topic_config import KEYS

        unknown = [name for name in given if name not in KEYS and name in str(error)]
        near = did_you_mean(unknown[0], KEYS) if unknown else ""
        if not near:
            raise
        raise UsageError(f"{str(error).rstrip('.')}{near}", error.exit_code) from None


def _sums(by_partition: dict[tuple[str, int], int]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for (topic, _), count in by_partition.items():
        sums[topic] = sums.get(topic, 0) + count
    return sums


def _rates(admin: Any, before: dict[tuple[str, int], int], seconds: float) -> dict[str, float]:
    """The records a second of each topic, measured from now on for this number of seconds."""
    from confluent_kafka.admin import OffsetSpec

    from hutong.cli.kafka import client

    # The time of the first look is not known to the millisecond, so it is repeated.
    before = client.offsets(admin, before, OffsetSpec.latest())
    started = time.monotonic()
    time.sleep(seconds)
    after = client.offsets(admin, before, OffsetSpec.latest())
    elapsed = time.monotonic() - started
    new = _sums({at: end - before[at] for at, end in after.items()})
    return {topic: round(count / elapsed, 1) for topic, count in new.items()}


def _spans(admin: Any, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int]]:
    """(topic, partition) → (first offset, next offset)."""
    from confluent_kafka.admin import OffsetSpec

    from hutong.cli.kafka import client

    starts = client.offsets(admin, partitions, OffsetSpec.earliest())
    ends = client.offsets(admin, partitions, OffsetSpec.latest())
    return {partition: (starts[partition], ends[partition]) for partition in partitions}


def _partition_rows(admin: Any, topic: str) -> list[dict[str, Any]]:
    from hutong.cli.kafka import client

    partitions = client.topic_metadata(admin, topic).partitions
    spans = _spans(admin, [(topic, number) for number in partitions])
    return [
        {
            "partition": number,
            "leader": partitions[number].leader,
            "replicas": list(partitions[number].replicas),
            "in_sync": list(partitions[number].isrs),
            "start_offset": spans[topic, number][0],
            "end_offset": spans[topic, number][1],
        }
        for number in sorted(partitions)
    ]


def _config_rows(admin: Any, topic: str) -> list[dict[str, Any]]:
    from confluent_kafka.admin import ConfigResource, ResourceType

    from hutong.cli.kafka import client

    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries = client.result(admin.describe_configs([resource])[resource], f"topic {topic}")
    return [
        {"config": entry.name, "value": entry.value, "source": _source(entry)}
        for entry in sorted(entries.values(), key=lambda entry: entry.name)
    ]


def _source(entry: Any) -> str:
    """The origin of a config: the topic, the node's settings, or the default."""
    from confluent_kafka.admin import ConfigSource

    if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value:
        return "topic"
    return "default" if entry.source == ConfigSource.DEFAULT_CONFIG.value else "node"
