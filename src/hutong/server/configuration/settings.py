"""Every setting of a node: its default, its bounds, its meaning and the name Kafka gives it.

Strategy: one frozen dataclass per section, in `sections`; the facts are attached to the field, so that the
`loader`, the command `hutong config` and the page docs/configuration.md all read this one table. A setting has one
name in four spellings:

    TOML          [log]  retention_ms = 60000
    environment   HUTONG_LOG_RETENTION_MS=60000
    flag          --set log.retention_ms=60000
    Python        settings.log.retention_ms

Knows nothing of files, the environment or the command line.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from hutong.server.configuration.sections.bus import BridgeSettings, BusSettings, SockjsSettings, TcpBridgeSettings
from hutong.server.configuration.sections.cluster import NodeClusterSettings
from hutong.server.configuration.sections.console import ConsoleSettings
from hutong.server.configuration.sections.facts import Address, Facts
from hutong.server.configuration.sections.groups import NodeGroupSettings, NodeTransactionSettings, OffsetSettings
from hutong.server.configuration.sections.http import HttpSettings
from hutong.server.configuration.sections.log import LogSettings, NodeFetchSettings, TopicSettings
from hutong.server.configuration.sections.network import (
    KafkaSettings,
    MetricsSettings,
    NetworkSettings,
    QuotaSettings,
    TelemetrySettings,
)
from hutong.server.configuration.sections.node import NodeSettings, RuntimeSettings
from hutong.server.configuration.sections.rocketmq import RocketMqSettings
from hutong.server.configuration.sections.schema_registry import SchemaRegistrySettings
from hutong.server.configuration.sections.security import (
    DelegationTokenSettings,
    OauthSettings,
    SaslSettings,
    SecuritySettings,
    TlsSettings,
)
from hutong.server.configuration.sections.share_groups import ShareGroupSettings

__all__ = ["Address", "Setting", "Settings", "all_settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of one node. Made by hand in tests, by `config.load` everywhere else."""

    node: NodeSettings = NodeSettings()
    kafka: KafkaSettings = KafkaSettings()
    cluster: NodeClusterSettings = NodeClusterSettings()
    metrics: MetricsSettings = MetricsSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    network: NetworkSettings = NetworkSettings()
    sasl: SaslSettings = SaslSettings()
    oauth: OauthSettings = OauthSettings()
    delegation_token: DelegationTokenSettings = DelegationTokenSettings()
    security: SecuritySettings = SecuritySettings()
    tls: TlsSettings = TlsSettings()
    topic: TopicSettings = TopicSettings()
    log: LogSettings = LogSettings()
    fetch: NodeFetchSettings = NodeFetchSettings()
    group: NodeGroupSettings = NodeGroupSettings()
    share: ShareGroupSettings = ShareGroupSettings()
    offsets: OffsetSettings = OffsetSettings()
    transaction: NodeTransactionSettings = NodeTransactionSettings()
    quota: QuotaSettings = QuotaSettings()
    rocketmq: RocketMqSettings = RocketMqSettings()
    http: HttpSettings = HttpSettings()
    schema_registry: SchemaRegistrySettings = SchemaRegistrySettings()
    console: ConsoleSettings = ConsoleSettings()
    bus: BusSettings = BusSettings()
    tcp_bridge: TcpBridgeSettings = TcpBridgeSettings()
    sockjs: SockjsSettings = SockjsSettings()
    bridge: BridgeSettings = BridgeSettings()
    runtime: RuntimeSettings = RuntimeSettings()


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table: `name` is `section.key`; `kind` is its type."""

    section: str
    key: str
    kind: Any
    default: Any
    facts: Facts

    @property
    def name(self) -> str:
        return f"{self.section}.{self.key}"

    @property
    def environment_name(self) -> str:
        return f"HUTONG_{self.section}_{self.key}".upper()


def all_settings() -> Iterator[Setting]:
    """Every setting in the order of this file."""
    for section in fields(Settings):
        for entry in fields(section.default):  # type: ignore[arg-type]
            yield Setting(section.name, entry.name, entry.type, entry.default, entry.metadata["facts"])
