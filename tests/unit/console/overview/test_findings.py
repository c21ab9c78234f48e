import pytest
from tests.unit.console.nodes.figures_of import WALL_MS, histogram, history, sample

from hutong.console.nodes.history import History
from hutong.console.overview.findings import THINGS_MAX, FoundProblem, FoundProblems, health
from hutong.console.overview.rules import RULES

STARTED = f"process_start_time_seconds {WALL_MS / 1_000 - 86_400}"
YOUNG = f"process_start_time_seconds {WALL_MS / 1_000 - 60}"


def found(*samples_: tuple[float, list[str]]) -> list[FoundProblem]:
    findings, made = FoundProblems(RULES), History()
    for at_s, lines in samples_:
        made.add(sample(at_s, *lines))
        findings.observe(made)
    return findings.found


def alerts(*samples_: tuple[float, list[str]]) -> set[str]:
    return {finding.alert for finding in found(*samples_)}


FAILED_REQUEST = 'kafka_network_requestmetrics_errors_total{request="Fetch",error="KAFKA_STORAGE_ERROR"}'
OFFSET = 'kafka_consumergroup_current_offset{consumergroup="g",topic="t",partition="0"}'
LAG = 'kafka_consumergroup_lag{consumergroup="g",topic="t",partition="0"}'
LATE = "hutong_loop_lateness_seconds"
SCENES: dict[str, tuple[list[str], list[str], list[str]]] = {
    # What holds, what does not, and what was before: for each rule.
    "HutongPartitionGroupFailed": (
        ['hutong_group_failed{group="days"} 1'],
        ['hutong_group_failed{group="days"} 0'],
        [],
    ),
    "HutongDiskFull": (['hutong_group_disk_full{group="days"} 1'], ['hutong_group_disk_full{group="days"} 0'], []),
    "HutongGroupShortOfFiles": (
        ['hutong_group_short_of_files{group="days"} 1'],
        ['hutong_group_short_of_files{group="days"} 0'],
        [],
    ),
    "HutongClockAhead": (["hutong_clock_ahead_seconds 3"], ["hutong_clock_ahead_seconds 0"], []),
    "HutongDiskNearlyFull": (
        ["hutong_volume_free_bytes 9", "hutong_volume_size_bytes 100"],
        ["hutong_volume_free_bytes 10", "hutong_volume_size_bytes 100"],
        [],
    ),
    "HutongDamagedRecords": (
        ["hutong_damaged_reads_total 3"],
        ["hutong_damaged_reads_total 2"],
        ["hutong_damaged_reads_total 2"],
    ),
    "HutongReadsFail": (
        ['hutong_failed_reads_total{group="days"} 1'],
        ['hutong_failed_reads_total{group="days"} 0'],
        ['hutong_failed_reads_total{group="days"} 0'],
    ),
    "HutongCongested": (['hutong_group_congested{group="days"} 1'], ['hutong_group_congested{group="days"} 0'], []),
    "HutongAcknowledgementsExpire": (
        ['hutong_acknowledgements_total{group="days",qos="all",outcome="expired"} 1'],
        ['hutong_acknowledgements_total{group="days",qos="all",outcome="given"} 9'],
        [],
    ),
    "HutongLoopLate": (
        histogram(LATE, {"0.1": 0, "0.2": 9, "+Inf": 0}),
        histogram(LATE, {"0.1": 9, "0.2": 0, "+Inf": 0}),
        [],
    ),
    "HutongFilesNearlyExhausted": (
        ["process_open_fds 81", "process_max_fds 100"],
        ["process_open_fds 80", "process_max_fds 100"],
        [],
    ),
    "HutongConnectionsRefused": (
        ['hutong_connections_refused_total{reason="too_many"} 5'],
        ['hutong_connections_refused_total{reason="too_many"} 4'],
        ['hutong_connections_refused_total{reason="too_many"} 4'],
    ),
    "HutongMemoryTight": (
        ["hutong_connection_memory_bytes 81", "hutong_connection_memory_limit_bytes 100"],
        ["hutong_connection_memory_bytes 80", "hutong_connection_memory_limit_bytes 100"],
        [],
    ),
    "HutongMetricsFolded": (['hutong_metrics_folded{kind="topics"} 1'], ['hutong_metrics_folded{kind="topics"} 0'], []),
    "HutongCertificateEnds": (
        [f"hutong_tls_certificate_expiry_timestamp_seconds {WALL_MS / 1_000 + 13 * 86_400}"],
        [f"hutong_tls_certificate_expiry_timestamp_seconds {WALL_MS / 1_000 + 15 * 86_400}"],
        [],
    ),
    "HutongRevocationListEnds": (
        [f"hutong_tls_crl_expiry_timestamp_seconds {WALL_MS / 1_000 + 86_400}"],
        [f"hutong_tls_crl_expiry_timestamp_seconds {WALL_MS / 1_000 + 3 * 86_400}"],
        [],
    ),
    "HutongCertificateNotLoaded": (
        ['hutong_tls_certificate_loads_total{result="failed"} 1'],
        ['hutong_tls_certificate_loads_total{result="loaded"} 1'],
        [],
    ),
    "HutongRequestsFail": (
        [f"{FAILED_REQUEST} 1"],
        ['kafka_network_requestmetrics_errors_total{request="Fetch",error="OFFSET_OUT_OF_RANGE"} 1'],
        [],
    ),
    "HutongAuthenticationsFail": (
        ["kafka_server_socket_server_metrics_failed_authentication_total 3"],
        ["kafka_server_socket_server_metrics_failed_authentication_total 2"],
        [],
    ),
    "HutongRequestsDenied": (
        ['hutong_authorization_denied_total{resource="topic"} 3'],
        ['hutong_authorization_denied_total{resource="topic"} 2'],
        [],
    ),
    "HutongConsumerLate": (
        ['kafka_consumergroup_lag_seconds{consumergroup="g",topic="t",partition="0"} 301'],
        ['kafka_consumergroup_lag_seconds{consumergroup="g",topic="t",partition="0"} 300'],
        [],
    ),
    "HutongShareGroupLate": (
        ['hutong_sharegroup_lag_seconds{sharegroup="g",topic="t",partition="0"} 301'],
        ['hutong_sharegroup_lag_seconds{sharegroup="g",topic="t",partition="0"} 300'],
        [],
    ),
    "HutongRebalancesOften": (
        ['hutong_group_rebalances_total{kind="classic"} 1'],
        ['hutong_group_rebalances_total{kind="classic"} 0'],
        [],
    ),
    "HutongTransactionHangs": (
        ["hutong_transaction_oldest_seconds 901"],
        ["hutong_transaction_oldest_seconds 900"],
        [],
    ),
    "HutongPartitionsOffline": (
        ["kafka_controller_kafkacontroller_offlinepartitionscount 1"],
        ["kafka_controller_kafkacontroller_offlinepartitionscount 0"],
        [],
    ),
    "HutongUnderMinIsr": (
        ["kafka_server_replicamanager_underminisrpartitioncount 1"],
        ["kafka_server_replicamanager_underminisrpartitioncount 0"],
        [],
    ),
    "HutongUnderReplicated": (
        ["kafka_server_replicamanager_underreplicatedpartitions 1"],
        ["kafka_server_replicamanager_underreplicatedpartitions 0"],
        [],
    ),
    "HutongCoordinatorAway": (["hutong_coordinator_connected 0"], ["hutong_coordinator_connected 1"], []),
    "HutongLinkDown": (['hutong_link_open{node="2"} 0'], ['hutong_link_open{node="2"} 1'], []),
}


@pytest.mark.parametrize("alert", SCENES)
def test_a_rule_holds_above_its_threshold_and_not_at_it(alert: str) -> None:
    holds, rests, before = SCENES[alert]
    assert alerts((0, [STARTED, *before]), (2, [STARTED, *holds])) == {alert}
    assert alerts((0, [STARTED, *before]), (2, [STARTED, *rests])) == set()


def test_every_rule_but_that_of_stuck_groups_has_a_scene() -> None:
    assert {rule.alert for rule in RULES} == SCENES.keys() | {"HutongConsumerStuck"}


def test_a_group_is_stuck_after_ten_minutes_without_a_commit() -> None:
    times = [*range(0, 620, 10)]
    stuck = [(float(at), [f"{OFFSET} 5", f"{LAG} {at + 1}"]) for at in times]
    (finding,) = found(*stuck)
    assert finding.alert == "HutongConsumerStuck"
    assert "611 records of t" in finding.sentence
    assert finding.see == "/groups/g"
    assert alerts(*stuck[:59]) == set(), "ten minutes have not passed"
    moved = [(at, [f"{OFFSET} {at}", f"{LAG} 1"]) for at, _ in stuck]
    assert alerts(*moved) == set()
    done = [(at, [f"{OFFSET} 5", f"{LAG} 0"]) for at, _ in stuck]
    assert alerts(*done) == set()


def test_an_increase_is_known_of_a_young_node_at_once() -> None:
    damaged = "hutong_damaged_reads_total 2"
    assert alerts((0, [YOUNG, damaged])) == {"HutongDamagedRecords"}
    assert alerts((0, [STARTED, damaged])) == set()


def test_what_begins_while_somebody_looks_is_an_alert_after_its_time() -> None:
    late = ["hutong_transaction_oldest_seconds 901"]
    rests: tuple[float, list[str]] = (0, [])
    (first,) = found(rests, (2, late))
    assert not first.is_alert
    assert first.since_ms == WALL_MS + 2_000
    (later,) = found(rests, *((float(at), late) for at in range(2, 64, 2)))
    assert later.is_alert
    assert later.since_ms == WALL_MS + 2_000


def test_what_was_there_before_somebody_looked_is_an_alert() -> None:
    (finding,) = found((0, ["hutong_transaction_oldest_seconds 901"]), (2, ["hutong_transaction_oldest_seconds 903"]))
    assert finding.is_alert
    assert finding.since_ms is None


def test_what_stops_begins_anew() -> None:
    late = ["hutong_transaction_oldest_seconds 901"]
    (finding,) = found((0, late), (2, []), (4, late))
    assert finding.since_ms == WALL_MS + 4_000


def test_many_things_of_a_rule_are_counted() -> None:
    lines = [
        f'kafka_consumergroup_lag_seconds{{consumergroup="g{number}",topic="t",partition="0"}} {400 + number}'
        for number in range(50)
    ]
    made = found((0, lines))
    assert len(made) == THINGS_MAX
    assert made[0].sentence.startswith("Group g49 ")
    assert [finding.more for finding in made] == [0] * (THINGS_MAX - 1) + [50 - THINGS_MAX]


def test_names_from_outside_stay_text() -> None:
    line = r'kafka_consumergroup_lag_seconds{consumergroup="{value}/<b>\"",topic="..",partition="0"} 400'
    (finding,) = found((0, [line]))
    assert finding.sentence.startswith('Group {value}/<b>" is 7 minutes behind on ..')
    assert finding.see == "/groups/%7Bvalue%7D%2F%3Cb%3E%22"


def test_the_worst_comes_first_and_makes_the_sentence() -> None:
    lines = [
        'hutong_metrics_folded{kind="topics"} 1',
        "hutong_clock_ahead_seconds 3",
        'hutong_group_failed{group="days"} 1',
    ]
    made = found((0, lines))
    assert [finding.severity for finding in made] == ["critical", "warning", "info"]
    assert health(made, ()) == ("bad", "One thing is wrong and needs you now.")
    assert health(made[1:], ()) == ("warn", "It works, and one thing is not as it should be.")
    assert health(made[2:], ()) == ("good", "It works. One thing is worth watching and may pass.")
    assert health((), ()) == ("good", "All is well.")
    assert health((), ["group days has failed"]) == ("bad", "The node is not ready: group days has failed.")


def test_a_history_of_nothing_finds_nothing() -> None:
    findings = FoundProblems(RULES)
    findings.observe(history())
    assert findings.found == []
