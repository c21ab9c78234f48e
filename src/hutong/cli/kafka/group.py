"""`hutong group`: list, describe with lag, reset offsets, delete.

Strategy: a reset shows what it would do and does it only with --execute, since a wrong reset repeats or skips records
for everyone in the group.

Knows nothing of how groups assign partitions.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from hutong.cli.nearest import did_you_mean
from hutong.cli.options import DEFAULT_BOOTSTRAP, AsDocument, AsJson, Bootstrap, GroupName, Yes, group_name, topic_name
from hutong.cli.output import print_json, print_rows, remark
from hutong.foundation.errors import ExitCode, UsageError

app = typer.Typer(help="Consumer groups: list, describe, reset, delete.", no_args_is_help=True)

OFFSET_COLUMNS = ("topic", "partition", "committed", "end", "lag", "member")


@app.command("list")
def list_groups(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """List consumer groups with their protocol, state and lag: the records that they have not committed.

    Share groups and streams groups: kafka-share-groups.sh, kafka-streams-groups.sh, or an admin client.
    """
    from hutong.cli.kafka import client

    admin = client.admin(bootstrap)
    found = sorted(_listed(admin), key=lambda group: group.group_id)
    lags = group_lags(admin, [group.group_id for group in found])
    rows = [
        {
            "group": group.group_id,
            "type": group.type.name.lower(),
            "state": group.state.name.lower(),
            "lag": lags[group.group_id],
        }
        for group in found
    ]
    print_rows(rows, ("group", "type", "state", "lag"), as_json=as_json)


@app.command()
def describe(group: GroupName, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsDocument = False) -> None:
    """Show a group's members, committed offsets and lag."""
    from hutong.cli.kafka import client

    admin = client.admin(bootstrap)
    description = client.result(admin.describe_consumer_groups([group])[group], f"group {group}")
    committed = _committed(admin, group)
    if description.state.name == "DEAD" and not committed:
        near = did_you_mean(group, (one.group_id for one in _listed(admin))) or ";"
        raise UsageError(f"There is no group {group}{near} `hutong group list` shows what there is.", ExitCode.NOINPUT)
    members = [_member_row(member) for member in description.members]
    offsets = _offset_rows(admin, committed, description.members)
    state = description.state.name.lower()
    if as_json:
        print_json({"group": group, "state": state, "members": members, "offsets": offsets})
        return
    lag = sum(row["lag"] or 0 for row in offsets)
    print_rows(offsets, OFFSET_COLUMNS, as_json=False, title=f"Group {group}: {state}, lag {lag:,}")
    print_rows(members, ("member", "client", "host", "partitions"), as_json=False, title="\nMembers")


@app.command()
def reset(
    group: GroupName,
    topic: Annotated[
        str, typer.Option("--topic", "-t", metavar="TOPIC", parser=topic_name, help="Topic whose offsets change.")
    ],
    to: Annotated[str, typer.Option("--to", metavar="POSITION", help="beginning, end, an offset, -N or a time.")],
    partition: Annotated[int | None, typer.Option("--partition", "-p", min=0, help="Only this partition.")] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Do it; without this it is only shown.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Show where a group would continue reading, and with --execute move it there."""
    from hutong.cli.kafka import client
    from hutong.cli.kafka.positions import parse_position, resolve

    position = parse_position(to)
    admin = client.admin(bootstrap)
    wanted = [(topic, number) for number in client.partitions_of(admin, topic, partition)]
    spans = resolve(admin, wanted, position)
    committed = _committed(admin, group)
    rows = [
        {"topic": at[0], "partition": at[1], "from": committed.get(at), "to": span.start, "lag": span.high - span.start}
        for at, span in spans.items()
    ]
    if execute:
        _move(admin, group, {at: span.start for at, span in spans.items()})
    print_rows(rows, ("topic", "partition", "from", "to", "lag"), as_json=as_json)
    remark(f"The group {group} was moved." if execute else "Nothing was changed; repeat with --execute to do it.")


@app.command()
def delete(
    groups: Annotated[list[str], typer.Argument(metavar="GROUP...", parser=group_name, show_default=False)],
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Delete groups that have no members, with their offsets."""
    from hutong.cli.kafka import client
    from hutong.cli.kafka.topic import confirm

    confirm(f"Delete {', '.join(groups)} and the committed offsets?", yes=yes)
    admin = client.admin(bootstrap)  # kept by name: its destruction ends the calls that are under way
    for group, future in admin.delete_consumer_groups(groups).items():
        client.result(future, f"group {group}")


def group_lags(admin: Any, groups: Sequence[str]) -> dict[str, int | None]:
    """Group → records between what it has committed and the ends; None where it has committed nothing."""
    from confluent_kafka.admin import OffsetSpec

    from hutong.cli.kafka import client

    committed = {group: _committed(admin, group) for group in groups}
    wanted = sorted({at for offsets in committed.values() for at in offsets})
    known = client.topics(admin) if wanted else {}
    # What was committed for a topic that was deleted since has no end.
    ends = client.offsets(admin, [at for at in wanted if at[0] in known], OffsetSpec.latest())
    return {
        group: sum(max(0, ends[at] - offset) for at, offset in offsets.items() if at in ends) if offsets else None
        for group, offsets in committed.items()
    }


def _listed(admin: Any) -> Sequence[Any]:
    from hutong.cli.kafka import client

    found: Sequence[Any] = client.result(admin.list_consumer_groups(), "list of groups").valid
    return found


def _committed(admin: Any, group: str) -> dict[tuple[str, int], int]:
    from confluent_kafka import ConsumerGroupTopicPartitions

    from hutong.cli.kafka import client

    futures = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    found = client.result(futures[group], f"group {group}").topic_partitions
    return {(at.topic, at.partition): at.offset for at in found if at.offset >= 0}


def _move(admin: Any, group: str, targets: dict[tuple[str, int], int]) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    from hutong.cli.kafka import client

    partitions = [TopicPartition(topic, number, offset) for (topic, number), offset in targets.items()]
    futures = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, partitions)])
    outcome = client.result(futures[group], f"group {group}")
    for at in outcome.topic_partitions:
        if at.error is not None:
            raise client.failure(at.error, f"group {group}")


def _member_row(member: Any) -> dict[str, Any]:
    partitions = member.assignment.topic_partitions if member.assignment else []
    return {
        "member": member.member_id,
        "client": member.client_id,
        "host": member.host,
        "partitions": sorted(f"{at.topic}/{at.partition}" for at in partitions),
    }


def _offset_rows(admin: Any, committed: dict[tuple[str, int], int], members: list[Any]) -> list[dict[str, Any]]:
    from confluent_kafka.admin import OffsetSpec

    from hutong.cli.kafka import client

    owners = {
        (at.topic, at.partition): member.member_id
        for member in members
        for at in (member.assignment.topic_partitions if member.assignment else [])
    }
    partitions = sorted({*committed, *owners})
    ends = client.offsets(admin, partitions, OffsetSpec.latest())
    return [
        {
            "topic": at[0],
            "partition": at[1],
            "committed": committed.get(at),
            "end": ends[at],
            "lag": ends[at] - committed[at] if at in committed else None,
            "member": owners.get(at),
        }
        for at in partitions
    ]
