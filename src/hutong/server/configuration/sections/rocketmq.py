"""The listener for RocketMQ's clients."""

from dataclasses import dataclass
from pathlib import Path

from hutong.server.configuration.sections.facts import INT32_MAX, SECOND_MS, Address, setting


@dataclass(frozen=True, slots=True)
class RocketMqSettings:
    """The listener for RocketMQ's clients, which find name server and broker there."""

    listen: Address | None = setting(None, "HOST:PORT where they connect; nothing listens where it is not set.")
    advertised: Address | None = setting(None, "HOST:PORT that routes name, where clients reach the node elsewhere.")
    cluster_name: str = setting("DefaultCluster", "The name of the cluster in routes, as `mqadmin -c` takes it.")
    tls_certificate: Path | None = setting(
        None, "PEM file with the certificate (chain) that is shown; the listener is plain where it is not set."
    )
    tls_key: Path | None = setting(None, "PEM file with its key, where that is not in the same file.")
    tls_client_ca: Path | None = setting(
        None, "PEM file with authorities, one of which must have signed a certificate that the client shows."
    )
    tls_crl: Path | None = setting(None, "Revocation lists for their certificates, as in `tls.crl`.")
    tls_mode: str = setting(
        "enforcing",
        "With a certificate: enforcing takes TLS alone; with permissive the first byte of a connection decides.",
        choices=("enforcing", "permissive"),
    )
    delay_max_s: int = setting(259_200, "The longest that a message may be delayed by a time of its own.", minimum=1)
    access_keys: Path | None = setting(
        None, "File with ACCESS_KEY = SECRET lines, by which clients sign requests; an access key is a user's name."
    )
    broker_name: str = setting("hutong", "The name of this broker in routes and in the queues of clients.")
    transaction_timeout_ms: int = setting(
        6 * SECOND_MS,
        "The time after which the producer of a transactional message is asked what became of it, where the message "
        "names no other.",
        minimum=1,
        maximum=INT32_MAX,
    )
    transaction_check_interval_ms: int = setting(
        30 * SECOND_MS, "The time until it is asked again.", minimum=1, maximum=INT32_MAX
    )
    transaction_checks_max: int = setting(
        15,
        "How often it is asked before the message is put into TRANS_CHECK_MAX_TIME_TOPIC.",
        minimum=1,
        maximum=1_000,
    )
