"""The bounds and times of transactions. Kafka's names and defaults, except where a comment says why not."""

from dataclasses import dataclass

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """Every wait and every growth of the coordinator is limited by one of these."""

    timeout_ms_max: int = 15 * MINUTE_MS
    id_expiration_ms: int = 7 * DAY_MS
    id_expiration_check_interval_ms: int = 60 * MINUTE_MS
    # Kafka looks for transactions that are overdue every 10 s. Here each has a timer, so this is only the time until
    # something that failed is tried again.
    retry_interval_ms: int = 1_000
    # Kafka has no bounds on ids and partitions; memory does, and a transaction is stored as one record.
    ids_max: int = 100_000
    ids_bytes_max: int = 256 * 1024 * 1024  # of all ids and the partitions of their transactions
    partitions_max: int = 10_000
    id_bytes_max: int = 4_096  # stored with a 16-bit length
    # A produce waits so long for the end of what keeps its partition from being added; Kafka tries for 100 ms.
    admission_wait_ms_max: int = 5_000
    waits_max: int = 50_000
