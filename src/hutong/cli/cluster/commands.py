"""`hutong cluster`: a cluster's nodes, what operators want of them, and a cluster to try on this machine."""

from typing import Annotated, Final

import typer

from hutong.cli.cluster import dev
from hutong.cli.options import DEFAULT_BOOTSTRAP, AsDocument, Bootstrap, Yes
from hutong.cli.output import print_json, print_rows, remark
from hutong.foundation.errors import ExitCode, UsageError

app = typer.Typer(help="Clusters: their nodes, and one to try on this machine.", no_args_is_help=True)
app.add_typer(dev.app, name="dev")

VERIFY_BYTES_PER_SECOND: Final = 64 * 1024 * 1024
Node = Annotated[int, typer.Argument(metavar="NODE", min=0, show_default=False)]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is done.")]


@app.command()
def status(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="List the partitions that lack a replica in sync.")
    ] = False,
    groups: Annotated[bool, typer.Option("--groups", help="List Hutong's partition groups, by their leaders.")] = False,
    as_json: AsDocument = False,
) -> None:
    """Show the nodes, what each leads and follows, and what lacks replicas."""
    if groups:
        _show_groups(bootstrap, as_json=as_json)
        return
    from hutong.cli.cluster.standing import cluster_standing
    from hutong.cli.kafka import client

    standing = cluster_standing(client.admin(bootstrap))
    if as_json:
        print_json(standing.document())
        return
    if under_replicated:
        print_rows(standing.lacking, ("topic", "partition", "leader", "replicas", "in_sync"), as_json=False)
        return
    columns = ("node", "address", "role", "leads", "follows", "in_sync")
    print_rows(standing.nodes, columns, as_json=False, title=f"Cluster {standing.cluster_id}")
    typer.echo(standing.summary)


@app.command()
def drain(node: Node, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, wait: Wait = True, as_json: AsDocument = False) -> None:
    """Let a node lead nothing, and move its replicas to other nodes: before it is stopped for long."""
    from hutong.cli.cluster.operations import drained

    _show_changed(drained(bootstrap, node, wait=wait), as_json=as_json)


@app.command()
def undrain(node: Node, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsDocument = False) -> None:
    """Let a node that was drained lead and have replicas again."""
    from hutong.cli.cluster.asking import Operator
    from hutong.cluster.controller.commands import UndrainNode

    Operator(bootstrap).ask(UndrainNode(node))
    _say(f"Node {node} may lead and have replicas again; `hutong cluster balance` gives it some.", as_json=as_json)


@app.command()
def add(node: Node, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, wait: Wait = True, as_json: AsDocument = False) -> None:
    """Give a node that has come, or was drained, its share of leaders and replicas."""
    from hutong.cli.cluster.operations import added

    _show_changed(added(bootstrap, node, wait=wait), as_json=as_json)


@app.command()
def remove(node: Node, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsDocument = False) -> None:
    """Drain a node, wait until you have stopped it, and take it out of the cluster for good."""
    from hutong.cli.cluster.operations import removed

    removed(bootstrap, node)
    _say(f"Node {node} is removed.", as_json=as_json)


@app.command()
def balance(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the plan.")] = False,
    wait: Wait = True,
    as_json: AsDocument = False,
) -> None:
    """Even out leaders, replicas and what they hold among the nodes."""
    from hutong.cli.cluster.operations import balanced

    _show_changed(balanced(bootstrap, is_dry_run=dry_run, wait=wait), as_json=as_json)


@app.command()
def move(
    name: Annotated[str, typer.Argument(metavar="GROUP|TOPIC/PARTITION", show_default=False)],
    to: Annotated[str | None, typer.Option("--to", metavar="NODES", help="As 1,2,3; the first one leads.")] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Take back the move that is under way.")] = False,
    throttle: Annotated[
        int | None,
        typer.Option(
            "--throttle",
            metavar="BYTES_PER_SECOND",
            min=1,
            help="What each node of the move copies in a second until it is done, its other copies included.",
            show_default=False,
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    wait: Wait = True,
    as_json: AsDocument = False,
) -> None:
    """Give a partition group other replicas, or one partition, which gets a group of its own for that.

    The same move asked for again has the new throttle, or none.
    """
    from hutong.cli.cluster.operations import moved
    from hutong.cli.cluster.partition_moves import partition_moved, partition_named
    from hutong.cluster.controller.commands import MoveGroup

    if (to is None) != cancel:
        raise UsageError("Say where the group shall be, as --to 1,2,3, or --cancel.")
    if cancel and throttle is not None:
        raise UsageError("A move that is taken back copies nothing: leave out --throttle.")
    # No replicas stand for taking a move back, as in Kafka's AlterPartitionReassignments.
    replicas = _nodes(to) if to is not None else ()
    partition = partition_named(name)
    if partition is None:
        changed = moved(bootstrap, MoveGroup(name, replicas, throttle or 0), wait=wait)
    elif throttle is not None:
        raise UsageError("A partition that moves alone has no throttle: leave out --throttle.")
    else:
        changed = partition_moved(bootstrap, *partition, replicas, wait=wait)
    _show_changed(changed, as_json=as_json)


@app.command()
def elect(
    group: Annotated[str | None, typer.Argument(metavar="[GROUP]", show_default=False)] = None,
    unclean: Annotated[
        int | None,
        typer.Option(
            "--unclean", metavar="NODE", help="Let this replica lead, though it may lack records: they are lost."
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    yes: Yes = False,
    as_json: AsDocument = False,
) -> None:
    """Let the preferred leaders lead now: the first replica of each group."""
    from hutong.cli.cluster.asking import Operator
    from hutong.cluster.controller.commands import ControllerCommand, ElectPreferred, ElectUnclean

    command: ControllerCommand = ElectPreferred(() if group is None else (group,))
    if unclean is not None:
        if group is None:
            raise UsageError("An unclean election is for one group: name it.")
        if not yes:
            typer.confirm(
                f"Records of {group} that node {unclean} lacks are lost for good. Go on?", abort=True, err=True
            )
        command = ElectUnclean(group, unclean)
    _show_changed(Operator(bootstrap).ask(command).groups, as_json=as_json, what="leader")


@app.command()
def verify(
    topics: Annotated[list[str] | None, typer.Option("--topic", metavar="TOPIC", help="Only this one; repeat.")] = None,
    throttle: Annotated[
        int,
        typer.Option("--throttle", metavar="BYTES", min=0, help="Read no more a second, on all nodes; 0: no limit."),
    ] = VERIFY_BYTES_PER_SECOND,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsDocument = False,
) -> None:
    """Check that all replicas in sync hold the same records; producers may go on meanwhile."""
    from hutong.cli.cluster.verification import replicas_in, verify_cluster
    from hutong.cli.kafka import client

    found = list(replicas_in(client.admin(bootstrap)))
    asked = [each for each in found if not topics or each.topic in topics]
    unknown = sorted(set(topics or ()) - {each.topic for each in found})
    if unknown:
        raise UsageError(f"No partition of {', '.join(unknown)} has a leader.", ExitCode.NOINPUT)
    done = verify_cluster(bootstrap, asked, throttle)
    groups, differences = done.group_rows(), done.difference_rows()
    if as_json:
        print_json({"groups": groups, "differences": differences, "read_bytes": done.read_bytes})
    else:
        print_rows(groups, ("group", "partitions", "offsets", "not_in_sync", "differ"), as_json=False)
        if differences:
            columns = ("group", "topic", "partition", "offset", "nodes", "compared_with", "what")
            print_rows(differences, columns, as_json=False, title="Replicas differ from here on")
    if differences:
        raise typer.Exit(ExitCode.DATAERR)
    # What was not compared is not known to be the same.
    if any(row["not_in_sync"] for row in groups):
        remark("Replicas that are not in sync were not compared; `hutong cluster status --groups` shows them.")
        raise typer.Exit(ExitCode.TEMPFAIL)


@app.command()
def forget(node: Node, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, yes: Yes = False, as_json: AsDocument = False) -> None:
    """Take a node that is down and will never come back out of the cluster."""
    from hutong.cli.cluster.asking import Operator
    from hutong.cluster.controller.commands import ForgetNode

    if not yes:
        typer.confirm(f"Node {node} must not come back with its present data. Go on?", abort=True, err=True)
    reply = Operator(bootstrap).ask(ForgetNode(node))
    _show_changed(reply.groups, as_json=as_json)
    remark(f"Node {node} is forgotten.")


def _nodes(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise UsageError(f"--to takes the numbers of nodes, as 1,2,3, and not {text!r}.")
    return tuple(map(int, parts))


def _show_groups(bootstrap: str, *, as_json: bool) -> None:
    from hutong.cli.cluster.operations import group_rows, member_rows, status_of

    found = status_of(bootstrap)
    members, groups = member_rows(found), group_rows(found)
    if as_json:
        print_json({"nodes": members, "groups": groups})
        return
    print_rows(members, tuple(members[0]), as_json=False)
    lagging = [{**each, "lag_bytes": _by_node(each["lag_bytes"])} for each in groups]
    print_rows(
        lagging, ("group", "leader", "epoch", "replicas", "in_sync", "needed", "held_bytes", "lag_bytes"), as_json=False
    )
    moving = [each for each in groups if each["moving_to"] is not None]
    if moving:
        columns = ("group", "replicas", "moving_to", "copied_bytes", "stream_bytes", "throttle")
        print_rows(moving, columns, as_json=False, title="On their way")


def _by_node(lags: dict[int, int]) -> list[str]:
    """The bytes that nodes lack, as 2: 1,024."""
    return [f"{node}: {lag:,}" for node, lag in sorted(lags.items()) if lag]


def _show_changed(groups: dict[str, tuple[int, ...]], *, as_json: bool, what: str = "replicas") -> None:
    if as_json:
        print_json({"groups": groups})
    elif groups:
        rows = [{"group": name, what: nodes} for name, nodes in sorted(groups.items())]
        print_rows(rows, ("group", what), as_json=False)
    else:
        remark("Nothing is left to be changed.")


def _say(sentence: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"groups": {}})
    else:
        typer.echo(sentence)
