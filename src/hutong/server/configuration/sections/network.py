"""Listeners of the node, and the bounds of connections."""

from dataclasses import dataclass
from pathlib import Path

from hutong.server.configuration.sections.facts import (
    INT32_MAX,
    INT64_MAX,
    KIBIBYTE,
    MEBIBYTE,
    MINUTE_MS,
    SECOND_MS,
    Address,
    setting,
)


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """The listeners that Kafka clients use."""

    listen: Address = setting(Address("127.0.0.1", 9092), "HOST:PORT where Kafka clients connect.", "listeners")
    advertised: Address | None = setting(
        None, "HOST:PORT reported to clients, when it is not where the node listens.", "advertised.listeners"
    )
    protocol: str = setting(
        "PLAINTEXT", "What is spoken at `kafka.listen`.", choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
    )
    listeners: tuple[str, ...] = setting(
        (), "Several listeners in the place of `kafka.listen`, as `SASL_SSL://0.0.0.0:9093`."
    )
    advertised_listeners: tuple[str, ...] = setting((), "What the clients of each connect to, in the same form.")
    listener_protocols: tuple[str, ...] = setting(
        (), "Protocols of listeners that are named otherwise, as `INTERNAL:SSL`.", "listener.security.protocol.map"
    )
    tracing: bool = setting(
        False,
        "Whether Produce and Fetch requests are spans, sent where OpenTelemetry's variables say (docs/tracing.md; "
        "extra tracing).",
    )


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """The HTTP listener for metrics and health."""

    listen: Address | None = setting(
        None, "HOST:PORT of `/metrics`, `/healthz` and `/readyz`; nothing is served where it is not set."
    )
    tls_certificate: Path | None = setting(
        None, "PEM file with the certificate (chain) that is shown; plain HTTP where it is not set."
    )
    tls_key: Path | None = setting(None, "PEM file with its key, where that is not in the same file.")
    tls_client_ca: Path | None = setting(
        None, "PEM file with the authorities one of which must have signed a scraper's certificate."
    )
    tls_crl: Path | None = setting(None, "Revocation lists for scrapers' certificates, as in `tls.crl`.")
    user: str = setting("prometheus", "Who may read `/metrics`, where `metrics.password` is set.")
    password: str = setting("", "Password of HTTP's Basic scheme; empty: everybody may read `/metrics`.", secret=True)
    detail: str = setting(
        "brief", "What `/metrics` shows; `/metrics?detail=full` shows all in any case.", choices=("brief", "full")
    )
    max_topics: int = setting(
        1000,
        "Topics shown singly on `/metrics`, those known longest; the others are summed as the topic `(other)`.",
        minimum=0,
        maximum=100_000,
    )
    max_partitions: int = setting(
        10_000,
        "Partitions shown singly; a topic that would exceed this is shown as one partition `(other)`.",
        minimum=0,
        maximum=100_000,
    )
    max_groups: int = setting(
        1000, "Groups shown singly, of consumers as of share groups; the others are summed as `(other)`.",
        minimum=0, maximum=100_000,
    )  # fmt: skip
    max_group_partitions: int = setting(
        10_000,
        "Partitions shown singly of all groups together; what would exceed this is summed for each group.",
        minimum=0,
        maximum=100_000,
    )


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    """Metrics that Kafka clients push. Without an endpoint no client is asked for any."""

    endpoint: str = setting(
        "", "URL of a collector's OTLP/HTTP receiver for metrics, such as http://127.0.0.1:4318/v1/metrics."
    )
    ca: Path | None = setting(
        None, "PEM file with the authorities of that URL's certificate; without it the system's own."
    )
    max_bytes: int = setting(
        1 * MEBIBYTE,
        "Largest push of a client, as it comes; unpacked it may have eight times that.",
        "telemetry.max.bytes",
        minimum=KIBIBYTE,
        maximum=4 * MEBIBYTE,
    )


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """Bounds of connections."""

    max_connections: int = setting(
        20_000,
        "Open connections in total; further ones wait until another goes.",
        "max.connections",
        minimum=1,
        maximum=INT32_MAX,
    )
    max_connections_per_ip: int = setting(
        12_000,
        "Open connections from one address; further ones are closed.",
        "max.connections.per.ip",
        minimum=0,
        maximum=INT32_MAX,
    )
    max_connections_per_ip_overrides: tuple[str, ...] = setting(
        (), "ADDRESS:CONNECTIONS: addresses that may have more or fewer.", "max.connections.per.ip.overrides"
    )
    max_connection_creation_rate: int = setting(
        INT32_MAX,
        "Connections accepted in a second; further ones wait.",
        "max.connection.creation.rate",
        minimum=1,
        maximum=INT32_MAX,
    )
    listener_max_connections: tuple[str, ...] = setting(
        (), "LISTENER:CONNECTIONS: open connections of one listener. Kafka: listener.name.LISTENER.max.connections."
    )
    listener_max_connection_creation_rate: tuple[str, ...] = setting(
        (), "LISTENER:CONNECTIONS accepted in a second. Kafka: listener.name.LISTENER.max.connection.creation.rate."
    )
    connections_max_idle_ms: int = setting(
        10 * MINUTE_MS,
        "A connection silent for so long is closed.",
        "connections.max.idle.ms",
        minimum=SECOND_MS,
        maximum=INT64_MAX,
    )
    send_buffer_bytes: int = setting(
        -1,  # Kafka's 102400 would keep the kernel from growing it where that helps
        "What the kernel keeps of a connection's unread answers; -1: as much as it sees fit.",
        "socket.send.buffer.bytes",
        minimum=-1,
        maximum=1024 * MEBIBYTE,
    )
    receive_buffer_bytes: int = setting(
        -1,
        "What it keeps of bytes that the node has not read; -1: as much as it sees fit.",
        "socket.receive.buffer.bytes",
        minimum=-1,
        maximum=1024 * MEBIBYTE,
    )
    listen_backlog: int = setting(
        512, "Connections the kernel keeps until they are accepted.", "socket.listen.backlog.size", minimum=1
    )
    max_frame_bytes: int = setting(
        100 * MEBIBYTE,
        "Largest request; a longer one closes its connection.",
        "socket.request.max.bytes",
        minimum=KIBIBYTE,
        maximum=INT32_MAX,
    )
    max_requests_in_flight: int = setting(
        256, "Requests of one connection worked on at once; at the bound its reading pauses.", minimum=1, maximum=65_536
    )
    queued_max_requests: int = setting(
        50_000,  # Kafka's 500 is one of each connection, since it takes no more of one at a time
        "Requests of all connections that wait for nothing but the processor; at the bound none is read further.",
        "queued.max.requests",
        minimum=1,
        maximum=INT32_MAX,
    )
    queued_max_request_bytes: int = setting(
        -1,
        "Bytes of all connections' requests that are not begun; at the bound none is read except in the middle of "
        "one. -1: memory_bytes_max alone counts.",
        "queued.max.request.bytes",
        minimum=-1,
        maximum=INT64_MAX,
    )
    slow_request_ms: int = setting(
        1000,
        "A request that takes so long has a line in the log, one in each second; waits that its client asked for do "
        "not count. 0: none has.",
        minimum=0,
        maximum=INT32_MAX,
    )
    max_unsent_bytes: int = setting(
        1 * MEBIBYTE,
        "Unread response bytes of one connection above which no further request of it is begun.",
        minimum=64 * KIBIBYTE,
    )
    memory_bytes_max: int = setting(
        512 * MEBIBYTE,
        "Memory that all connections may hold together: requests not done, answers not read. From half of it on, who "
        "holds much is read no further; beyond it who holds most is closed.",
        minimum=16 * MEBIBYTE,
        maximum=INT64_MAX,
    )


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """Windows in which clients' use is compared with their quotas. The quotas are set while the node runs."""

    window_num: int = setting(
        11,
        "Samples of a client's use; what all but one of them allow together may be used at once.",
        "quota.window.num",
        minimum=2,
        maximum=1000,
    )
    window_size_seconds: int = setting(
        1, "Length of one such sample.", "quota.window.size.seconds", minimum=1, maximum=3600
    )
