"""`hutong cluster`: a cluster's nodes and their standing, and one to try on this machine."""

from typing import Annotated

import typer

from hutong.cli.cluster import dev
from hutong.cli.options import DEFAULT_BOOTSTRAP, AsDocument, Bootstrap
from hutong.cli.output import print_json, print_rows

app = typer.Typer(help="Clusters: their nodes, and one to try on this machine.", no_args_is_help=True)
app.add_typer(dev.app, name="dev")


@app.command()
def status(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="List the partitions that lack a replica in sync.")
    ] = False,
    as_json: AsDocument = False,
) -> None:
    """Show the nodes, what each leads and follows, and what lacks replicas."""
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
