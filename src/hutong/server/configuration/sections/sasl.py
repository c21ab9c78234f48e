"""Authentication of clients on listeners with SASL.

Knows nothing of files, the environment or the command line.
"""

from dataclasses import dataclass

from hutong.server.configuration.sections.facts import (
    HOUR_MS,
    INT32_MAX,
    INT64_MAX,
    KIBIBYTE,
    MINUTE_MS,
    SECOND_MS,
    setting,
)


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """Clients that say who they are by a password. Users are kept by the node: `hutong user`."""

    enabled_mechanisms: tuple[str, ...] = setting(
        ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
        "What clients may choose from; PLAIN sends the password itself, through TLS.",
        "sasl.enabled.mechanisms",
    )
    listener_enabled_mechanisms: tuple[str, ...] = setting(
        (),
        "LISTENER:MECHANISM,MECHANISM: listeners that offer others. Kafka: "
        "listener.name.LISTENER.sasl.enabled.mechanisms.",
    )
    allow_without_tls: bool = setting(
        False, "Whether a listener may be SASL_PLAINTEXT: an eavesdropper learns or guesses passwords there."
    )
    server_max_receive_bytes: int = setting(
        512 * KIBIBYTE,
        "Largest request before a client is authenticated.",
        "sasl.server.max.receive.size",
        minimum=KIBIBYTE,
        maximum=INT32_MAX,
    )
    authentication_timeout_ms: int = setting(
        10 * SECOND_MS,
        "A connection that is not authenticated within this time is closed.",
        minimum=100,
        maximum=HOUR_MS,
    )
    failed_authentication_delay_ms: int = setting(
        100,
        "How long a failed authentication waits for its answer, with which its connection is closed.",
        "connection.failed.authentication.delay.ms",
        minimum=0,
        maximum=INT32_MAX,
    )
    guess_delay_max_ms: int = setting(
        2 * SECOND_MS,
        "Longest wait before a password is checked for a user who failed from the same address before; 0: none waits.",
        minimum=0,
        maximum=MINUTE_MS,
    )
    connections_max_reauth_ms: int = setting(
        0,
        "How long an authentication counts, until it must be repeated on the connection; 0: for the connection's life.",
        "connections.max.reauth.ms",
        minimum=0,
        maximum=INT64_MAX,
    )
