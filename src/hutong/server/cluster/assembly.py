"""Makes the parts of a cluster's node from its settings: the coordinator's session, the links, their secrets.

Strategy: a file with a secret is read once, at the start. What is wrong with a setting is said before anything is
opened. Nothing of ZooKeeper's client is imported for a coordinator of another kind.

Decides nothing.
"""

import os
import ssl
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from hutong.cluster.coordinator.port import Coordinator
from hutong.cluster.nodes import DiskSpace, HostPort, NodeDescription
from hutong.cluster.peers.figures import PeerFigures
from hutong.cluster.peers.network import PeerTls
from hutong.foundation.clock import Clock
from hutong.foundation.errors import ExitCode, UsageError
from hutong.replication.group_state import PartitionGroupState
from hutong.server.configuration.sections.cluster import NodeClusterSettings
from hutong.server.configuration.sections.facts import Address

SECRET_BYTES_MIN: Final = 16
SECRET_BYTES_MAX: Final = 4_096


def zookeeper_coordinator(settings: NodeClusterSettings, clock: Clock) -> Coordinator:
    """The session with the ensemble that the settings name. Raises UsageError for an address that is none."""
    from hutong.cluster.coordinator.zookeeper.address import parse_zookeeper_address
    from hutong.cluster.coordinator.zookeeper.opening import make_zookeeper_coordinator
    from hutong.cluster.coordinator.zookeeper.settings import ZooKeeperSettings, ZooKeeperTls

    assert settings.coordinator is not None, "a node alone has no coordinator"
    authority, certificate = settings.coordinator_tls_ca, settings.coordinator_tls_certificate
    has_tls = authority is not None or certificate is not None
    return make_zookeeper_coordinator(
        parse_zookeeper_address(settings.coordinator),
        ZooKeeperSettings(
            session_ms=settings.session_timeout_ms,
            user=settings.coordinator_user or None,
            tls=ZooKeeperTls(authority, certificate, settings.coordinator_tls_key) if has_tls else None,
        ),
        clock,
    )


def cluster_secret(path: Path | None) -> bytes | None:
    """The secret in the file, without white space around it. Raises UsageError."""
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            content = file.read(SECRET_BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(
            f"Cannot read the cluster's secret in {path}: {error.strerror}; see cluster.secret_file.", ExitCode.NOINPUT
        ) from None
    secret = content.strip()
    if not SECRET_BYTES_MIN <= len(secret) <= SECRET_BYTES_MAX:
        raise UsageError(
            f"The cluster's secret in {path} has {len(secret)} bytes; write {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX}, "
            "such as the output of `openssl rand -hex 32`.",
            ExitCode.CONFIG,
        )
    return secret


def peer_tls(settings: NodeClusterSettings) -> PeerTls | None:
    """The contexts for links, None where the settings name no certificate. Raises UsageError."""
    certificate, authority = settings.tls_certificate, settings.tls_ca
    if certificate is None:
        return None
    if authority is None:
        raise UsageError(
            "Nodes that show certificates to each other need cluster.tls_ca: the authority that signed them.",
            ExitCode.CONFIG,
        )
    from hutong.reactor.tls.server_contexts import server_context

    server = server_context(certificate, settings.tls_key, authority)
    client = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=os.fspath(authority))
    # A node proves by the handshake of links which node it is; its address may be any.
    client.check_hostname = False
    client.load_cert_chain(certificate, settings.tls_key)
    return PeerTls(server, client)


def description_of(
    settings: NodeClusterSettings,
    listens_at: tuple[str, int],
    listeners: dict[str, Address],
    version: str,
    disk: DiskSpace | None = None,
) -> NodeDescription:
    """The description of a node whose links are accepted there, and whose clients at `listeners`."""
    host, port = listens_at
    # A node that does not listen yet has no address for others.
    if settings.advertised is not None and port:
        host, port = settings.advertised.host, settings.advertised.port or port
    named = {name: HostPort(address.host, address.port) for name, address in listeners.items()}
    return NodeDescription(HostPort(host, port), named, settings.rack, version, disk=disk)


def links_shown(figures: Mapping[int, PeerFigures], forgotten: Collection[int]) -> dict[int, PeerFigures]:
    """The links on the metrics page: a forgotten node never comes back, so no link with it is missing."""
    return {node: each for node, each in figures.items() if each.is_open or node not in forgotten}


def why_not_joined(state: PartitionGroupState | None, folder: Path, timeout_ms: int) -> str:
    """The reason for which a node does not know the metadata, whose `state` it may know."""
    seconds = timeout_ms // 1000
    if state is None:
        return (
            f"The coordinator knows no cluster, but {folder} belongs to one; is it the right --cluster? "
            f"(waited {seconds} s)"
        )
    return (
        f"This node did not get the cluster's metadata within {seconds} s: node {state.leader} leads it, nodes "
        f"{sorted(state.in_sync)} have it; start one of them."
    )
