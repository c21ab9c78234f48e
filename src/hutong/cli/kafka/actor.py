"""`hutong actor`: how consumer groups share reads from disk: list, set, suspend, resume.

Strategy: an actor's priority, quota, suspension and expiry are settings of its group, so Kafka's own tools and rights
work on them as well. The node checks values, and its sentence about a wrong one is shown. Only an expiry that is no
number of milliseconds is refused here.

Knows nothing of how the node shares.
"""

import math
from typing import Annotated, Any

import typer

from hutong.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, GroupName, group_name
from hutong.cli.output import print_rows, remark
from hutong.foundation.errors import UsageError

app = typer.Typer(help="How consumer groups share reads from disk: list, set, suspend, resume.", no_args_is_help=True)

PRIORITY = "hutong.actor.priority"
QUOTA = "hutong.actor.quota.bytes.per.second"
SUSPENDED = "hutong.actor.suspended"
EXPIRY_MS = "hutong.actor.expiry.ms"
COLUMNS = ("group", "priority", "quota", "suspended", "expiry")


@app.command("list")
def list_actors(
    groups: Annotated[
        list[str] | None,
        typer.Argument(metavar="[GROUP...]", parser=group_name, help="Only these groups.", show_default=False),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """List groups with their settings. Quota is in bytes per second (0: no limit), expiry in seconds."""
    from hutong.cli.kafka import client

    admin = client.admin(bootstrap)
    if not groups:
        found = client.result(admin.list_consumer_groups(), "list of groups")
        groups = sorted(group.group_id for group in found.valid)
    print_rows([_row(admin, group) for group in groups], COLUMNS, as_json=as_json)


@app.command("set")
def set_rules(
    group: GroupName,
    priority: Annotated[
        int | None, typer.Option(help="Weight, 1 to 100: a group with 2 gets twice as much as one with 1.")
    ] = None,
    quota: Annotated[int | None, typer.Option(help="Limit in bytes per second for each topic; 0: no limit.")] = None,
    expiry: Annotated[
        float | None, typer.Option(help="Longest time in seconds that a read waits for its turn.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Set a group's priority, quota or expiry. Options that you leave out stay as they are."""
    wanted = {
        PRIORITY: None if priority is None else str(priority),
        QUOTA: None if quota is None else str(quota),
        EXPIRY_MS: None if expiry is None else str(_milliseconds(expiry)),
    }
    # A group keeps what is not named: Kafka's older AlterConfigs would reset it.
    changes = {name: value for name, value in wanted.items() if value is not None}
    if not changes:
        raise UsageError("Nothing to set; name --priority, --quota or --expiry.")
    _alter(group, changes, bootstrap)


@app.command()
def suspend(group: GroupName, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Stop records for a group until it is resumed. Members and offsets stay."""
    _alter(group, {SUSPENDED: "true"}, bootstrap)
    remark(f"The group {group} gets no records until `hutong actor resume {group}`.")


@app.command()
def resume(group: GroupName, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Continue a suspended group from where it was."""
    _alter(group, {SUSPENDED: "false"}, bootstrap)


def _milliseconds(expiry: float) -> int:
    # `float` takes "nan" and "inf", and `round` raises for them.
    if not math.isfinite(expiry) or expiry < 0:
        raise UsageError(f"--expiry {expiry:g} is no time; write seconds, such as 2.5.")
    return round(expiry * 1000)


def _alter(group: str, changes: dict[str, str], bootstrap: str) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

    from hutong.cli.kafka import client

    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in changes.items()]
    resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=entries)
    admin = client.admin(bootstrap)  # kept by name: its destruction ends the calls that are under way
    for future in admin.incremental_alter_configs([resource]).values():
        client.result(future, f"change of group {group}")


def _row(admin: Any, group: str) -> dict[str, Any]:
    from confluent_kafka.admin import ConfigResource

    from hutong.cli.kafka import client

    (future,) = admin.describe_configs([ConfigResource(ConfigResource.Type.GROUP, group)]).values()
    found = {name: entry.value for name, entry in client.result(future, f"settings of group {group}").items()}
    # Kafka describes a group too, with its own settings alone.
    if PRIORITY not in found:
        raise UsageError("This broker has no actors: it is not Hutong, or an older one.")
    return {
        "group": group,
        "priority": int(found[PRIORITY]),
        "quota": int(found[QUOTA]),
        "suspended": found[SUSPENDED] == "true",
        "expiry": int(found[EXPIRY_MS]) / 1000,
    }
