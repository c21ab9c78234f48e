"""The cluster that a node belongs to."""

from dataclasses import dataclass
from pathlib import Path

from hutong.server.configuration.sections.facts import INT32_MAX, MINUTE_MS, SECOND_MS, Address, setting


@dataclass(frozen=True, slots=True)
class NodeClusterSettings:
    """Several nodes as one broker. Without `coordinator` a node is alone."""

    coordinator: str | None = setting(
        None,
        "`zk://HOST:PORT,.../PATH`: the ZooKeeper ensemble by which the nodes find each other.",
        "zookeeper.connect",
    )
    coordinator_user: str = setting(
        "", "NAME:PASSWORD of ZooKeeper's digest scheme; it alone may read and change the cluster's data.", secret=True
    )
    coordinator_tls_ca: Path | None = setting(
        None, "PEM file with the authorities of ZooKeeper's certificate; its connections have no TLS without one."
    )
    coordinator_tls_certificate: Path | None = setting(
        None, "PEM file with the certificate that is shown to ZooKeeper, where it asks for one."
    )
    coordinator_tls_key: Path | None = setting(None, "PEM file with its key, where that is not in the same file.")
    listen: Address = setting(Address("127.0.0.1", 0), "HOST:PORT where the other nodes connect.")
    advertised: Address | None = setting(None, "HOST:PORT reported to them, when it is not where the node listens.")
    rack: str | None = setting(None, "Rack of this node; replicas are spread over racks.", "broker.rack")
    secret_file: Path | None = setting(
        None, "File with the secret that all nodes of the cluster share; needed unless all of them are on this machine."
    )
    tls_certificate: Path | None = setting(None, "PEM file with this node's certificate for the other nodes.")
    tls_key: Path | None = setting(None, "PEM file with its key, where that is not in the same file.")
    tls_ca: Path | None = setting(None, "PEM file with the authorities that signed the nodes' certificates.")
    replicas: int = setting(
        3, "Replicas of each partition, as far as there are nodes.", "default.replication.factor", minimum=1, maximum=15
    )
    slots: int = setting(
        3, "Partition groups of each lifetime, over which partitions are dealt; fixed at the founding.",
        minimum=1, maximum=64,
    )  # fmt: skip
    coordinators: int = setting(
        3, "Coordinators of each kind, over which groups and transactions are dealt; fixed at the founding.",
        minimum=1, maximum=64,
    )  # fmt: skip
    min_in_sync: int = setting(
        0, "Replicas that must have a record on disk; 0: the majority.", "min.insync.replicas", minimum=0, maximum=15
    )
    session_timeout_ms: int = setting(
        4 * SECOND_MS, "A node that ZooKeeper has not heard for so long is dead.", "zookeeper.session.timeout.ms",
        minimum=SECOND_MS, maximum=MINUTE_MS,
    )  # fmt: skip
    lag_ms_max: int = setting(
        2 * SECOND_MS, "A replica that has not kept up for so long leaves the in-sync set.", "replica.lag.time.max.ms",
        minimum=100, maximum=INT32_MAX,
    )  # fmt: skip
    copied_bytes_per_second_max: int = setting(
        128 << 20, "Bytes in a second that a node copies for replicas that lack much: from its disk, and whole files.",
        "leader.replication.throttled.rate", minimum=1,
    )  # fmt: skip
    free_bytes_min: int = setting(
        1 << 30, "A node whose disk has less free space gets no new replicas; 0: it always gets some.", minimum=0
    )
    start_timeout_ms: int = setting(
        MINUTE_MS, "How long a starting node waits until it knows the cluster's metadata.", minimum=SECOND_MS
    )
