"""The rules of the overview for a node: those of docs/grafana/alerts.yml, with the remedies of docs/operations.md.

A test compares both: every alert has a rule here or a reason in UNKNOWABLE, with the same threshold and duration.

Knows nothing of when they hold.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from hutong.console.overview.measures import (
    HOUR_MS,
    MINUTE_MS,
    Measure,
    commits_of_late,
    failed_requests,
    increase,
    now,
    quantile,
    rate,
    seconds_until,
    share,
)

Severity = Literal["critical", "warning", "info"]
COMPARES: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
}


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def percent(value: float) -> str:
    return f"{value * 100:.0f} %"


def duration(value: float) -> str:
    """Seconds in their largest unit."""
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60), ("seconds", 1)):
        if value >= 2 * length:
            return f"{value / length:.0f} {unit}"
    return f"{value * 1_000:,.0f} ms"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule holds for each thing whose measure compares with the threshold; it is an alert after `for_s` seconds.

    `sentence` has the labels and `{value}`; `see` is a page of the console with more about it.
    """

    alert: str
    severity: Severity
    measure: Measure
    compare: str
    threshold: float
    sentence: str
    remedy: str
    for_s: int = 0
    shown: Callable[[float], str] = number
    see: str | None = None


UNKNOWABLE: Final[Mapping[str, str]] = {
    "HutongNodeDown": "A node that is down serves no console.",
    "HutongDiskFullWithinADay": "It needs the figures of six hours; the console keeps those of minutes.",
    "HutongNoController": "It needs the figures of all nodes; the console asks Kafka's metadata for the controller.",
}
"""Alerts without a rule, and why."""
_STORAGE_ERRORS: Final = frozenset({"UNKNOWN_SERVER_ERROR", "KAFKA_STORAGE_ERROR", "CORRUPT_MESSAGE"})

DISK: Final = (
    Rule(
        "HutongPartitionGroupFailed",
        "critical",
        now("hutong_group_failed"),
        "==",
        1,
        "Partition group {group} has failed and refuses records: a flush to the disk did not succeed.",
        "Check the disk with `hutong doctor`, then start the node again.",
        see="/nodes/this",
    ),
    Rule(
        "HutongDiskFull",
        "critical",
        now("hutong_group_disk_full"),
        "==",
        1,
        "Partition group {group} refuses records because no space is left.",
        "Free space or shorten the retention of topics. Writes resume by themselves.",
        see="/topics",
    ),
    Rule(
        "HutongGroupShortOfFiles",
        "critical",
        now("hutong_group_short_of_files"),
        "==",
        1,
        "Partition group {group} refuses records: open files or memory have run out.",
        "Raise the limit of open files (`process_open_fds`). Writes resume by themselves.",
        see="/nodes/this",
    ),
    Rule(
        "HutongClockAhead",
        "warning",
        now("hutong_clock_ahead_seconds"),
        ">",
        0,
        "The clock has jumped {value} ahead.",
        "Check the machine's clock. For an hour nothing is deleted for its age.",
        shown=duration,
    ),
    Rule(
        "HutongDiskNearlyFull",
        "warning",
        share("hutong_volume_free_bytes", "hutong_volume_size_bytes"),
        "<",
        0.1,
        "Only {value} of the volume is free.",
        "Look which topics are largest. Shorten their retention, or give the node a larger volume.",
        for_s=600,
        shown=percent,
        see="/topics",
    ),
    Rule(
        "HutongDamagedRecords",
        "critical",
        increase("hutong_damaged_reads_total", HOUR_MS),
        ">",
        0,
        "{value} reads met bytes that fail their check. Readers get CORRUPT_MESSAGE.",
        "The log names file and position. Replace the disk.",
        see="/nodes/this",
    ),
    Rule(
        "HutongReadsFail",
        "critical",
        increase("hutong_failed_reads_total", HOUR_MS),
        ">",
        0,
        "The disk has refused {value} reads of partition group {group}.",
        "The log names the file. Run `hutong doctor`, read the kernel's log, replace the disk.",
        see="/nodes/this",
    ),
    Rule(
        "HutongCongested",
        "warning",
        now("hutong_group_congested"),
        "==",
        1,
        "The disk under partition group {group} is behind, and producers wait.",
        "The stages of a produce tell slow writes from slow flushes.",
        for_s=120,  # the alert has it as the window of min_over_time
        see="/nodes/this",
    ),
    Rule(
        "HutongAcknowledgementsExpire",
        "warning",
        rate("hutong_acknowledgements_total", 5 * MINUTE_MS, ("outcome", "expired")),
        ">",
        0,
        "Producers of partition group {group} are answered REQUEST_TIMED_OUT.",
        "The disk takes too long. Their records are kept all the same.",
        see="/nodes/this",
    ),
)
MACHINE: Final = (
    Rule(
        "HutongLoopLate",
        "warning",
        quantile("hutong_loop_lateness_seconds", 0.99, 5 * MINUTE_MS),
        ">",
        0.1,
        "One in a hundred events waits {value} for the loop.",
        "`hutong_loop_work_seconds` tells own work from a busy machine. The log names a handler that blocks.",
        for_s=300,
        shown=duration,
        see="/nodes/this",
    ),
    Rule(
        "HutongFilesNearlyExhausted",
        "warning",
        share("process_open_fds", "process_max_fds"),
        ">",
        0.8,
        "{value} of the files and sockets that the process may open are open.",
        "Raise the limit of open files.",
        for_s=300,
        shown=percent,
        see="/nodes/this",
    ),
    Rule(
        "HutongConnectionsRefused",
        "warning",
        rate("hutong_connections_refused_total", 5 * MINUTE_MS),
        ">",
        0,
        "Connections are refused: {reason}.",
        "Find the clients that hold them, or raise `network.max_connections` or `max_connections_per_ip`.",
        for_s=300,
        see="/nodes/this",
    ),
    Rule(
        "HutongMemoryTight",
        "warning",
        share("hutong_connection_memory_bytes", "hutong_connection_memory_limit_bytes"),
        ">",
        0.8,
        "Requests and answers of connections fill {value} of the memory that they may use.",
        "Find clients that do not read their answers, or raise `network.memory_bytes_max`.",
        for_s=120,
        shown=percent,
        see="/nodes/this",
    ),
    Rule(
        "HutongMetricsFolded",
        "info",
        now("hutong_metrics_folded"),
        ">",
        0,
        "{value} {kind} are summed under (other), because the metrics do not list more.",
        "Raise the bounds of `[metrics]` if you need them one by one.",
        for_s=3_600,
    ),
)
SECURITY: Final = (
    Rule(
        "HutongCertificateEnds",
        "warning",
        seconds_until("hutong_tls_certificate_expiry_timestamp_seconds"),
        "<",
        14 * 86_400,
        "The TLS certificate ends in {value}.",
        "Put the next one in its place. It is loaded without a restart.",
        shown=duration,
    ),
    Rule(
        "HutongRevocationListEnds",
        "warning",
        seconds_until("hutong_tls_crl_expiry_timestamp_seconds"),
        "<",
        2 * 86_400,
        "A revocation list ends in {value}. Then its clients are refused.",
        "Put the next one in its place. It is loaded without a restart.",
        shown=duration,
    ),
    Rule(
        "HutongCertificateNotLoaded",
        "warning",
        increase("hutong_tls_certificate_loads_total", 15 * MINUTE_MS, ("result", "failed")),
        ">",
        0,
        "A changed certificate could not be loaded. The earlier one stays in use.",
        "The log has the reason.",
    ),
    Rule(
        "HutongRequestsFail",
        "warning",
        failed_requests(5 * MINUTE_MS, _STORAGE_ERRORS),
        ">",
        0,
        "{request} requests are answered {error}.",
        "Look into the log and at the disk, or for a producer of damaged batches.",
        for_s=300,
        see="/nodes/this",
    ),
    Rule(
        "HutongAuthenticationsFail",
        "warning",
        rate("kafka_server_socket_server_metrics_failed_authentication_total", 5 * MINUTE_MS),
        ">",
        1,
        "{value} logins a second fail.",
        "The log of `hutong.tls` and `hutong.kafka` names addresses.",
        for_s=600,
    ),
    Rule(
        "HutongRequestsDenied",
        "warning",
        rate("hutong_authorization_denied_total", 5 * MINUTE_MS),
        ">",
        1,
        "{value} requests a second are denied by ACLs ({resource}).",
        "The log of `hutong.authorizer` names users. Grant what they need, or stop the client.",
        for_s=600,
        see="/security",
    ),
)
CONSUMERS: Final = (
    Rule(
        "HutongConsumerLate",
        "warning",
        now("kafka_consumergroup_lag_seconds"),
        ">",
        300,
        "Group {consumergroup} is {value} behind on {topic}.",
        "Start more members, up to the number of partitions, or make them faster.",
        for_s=300,
        shown=duration,
        see="/groups/{consumergroup}",
    ),
    Rule(
        "HutongConsumerStuck",
        "warning",
        commits_of_late(10 * MINUTE_MS),
        "==",
        0,
        "Group {consumergroup} has {value} records of {topic} to read and has committed nothing for ten minutes.",
        "Look for missing members, or for a record that fails again and again: `hutong group describe GROUP`.",
        for_s=600,
        see="/groups/{consumergroup}",
    ),
    Rule(
        "HutongShareGroupLate",
        "warning",
        now("hutong_sharegroup_lag_seconds"),
        ">",
        300,
        "Share group {sharegroup} is {value} behind on {topic}.",
        "Start more members.",
        for_s=300,
        shown=duration,
        see="/groups/{sharegroup}",
    ),
    Rule(
        "HutongRebalancesOften",
        "warning",
        rate("hutong_group_rebalances_total", 10 * MINUTE_MS),
        ">",
        0.2,
        "Groups rebalance {value} times a second.",
        "Members come and go. Look at session timeouts and at `max.poll.interval.ms`.",
        for_s=600,
        see="/groups",
    ),
    Rule(
        "HutongTransactionHangs",
        "warning",
        now("hutong_transaction_oldest_seconds"),
        ">",
        900,
        "A transaction is open for {value}, and readers of committed records wait.",
        "Find it with `kafka-transactions.sh ... list` and abort it. Look at `transaction.timeout.ms`.",
        for_s=60,
        shown=duration,
    ),
)
CLUSTER: Final = (
    Rule(
        "HutongPartitionsOffline",
        "critical",
        now("kafka_controller_kafkacontroller_offlinepartitionscount"),
        ">",
        0,
        "{value} partitions have no leader. Nobody can write to them or read them.",
        "`hutong cluster status --groups` names them. Start the nodes that had all of their records.",
        for_s=60,
        see="/nodes",
    ),
    Rule(
        "HutongUnderMinIsr",
        "critical",
        now("kafka_server_replicamanager_underminisrpartitioncount"),
        ">",
        0,
        "{value} partitions have too few replicas in sync: producers with `acks=all` are refused.",
        "Start the nodes that are missing.",
        for_s=60,
        see="/nodes",
    ),
    Rule(
        "HutongUnderReplicated",
        "warning",
        now("kafka_server_replicamanager_underreplicatedpartitions"),
        ">",
        0,
        "{value} partitions lack a replica in sync.",
        "Start the nodes that are missing, or take them out with `hutong cluster drain` or `forget`.",
        for_s=300,
        see="/nodes",
    ),
    Rule(
        "HutongCoordinatorAway",
        "warning",
        now("hutong_coordinator_connected"),
        "==",
        0,
        "The node does not reach ZooKeeper. Everything continues, but no controller is elected.",
        "Look at ZooKeeper, and at the network to it.",
        for_s=60,
    ),
    Rule(
        "HutongLinkDown",
        "warning",
        now("hutong_link_open"),
        "==",
        0,
        "There is no link with node {node}.",
        "Look at the other side, or at the network to it.",
        for_s=300,
        see="/nodes",
    ),
)
RULES: Final = (*DISK, *CLUSTER, *SECURITY, *MACHINE, *CONSUMERS)
