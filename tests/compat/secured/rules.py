"""What holds at every secured broker: its doors, who is known there, and the times that are set."""

from typing import Final

PLAIN, SCRAM_256, SCRAM_512 = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"
MECHANISMS: Final = (PLAIN, SCRAM_256, SCRAM_512)
USERS: Final = {"alice": "alice's secret", "bob": "bob-secret"}
MINE: Final = "work-"  # what Alice may use begins so
OPEN: Final = "open"  # what Bob may read
BOBS: Final = "bobs"  # what Bob may write: so he may be an idempotent producer
SESSION_MS: Final = 2_500  # of the door `short`: franz-go comes again a second before, and Kafka wants a second between
DELAY_MS: Final = 300  # after a failed authentication
READY_S: Final = 240.0  # the first start on a machine fetches Kafka

# The doors: `plain` for the administrator; `tls` asks for a certificate, `strict` insists, `stale` shows an old one;
# `sasl` and `short` want a password behind TLS, the latter again and again; `bare` wants one without TLS,
# `narrow` too, but knows one mechanism alone, SCRAM-SHA-512.
DOORS: Final = ("plain", "tls", "strict", "stale", "sasl", "short", "bare", "narrow")
WITHOUT_TLS: Final = ("bare", "narrow")
