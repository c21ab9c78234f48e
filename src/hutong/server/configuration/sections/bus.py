"""The event bus and its bridges."""

from dataclasses import dataclass
from pathlib import Path

from hutong.server.configuration.sections.facts import (
    DAY_MS,
    HOUR_MS,
    INT64_MAX,
    KIBIBYTE,
    MEBIBYTE,
    SECOND_MS,
    Address,
    setting,
)


@dataclass(frozen=True, slots=True)
class BusSettings:
    """The event bus of a node with bridges, or inside a program."""

    log: str = setting(
        "", "kafka://HOST:PORT[,HOST:PORT...] where its durable addresses and tables are kept; empty: in this node."
    )
    client_config: Path | None = setting(
        None, "Properties of librdkafka, one name=value a line, by which the bus reaches its log through TLS and SASL."
    )
    tracing: bool = setting(
        False, "Whether messages are spans, sent where OpenTelemetry's variables say (docs/tracing.md; extra tracing)."
    )


@dataclass(frozen=True, slots=True)
class TcpBridgeSettings:
    """The listener for clients of Vert.x's TCP event-bus bridge."""

    listen: Address | None = setting(None, "HOST:PORT where they connect; there is no such bridge where it is not set.")


@dataclass(frozen=True, slots=True)
class SockjsSettings:
    """The listener for browsers and other clients of Vert.x's SockJS event-bus bridge."""

    listen: Address | None = setting(None, "HOST:PORT where they connect; there is no such bridge where it is not set.")
    prefix: str = setting("/eventbus", "The path under which SockJS is served, and which clients use.")
    origins: tuple[str, ...] = setting(
        (), "Origins of the pages that may connect (https://HOST[:PORT]; *: all); none given: this server's own."
    )
    hosts: tuple[str, ...] = setting(
        (), "Names by which browsers reach it, in addition to addresses, localhost, and the advertised name; *: all."
    )
    session_cookie: bool = setting(
        False, "Have browsers send JSESSIONID, by which a balancer before several nodes keeps each at one of them."
    )
    client_url: str = setting(
        "https://cdn.jsdelivr.net/npm/sockjs-client@1.6.1/dist/sockjs.min.js",
        "The script that SockJS's iframes load; it must have the version of the page's own.",
    )
    ping_timeout_ms: int = setting(
        10 * SECOND_MS, "A client that sends nothing for so long is closed; Vert.x's ping every 5 s.", minimum=SECOND_MS
    )
    max_sessions: int = setting(10_000, "Sessions of clients without WebSocket.", minimum=1, maximum=1_000_000)
    max_sessions_per_ip: int = setting(
        5_000, "Those of one address; behind a proxy all clients have its address.", minimum=1, maximum=1_000_000
    )


@dataclass(frozen=True, slots=True)
class BridgeSettings:
    """Permissions and bounds of the clients of both bridges."""

    permit_in: tuple[str, ...] = setting(
        (), "Regular expressions of the addresses that clients may send to; none: they may not. Each matches the whole."
    )
    permit_out: tuple[str, ...] = setting(
        (), "Regular expressions of the addresses that clients may listen at; none: they may not."
    )
    permit_in_addresses: tuple[str, ...] = setting((), "Further such addresses, exactly as they stand.")
    permit_out_addresses: tuple[str, ...] = setting((), "Further such addresses, exactly as they stand.")
    authenticator: str = setting("", "`package.module:function` that is asked about each frame; empty: everybody may.")
    event_hook: str = setting("", "`package.module:function` that may block or change what passes; empty: none.")
    tls_certificate: Path | None = setting(
        None, "PEM file with the certificate (chain) that is shown; the bridges speak plain TCP where it is not set."
    )
    tls_key: Path | None = setting(None, "PEM file with its key, where that is not in the same file.")
    tls_client_ca: Path | None = setting(
        None, "PEM file with authorities, one of which must have signed a certificate that the client shows."
    )
    tls_crl: Path | None = setting(None, "Revocation lists for their certificates, as in `tls.crl`.")
    max_frame_bytes: int = setting(
        256 * KIBIBYTE,
        "Largest frame of a client; a longer one closes its connection.",
        minimum=KIBIBYTE,
        maximum=64 * MEBIBYTE,
    )
    max_address_characters: int = setting(200, "Longest address that clients may use.", minimum=1, maximum=200)
    max_registrations: int = setting(1000, "Registrations of one client.", minimum=1, maximum=100_000)
    max_open_requests: int = setting(
        10_000, "Requests of one client that are not answered yet.", minimum=1, maximum=1_000_000
    )
    max_owed_replies: int = setting(
        10_000, "Messages given to one client that it may still answer.", minimum=1, maximum=1_000_000
    )
    reply_timeout_ms: int = setting(
        30 * SECOND_MS, "How long it may, and how long an authenticator may think.", minimum=1, maximum=HOUR_MS
    )
    max_buffered_messages: int = setting(
        100, "Messages kept for one registration while its client does not read; at the bound it is closed.",
        minimum=1, maximum=100_000,
    )  # fmt: skip
    max_unsent_bytes: int = setting(
        MEBIBYTE, "Bytes that a client has not read above which its registrations are paused.", minimum=64 * KIBIBYTE
    )
    slow_client_timeout_ms: int = setting(
        30 * SECOND_MS, "How long they may be, until the client is closed.", minimum=1, maximum=HOUR_MS
    )
    connections_max_idle_ms: int = setting(
        DAY_MS, "A connection on which nothing passes for so long is closed.", minimum=SECOND_MS, maximum=INT64_MAX
    )
