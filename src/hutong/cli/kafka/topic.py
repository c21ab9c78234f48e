"""`hutong topic`: list, create, describe, alter, delete."""

from typing import Annotated, Any

import typer

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
    as_json: AsJson = False,
) -> None:
    """List topics with their partitions and the number of records they hold."""
    from hutong.cli.kafka import client

    admin = client.admin(bootstrap)
    topics = client.topics(admin)
    names = sorted(name for name in topics if internal or not name.startswith("__"))
    spans = _spans(admin, [(name, partition) for name in names for partition in topics[name].partitions])
    rows = [
        {
            "topic": name,
            "partitions": len(topics[name].partitions),
            "records": sum(end - start for (topic, _), (start, end) in spans.items() if topic == name),
        }
        for name in names
    ]
    print_rows(rows, ("topic", "partitions", "records"), as_json=as_json)


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
    client.partitions_of(admin, topic)
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


def _spans(admin: Any, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int]]:
    """(topic, partition) → (first offset, next offset)."""
    from confluent_kafka.admin import OffsetSpec

    from hutong.cli.kafka import client

    starts = client.offsets(admin, partitions, OffsetSpec.earliest())
    ends = client.offsets(admin, partitions, OffsetSpec.latest())
    return {partition: (starts[partition], ends[partition]) for partition in partitions}


def _partition_rows(admin: Any, topic: str) -> list[dict[str, Any]]:
    from hutong.cli.kafka import client

    partitions = client.topics(admin)[topic].partitions
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
