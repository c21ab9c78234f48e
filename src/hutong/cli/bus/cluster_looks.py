"""`hutong bus nodes` and `hutong bus addresses`: what ZooKeeper has of a clustered bus.

Knows nothing of ZooKeeper.
"""

from typing import Annotated

import typer

from hutong.cli.bus.cluster_client import look
from hutong.cli.options import AsJson
from hutong.cli.output import print_rows

Cluster = Annotated[
    str, typer.Option("--cluster", metavar="zk://HOST:PORT[,...][/PATH]", help="The ZooKeeper of the cluster.")
]


def nodes(cluster: Cluster, as_json: AsJson = False) -> None:
    """List the nodes of a clustered bus: where others connect to them, and how many consumers they have."""
    found = look(cluster)
    rows = [
        {
            "node": node,
            "address": f"[{info.host}]:{info.port}" if ":" in info.host else f"{info.host}:{info.port}",
            "consumers": sum([counts.get(node, 0) for counts in found.registrations.values()]),
        }
        for node, info in found.nodes.items()
    ]
    print_rows(rows, ("node", "address", "consumers"), as_json=as_json)


def addresses(cluster: Cluster, as_json: AsJson = False) -> None:
    """List the addresses of a clustered bus that somebody listens at, and the nodes that do."""
    rows = [
        {"address": address, "consumers": sum(counts.values()), "nodes": sorted(counts)}
        for address, counts in look(cluster).registrations.items()
    ]
    print_rows(rows, ("address", "consumers", "nodes"), as_json=as_json)
